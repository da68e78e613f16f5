"""Whole sheets: the target moved like the reference, clip after clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.images import Pixels
from visual_dynamics.sampling.palette import palette_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.align import Alignment, Moving, align
from visual_dynamics.sprites.animation import Method, animate
from visual_dynamics.sprites.frames import with_hard_edges
from visual_dynamics.sprites.matches import ClipMatch, other_starts
from visual_dynamics.sprites.missing import colour_map, recoloured


@dataclass(frozen=True)
class Animation:
    """The target's new sheet, and the frames it follows: the same number, order, times and tags."""

    sheet: Sheet
    reference: Sheet
    given: tuple[int, ...]  # frames of the sheet that are the target's own
    alignment: Alignment | None = None
    exact: bool = False  # the reference in other colours: no model drew anything


def animate_sheet(
    predictor: Predictor,
    reference: Sheet,
    target: Sheet,
    matches: Sequence[ClipMatch],
    method: Method = "direct",
    loop: bool = False,
    aligned: bool = True,
    guide: Predictor | None = None,
    before: Callable[[Alignment], object] = lambda alignment: None,
) -> Animation:
    """The target moved like the reference, clip after clip; its palette is that of all its frames that are used.

    A target that is the reference in other colours stays that. aligned: move sprites to where the network knows them
    (see `align`); `before` is called with this before anything is drawn. method, loop, guide: see `animation.animate`.
    """
    palette = palette_of(target.frames[[match.target for match in matches]])
    clips = [
        Moving(reference.frames[match.frames], match.pose - match.first, target.frames[match.target])
        for match in matches
    ]
    results, alignment = recoloured_clips(clips), None
    exact = results is not None
    if results is None:
        if aligned:
            alignment = align(predictor, clips)
            before(alignment)
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
        exact=exact,
    )


def recoloured_clips(clips: Sequence[Moving]) -> list[Pixels] | None:
    """Results (T, h, w, 4) where each target is its reference in other colours, the same ones everywhere; else None."""
    numbered = {(str(number), ""): clip for number, clip in enumerate(clips)}
    poses = {key: clip.reference[clip.pose][None] for key, clip in numbered.items()}
    targets = {key: with_hard_edges(clip.target[None]) for key, clip in numbered.items()}
    colours = colour_map({key: with_hard_edges(frames) for key, frames in poses.items()}, targets, list(numbered))
    if colours is None:
        return None
    found = [recoloured(with_hard_edges(clip.reference), colours) for clip in clips]
    return None if any(frames is None for frames in found) else [frames for frames in found if frames is not None]


def carry(
    predictor: Predictor,
    clip: Moving,
    palette: Pixels,
    alignment: Alignment | None,
    method: Method = "direct",
    loop: bool = False,
    guide: Predictor | None = None,
    starts: Pixels | None = None,
) -> Pixels:
    """The target of a clip moved like its reference, in colours (P, 3): (T, h, w, 4).

    method, loop, guide, starts: see `animation.animate`.
    """
    length = len(clip.reference)
    placed = clip if starts is None else clip._replace(reference=np.concatenate([clip.reference, starts]))
    placed = alignment.place(placed, predictor.size) if alignment else placed
    followed, others = placed.reference[:length], placed.reference[length:]
    frames = animate(predictor, followed, placed.target, placed.pose, method, loop, palette, guide, others)
    return alignment.undo(frames, clip) if alignment else frames
