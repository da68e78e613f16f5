"""Whole sheets: the target moved like the reference, clip after clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.images import Pixels
from visual_dynamics.sampling.palette import palette_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.align import Alignment, Moving, align
from visual_dynamics.sprites.animation import Method, animate
from visual_dynamics.sprites.matches import ClipMatch, other_starts


@dataclass(frozen=True)
class Animation:
    """The target's new sheet, and the frames it follows: the same number, order, times and tags."""

    sheet: Sheet
    reference: Sheet
    given: tuple[int, ...]  # frames of the sheet that are the target's own
    alignment: Alignment | None = None


def animate_sheet(
    predictor: Predictor,
    reference: Sheet,
    target: Sheet,
    matches: Sequence[ClipMatch],
    method: Method = "direct",
    loop: bool = False,
    aligned: bool = True,
    guide: Predictor | None = None,
) -> Animation:
    """The target moved like the reference, clip after clip; its palette is that of all its frames that are used.

    aligned: move sprites to where the network knows them (see `align`). method, loop, guide: see `animation.animate`.
    """
    palette = palette_of(target.frames[[match.target for match in matches]])
    clips = [
        Moving(reference.frames[match.frames], match.pose - match.first, target.frames[match.target])
        for match in matches
    ]
    alignment = align(predictor, clips) if aligned else None
    results = [
        carry(predictor, clip, palette, alignment, method, loop, guide, other_starts(reference, match))
        for clip, match in zip(clips, matches, strict=True)
    ]
    tags: list[Tag] = []
    given = []
    count = 0
    for match, clip in zip(matches, clips, strict=True):
        shift = count - match.first
        tags += [replace(tag, first=tag.first + shift, last=tag.last + shift) for tag in match.tags]
        given.append(match.pose + shift)
        count += len(clip.reference)
    order = np.concatenate([np.arange(match.first, match.last + 1) for match in matches])
    durations = reference.durations[order]
    return Animation(
        sheet=Sheet(np.concatenate(results), durations, tuple(tags)),
        reference=Sheet(reference.frames[order], durations, tuple(tags)),
        given=tuple(given),
        alignment=alignment,
    )


def carry(
    predictor: Predictor,
    clip: Moving,
    palette: Pixels,
    alignment: Alignment | None,
    method: Method = "direct",
    loop: bool = False,
    guide: Predictor | None = None,
    starts: Pixels | None = None,
    codes: Tensor | None = None,
) -> Pixels:
    """The target of a clip moved like its reference, in colours (P, 3): (T, h, w, 4).

    method, loop, guide, starts, codes: see `animation.animate`.
    """
    length = len(clip.reference)
    placed = clip if starts is None else clip._replace(reference=np.concatenate([clip.reference, starts]))
    placed = alignment.place(placed, predictor.size) if alignment else placed
    followed, others = placed.reference[:length], placed.reference[length:]
    frames = animate(predictor, followed, placed.target, placed.pose, method, loop, palette, guide, others, codes)
    return alignment.undo(frames, clip) if alignment else frames
