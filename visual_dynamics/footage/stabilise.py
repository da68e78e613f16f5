"""The motion of the camera is measured and taken out; a still camera is recognised and left alone.

Corners of a reference frame are followed into every other frame (Lucas-Kanade), and the similarity (shift, turn, zoom)
that most of them agree on is the camera's: the background is taken to show more corners than what moves in front of
it. The frame is then warped by that estimate, and the little that is left is measured once more, between pictures that
look alike: this gives a few hundredths of a pixel.

One thing comes before that. Where corners in a quarter of the picture stay put, and not twice as much of it agrees on
a motion, the camera stands still, even if a person in front of a bare wall has most of the corners.

Each frame is measured against the reference itself, never against its neighbour, so errors do not add up; the
neighbour's result is only where the search starts. When a frame shows too little of the reference, the frame before
it, the last one measured, becomes the new reference. From then on transforms are composed, and each change of
reference adds its own small error.

Matrices are float64 (2, 3) and take a point (x, y, 1) of a frame to the reference, the first frame; pixel centres have
whole coordinates. H, W: height and width of a frame in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.images import Box, Pixels

Matrix = npt.NDArray[np.float64]  # (2, 3)
Points = npt.NDArray[np.float32]  # (N, 2), x and y

STILL = 0.1  # pixels that the background of a still camera may seem to move by
STILL_MOST = 0.5  # pixels, for nine tenths of the frames
CELLS = 8  # along the longer side: corners come from all over the picture, not from one busy place
CORNERS = 12  # of each cell, at most
FEWEST = 12  # corners that agree; with fewer, a frame is not measured
OVERLAP = 0.6  # share of the reference that a frame shows; below, a new reference
AGREEING = 0.1  # share of the corners of the reference that agree; below, a new reference
WEAKEST = 4e-5  # least strength of a corner (cv2.cornerMinEigenVal), that of noise of two grey levels
HOLD = 0.25  # pixels that a corner of something still may seem to move by
HELD = 0.25  # share of the cells with corners that hold still; then the camera may, whatever moves before it
MORE = 2.0  # a motion that so many times as many cells agree on is the camera's after all
WINDOW = 21  # pixels, the patch around a corner that is followed
BACK = 0.5  # pixels: followed there and back, a corner comes home
LOOSE, TIGHT = 1.5, 0.5  # pixels from the common motion, for the first estimate and for the last one
IDENTITY: Matrix = np.eye(2, 3)


@dataclass(frozen=True)
class CameraMotion:
    """What the camera did in a clip of T frames."""

    transforms: tuple[Matrix | None, ...]  # (T,), frame -> first frame; None: the frame stays as it is
    shifts: tuple[float, ...]  # (T,), pixels: how far the background is, on average, from where the reference has it
    references: tuple[int, ...]  # frames that others were measured against, the first one always
    lost: tuple[int, ...]  # frames that could not be measured and were taken to be where the one before is

    @property
    def still(self) -> bool:
        """A camera on a stand. Also a clip in which nothing can be followed: a wall, darkness."""
        return all(transform is None for transform in self.transforms)


def camera_motion(frames: Iterable[Pixels]) -> CameraMotion:
    """Measure frames (H, W, 3) of one shot, one after the other; only a reference and the last frame are kept.

    The camera is still when half of the frames have a background less than 0.1 pixels away from where the first one has
    it, and nine tenths of them less than 0.5: on a noisy clip some measurements are bad.
    """
    cv2 = _load_cv2()
    transforms: list[Matrix] = []
    references, lost = [0], []
    reference: _Reference | None = None
    base = guess = IDENTITY  # reference -> first frame; frame -> reference
    previous: Pixels | None = None
    for number, frame in enumerate(frames):
        grey: Pixels = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
        if reference is None or previous is None:
            reference = _Reference(cv2, grey)
            transforms.append(IDENTITY)
            previous = grey
            continue
        if grey.shape != previous.shape:
            raise ValueError(f"frame {number} is {grey.shape}, the one before {previous.shape}")
        found = reference.measure(grey, guess)
        if (found is None or found.share < AGREEING or found.overlap < OVERLAP) and references[-1] < number - 1:
            renewed = _Reference(cv2, previous)
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
        return CameraMotion((), (), (), ())
    shifts = tuple(mean_shift(transform, reference.grey.shape) for transform in transforms)
    still = float(np.median(shifts)) < STILL and float(np.quantile(shifts, 0.9)) < STILL_MOST
    return CameraMotion(
        (None,) * len(transforms) if still else tuple(transforms), shifts, tuple(references), tuple(lost)
    )


def steadied(frames: Iterable[Pixels], motion: CameraMotion, box: Box | None = None) -> Iterator[Pixels]:
    """The frames (H, W, 3) as the first one's camera sees them, cropped to a box; the very same where nothing moved."""
    for frame, transform in zip(frames, motion.transforms, strict=True):
        warped = warp(frame, transform)
        yield warped if box is None else warped[box.top : box.top + box.height, box.left : box.left + box.width]


