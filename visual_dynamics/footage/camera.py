"""The camera's motion is measured and taken out; a still camera is recognised and left alone.

1. Corners of a reference frame are tracked into every other frame (Lucas-Kanade). The similarity (shift, rotation,
   zoom) that most corners agree on is the camera's: the background has more corners than what moves before it.
2. The frame is warped by that estimate, and what is left is measured once more: two similar pictures give a precision
   of a few hundredths of a pixel.
3. Before both: if corners in a quarter of the picture stay in place, and not twice as much of it agrees on a motion,
   the camera stands still, even if a person before a bare wall has most of the corners.

Each frame is measured against the reference, never against its neighbour, so errors do not add up; the neighbour's
result is only the start of the search. If a frame shows too little of the reference, the frame before it becomes the
new reference. Transforms are composed from then on, and each change of reference adds its own small error.

Matrices are float64 (2, 3) and take a point (x, y, 1) of a frame to the first frame; pixel centres have whole
coordinates. H, W: height and width of a frame in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.images import Box, Pixels

Matrix = npt.NDArray[np.float64]  # (2, 3)
Points = npt.NDArray[np.float32]  # (N, 2), x and y

STILL = 0.1  # pixels by which the background of a still camera may seem to move
STILL_MOST = 0.5  # the same, for nine tenths of the frames: a noisy clip has some bad measurements
CELLS = 8  # along the longer side: corners come from all over the picture, not from one busy place
CORNERS = 12  # of each cell, at most
FEWEST = 12  # corners that must agree; with fewer, a frame is not measured
OVERLAP = 0.6  # share of the reference that a frame shows; below, a new reference
AGREEING = 0.1  # share of the corners of the reference that agree; below, a new reference
WEAKEST = 4e-5  # least strength of a corner (cv2.cornerMinEigenVal): that of noise of two grey levels
HOLD = 0.25  # pixels by which a corner of something still may seem to move
HELD = 0.25  # share of the cells with corners that hold still, for a camera that may stand still
MORE = 2.0  # a motion that this many times as many cells agree on is the camera's after all
WINDOW = 21  # pixels, the patch around a corner that is tracked
BACK = 0.5  # pixels: tracked there and back, a corner must come home
LOOSE, TIGHT = 1.5, 0.5  # pixels from the common motion, for the first estimate and for the last one
IDENTITY: Matrix = np.eye(2, 3)


@dataclass(frozen=True)
class CameraMotion:
    """The camera's motion in a clip of T frames."""

    transforms: tuple[Matrix | None, ...]  # (T,), frame -> first frame; None: the camera stood still
    references: tuple[int, ...]  # frames that others were measured against, the first one always
    lost: tuple[int, ...]  # frames that could not be measured, and have the transform of the frame before

    @property
    def still(self) -> bool:
        """A camera on a stand; also a clip in which nothing can be tracked: a wall, darkness."""
        return all(transform is None for transform in self.transforms)


def camera_motion(frames: Iterable[Pixels]) -> CameraMotion:
    """Measure the frames (H, W, 3) of one shot, one after the other; only a reference and the last one are kept.

    The camera is still if half of the frames have moved by less than STILL, and nine tenths by less than STILL_MOST.
    """
    transforms: list[Matrix] = []
    references, lost = [0], []
    reference: _Reference | None = None
    base = guess = IDENTITY  # reference -> first frame; frame -> reference
    previous: Pixels | None = None
    for number, frame in enumerate(frames):
        grey: Pixels = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
        if reference is None or previous is None:
            reference = _Reference(grey)
            transforms.append(IDENTITY)
            previous = grey
            continue
        if grey.shape != previous.shape:
            raise ValueError(f"frame {number} is {grey.shape}, the one before {previous.shape}")
        found = reference.measure(grey, guess)
        if (found is None or found.share < AGREEING or found.overlap < OVERLAP) and references[-1] < number - 1:
            renewed = _Reference(previous)
            again = renewed.measure(grey, IDENTITY)
            if again is not None and (found is None or again.share > found.share):
                reference, found, base = renewed, again, transforms[-1]
                references.append(number - 1)
        if found is None:
            lost.append(number)
            transforms.append(transforms[-1])
        else:
            guess = found.transform
            transforms.append(compose(base, guess))
        previous = grey
    if reference is None:
        return CameraMotion((), (), ())
    shifts = [mean_shift(transform, reference.grey.shape) for transform in transforms]
    still = float(np.median(shifts)) < STILL and float(np.quantile(shifts, 0.9)) < STILL_MOST
    return CameraMotion((None,) * len(transforms) if still else tuple(transforms), tuple(references), tuple(lost))


