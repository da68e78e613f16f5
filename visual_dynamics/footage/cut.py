"""A take, which is a stretch of one shot, becomes frames and pairs: steadied, cropped to a square and made small.

The square is the middle, a window around what moves or around labelled boxes, or a given box. A window may be wider
than an upright picture, so that people keep heads and feet; beyond the picture its edge is repeated, as when a model is
given a picture that is not square.

A pair is dropped for the first of these reasons that applies, in the pictures as they are stored:

still          fewer than 5 of 32 x 32 cells change, on average over a cell, by more than 6 levels in any colour. Cells
               rather than pixels: codecs flicker along sharp edges, and frames have many sizes
light          half of the pixels become brighter, or darker, by more than 3 levels
everything     more than 6 in 10 pixels change by more than 10 levels: a dissolve, a missed cut, a wrong transform
camera         the camera moves, and in one of the frames it could not be measured
crop           the given box is not in the picture

T frames of H x W pixels; h, w: height and width of a small copy. Boxes are in whole pixels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.footage.camera import IDENTITY, Matrix, moved, rescaled, warp
from visual_dynamics.footage.reading import Boxes, Frame
from visual_dynamics.images import Box, Pixels

Crop = Literal["centre", "motion", "labels"] | Box

# of the window
NOISE = 6.0  # grey levels by which a pixel of a small copy may change although nothing moves
OUTSIDE = 0.01  # share of the motion that may lie beyond each side of the window
MARGIN = 1.35  # width of the window over that of the motion: people have parts that rest
LABELS_MARGIN = 1.15  # boxes are drawn close around people
LEAST = 0.4  # least width of a window, as a share of the shorter side of the picture

# of good pairs
CELLS = 32  # along each side
CELL_CHANGED = 6.0  # grey levels, in any colour
FEWEST = 5  # cells that change if something moves
CHANGED = 10  # grey levels, in any colour: a pixel that differs by more has changed
LIGHT = 3.0  # grey levels
EVERYTHING = 0.6  # share of the pixels


@dataclass(frozen=True)
class Take:
    """Frames start ... stop - 1 of the resampled clip, steadied and cropped alike."""

    shot: int
    start: int
    stop: int
    transforms: tuple[Matrix | None, ...]  # frame -> first frame of the take; None: the camera stood still
    lost: frozenset[int]  # places in the take where the camera could not be measured
    room: Box  # what all its frames show, in pixels of the working size
    crop: Box | None  # a square, perhaps wider than the room; None: the given crop is not in the picture

    @property
    def still(self) -> bool:
        return all(transform is None for transform in self.transforms)


@dataclass(frozen=True)
class CutTake:
    """The M frames and N pairs of one take; S is the side of a stored frame."""

    take: Take
    frames: npt.NDArray[np.uint8]  # (M, 3, S, S), those that a pair needs
    times: npt.NDArray[np.float64]  # (M,), seconds since the first frame of the clip
    transforms: npt.NDArray[np.float64]  # (M, 2, 3), frame -> first frame of the take, in pixels of the upright clip
    first: npt.NDArray[np.int64]  # (N,): frames that begin a pair
    second: npt.NDArray[np.int64]  # (N,): frames that end it
    dropped: dict[str, int]  # pairs, by reason


# --- the square ---


def read_crop(words: str) -> Crop:
    """`centre`, `motion`, `labels`, or X,Y,W,H: left, top, width and height of a box in pixels of the upright clip."""
    if words in ("centre", "motion", "labels"):
        return words  # type: ignore[return-value]
    numbers = re.fullmatch(r"(\d{1,5}),(\d{1,5}),(\d{1,5}),(\d{1,5})", words)
    if numbers is None:
        raise UserError(f"a crop is centre, motion, labels, or X,Y,W,H in pixels, not {words[:40]!r}")
    x, y, width, height = map(int, numbers.groups())
    if min(width, height) < 8:
        raise UserError(f"a crop of {width} x {height} pixels is too small (at least 8 a side)")
    return Box(top=y, left=x, height=height, width=width)


def choose_square(
    crop: Crop,
    room: Box,
    copies: Sequence[Pixels],
    transforms: Sequence[Matrix | None],
    shrunk: float,
    step: int,
    least: int,
    boxes: Boxes | None,
) -> Box | None:
    """The square that a crop means for the frames of a take; None: the given box is not in the picture.

    room: what all frames show; copies: they, small and grey, `shrunk` times smaller; boxes: (T, 4), for "labels".
    """
    if isinstance(crop, Box):
        square = middle_square(common(crop, room))
        return square if 2 * square.height >= min(crop.height, crop.width) else None
    if crop == "centre":
        return middle_square(room)
    if crop == "labels" and boxes is not None:
        return labels_window(boxes, transforms, room, least)
    small = [rescaled(transform, 1 / shrunk) for transform in transforms]
    return motion_window(motion_energy(copies, small, step), shrunk, room, least)


def middle_square(room: Box) -> Box:
    """The largest square in the middle of a box."""
    side = min(room.height, room.width)
    return Box(room.top + (room.height - side) // 2, room.left + (room.width - side) // 2, side, side)


def common(one: Box, other: Box) -> Box:
    """What two boxes share; nothing of height or width 0 or less is in it."""
    top, left = max(one.top, other.top), max(one.left, other.left)
    bottom, right = (min(a + b, c + d) for a, b, c, d in ((*one[::2], *other[::2]), (*one[1::2], *other[1::2])))
    return Box(top, left, bottom - top, right - left)


def motion_energy(copies: Sequence[Pixels], transforms: Sequence[Matrix | None], step: int) -> npt.NDArray[np.float64]:
    """Mean change of each pixel (h, w) within `step` frames, beyond noise.

    copies: small grey frames uint8 (h, w); transforms: from each of them to the first, in their pixels.
    """
    height, width = copies[0].shape
    total = np.zeros((height, width))
    recent: list[npt.NDArray[np.float32]] = []
    for copy, transform in zip(copies, transforms, strict=True):
        if transform is not None:
            options = {"flags": cv2.INTER_LINEAR, "borderMode": cv2.BORDER_REPLICATE}
            copy = cv2.warpAffine(copy, transform, (width, height), **options)
        recent.append(copy.astype(np.float32))
        if len(recent) > step:
            total += np.maximum(np.abs(recent[-1] - recent.pop(0)) - NOISE, 0)
    return total / max(1, len(copies) - step)


def motion_window(energy: npt.NDArray[np.float64], factor: float, room: Box, least: int) -> Box:
    """A square of at least `least` pixels around the energy (h, w) in `room`, or the middle square if nothing moves.

    A pixel of the energy is `factor` pixels of the picture wide. The square is never higher than the room, but may be
    wider.
    """
    inside = np.zeros_like(energy)
    rows, columns = (
        slice(round(start / factor), max(round(start / factor) + 1, round((start + length) / factor)))
        for start, length in ((room.top, room.height), (room.left, room.width))
    )
    inside[rows, columns] = energy[rows, columns]
    if inside.sum() <= 0:
        return middle_square(room)

    def extent(profile: npt.NDArray[np.float64]) -> tuple[float, float]:
        """Start and end of all but a little of the profile's sum, in pixels of the picture."""
        first, last = np.searchsorted(np.cumsum(profile) / profile.sum(), (OUTSIDE, 1 - OUTSIDE))
        return float(first) * factor, float(last + 1) * factor

    (top, bottom), (left, right) = (extent(inside.sum(axis)) for axis in (1, 0))
    return _around((left, top, right, bottom), MARGIN, room, least)