def warp(frame: Pixels, transform: Matrix | None) -> Pixels:
    """A frame (H, W, 3) moved by a transform, cubic; what it does not show is smeared from its edge."""
    if transform is None:
        return frame
    cv2 = _load_cv2()
    size = frame.shape[1::-1]
    warped: Pixels = cv2.warpAffine(frame, transform, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return warped


def common_box(transforms: Sequence[Matrix | None], size: tuple[int, int]) -> Box:
    """The largest box of whole pixels that all the warped frames of size (H, W) fill; its area is 0 if there is none.

    What all of them fill is convex. So a box from one row to another is as wide as those two rows allow, and all pairs
    of rows can be tried at once.
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
    """The transform that does one and then another."""
    product: Matrix = after @ np.vstack([before, [0, 0, 1]])
    return product


def inverted(transform: Matrix) -> Matrix:
    inverse: Matrix = np.linalg.inv(np.vstack([transform, [0, 0, 1]]))[:2]
    return inverse


def moved(points: npt.NDArray[Any], transform: Matrix) -> npt.NDArray[np.float64]:
    """Points (N, 2) after a transform."""
    result: npt.NDArray[np.float64] = points @ transform[:, :2].T + transform[:, 2]
    return result


def mean_shift(transform: Matrix, size: tuple[int, ...]) -> float:
    """How far a transform moves the pixels of a frame of size (H, W), root mean square over 5 x 5 of them."""
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

    def __init__(self, cv2: Any, grey: Pixels) -> None:
        self.cv2, self.grey = cv2, grey
        self.cell = max(16, -(-max(grey.shape) // CELLS))  # pixels
        self.corners = _corners(cv2, grey, self.cell)  # (N, 2)

    def measure(self, grey: Pixels, guess: Matrix) -> _Found | None:
        """Where a grey frame lies; None when too few corners agree."""
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
        return _Found(estimate, len(agreeing) / len(self.corners), self._overlap(estimate))

    def _overlap(self, transform: Matrix) -> float:
        points = moved(_lattice(self.grey.shape, 9), inverted(transform))
        high, wide = self.grey.shape
        inside = ((points >= -0.5) & (points <= [wide - 0.5, high - 0.5])).all(1)
        return float(inside.mean())

    def _held(self, grey: Pixels) -> tuple[Matrix | None, int]:
        """The transform of the corners that are where they were, if they are in many cells; and in how many."""
        here, there = self._follow(grey, self.corners.copy())
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
        """An estimate with what is left after warping the frame by it; and the corners that agree."""
        flags, size = self.cv2.INTER_CUBIC, grey.shape[::-1]
        warped = self.cv2.warpAffine(grey, transform, size, flags=flags, borderMode=self.cv2.BORDER_REPLICATE)
        here, there = self._follow(warped, self.corners.copy())
        inside = self._shown(there, transform)
        here, there = here[inside], there[inside]
        rest, chosen = self._agree(there, here, TIGHT)
        return None if rest is None else compose(rest, transform), here[chosen]

    def _shown(self, points: Points, transform: Matrix) -> npt.NDArray[np.bool_]:
        """Which points of the reference have a patch that the frame shows."""
        there, margin = moved(points, inverted(transform)), WINDOW / 2
        high, wide = self.grey.shape
        shown: npt.NDArray[np.bool_] = np.all(
            (there >= margin) & (there <= [wide - 1 - margin, high - 1 - margin]), axis=1
        )
        return shown

    def _follow(self, other: Pixels, there: Points) -> tuple[Points, Points]:
        """Corners (M, 2) of the reference that are found in another picture, and where, searched from `there`."""
        cv2 = self.cv2
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
        """The similarity source -> target that most points agree on, and which do."""
        nothing = np.zeros(len(source), bool)
        if len(source) < FEWEST:
            return None, nothing
        self.cv2.setRNGSeed(0)  # the same clip gives the same result
        transform, inliers = self.cv2.estimateAffinePartial2D(
            source, target, method=self.cv2.RANSAC, ransacReprojThreshold=tolerance, maxIters=2000, confidence=0.999
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


def _corners(cv2: Any, grey: Pixels, cell: int) -> Points:
    """(N, 2): the best corners of each cell of so many pixels a side; weak ones where there are no others."""
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


def _load_cv2() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise UserError("stabilising clips needs OpenCV: pip install 'visual-dynamics[video]'") from error
    return cv2
