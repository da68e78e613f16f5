"""How predicted frames move where real video moves, and keep still where it keeps still.

A take is a stretch of video in which a pixel shows the same place of the scene in every frame. Its pairs show which
pixels move at all: what a prediction does there is motion, what it does elsewhere is a mistake.

Letters in shape comments: N pairs of a take, n predicted frames of one input, H, W height and width in pixels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.pairs import Pairs
from visual_dynamics.evaluation.energy_score import energy_score, expected_best
from visual_dynamics.evaluation.frame_distances import laplacian_distance, ms_ssim_distance, sharpness_where_changed
from visual_dynamics.evaluation.intervals import Interval, cluster_interval

MOVES = 16  # levels of 255, in any channel: a pixel that changes by more in any pair moves
NEVER_MOVES = 8  # levels: a pixel that changes by less in all pairs never moves; noise of cameras and codecs is below
STAYS = 4  # levels: a predicted pixel that changes by less stays still
MARGIN = 32  # a moving region is widened by one pixel for each 32 of a side
CHUNK = 256  # pairs of a take in memory at a time


class Regions(NamedTuple):
    """Of one take. Pixels between the two thresholds are in neither; nor is the margin of what moves in `still`."""

    moving: Tensor  # bool (H, W), with its margin
    still: Tensor  # bool (H, W): never moving


Sums = dict[str, float]  # of one pair, or added over many; `pair_sums` says what they are

COUNTS = (1, 3, 10, 30, 100)  # best of so many futures
SOME = 10  # futures whose distances beside squared error are measured, at most
METRICS = {  # metric -> the sums whose quotient it is
    "energy_score": ("score", "copy_score"),
    "energy": ("moved", "true_motion"),
    "inside": ("inside", "pixels_inside"),
    "outside": ("outside", "pixels_outside"),
    "still": ("stayed", "pixels_still"),
    "diversity": ("between", "true_motion"),
    "inside_share": ("between_inside", "between"),
    **{f"best_{count}": (f"best_{count}", "true_motion") for count in COUNTS},
    "laplacian": ("laplacian", "copy_laplacian"),
    "ms_ssim": ("ms_ssim", "copy_ms_ssim"),
    "unexplained": ("error", "true_motion"),
    "shift_unexplained": ("shift_error", "shift_motion"),
}
GEOMETRIC = ("ratio",)  # metrics whose mean over scenes is geometric


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
    """A frame and its true next frame, (3, H, W), and n predicted ones, (n, 3, H, W); floats in [0, 1].

    Squares of colours, over all three; means over predicted frames:

    true_motion                    squared difference of the true pair: the error of copying
    error                          squared error, of a single prediction; of samples it rewards blur
    score, copy_score              energy score; that of copying is the distance of the true pair
    best_N                         squared error of the best of N, on average over the choices of N
    moved                          squared change of the input: inside the moving region and outside it
    stayed                         never-moving pixels that change by less than STAYS, of pixels_still
    between, between_inside        squared difference of two predicted frames; its part in the moving region
    laplacian, ms_ssim             distance of the best of SOME frames; copy_...: that of the input
    sharp, input_sharp             squared gradients where the prediction changes; there, those of the input
    """
    frame, truth, predicted = (x.double() for x in (frame, truth, predicted))
    errors = (predicted - truth).square().sum((1, 2, 3))  # (n,)
    motion = (predicted - frame).square().sum(1).mean(0)  # (H, W)
    levels = ((255 * predicted).round() - (255 * frame).round()).abs().amax(1)  # (n, H, W), as files would hold them
    several = len(predicted) > 1  # the mean over all pairs of them is twice the variance
    between = 2 * predicted.var(0).sum(0) if several else torch.zeros_like(motion)  # (H, W)
    some = predicted[:SOME]
    copied, right = frame[None], truth[None].expand_as(some)
    sharp, input_sharp = sharpness_where_changed(frame, some)
    found: dict[str, Any] = {
        "true_motion": (truth - frame).square().sum(),
        "score": energy_score(predicted, truth),
        "copy_score": energy_score(copied, truth),
        "moved": motion.sum(),
        "inside": motion[where.moving].sum(),
        "outside": motion[~where.moving].sum(),
        "pixels_inside": where.moving.sum(),
        "pixels_outside": (~where.moving).sum(),
        "stayed": (levels < STAYS)[:, where.still].sum() / len(predicted),
        "pixels_still": where.still.sum(),
        "between": between.sum(),
        "between_inside": between[where.moving].sum(),
        "laplacian": laplacian_distance(some, right).min(),
        "copy_laplacian": laplacian_distance(copied, truth[None]),
        "ms_ssim": ms_ssim_distance(some, right).min(),
        "copy_ms_ssim": ms_ssim_distance(copied, truth[None]),
        "sharp": sharp,
        "input_sharp": input_sharp,
    }
    if several:
        found |= {f"best_{count}": expected_best(errors, count) for count in COUNTS if count <= len(errors)}
    else:
        found |= dict.fromkeys(("error", *(f"best_{count}" for count in COUNTS)), errors[0])
    return {name: float(value) for name, value in found.items()}


def shift_sums(frame: Tensor, truth: Tensor, predicted: Tensor) -> Sums:
    """Shifted inputs, their shifted next frames, and predictions by the code of the unshifted pair: (n, 3, H, W)."""
    error, motion = ((x.double() - truth).square().sum() for x in (predicted, frame))
    return {"shift_error": float(error), "shift_motion": float(motion)}


def numbers(sums: Iterable[Sums]) -> dict[str, float | None]:
    """The metrics over some pairs, from their sums, where these have them; None where the divisor is 0.

    energy_score   energy score / that of copying
    energy         squared change of the input in a prediction / that in the truth
    ratio          squared change of a pixel in moving regions / that of one elsewhere
    still          share of never-moving pixels that stay
    diversity      squared difference of two predictions / of the two frames of the true pair
    inside_share   the part of it that lies in moving regions
    best_N         squared error of the best of N / that of copying
    laplacian      distance of the best of ten / that of copying; so ms_ssim
    sharpness      root of the squared gradients where a prediction changes / of the input's there
    explained      of a single prediction: 1 - squared error / that of copying
    shifted        the same where the input is shifted and the code is not
    true_motion    squared difference of the two frames of a true pair, over the frame, on average
    """
    each = list(sums)
    total = added(each)
    found = {name: _share(total[one], total[all_]) for name, (one, all_) in METRICS.items() if one in total}
    inside, outside = found["inside"], found["outside"]
    found["ratio"] = None if inside is None or outside is None else _share(inside, outside)
    sharp = _share(total["sharp"], total["input_sharp"])
    found["sharpness"] = None if sharp is None else math.sqrt(sharp)
    for name, rest in (("explained", "unexplained"), ("shifted", "shift_unexplained")):
        if rest in found:
            left = found.pop(rest)
            found[name] = None if left is None else 1 - left
    return found | {"true_motion": total["true_motion"] / len(each)}


def added(sums: Sequence[Sums]) -> Sums:
    return {name: math.fsum(one[name] for one in sums) for name in sums[0]}


def by_scene(scenes: Sequence[str], sums: Sequence[dict[str, Sums]], where: Sequence[Regions]) -> dict[str, Any]:
    """The metrics of each method by scene, their means over scenes with intervals, and the share of each region.

    For each pair its scene, the sums of each method, and the regions of its take. Every scene weighs alike.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(scenes):
        own = [one for one, scene in zip(sums, scenes, strict=True) if scene == name]
        found[name] = {"pairs": len(own), "rows": {row: numbers([one[row] for one in own]) for row in sums[0]}}
    rows, intervals = {}, {}
    for row in sums[0]:
        each = {
            name: over_scenes([scene["rows"][row][name] for scene in found.values()], name in GEOMETRIC)
            for name in numbers([sums[0][row]])
        }
        rows[row] = {name: mean for name, (mean, _) in each.items()}
        intervals[row] = {name: interval for name, (_, interval) in each.items() if interval}
    regions = zip(Regions._fields, zip(*where, strict=True), strict=True)
    shares = {name: float(torch.stack(parts).double().mean()) for name, parts in regions}
    return {"rows": rows, "intervals": intervals, "scenes": found, "regions": shares}


