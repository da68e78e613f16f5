"""Which square of a steady picture is kept: the middle, a window around motion or labelled boxes, or a given box.

A window around motion may be wider than an upright picture, so that people keep heads and feet; beyond the picture its
edge is repeated, as when a model is given a picture that is not square.

H, W: height and width of a frame in pixels; h, w: of a small copy. Boxes are in whole pixels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.footage.camera import Matrix, moved
from visual_dynamics.images import Box, Pixels

Crop = Literal["centre", "motion", "labels"] | Box

NOISE = 6.0  # grey levels by which a pixel of a small copy may change although nothing moves
OUTSIDE = 0.01  # share of the motion that may lie beyond each side of the window
MARGIN = 1.35  # width of the window over that of the motion: people have parts that rest
LABELS_MARGIN = 1.15  # boxes are drawn close around people
LEAST = 0.4  # least width of a window, as a share of the shorter side of the picture


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
    total = np.zeros(copies[0].shape)
    recent: list[npt.NDArray[np.float32]] = []
    for copy, transform in zip(copies, transforms, strict=True):
        recent.append(_warped(copy, transform).astype(np.float32))
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
    (top, bottom), (left, right) = (_extent(inside.sum(axis), factor) for axis in (1, 0))
    return _around((left, top, right, bottom), MARGIN, room, least)


def labels_window(boxes: npt.NDArray[np.float64], transforms: Sequence[Matrix | None], room: Box, least: int) -> Box:
    """A square of at least `least` pixels around the boxes (T, 4) of all frames, as the first frame's camera sees them.

    Boxes are left, top, right, bottom in pixels of their frames, or NaN if unknown; if all are, the middle square.
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
    return Box(
        _placed(top, bottom, side, room.top, room.height), _placed(left, right, side, room.left, room.width), side, side
    )


def _extent(profile: npt.NDArray[np.float64], factor: float) -> tuple[float, float]:
    """Start and end of all but a little of a profile's sum, in pixels of the picture."""
    share = np.cumsum(profile) / profile.sum()
    first, last = np.searchsorted(share, OUTSIDE), np.searchsorted(share, 1 - OUTSIDE)
    return float(first) * factor, float(last + 1) * factor


def _placed(start: float, stop: float, side: int, low: int, length: int) -> int:
    """Start of a window of `side` around the middle of the motion, or of the room if that is too small."""
    if side > length:
        return low + (length - side) // 2
    return int(np.clip(round((start + stop - side) / 2), low, low + length - side))


def _warped(copy: Pixels, transform: Matrix | None) -> npt.NDArray[Any]:
    if transform is None:
        return copy
    height, width = copy.shape
    warped: npt.NDArray[Any] = cv2.warpAffine(
        copy, transform, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return warped
