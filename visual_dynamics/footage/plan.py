"""A plan for a clip: from which stretches pairs are cut, and how these are steadied and cropped.

1. The shots are found. Long ones are taken in pieces.
2. The camera is measured, piece by piece. Some frames, spread over the piece, show whether it stands still. If it does
   not, the piece is read again and every frame is measured.
3. A piece in which the camera wanders is halved until all frames of a part share at least half of the picture. Each
   part is a take, with a crop of its own.

Frames are read one after the other. Only small grey copies of one piece are kept. First of all, frames are made smaller
by a whole factor, to a size that is no larger than needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.footage.camera import IDENTITY, Matrix, camera_motion, common_box, compose, inverted
from visual_dynamics.footage.crops import Crop, common, labels_window, middle_square, motion_energy, motion_window
from visual_dynamics.footage.reading import Frame, Video, resampled
from visual_dynamics.footage.shots import find_cuts
from visual_dynamics.images import Box, Pixels

STARTS = 3  # frames within the time of one pair that may each begin a pair, at most
SLOWER = 0.95  # of the requested rate: a clip that is slower still is taken frame by frame, at its own rate
PIECE = 300  # frames of a shot that are measured together, at most
PROBED = 50  # frames of a piece, at least, that show whether the camera stands still
PIECE_BYTES = 32 * 2**20  # of a piece's pixels as stored, at most
WORKING = 360  # pixels: a working frame's shorter side is no smaller than this, nor than three times the result
SMALL = 160  # pixels along the longer side of the copies in which motion is mapped
SHARED = 0.5  # of the picture that all frames of a take have in common; else the take is halved

Progress = Callable[[float], None]  # share of a clip's work that is done, 0 to 1
Boxes = npt.NDArray[np.float64]  # (frames, 4): left, top, right, bottom in pixels


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
class ClipPlan:
    clip: Video
    size: tuple[int, int]  # H, W of its upright frames
    stated_rate: float  # frames a second, as the file has it
    rate: float  # frames a second that are read
    step: int  # a pair is a frame and the one `step` frames later
    factor: int  # by which frames are made smaller before anything else
    frames: int
    shots: int
    takes: tuple[Take, ...]
    broken: str | None  # what is wrong with the clip after these frames


def plan_clip(
    clip: Video,
    rate: float,
    size: int,
    crop: Crop,
    progress: Progress = lambda share: None,
    boxes: Boxes | None = None,
) -> ClipPlan:
    """Read a clip twice or three times; `rate` is one over the seconds between the frames of a pair.

    size: pixels a side of the result; boxes: for the crop "labels", one for each of the clip's own frames.
    """
    working_rate, step = pace(clip.rate, rate)
    factor = max(1, min(clip.size) // max(WORKING, 3 * size))
    if isinstance(crop, Box) and (crop.left >= clip.size[1] or crop.top >= clip.size[0]):
        raise UserError(f"cannot read {clip.path}: the crop lies outside its {clip.size[1]} x {clip.size[0]} pixels")
    count = 0

    def counted(frames: Iterable[Frame]) -> Iterator[Pixels]:
        nonlocal count
        for frame in frames:
            count += 1
            yield frame.pixels

    stated = working_rate * (clip.seconds or 0)
    cuts = find_cuts(counted(with_progress(working_frames(clip, working_rate, factor), progress, 0, stated)))
    broken = clip.broken
    longest = max(2 * step, min(PIECE, PIECE_BYTES // (3 * size**2)))
    shots = list(pairwise([0, *cuts, count]))
    left = [_Piece(shot, *ends) for shot, (start, stop) in enumerate(shots) for ends in pieces(start, stop, longest)]
    if boxes is not None:
        own = np.minimum((np.arange(count) / working_rate * clip.rate + 0.5).astype(int), len(boxes) - 1)
        boxes = boxes[own] / factor
    request = _Request(step, factor, size, crop, boxes)
    takes: list[Take] = []
    for every_frame in (False, True):
        frames = with_progress(working_frames(clip, working_rate, factor), progress, 1, count)
        place, moving = 0, []
        for piece in left:
            found = _piece_takes(islice(frames, piece.start - place, piece.stop - place), piece, request, every_frame)
            place = piece.stop
            takes += found or []
            moving += [piece] if found is None else []
        left = moving
    takes.sort(key=lambda take: take.start)
    return ClipPlan(clip, clip.size, clip.rate, working_rate, step, factor, count, len(shots), tuple(takes), broken)


def pace(stated: float, requested: float) -> tuple[float, int]:
    """Frames a second to read, and how many of them a pair spans, for a clip of `stated` frames a second.

    Each frame of a faster clip may begin a pair: 30 a second have three times as many pairs a tenth of a second apart
    as 10 a second. A slower clip is taken as it is: between its frames are only repeated ones.
    """
    if stated < SLOWER * requested:
        return stated, 1
    step = max(1, min(STARTS, int(stated / requested + 0.05)))
    return requested * step, step


def working_frames(clip: Video, rate: float, factor: int) -> Iterator[Frame]:
    """The frames of a clip at a steady rate, made smaller by a whole factor: means over factor x factor pixels."""
    for frame in resampled(clip, rate):
        if factor == 1:
            yield frame
            continue
        height, width = (side // factor for side in frame.pixels.shape[:2])
        cut = frame.pixels[: height * factor, : width * factor]
        yield Frame(cv2.resize(cut, (width, height), interpolation=cv2.INTER_AREA), frame.time)


def with_progress(frames: Iterator[Frame], progress: Progress, reading: int, total: float) -> Iterator[Frame]:
    """About `total` frames of reading 0, 1 or 2 of a clip; reports the share of all three every 25 frames."""
    for number, frame in enumerate(frames):
        if number % 25 == 0:
            progress((reading + min(1.0, number / max(1.0, total))) / 3)
        yield frame


def pieces(start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    """Frames start ... stop - 1 in as few parts as possible, of nearly equal length, at most `longest` frames each."""
    count = -(-(stop - start) // longest)
    edges = [start + (stop - start) * number // count for number in range(count + 1)] if count else []
    return list(pairwise(edges))


def rescaled(transform: Matrix | None, factor: float) -> Matrix | None:
    """The same transform for pixels a `factor` smaller (pixel centres have whole coordinates at both sizes)."""
    if transform is None:
        return None
    shift = (factor - 1) / 2
    larger = np.array([[factor, 0, shift], [0, factor, shift]])
    return compose(compose(larger, transform), inverted(larger))


def rebased(transforms: tuple[Matrix | None, ...]) -> tuple[Matrix | None, ...]:
    """Transforms to the first frame of a clip become transforms to the first of these; all None stay None."""
    if not transforms or all(transform is None for transform in transforms):
        return transforms
    first = transforms[0]
    back = IDENTITY if first is None else inverted(first)
    return tuple(compose(back, IDENTITY if transform is None else transform) for transform in transforms)


@dataclass(frozen=True)
class _Piece:
    """Frames start ... stop - 1 of the resampled clip, all of one shot."""

    shot: int
    start: int
    stop: int


@dataclass(frozen=True)
class _Request:
    """The same for all pieces of a clip."""

    step: int
    factor: int
    size: int
    crop: Crop
    boxes: Boxes | None  # in pixels of the working size


def _piece_takes(frames: Iterator[Frame], piece: _Piece, request: _Request, every_frame: bool) -> list[Take] | None:
    """The takes of a piece; None if the camera moves and has not been measured in every frame."""
    copies: list[Pixels] = []
    size = (0, 0)
    stride = 1 if every_frame else max(1, (piece.stop - piece.start) // PROBED)

    def probed() -> Iterator[Pixels]:
        nonlocal size
        for number, frame in enumerate(frames):
            copies.append(_small(frame.pixels))
            size = frame.pixels.shape[:2]
            if number % stride == 0:
                yield frame.pixels

    motion = camera_motion(probed())
    if not copies:  # a damaged clip may give fewer frames when it is read again
        return []
    if not motion.still and stride > 1:
        return None
    measured: tuple[Matrix | None, ...] = (None,) * len(copies) if motion.still else motion.transforms
    takes = []
    for begin, end in _steady_parts(measured, size, 0, len(copies), request.step):
        transforms = rebased(measured[begin:end])
        lost = frozenset(number - begin for number in motion.lost if begin <= number < end and not motion.still)
        room = Box(0, 0, *size) if motion.still else common_box(transforms, size)
        start, stop = piece.start + begin, piece.start + end
        crop = _window(request, room, copies[begin:end], transforms, max(size) / max(copies[0].shape), start)
        takes.append(Take(piece.shot, start, stop, transforms, lost, room, crop))
    return takes


def _window(
    request: _Request,
    room: Box,
    copies: list[Pixels],
    transforms: tuple[Matrix | None, ...],
    shrunk: float,
    start: int,
) -> Box | None:
    """The square that is requested of a take whose small grey copies are `shrunk` times smaller than its frames."""
    if isinstance(request.crop, Box):
        given = Box(*(round(number / request.factor) for number in request.crop))
        square = middle_square(common(given, room))
        return square if 2 * square.height >= min(given.height, given.width) else None
    if request.crop == "centre":
        return middle_square(room)
    if request.crop == "labels" and request.boxes is not None:
        return labels_window(request.boxes[start : start + len(copies)], transforms, room, request.size)
    small = [rescaled(transform, 1 / shrunk) for transform in transforms]
    return motion_window(motion_energy(copies, small, request.step), shrunk, room, request.size)


def _steady_parts(
    transforms: tuple[Matrix | None, ...], size: tuple[int, int], begin: int, end: int, step: int
) -> list[tuple[int, int]]:
    """Halve a piece until all frames of a part share enough of the picture, or a part is only a pair."""
    part = transforms[begin:end]
    if end - begin > step + 1 and any(transform is not None for transform in part):
        room = common_box(rebased(part), size)
        if room.height * room.width < SHARED * size[0] * size[1]:
            middle = (begin + end) // 2
            halves = ((begin, middle), (middle, end))
            return [each for half in halves for each in _steady_parts(transforms, size, *half, step)]
    return [(begin, end)]


def _small(pixels: Pixels) -> Pixels:
    """A small grey copy (h, w) of a frame."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    shrunk = max(1.0, max(height, width) / SMALL)
    size = max(1, round(width / shrunk)), max(1, round(height / shrunk))
    small: Pixels = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    return small