def warp(frame: Pixels, transform: Matrix | None) -> Pixels:
    """A frame (H, W, 3) or (H, W) moved by a transform, with cubic interpolation; beyond it the edge is repeated."""
    if transform is None:
        return frame
    size = frame.shape[1::-1]
    warped: Pixels = cv2.warpAffine(frame, transform, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return warped


def common_box(transforms: Sequence[Matrix | None], size: tuple[int, int]) -> Box:
    """The largest box of whole pixels that all the warped frames of size (H, W) fill; Box(0, 0, 0, 0) if there is none.

    What all of them fill is convex. So a box from one row to another is as wide as those two rows allow, and all pairs
    of rows are tried at once.
    """
    height, width = size
    y = np.arange(height, dtype=np.float64)
    left, right = np.zeros(height), np.full(height, width - 1.0)  # of what is filled, in each row
    for transform in transforms:
        if transform is None:
            continue
        inverse = inverted(transform)  # where a pixel comes from
        for (per_x, per_y, start), last in zip(inverse, (width - 1, height - 1), strict=True):
            at_zero = per_y * y + start  # 0 <= per_x x + at_zero <= last
            if abs(per_x) < 1e-12:
                left[(at_zero < -1e-9) | (at_zero > last + 1e-9)] = np.inf
                continue
            ends = np.sort(np.stack([-at_zero / per_x, (last - at_zero) / per_x]), 0)
            left, right = np.maximum(left, ends[0]), np.minimum(right, ends[1])
    left, right = np.ceil(left - 1e-6), np.floor(right + 1e-6)
    tops, bottoms = np.triu_indices(height)
    wide = np.minimum(right[tops], right[bottoms]) - np.maximum(left[tops], left[bottoms]) + 1
    area = np.maximum(wide, 0) * (bottoms - tops + 1)
    best = int(area.argmax())
    if area[best] <= 0:
        return Box(0, 0, 0, 0)
    top, bottom = int(tops[best]), int(bottoms[best])
    return Box(top=top, left=int(max(left[top], left[bottom])), height=bottom - top + 1, width=int(wide[best]))


def compose(after: Matrix, before: Matrix) -> Matrix:
    """The transform `before`, then `after`."""
    product: Matrix = after @ np.vstack([before, [0, 0, 1]])
    return product


def inverted(transform: Matrix) -> Matrix:
    inverse: Matrix = np.linalg.inv(np.vstack([transform, [0, 0, 1]]))[:2]
    return inverse


def rescaled(transform: Matrix | None, factor: float) -> Matrix | None:
    """The same transform for pixels a `factor` smaller (pixel centres have whole coordinates at both sizes)."""
    if transform is None:
        return None
    shift = (factor - 1) / 2
    larger = np.array([[factor, 0, shift], [0, factor, shift]])
    return compose(compose(larger, transform), inverted(larger))


def moved(points: npt.NDArray[Any], transform: Matrix) -> npt.NDArray[np.float64]:
    """Points (N, 2) after a transform."""
    result: npt.NDArray[np.float64] = points @ transform[:, :2].T + transform[:, 2]
    return result


def mean_shift(transform: Matrix, size: tuple[int, ...]) -> float:
    """Root mean square distance by which a transform moves 5 x 5 points of a frame of size (H, W)."""
    points = _lattice(size, 5)
    return float(np.sqrt(((moved(points, transform) - points) ** 2).sum(1).mean()))


@dataclass(frozen=True)
class _Found:
    """One frame against its reference."""

    transform: Matrix  # frame -> reference
    share: float  # of the corners of the reference that agree
    overlap: float  # share of the reference that the frame shows


class _Reference:
    """A grey frame (H, W), its corners, and other frames measured against it."""

    def __init__(self, grey: Pixels) -> None:
        self.grey = grey
        self.cell = max(16, -(-max(grey.shape) // CELLS))  # pixels
        self.corners = _corners(grey, self.cell)  # (N, 2)

    def measure(self, grey: Pixels, guess: Matrix) -> _Found | None:
        """The transform of a grey frame; None if too few corners agree."""
        if len(self.corners) < FEWEST:
            return None
        held, held_cells = self._held(grey)
        if held is not None and mean_shift(held, self.grey.shape) < STILL:
            return _Found(held, 1.0, 1.0)
        estimate = self._first_estimate(grey, guess)
        if estimate is None:
            estimate = self._first_estimate(grey, IDENTITY)
        agreeing = self.corners[:0]
        for _ in range(2):
            if estimate is not None:
                estimate, agreeing = self._refine(grey, estimate)
        if held is not None and self._cells(agreeing) < MORE * held_cells:
            return _Found(IDENTITY, 1.0, 1.0)
        if estimate is None:
            return None
        points = moved(_lattice(self.grey.shape, 9), inverted(estimate))
        high, wide = self.grey.shape
        overlap = float(((points >= -0.5) & (points <= [wide - 0.5, high - 0.5])).all(1).mean())
        return _Found(estimate, len(agreeing) / len(self.corners), overlap)

    def _held(self, grey: Pixels) -> tuple[Matrix | None, int]:
        """The transform of the corners that stay in place, if many cells have some; and the number of these cells."""
        here, there = self._follow(grey, self.corners)
        still = np.linalg.norm(there - here, axis=1) < HOLD
        cells = self._cells(here[still])
        if int(still.sum()) < FEWEST or cells < HELD * self._cells(here):
            return None, cells
        if np.linalg.norm(np.median(there[still] - here[still], axis=0)) >= STILL:  # a slow drift of them all
            return None, cells
        return fit_similarity(there[still], here[still]), cells

    def _cells(self, points: Points) -> int:
        """How many cells have one of the points."""
        return len({(x, y) for x, y in (points // self.cell).tolist()})

    def _first_estimate(self, grey: Pixels, guess: Matrix) -> Matrix | None:
        there = moved(self.corners, inverted(guess)).astype(np.float32)
        here, there = self._follow(grey, there)
        return self._agree(there, here, LOOSE)[0]

    def _refine(self, grey: Pixels, transform: Matrix) -> tuple[Matrix | None, Points]:
        """The estimate plus what is left after warping the frame by it; and the corners that agree."""
        here, there = self._follow(warp(grey, transform), self.corners)
        patches, margin = moved(there, inverted(transform)), WINDOW / 2  # in the frame, which must show them whole
        high, wide = self.grey.shape
        inside = ((patches >= margin) & (patches <= [wide - 1 - margin, high - 1 - margin])).all(axis=1)
        here, there = here[inside], there[inside]
        rest, chosen = self._agree(there, here, TIGHT)
        return None if rest is None else compose(rest, transform), here[chosen]

    def _follow(self, other: Pixels, there: Points) -> tuple[Points, Points]:
        """Corners (M, 2) of the reference found in another picture, and their places; the search starts `there`."""
        options: dict[str, Any] = {
            "winSize": (WINDOW, WINDOW),
            "maxLevel": 3,
            "criteria": (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 40, 0.003),
            "flags": cv2.OPTFLOW_USE_INITIAL_FLOW,
        }
        found, good, _ = cv2.calcOpticalFlowPyrLK(self.grey, other, self.corners, there.copy(), **options)
        back, home, _ = cv2.calcOpticalFlowPyrLK(other, self.grey, found, self.corners.copy(), **options)
        kept = good.ravel().astype(bool) & home.ravel().astype(bool)
        kept &= np.linalg.norm(back - self.corners, axis=1) < BACK
        return self.corners[kept], found[kept]

    def _agree(self, source: Points, target: Points, tolerance: float) -> tuple[Matrix | None, npt.NDArray[np.bool_]]:
        """The similarity source -> target that most points agree on, and these points."""
        nothing = np.zeros(len(source), bool)
        if len(source) < FEWEST:
            return None, nothing
        cv2.setRNGSeed(0)  # the same clip gives the same result
        transform, inliers = cv2.estimateAffinePartial2D(
            source, target, method=cv2.RANSAC, ransacReprojThreshold=tolerance, maxIters=2000, confidence=0.999
        )
        if transform is None or int(inliers.sum()) < FEWEST:
            return None, nothing
        chosen = inliers.ravel().astype(bool)
        return fit_similarity(source[chosen], target[chosen]), chosen


def fit_similarity(source: npt.NDArray[Any], target: npt.NDArray[Any]) -> Matrix:
    """The similarity with the least squared error, points (N, 2) to points (N, 2).

    In complex numbers: target = factor * source + shift. Around the means, factor is <source, target> over
    <source, source>.
    """
    p, q = (points.astype(np.float64) @ np.array([1, 1j]) for points in (source, target))
    p_mean, q_mean = p.mean(), q.mean()
    spread = np.vdot(p - p_mean, p - p_mean).real
    factor = np.vdot(p - p_mean, q - q_mean) / spread if spread > 0 else 1.0 + 0j
    shift = q_mean - factor * p_mean
    return np.array([[factor.real, -factor.imag, shift.real], [factor.imag, factor.real, shift.imag]])


def _corners(grey: Pixels, cell: int) -> Points:
    """(N, 2): the best corners of each cell of `cell` x `cell` pixels; weak ones where there are no others."""
    height, width = grey.shape
    strength = cv2.cornerMinEigenVal(grey, 5)
    found = []
    for top in range(0, height, cell):
        for left in range(0, width, cell):
            part = grey[top : top + cell, left : left + cell]
            best = float(strength[top : top + cell, left : left + cell].max())
            if best < WEAKEST or min(part.shape) < 8:
                continue
            corners = cv2.goodFeaturesToTrack(part, CORNERS, max(0.05, WEAKEST / best), cell / 8, blockSize=5)
            if corners is not None:
                found.append(corners.reshape(-1, 2) + np.array([left, top], np.float32))
    return np.concatenate(found).astype(np.float32) if found else np.zeros((0, 2), np.float32)


def _lattice(size: tuple[int, ...], count: int) -> npt.NDArray[np.float64]:
    """Points (count * count, 2) from edge to edge of a frame of size (H, W)."""
    y, x = np.meshgrid(np.linspace(0, size[0] - 1, count), np.linspace(0, size[1] - 1, count), indexing="ij")
    return np.stack([x.ravel(), y.ravel()], 1)