def over_scenes(values: Sequence[float | None], geometric: bool = False) -> tuple[float | None, Interval | None]:
    """The mean of what each scene gives, and its bootstrap over scenes; scenes without a number do not count."""
    known = [value for value in values if value is not None and (value > 0 or not geometric)]
    if not known:
        return None, None
    each = torch.tensor(known, dtype=torch.double)
    each = each.log() if geometric else each
    ends = (float(each.mean()), *(cluster_interval(each, torch.arange(len(each))) if len(each) > 1 else ()))
    mean, *interval = (math.exp(end) for end in ends) if geometric else ends
    return mean, (interval[0], interval[1]) if interval else None


def differences(scenes: dict[str, Any], one: str, other: str) -> dict[str, Any]:
    """One method's metrics minus another's, scene by scene: mean, interval over scenes, in how many it is below 0."""
    found = {}
    for name in next(iter(scenes.values()))["rows"][one]:
        pairs = [[scene["rows"][row].get(name) for row in (one, other)] for scene in scenes.values()]
        each = [first - second for first, second in pairs if first is not None and second is not None]
        if each:
            mean, interval = over_scenes(each)
            found[name] = {"mean": mean, "interval": interval, "below": sum(x < 0 for x in each), "scenes": len(each)}
    return found


def best_within(
    frames: Iterable[Tensor], truth: Tensor, marks: Sequence[float], clock: Callable[[], float] = time.process_time
) -> list[tuple[int, float | None]]:
    """How many frames came within so many seconds of the clock, and the least squared error of these; None without any.

    Frames (3, H, W) are taken as they come, until the last mark or their end. What ends early keeps its best.
    """
    start, count, best = clock(), 0, math.inf
    found: list[tuple[int, float | None]] = []
    for frame in frames:
        error = float((frame.cpu().double() - truth).square().sum())
        while len(found) < len(marks) and clock() - start > marks[len(found)]:
            found.append((count, best if count else None))
        if len(found) == len(marks):
            break
        count, best = count + 1, min(best, error)
    return found + [(count, best if count else None)] * (len(marks) - len(found))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