def labels_window(boxes: Boxes, transforms: Sequence[Matrix | None], room: Box, least: int) -> Box:
    """A square of at least `least` pixels around the boxes (T, 4) of all frames, as the first frame's camera sees them.

    Boxes are in pixels of their frames, or NaN if unknown; if all are, the middle square.
    """
    corners = []
    for box, transform in zip(boxes, transforms, strict=True):
        if np.isfinite(box).all():
            points = box[[[0, 1], [2, 1], [0, 3], [2, 3]]]  # (4, 2)
            corners.append(points if transform is None else moved(points, transform))
    if not corners:
        return middle_square(room)
    points = np.clip(np.concatenate(corners), [room.left, room.top], [room.left + room.width, room.top + room.height])
    return _around((*points.min(axis=0), *points.max(axis=0)), LABELS_MARGIN, room, least)


def _around(extent: tuple[float, ...], margin: float, room: Box, least: int) -> Box:
    """A square around left, top, right, bottom, wider by a factor, as far as the room allows."""
    left, top, right, bottom = extent
    least = max(least, round(LEAST * min(room.height, room.width)))
    most = max(min(room.height, room.width), min(room.height, round(margin * (bottom - top))))
    side = min(most, max(least, round(margin * max(bottom - top, right - left))))

    def placed(start: float, stop: float, low: int, length: int) -> int:
        """Start of the square around the middle of the extent, or of the room if that is too small."""
        if side > length:
            return low + (length - side) // 2
        return int(np.clip(round((start + stop - side) / 2), low, low + length - side))

    return Box(placed(top, bottom, room.top, room.height), placed(left, right, room.left, room.width), side, side)


