"""How predicted frames move where real video moves, and keep still where it keeps still.

A take is a stretch of video in which a pixel shows the same place of the scene in every frame. Its pairs show which
pixels move at all: what a prediction does there is motion, what it does elsewhere is a mistake.

Letters in shape comments: N pairs of a take, n predicted frames of one input, H, W height and width in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.pairs import Pairs
from visual_dynamics.evaluation.intervals import bootstrap_interval

MOVES = 16  # levels of 255, in any channel: a pixel that changes by more in any pair moves
NEVER_MOVES = 8  # levels: a pixel that changes by less in all pairs never moves; noise of cameras and codecs is below
STAYS = 4  # levels: a predicted pixel that changes by less stays still
MARGIN = 32  # a moving region is widened by one pixel for each 32 of a side
CHUNK = 256  # pairs of a take in memory at a time


class Regions(NamedTuple):
    """Of one take. Pixels between the two thresholds are in neither; nor is the margin of what moves in `still`."""

    moving: Tensor  # bool (H, W), with its margin
    still: Tensor  # bool (H, W): never moving


class Sums(NamedTuple):
    """Of one pair, or added over many. Squares of colours in [0, 1], over all three; means over predicted frames."""

    true_motion: float  # squared difference of the true pair: the error of copying
    error: float  # squared error of a predicted frame
    best: float  # of the best of them
    inside: float  # squared change of the input in the moving region
    outside: float  # and in all the rest of the frame
    pixels_inside: float
    pixels_outside: float
    stayed: float  # never-moving pixels that change by less than STAYS
    pixels_still: float
    between: float  # squared difference of two predicted frames
    between_inside: float  # its part in the moving region


def take_regions(pairs: Pairs, places: Tensor) -> Regions:
    """Of the take whose pairs lie at these places, int64 (N,)."""
    changes = [most_change(*pairs.read(part)) for part in places.split(CHUNK)]
    return regions(torch.stack(changes).amax(0))


def most_change(frames: Tensor, next_frames: Tensor) -> Tensor:
    """uint8 (N, 3, H, W) twice -> the largest change of any channel in any pair, in levels, int16 (H, W)."""
    return (next_frames.to(torch.int16) - frames.to(torch.int16)).abs().amax((0, 1))


def regions(most: Tensor) -> Regions:
    """From the largest change of each pixel over all pairs of a take, in levels, (H, W)."""
    wide = max(1, max(most.shape) // MARGIN)
    moving = F.max_pool2d((most > MOVES).float()[None], 2 * wide + 1, stride=1, padding=wide)[0] > 0
    return Regions(moving, (most < NEVER_MOVES) & ~moving)


def pair_sums(frame: Tensor, truth: Tensor, predicted: Tensor, where: Regions) -> Sums:
    """A frame and its true next frame, (3, H, W), and n predicted ones, (n, 3, H, W); floats in [0, 1]."""
    frame, truth, predicted = (x.double() for x in (frame, truth, predicted))
    errors = (predicted - truth).square().sum((1, 2, 3))  # (n,)
    motion = (predicted - frame).square().sum(1).mean(0)  # (H, W)
    levels = ((255 * predicted).round() - (255 * frame).round()).abs().amax(1)  # (n, H, W), as files would hold them
    several = len(predicted) > 1  # the mean over all pairs of them is twice the variance
    between = 2 * predicted.var(0).sum(0) if several else torch.zeros_like(motion)  # (H, W)
    return Sums(
        true_motion=float((truth - frame).square().sum()),
        error=float(errors.mean()),
        best=float(errors.min()),
        inside=float(motion[where.moving].sum()),
        outside=float(motion[~where.moving].sum()),
        pixels_inside=float(where.moving.sum()),
        pixels_outside=float((~where.moving).sum()),
        stayed=float((levels < STAYS)[:, where.still].sum() / len(predicted)),
        pixels_still=float(where.still.sum()),
        between=float(between.sum()),
        between_inside=float(between[where.moving].sum()),
    )


def numbers(sums: Iterable[Sums]) -> dict[str, float | None]:
    """The metrics over some pairs, from their sums; None where the divisor is 0.

    true_motion    squared difference of the two frames of a true pair, over the frame, on average
    explained      1 - squared error of a prediction / that of copying
    best           squared error of the best of n predictions / that of copying
    inside         squared change of a pixel in moving regions, outside: of one elsewhere; ratio: inside / outside
    still          share of never-moving pixels that stay
    diversity      squared difference of two predictions / of the two frames of the true pair
    inside_share   the part of it that lies in moving regions
    """
    each = list(sums)
    total = added(each)
    error = _share(total.error, total.true_motion)
    inside, outside = _share(total.inside, total.pixels_inside), _share(total.outside, total.pixels_outside)
    return {
        "true_motion": total.true_motion / len(each),
        "explained": None if error is None else 1 - error,
        "best": _share(total.best, total.true_motion),
        "inside": inside,
        "outside": outside,
        "ratio": None if inside is None or outside is None else _share(inside, outside),
        "still": _share(total.stayed, total.pixels_still),
        "diversity": _share(total.between, total.true_motion),
        "inside_share": _share(total.between_inside, total.between),
    }


def scene_intervals(
    scenes: Sequence[str], sums: Sequence[dict[str, Sums]], metrics: Sequence[str]
) -> dict[str, Any] | None:
    """Intervals of metrics of each method over scenes, which come with all of their pairs; None for a single scene.

    Of metrics that have a number.
    """
    names = sorted(set(scenes))
    if len(names) < 2:
        return None
    found: dict[str, Any] = {}
    for method in sums[0]:
        each = [added(one[method] for one, scene in zip(sums, scenes, strict=True) if scene == name) for name in names]

        def metric(places: Iterable[int], name: str, each: list[Sums] = each) -> float:
            value = numbers(each[place] for place in places)[name]
            return math.nan if value is None else value

        known = [name for name in metrics if numbers(each)[name] is not None]
        found[method] = {name: bootstrap_interval(partial(metric, name=name), len(each)) for name in known}
    return found


def added(sums: Iterable[Sums]) -> Sums:
    return Sums(*(sum(values) for values in zip(*sums, strict=True)))


def by_scene(scenes: Sequence[str], sums: Sequence[dict[str, Sums]], where: Sequence[Regions]) -> dict[str, Any]:
    """The metrics of each method over all pairs and by scene, and the mean share of pixels in each region.

    For each pair its scene, the sums of each method, and the regions of its take.
    """

    def metrics(chosen: Sequence[dict[str, Sums]]) -> dict[str, Any]:
        return {method: numbers(own[method] for own in chosen) for method in chosen[0]}

    own = {name: [one for one, scene in zip(sums, scenes, strict=True) if scene == name] for name in scenes}
    regions = zip(Regions._fields, zip(*where, strict=True), strict=True)
    return {
        "rows": metrics(sums),
        "scenes": {name: {"pairs": len(several), "rows": metrics(several)} for name, several in own.items()},
        "regions": {name: float(torch.stack(parts).double().mean()) for name, parts in regions},
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
