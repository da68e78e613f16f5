"""A clip is looked at and a plan is made: from which stretches to cut pairs, how to steady and crop them.

First the shots are found. Then the camera is measured and what moves is mapped, shot by shot. A long shot is taken in
pieces. Of a long piece some frames, spread over it, tell whether the camera stands still; if it does not, the piece is
read again and every frame is measured. A piece in which the camera wanders is halved until all frames of a part share
at least half of the picture; each such part is a take. Frames are read one after the other; what is kept of them are
small grey copies of one piece.

The picture is worked on at a size that is no larger than needed: frames are first made smaller by a whole factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.footage.crops import (
    Crop,
    common,
    labels_window,
    middle_square,
    motion_energy,
    motion_window,
)
from visual_dynamics.footage.reading import Clip, Frame, resampled
from visual_dynamics.footage.shots import find_cuts
from visual_dynamics.footage.stabilise import IDENTITY, Matrix, camera_motion, common_box, compose, inverted
from visual_dynamics.images import Box, Pixels

STARTS = 3  # frames within the time of one pair that may each begin a pair, at most
SLOWER = 0.95  # of the asked rate: a clip that is slower still is taken frame by frame, at its own rate
PIECE = 300  # frames of a shot that are measured together, at most
PROBED = 50  # frames of a piece, at least, that tell whether the camera stands still
PIECE_BYTES = 32 * 2**20  # of their stored pixels, at most
WORKING = 360  # pixels: frames are not made smaller than that along their shorter side, nor than three times the result
SMALL = 160  # pixels along the longer side of the copies in which motion is mapped
SHARED = 0.5  # of the picture that all frames of a take have in common; else the take is halved


Tell = Callable[[float], None]  # of a share from 0 to 1
Boxes = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Take:
    """Frames start ... stop - 1 of the resampled clip, steadied and cropped alike."""

    shot: int
    start: int
    stop: int
    transforms: tuple[Matrix | None, ...]  # a frame -> the first one of the take; None: the camera stood still
    lost: frozenset[int]  # places in the take where the camera could not be measured
    room: Box  # what all of its frames show, in pixels of the working size
    crop: Box | None  # a square, perhaps wider than the room; None: the asked crop is not in the picture

    @property
    def still(self) -> bool:
        return all(transform is None for transform in self.transforms)


@dataclass(frozen=True)
class Plan:
    """What to do with a clip."""

    clip: Clip
    size: tuple[int, int]  # H, W of its upright frames
    stated_rate: float  # frames a second, as the file has it
    rate: float  # frames a second that are looked at
    step: int  # a pair is a frame and the one so many frames later
    factor: int  # by which frames are made smaller before anything else
    frames: int
    shots: int
    takes: tuple[Take, ...]
    broken: str | None  # what is wrong with the clip after these frames


def plan_clip(
    clip: Clip, rate: float, size: int, crop: Crop, tell: Tell = lambda share: None, boxes: Boxes | None = None
) -> Plan:
    """Look at a clip; `rate` is one over the seconds between the frames of a pair, `size` the side of the result.

    `boxes`: for the crop "labels", (T, 4), left, top, right, bottom in pixels, for each of the clip's own frames.
    `tell` hears from time to time what share of the work on the clip is done, of which this is two thirds.
    """
    path = clip.path
    looked_at, step = pace(clip.rate, rate)
    factor = max(1, min(clip.size) // max(WORKING, 3 * size))
    if isinstance(crop, Box) and (crop.left >= clip.size[1] or crop.top >= clip.size[0]):
        raise UserError(f"cannot read {path}: the crop lies outside its {clip.size[1]} x {clip.size[0]} pixels")
    count = 0

    def counted(frames: Iterable[Frame]) -> Iterator[Pixels]:
        nonlocal count
        for frame in frames:
            count += 1
            yield frame.pixels

    stated = looked_at * (clip.seconds or 0)
    cuts = find_cuts(counted(told(working_frames(clip, looked_at, factor), tell, 0, stated)))
    broken = clip.broken
    most = max(2 * step, min(PIECE, PIECE_BYTES // (3 * size**2)))
    shots = list(pairwise([0, *cuts, count]))
    todo = [_Piece(shot, *ends) for shot, (start, stop) in enumerate(shots) for ends in pieces(start, stop, most)]
    takes: list[Take] = []
    if boxes is not None:
        own = np.minimum((np.arange(count) / looked_at * clip.rate + 0.5).astype(int), len(boxes) - 1)
        boxes = boxes[own] / factor
    wanted = _Wanted(step, factor, size, crop, boxes)
    for thoroughly in (False, True):
        frames = told(working_frames(clip, looked_at, factor), tell, 1, count)
        place, left = 0, []
        for piece in todo:
            inside = islice(frames, piece.start - place, piece.stop - place)
            place = piece.stop
            found = _piece_takes(inside, piece, wanted, thoroughly)
            takes += found or []
            left += [piece] if found is None else []
        todo = left
    takes.sort(key=lambda take: take.start)
    return Plan(clip, clip.size, clip.rate, looked_at, step, factor, count, len(shots), tuple(takes), broken)


def pace(stated: float, asked: float) -> tuple[float, int]:
    """Frames a second to look at, and how many of them a pair spans, for a clip of `stated` frames a second.

    A clip of 30 frames a second has three times as many pairs a tenth of a second apart as one of 10: each frame may
    begin one. A clip slower than asked is taken as it is; in between nothing would be seen but repeated frames.
    """
    if stated < SLOWER * asked:
        return stated, 1
    step = max(1, min(STARTS, int(stated / asked + 0.05)))
    return asked * step, step


def working_frames(clip: Clip, rate: float, factor: int) -> Iterator[Frame]:
    """The frames of a clip at a steady rate, made smaller by a whole factor: each pixel the mean of factor x factor."""
    import cv2

    for frame in resampled(clip, rate):
        if factor == 1:
            yield frame
            continue
        height, width = (side // factor for side in frame.pixels.shape[:2])
        cut = frame.pixels[: height * factor, : width * factor]
        yield Frame(cv2.resize(cut, (width, height), interpolation=cv2.INTER_AREA), frame.time)


def told(frames: Iterator[Frame], tell: Tell, look: int, total: float) -> Iterator[Frame]:
    """The frames of one of three looks at a clip, of about so many; every now and then the share of all is told."""
    for number, frame in enumerate(frames):
        if number % 25 == 0:
            tell((look + min(1.0, number / max(1.0, total))) / 3)
        yield frame


def pieces(start: int, stop: int, most: int) -> list[tuple[int, int]]:
    """Frames start ... stop - 1 in as few parts of nearly equal length as have at most so many each."""
    count = -(-(stop - start) // most)
    edges = [start + (stop - start) * number // count for number in range(count + 1)] if count else []
    return list(pairwise(edges))


def rescaled(transform: Matrix | None, factor: float) -> Matrix | None:
    """The same transform for pixels a `factor` smaller (pixel centres have whole coordinates at both sizes)."""
    if transform is None:
        return None
    shift = (factor - 1) / 2
    larger = np.array([[factor, 0, shift], [0, factor, shift]])
    return compose(compose(larger, transform), inverted(larger))


@dataclass(frozen=True)
class _Piece:
    """Frames start ... stop - 1 of the resampled clip, all of one shot."""

    shot: int
    start: int
    stop: int


@dataclass(frozen=True)
class _Wanted:
    """What all pieces of a clip have in common."""

    step: int
    factor: int
    size: int
    crop: Crop
    boxes: Boxes | None  # (frames, 4), in pixels of the working size


def _piece_takes(frames: Iterator[Frame], piece: _Piece, wanted: _Wanted, thoroughly: bool) -> list[Take] | None:
    """The takes of a piece; None where the camera moves and must be measured thoroughly, in every frame."""
    copies: list[Pixels] = []
    extent = [0, 0]
    stride = 1 if thoroughly else max(1, (piece.stop - piece.start) // PROBED)

    def watched() -> Iterator[Pixels]:
        for number, frame in enumerate(frames):
            copies.append(_small(frame.pixels))
            extent[:] = frame.pixels.shape[:2]
            if number % stride == 0:
                yield frame.pixels

    motion = camera_motion(watched())
    if not copies:  # a damaged clip may give fewer frames when it is read again
        return []
    if not motion.still and stride > 1:
        return None
    measured: tuple[Matrix | None, ...] = (None,) * len(copies) if motion.still else motion.transforms
    whole = (extent[0], extent[1])
    shrunk = max(whole) / max(copies[0].shape)
    takes = []
    for begin, end in _steady_parts(measured, whole, 0, len(copies), wanted.step):
        transforms = rebased(measured[begin:end])
        lost = frozenset(number - begin for number in motion.lost if begin <= number < end and not motion.still)
        room = common_box(transforms, whole) if any(t is not None for t in transforms) else Box(0, 0, *whole)
        window: Box | None
        if isinstance(wanted.crop, Box):
            window = _given(Box(*(round(number / wanted.factor) for number in wanted.crop)), room)
        elif wanted.crop == "centre":
            window = middle_square(room)
        elif wanted.crop == "labels" and wanted.boxes is not None:
            inside = wanted.boxes[piece.start + begin : piece.start + end]
            window = labels_window(inside, transforms, room, wanted.size)
        else:
            small = [rescaled(transform, 1 / shrunk) for transform in transforms]
            energy = motion_energy(copies[begin:end], small, wanted.step)
            window = motion_window(energy, shrunk, room, wanted.size)
        takes.append(Take(piece.shot, piece.start + begin, piece.start + end, transforms, lost, room, window))
    return takes


def _steady_parts(
    transforms: tuple[Matrix | None, ...], size: tuple[int, int], begin: int, end: int, step: int
) -> list[tuple[int, int]]:
    """Halve a piece until all frames of a part share enough of the picture, or a part is but a pair."""
    part = transforms[begin:end]
    if end - begin > step + 1 and any(transform is not None for transform in part):
        room = common_box(rebased(part), size)
        if room.height * room.width < SHARED * size[0] * size[1]:
            middle = (begin + end) // 2
            return [
                p for ends in ((begin, middle), (middle, end)) for p in _steady_parts(transforms, size, *ends, step)
            ]
    return [(begin, end)]


def rebased(transforms: tuple[Matrix | None, ...]) -> tuple[Matrix | None, ...]:
    """Transforms to the first frame of a clip become transforms to the first of these; all None stay None."""
    if not transforms or all(transform is None for transform in transforms):
        return transforms
    first = transforms[0]
    back = IDENTITY if first is None else inverted(first)
    return tuple(compose(back, IDENTITY if transform is None else transform) for transform in transforms)


def _given(box: Box, room: Box) -> Box | None:
    """The middle square of the part of a given box that the picture has; None where that is less than half as wide."""
    square = middle_square(common(box, room))
    return square if 2 * square.height >= min(box.height, box.width) else None


def _small(pixels: Pixels) -> Pixels:
    """A small grey copy (h, w) of a frame."""
    import cv2

    grey: Any = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    shrunk = max(1.0, max(height, width) / SMALL)
    small: Pixels = cv2.resize(
        grey, (max(1, round(width / shrunk)), max(1, round(height / shrunk))), interpolation=cv2.INTER_AREA
    )
    return small