# --- frames and pairs ---


def cut_take(take: Take, frames: Iterator[Frame], rate: float, step: int, factor: int, size: int) -> CutTake:
    """The good pairs of a take, whose frames, `factor` times smaller, come at `rate` a second; size: S."""
    dropped: Counter[str] = Counter()
    pictures: list[Pixels] = []
    if take.crop is None:
        for _ in frames:  # the next take begins after them
            pass
        dropped["crop"] = max(0, take.stop - take.start - step)
    else:
        window = Window(take.crop, take.room, size)
        pictures = [
            window.of(warp(frame.pixels, transform))
            for frame, transform in zip(frames, take.transforms, strict=False)  # a damaged clip may give fewer
        ]
    pairs: list[tuple[int, int]] = []
    for first in range(len(pictures) - step):
        second = first + step
        reason = fault(pictures[first], pictures[second])
        if reason is None and take.lost & {first, second}:
            reason = "camera"
        if reason is None:
            pairs.append((first, second))
        else:
            dropped[reason] += 1
    used = sorted({number for pair in pairs for number in pair})
    places = {number: place for place, number in enumerate(used)}
    moves = [rescaled(take.transforms[number], factor) for number in used]
    return CutTake(
        take=take,
        frames=np.array([pictures[number].transpose(2, 0, 1) for number in used], np.uint8).reshape(-1, 3, size, size),
        times=np.array([(take.start + number) / rate for number in used], np.float64),
        transforms=np.array([IDENTITY if move is None else move for move in moves], np.float64).reshape(-1, 2, 3),
        first=np.array([places[first] for first, _ in pairs], np.int64),
        second=np.array([places[second] for _, second in pairs], np.int64),
        dropped=dict(sorted(dropped.items())),
    )


class Window:
    """The same crop of many pictures. Beyond the room the edge of the first picture is repeated, for all of them: each
    picture's own edge would draw out whatever moves there.
    """

    def __init__(self, crop: Box, room: Box, size: int) -> None:
        self.crop, self.seen, self.size = crop, common(crop, room), size
        self.first: Pixels | None = None  # with its edges repeated

    def of(self, picture: Pixels) -> Pixels:
        """(H, W, 3) -> (size, size, 3): means over areas, or enlarged linearly."""
        crop, seen = self.crop, self.seen
        part = picture[seen.top : seen.top + seen.height, seen.left : seen.left + seen.width]
        if seen != crop:
            above, before = seen.top - crop.top, seen.left - crop.left
            if self.first is None:
                below, after = crop.height - seen.height - above, crop.width - seen.width - before
                self.first = np.pad(part, ((above, below), (before, after), (0, 0)), mode="edge")
            whole = self.first.copy()
            whole[above : above + seen.height, before : before + seen.width] = part
            part = whole
        method = cv2.INTER_AREA if crop.height >= self.size else cv2.INTER_LINEAR
        small: Pixels = cv2.resize(np.ascontiguousarray(part), (self.size, self.size), interpolation=method)
        return small


def fault(frame: Pixels, next_frame: Pixels) -> str | None:
    """Why two frames (S, S, 3) make no good pair, or None."""
    difference = next_frame.astype(np.float32) - frame.astype(np.float32)
    side = min(CELLS, len(frame))
    cells = cv2.resize(difference, (side, side), interpolation=cv2.INTER_AREA)  # (side, side, 3)
    if int((np.abs(cells).max(2) > CELL_CHANGED).sum()) < FEWEST:
        return "still"
    if abs(float(np.median(difference.mean(2)))) > LIGHT:
        return "light"
    return "everything" if float((np.abs(difference).max(2) > CHANGED).mean()) > EVERYTHING else None
