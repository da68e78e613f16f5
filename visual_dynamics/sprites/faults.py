"""Faults of motion in an animation: frames that stand elsewhere, feet that slide, a seam, frames out of order.

Much of what looks like a fault is design: a run bobs, a thrust lunges. Two things tell them apart. A frame that was
misplaced is displaced as a whole, from head to feet. And other animations of the sheet that have as many frames, its
relatives, mostly show the same motion from another side: what they share is design, and where one of them moves alike,
smaller deviations count. The limits come from `reproduce sheet-check`, which says how many faults they find, and miss.

T frames, H, W height and width in pixels. Differences are sums of absolute differences of colours, multiplied by
alpha, and alpha, each in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.images import Pixels

Floats = NDArray[np.float32]

REACH = 3  # pixels around no displacement, and around that of the centres, that are tried
LEAST_SHIFT = 2  # pixels: bodies bob by one
DISPLACED = 0.3  # share of the difference to both neighbours that moving a frame back removes
DISPLACED_HALF, DISPLACED_HALF_ALONE = 0.2, 0.3  # the same of the upper half and of the lower half; without relatives
SHARED, REPEATED = 0.5, 0.8  # of that share: what makes it design, in a relative or elsewhere in the animation
NOTICED = 0.1  # share from which on another displacement counts at all
FEET = 0.12  # of the sprite's height, at the ground line
SLID, SLID_LEAST = 0.7, 0.1  # share of the feet's difference that a slide explains; and their difference at least
SLID_SHARED = 0.7  # of that share: what makes it design in a relative
STEADY, STANDING = 0.05, 0.6  # difference of feet that stand, as a share of them; share of the steps in which they do
SEAM = 1.6  # step from the last frame to the first, in median steps
LEAST_FRAMES, MOST_FRAMES = 4, 64  # of an animation whose order and seam are judged: pairs of frames are compared
SWAP, SWAP_LIKENESS, SWAP_AGREED = 0.06, 0.04, 0.8  # a swap shortens the way, and makes it more like that of a relative
SWAP_OWN, SWAP_ALONE = 0.15, 0.3  # it shortens the way of this animation, but not that of relatives; there are none
SOFT_HEIGHT, SOFTNESS = 96, 24  # rows at most; rows of the sprite for a pixel of blur


class Displacement(NamedTuple):
    """Where a frame would fit its neighbours best, as (down, right), and the share of the difference that this removes:
    of all of it, and of that half, upper or lower, of which it removes less."""

    shift: tuple[int, int]
    gain: float
    half: float

    @property
    def pixels(self) -> int:
        return max(abs(by) for by in self.shift)

    def shared_by(self, other: Displacement) -> bool:
        """Whether the same frame of a relative is displaced likewise; seen from the other side it is mirrored."""
        down, right = abs(self.shift[0] - other.shift[0]), abs(abs(self.shift[1]) - abs(other.shift[1]))
        enough = other.gain >= max(NOTICED, SHARED * self.gain)
        return enough and other.pixels > 0 and max(down, right) <= 1

    def repeated_in(self, other: Displacement) -> bool:
        """Whether another frame of the animation bobs as much."""
        enough = other.gain >= max(NOTICED, REPEATED * self.gain)
        return enough and self.shift[0] != 0 and other.shift[0] == self.shift[0]


NOWHERE = Displacement((0, 0), 0.0, 0.0)


class Slide(NamedTuple):
    """How feet differ from those of the frame before, as a share of them; by how many pixels they moved to the right,
    and the share of the difference that this explains."""

    difference: float
    right: int
    gain: float

    @property
    def is_clear(self) -> bool:
        return self.right != 0 and self.gain >= SLID and self.difference >= SLID_LEAST

    def shared_by(self, other: Slide) -> bool:
        """Whether the feet of a relative slide likewise in the same frame; seen from the other side, the other way."""
        enough = other.gain >= SLID_SHARED * self.gain and other.difference >= STEADY
        return enough and other.right != 0 and abs(abs(self.right) - abs(other.right)) <= 1


class Swap(NamedTuple):
    """Two frames that seem to have changed places, and by how much of itself their exchange shortens the way."""

    frames: tuple[int, int]
    gain: float


@dataclass(frozen=True, eq=False)
class Motion:
    """An animation as it is measured, its frames in the order in which they are shown."""

    frames: Floats  # (T, H, W, 4), cropped to what is ever seen, with a margin

    @classmethod
    def of(cls, frames: Pixels) -> Motion:
        """From uint8 (T, H, W, 4), at least one pixel of which is visible."""
        seen = frames[..., 3].max(axis=0) > 0
        rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
        shown = frames[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float32) / 255
        shown[..., :3] *= shown[..., 3:]
        return cls(np.pad(shown, ((0, 0), (REACH, REACH), (REACH, REACH), (0, 0))))

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def middles(self) -> NDArray[np.float64]:
        """(T, 2): row and column of the middle of each frame's visible pixels; of an empty frame that of the cell."""
        alpha = self.frames[..., 3].astype(np.float64)
        total = alpha.sum(axis=(1, 2))
        places = [np.tensordot(alpha.sum(axis=2 - axis), np.arange(alpha.shape[1 + axis]), 1) for axis in (0, 1)]
        empty = np.array(alpha.shape[1:]) / 2
        return np.where(total[:, None] > 0, np.stack(places, 1) / np.maximum(total, 1e-9)[:, None], empty)

    @cached_property
    def displaced(self) -> list[Displacement]:
        """For each frame; the first and the last one have one neighbour."""
        count = len(self)
        return [self._displacement(t, [k for k in (t - 1, t + 1) if 0 <= k < count]) for t in range(count)]

    def _displacement(self, frame: int, neighbours: Sequence[int]) -> Displacement:
        if not neighbours:
            return NOWHERE
        others = [self.frames[k] for k in neighbours]
        down, right = np.rint(self.middles[list(neighbours)].mean(axis=0) - self.middles[frame]).astype(int)
        near = range(-REACH, REACH + 1)
        shifts = {(y, x) for y in near for x in near} | {(down + y, right + x) for y in (-1, 0, 1) for x in (-1, 0, 1)}
        differences = {shift: _halves(moved(self.frames[frame], *shift), others) for shift in shifts}
        best = min(shifts, key=lambda shift: (sum(differences[shift]), abs(shift[0]) + abs(shift[1]), shift))
        before, after = differences[0, 0], differences[best]
        half = min(_gain(a, b) for a, b in zip(before, after, strict=True))
        return Displacement((int(best[0]), int(best[1])), _gain(sum(before), sum(after)), half)

    @cached_property
    def slides(self) -> list[Slide]:
        """For each frame but the first."""
        alpha = self.frames[..., 3] > 0
        spans = [np.flatnonzero(frame.any(axis=1))[[0, -1]] for frame in alpha if frame.any()]
        top, ground = np.median(spans, axis=0).astype(int)
        feet = self.frames[:, max(0, ground + 1 - max(2, round(FEET * (ground + 1 - top)))) : ground + 1]
        found = []
        for before, after in pairwise(feet):
            sums = {by: float(np.abs(moved(before, 0, by) - after).sum()) for by in range(-REACH, REACH + 1)}
            best = min(sums, key=lambda by: (sums[by], abs(by)))
            amount = max(float(before.sum() + after.sum()) / 2, 1e-6)
            found.append(Slide(sums[0] / amount, best, _gain(sums[0], sums[best])))
        return found

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """(T, T), of frames made soft: the further a limb moved, the larger."""
        height = self.frames.shape[1] - 2 * REACH
        step = -(-height // SOFT_HEIGHT)
        soft = _blurred(_averaged(self.frames, step), max(1, round(height / step / SOFTNESS))).reshape(len(self), -1)
        return np.stack([np.abs(soft - frame).sum(axis=1) for frame in soft]).astype(np.float64)

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """(T - 1,): distance of each frame from the one before."""
        return np.diagonal(self.distances, 1)


def displaced_frames(motion: Motion, relatives: Sequence[Motion]) -> list[tuple[int, Displacement]]:
    """Frames that stand elsewhere than both neighbours, as a whole."""
    half = DISPLACED_HALF if relatives else DISPLACED_HALF_ALONE
    found = []
    for frame in range(1, len(motion) - 1):
        one = motion.displaced[frame]
        if one.pixels >= LEAST_SHIFT and one.gain >= DISPLACED and one.half >= half:
            others = [other.displaced[frame] for other in relatives]
            own = [other for place, other in enumerate(motion.displaced[1:-1], 1) if place != frame]
            if not any(one.shared_by(other) for other in others) and not any(one.repeated_in(other) for other in own):
                found.append((frame, one))
    return found


def sliding_feet(motion: Motion, relatives: Sequence[Motion]) -> list[tuple[list[int], int]]:
    """Runs of frames in which the feet slide on one way, and by how many pixels to the right, 2 or more in all.

    Without relatives only feet that mostly stand are judged: those of a walk move.
    """
    stands = np.mean([slide.difference < STEADY for slide in motion.slides]) >= STANDING
    if not relatives and not stands:
        return []
    runs: list[tuple[list[int], int]] = []
    for frame, slide in enumerate(motion.slides, 1):
        others = [other.slides[frame - 1] for other in relatives]
        if not slide.is_clear or any(slide.shared_by(other) for other in others):
            continue
        if runs and runs[-1][0][-1] == frame - 1 and runs[-1][1] * slide.right > 0:
            frames, pixels = runs.pop()
            runs.append(([*frames, frame], pixels + slide.right))
        else:
            runs.append(([frame], slide.right))
    return [run for run in runs if abs(run[1]) >= LEAST_SHIFT]


def seam(motion: Motion) -> float:
    """The step from the last frame of a cycle to the first, in median steps, where it is the largest; else 0."""
    if not LEAST_FRAMES <= len(motion) <= MOST_FRAMES:
        return 0.0
    back = float(motion.distances[-1, 0])
    return back / max(float(np.median(motion.steps)), 1e-9) if back > motion.steps.max() else 0.0


def repeats_first(motion: Motion) -> bool:
    """Whether the last frame of a cycle is the first one once more, while every other step is one."""
    return len(motion) >= LEAST_FRAMES and not (motion.frames[-1] != motion.frames[0]).any() and motion.steps.min() > 0


def swapped_frames(motion: Motion, relatives: Sequence[Motion]) -> Swap | None:
    """The two frames whose exchange makes the animation smoothest, if that is much smoother."""
    if not LEAST_FRAMES <= len(motion) <= MOST_FRAMES:
        return None
    now = max((likeness(motion.distances, other.distances) for other in relatives), default=0.0)
    best: Swap | None = None
    for pair in combinations(range(len(motion)), 2):
        gain = way_gain(motion.distances, pair)
        if gain < SWAP or (best and gain <= best.gain):
            continue
        order = _exchanged(len(motion), pair)
        then = motion.distances[np.ix_(order, order)]
        agreed = max((likeness(then, other.distances) for other in relatives), default=0.0)
        theirs = max((way_gain(other.distances, pair) for other in relatives), default=0.0)
        if (
            (agreed >= SWAP_AGREED and agreed - now >= SWAP_LIKENESS)
            or (relatives and agreed > now - SWAP_LIKENESS / 2 and gain - max(theirs, 0) >= SWAP_OWN)
            or (not relatives and min(gain, way_gain(motion.distances, pair, back=True)) >= SWAP_ALONE)
        ):
            best = Swap(pair, gain)
    return best


def way_gain(distances: NDArray[np.float64], pair: tuple[int, int], back: bool = False) -> float:
    """By how much of itself the way through all frames, and `back` to the first, gets shorter if two change places.

    A frame unlike all others would shorten the way as its last one, but not the way back.
    """
    order = _exchanged(len(distances), pair)
    before, after = (_way(distances, frames, back) for frames in (range(len(distances)), order))
    return _gain(before, after)


def _way(distances: NDArray[np.float64], order: Sequence[int], back: bool) -> float:
    steps = pairwise([*order, order[0]] if back else order)
    return float(sum(distances[step] for step in steps))


def likeness(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Correlation of two tables (T, T) of distances between frames."""
    pairs = np.triu_indices(len(one), 1)
    a, b = one[pairs] - one[pairs].mean(), other[pairs] - other[pairs].mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size > 0 else 0.0


def moved(frame: Floats, down: int, right: int) -> Floats:
    """(H, W, C) with its pixels elsewhere; nothing comes in, and what leaves is lost."""
    height, width = frame.shape[:2]
    result = np.zeros_like(frame)
    rows, columns = max(0, height - abs(down)), max(0, width - abs(right))
    top, left = max(down, 0), max(right, 0)
    source = frame[max(-down, 0) :, max(-right, 0) :][:rows, :columns]
    result[top : top + rows, left : left + columns] = source
    return result


def _halves(frame: Floats, others: Sequence[Floats]) -> tuple[float, float]:
    """The difference of a frame from some others, in the upper half and in the lower half."""
    rows = sum(np.abs(frame - other).sum(axis=(1, 2)) for other in others)
    middle = len(frame) // 2
    return float(rows[:middle].sum()), float(rows[middle:].sum())


def _gain(before: float, after: float) -> float:
    return 1 - after / before if before > 0 else 0.0


def _exchanged(count: int, pair: tuple[int, int]) -> list[int]:
    order = list(range(count))
    order[pair[0]], order[pair[1]] = pair[1], pair[0]
    return order


def _averaged(frames: Floats, step: int) -> Floats:
    """(T, H, W, 4) -> (T, H / step, W / step, 4); a rest at the edge is left out."""
    if step == 1:
        return frames
    count, height, width, channels = frames.shape
    rows, columns = height // step, width // step
    cut = frames[:, : rows * step, : columns * step]
    return cut.reshape(count, rows, step, columns, step, channels).mean(axis=(2, 4))


def _blurred(frames: Floats, radius: int) -> Floats:
    """A box of 2 radius + 1 pixels, twice, down and across."""
    for axis in (1, 2, 1, 2):
        pad = [(0, 0)] * 4
        pad[axis] = (radius + 1, radius)
        sums = np.cumsum(np.pad(frames, pad), axis=axis, dtype=np.float64)
        length = frames.shape[axis]
        upper = np.take(sums, range(2 * radius + 1, 2 * radius + 1 + length), axis)
        frames = ((upper - np.take(sums, range(length), axis)) / (2 * radius + 1)).astype(np.float32)
    return frames
