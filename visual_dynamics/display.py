"""What a notebook shows: pictures side by side, clips that play, and what motions and models say of themselves.

    show(model.sample(image))               # futures as a grid
    show(model.extrapolate(image), fps=4)   # a clip

Results of a model stay plain arrays. A subclass of arrays that draws itself would carry "I am pictures" on to whatever
is computed from it, and no array says whether its first axis is a choice of futures or time. `show` is told.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, read_image
from visual_dynamics.media import LABEL_HEIGHT, MAX_AREA, encode_animation, encode_png, enlarge, picture_grid

SIDE = 128  # pixels that a picture is enlarged to, about, by a whole number: pixels stay sharp squares
WIDTH, GAP = 1_060, 4  # pixels of a row of pictures, at most; between two
BARS = 32  # dimensions of z that are drawn, at most
STEP, HALF, REACH = 22, 60, 4.0  # a bar: pixels wide, pixels from 0 to the end, units of z that this is at least

Showable: TypeAlias = Any  # pictures, see `show`


@dataclass(frozen=True)
class Shown:
    """A picture or a clip that a notebook displays. `data` are the bytes of the file."""

    data: bytes = field(repr=False)  # PNG, animated for a clip
    words: str  # for those who cannot see it

    def _repr_html_(self) -> str:
        source = f"data:image/png;base64,{base64.b64encode(self.data).decode()}"
        return f'<img src="{source}" alt="{html.escape(self.words)}" style="image-rendering: pixelated">'


def show(
    frames: Showable,
    labels: Sequence[object] | None = None,
    columns: int | None = None,
    fps: float | None = None,
    scale: int | None = None,
) -> Shown:
    """Pictures side by side, each with its label; with `fps`, clips that play together.

    frames: uint8 (H, W, 3), after any number of further axes; tensors (3, H, W) as the network has them, floats in
    [0, 1] or uint8; pictures as `sample` takes them; strips of `traverse`, a row each; lists of these. With `fps` a
    clip (T, H, W, 3), or several of one length. Small pictures are enlarged by a whole number, `scale`.
    """
    clips = _clips(frames, fps is not None)
    length = len(clips[0])
    if any(len(clip) != length for clip in clips):
        raise UserError(f"clips that play together have one length, not {', '.join(str(len(clip)) for clip in clips)}")
    if labels is not None and len(labels) != len(clips):
        raise UserError(f"{len(labels)} labels do not fit {len(clips)} pictures: give one for each")
    longest = max(max(picture.shape[:2]) * _scale(picture, scale) for clip in clips for picture in clip)
    columns = _columns(frames) or max(1, WIDTH // (longest + GAP)) if columns is None else columns
    if columns < 1 or longest < 1:
        raise UserError(f"pictures are shown in 1 column or more, at a scale of 1 or more, not {columns} and {scale}")
    if length * len(clips) * (longest + LABEL_HEIGHT) ** 2 > MAX_AREA:
        raise UserError(f"{length * len(clips):,} pictures of {longest} pixels are too many to show: choose fewer")
    names = None if labels is None else [str(label) for label in labels]
    enlarged = ([enlarge(picture, _scale(picture, scale)) for picture in step] for step in zip(*clips, strict=True))
    grids = np.stack([picture_grid(step, columns, gap=GAP, labels=names) for step in enlarged])
    words = ", ".join(names) if names else f"{len(clips)} pictures"
    if fps is None:
        return Shown(encode_png(grids[0]), words)
    return Shown(encode_animation(grids, fps, ".png"), f"{words}, {length} frames")


def to_pixels(frames: Tensor) -> Pixels:
    """float (..., 3, H, W) in [0, 1] -> uint8 (..., H, W, 3); values outside are cut off"""
    return (frames.detach().clamp(0, 1) * 255).round().to(torch.uint8).movedim(-3, -1).cpu().numpy()


def _clips(frames: Showable, moving: bool) -> list[list[Pixels]]:
    """One list of frames for each picture of the grid; a picture that stands still is a clip of one frame."""
    frames = _array(frames)
    if not moving:
        clips = [[picture] for picture in _pictures(frames)]
    elif isinstance(frames, np.ndarray) or _is_list(frames):
        clips = [_pictures(part) for part in frames]
        if all(len(clip) == 1 for clip in clips):  # the frames of a single clip
            clips = [[picture for (picture,) in clips]]
    else:
        raise UserError("a clip is an array of frames (T, H, W, 3), or a list of pictures")
    if not clips or not clips[0]:
        raise UserError("there is nothing to show: give at least one picture")
    return clips


def _pictures(frames: Showable) -> list[Pixels]:
    """All pictures, in order: uint8 (H, W, 3)."""
    frames = _array(frames)
    if _is_list(frames) or (isinstance(frames, np.ndarray) and frames.ndim > 3):
        return [picture for part in frames for picture in _pictures(part)]
    return [read_image(frames)]


def _array(frames: Showable) -> Showable:
    """Tensors and strips as arrays, anything else as it is."""
    frames = getattr(frames, "frames", frames)  # of a strip
    if not isinstance(frames, Tensor):
        return frames
    if frames.ndim < 3 or frames.shape[-3] != 3:
        raise UserError(f"pictures as tensors are (3, H, W), after any number of further axes, not {(*frames.shape,)}")
    return frames.movedim(-3, -1).cpu().numpy() if frames.dtype == torch.uint8 else to_pixels(frames)


def _is_list(frames: Showable) -> bool:
    return isinstance(frames, Sequence) and not isinstance(frames, str | bytes)


def _scale(picture: Pixels, wanted: int | None) -> int:
    return max(1, SIDE // max(picture.shape[:2])) if wanted is None else wanted


def _columns(frames: Showable) -> int | None:
    """Strips stand one below the other."""
    strip = frames[0] if _is_list(frames) and len(frames) else frames
    return len(strip.frames) if hasattr(strip, "frames") else None


# --- what objects show of themselves ---


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A heading and a table of two columns."""
    rows = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(fact))}</td></tr>" for name, fact in facts.items())
    return f"<strong>{html.escape(title)}</strong><table>{''.join(rows)}</table>"


def code_html(title: str, mean: Tensor, deviation: Tensor, nats: Tensor) -> str:
    """A motion code, (latent,) three times: its strongest dimensions as dots with bars of one deviation to both sides.

    The grey band is the prior, N(0, 1): a bar that fills it carries nothing.
    """
    strongest = nats.argsort(descending=True)[:BARS].sort().values.tolist()
    unit = HALF / max(REACH, float((mean.abs() + deviation)[strongest].max()))  # pixels
    width, height = STEP * len(strongest), 2 * HALF + 16
    drawn = [f'<rect y="{HALF - unit:.1f}" width="{width}" height="{2 * unit:.1f}" fill="#8888" opacity="0.5"/>']
    for place, dimension in enumerate(strongest):
        x, y, half = STEP * (place + 0.5), HALF - unit * float(mean[dimension]), unit * float(deviation[dimension])
        drawn.append(
            f'<rect x="{x - 3:.1f}" y="{y - half:.1f}" width="6" height="{2 * half:.1f}" fill="#3478c4" opacity="0.6"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#d65438"/>'
            f'<text x="{x:.1f}" y="{height - 3}" font-size="10" text-anchor="middle">{dimension}</text>'
        )
    picture = f'<svg width="{width}" height="{height}" fill="currentColor">{"".join(drawn)}</svg>'
    return f"<strong>{html.escape(title)}</strong><br>{picture}"
