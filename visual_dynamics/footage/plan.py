"""A clip is read three times: twice to plan from which stretches pairs are cut, once to cut them.

1. The shots are found. Long ones are taken in pieces.
2. The camera is measured, piece by piece. Some frames, spread over the piece, show whether it stands still. If it does
   not, the piece is read again and every frame is measured.
3. A piece in which the camera wanders is halved until all frames of a part share at least half of the picture. Each
   part is a take, with a crop of its own.

Frames are read one after the other. Only small grey copies of one piece are kept. First of all, frames are made smaller
by a whole factor, to a size that is no larger than needed.

Two neighbouring frames are as far apart as the sum of two distances, both in grey levels from 0 to 255:
- tiny copies of the frames, pixel by pixel, after the best shift of a few tiny pixels: a pan or a shake is no cut;
- histograms, wherever a level occurs: motion inside the picture is no cut.

A cut is a single leap of that sum, compared with the frames around it: fast motion makes many large sums in a row. A
flash of up to two frames leaps twice, but ends where it began. Dissolves and fades are gradual and are not found.
Lights that go on or off are found, as if they were cuts. Written by hand: PySceneDetect would install a second OpenCV.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.footage.camera import IDENTITY, Matrix, camera_motion, common_box, compose, inverted
from visual_dynamics.footage.cut import Crop, CutTake, Take, choose_square, cut_take
from visual_dynamics.footage.reading import Boxes, Frame, Progress, Video, working_frames
from visual_dynamics.images import Box, Pixels

STARTS = 3  # frames within the time of one pair that may each begin a pair, at most
SLOWER = 0.95  # of the requested rate: a clip that is slower still is taken frame by frame, at its own rate
PIECE = 300  # frames of a shot that are measured together, at most
PROBED = 50  # frames of a piece, at least, that show whether the camera stands still
PIECE_BYTES = 32 * 2**20  # of a piece's pixels as stored, at most
WORKING = 360  # pixels: a working frame's shorter side is no smaller than this, nor than three times the result
SMALL = 160  # pixels along the longer side of the copies in which motion is mapped
SHARED = 0.5  # of the picture that all frames of a take have in common; else the take is halved

# of cuts
SIDE = 32  # tiny pixels along the longer side of a tiny copy
SHIFT = 3  # tiny pixels each way, a tenth of the picture
LEAST = 10.0  # grey levels; frames closer than that belong together
TIMES = 2.5  # a cut is this many times farther apart than the frames around it
AROUND = 6  # frames before and after that a leap is compared with
FLASH = 2  # frames that a flash may last


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
    cuts = find_cuts(counted(working_frames(clip, working_rate, factor, progress, 0, stated)))
    broken = clip.broken
    longest = max(2 * step, min(PIECE, PIECE_BYTES // (3 * size**2)))
    shots = list(pairwise([0, *cuts, count]))
    left = [_Piece(shot, *ends) for shot, (start, stop) in enumerate(shots) for ends in pieces(start, stop, longest)]
    if boxes is not None:
        own = np.minimum((np.arange(count) / working_rate * clip.rate + 0.5).astype(int), len(boxes) - 1)
        boxes = boxes[own] / factor
    if isinstance(crop, Box):
        crop = Box(*(round(number / factor) for number in crop))
    request = _Request(step, size, crop, boxes)
    takes: list[Take] = []
    for every_frame in (False, True):
        frames = working_frames(clip, working_rate, factor, progress, 1, count)
        place, moving = 0, []
        for piece in left:
            found = _piece_takes(islice(frames, piece.start - place, piece.stop - place), piece, request, every_frame)
            place = piece.stop
            takes += found or []
            moving += [piece] if found is None else []
        left = moving
    takes.sort(key=lambda take: take.start)
    return ClipPlan(clip, clip.size, clip.rate, working_rate, step, factor, count, len(shots), tuple(takes), broken)


def cut_clip(plan: ClipPlan, size: int, progress: Progress = lambda share: None) -> Iterator[CutTake]:
    """Every take of a plan with frames of size x size; one take at a time is in memory."""
    frames = working_frames(plan.clip, plan.rate, plan.factor, progress, 2, plan.frames)
    place = 0
    for take in plan.takes:
        own = islice(frames, take.start - place, take.stop - place)
        place = take.stop
        yield cut_take(take, own, plan.rate, plan.step, plan.factor, size)


def pace(stated: float, requested: float) -> tuple[float, int]:
    """Frames a second to read, and how many of them a pair spans, for a clip of `stated` frames a second.

    Each frame of a faster clip may begin a pair: 30 a second have three times as many pairs a tenth of a second apart
    as 10 a second. A slower clip is taken as it is: between its frames are only repeated ones.
    """
    if stated < SLOWER * requested:
        return stated, 1
    step = max(1, min(STARTS, int(stated / requested + 0.05)))
    return requested * step, step


def pieces(start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    """Frames start ... stop - 1 in as few parts as possible, of nearly equal length, at most `longest` frames each."""
    count = -(-(stop - start) // longest)
    edges = [start + (stop - start) * number // count for number in range(count + 1)] if count else []
    return list(pairwise(edges))


def rebased(transforms: tuple[Matrix | None, ...]) -> tuple[Matrix | None, ...]:
    """Transforms to the first frame of a clip become transforms to the first of these; all None stay None."""
    if not transforms or all(transform is None for transform in transforms):
        return transforms
    first = transforms[0]
    back = IDENTITY if first is None else inverted(first)
    return tuple(compose(back, IDENTITY if transform is None else transform) for transform in transforms)


class _Piece(NamedTuple):
    """Frames start ... stop - 1 of the resampled clip, all of one shot."""

    shot: int
    start: int
    stop: int


class _Request(NamedTuple):
    """The same for all pieces of a clip; boxes are in pixels of the working size."""

    step: int
    size: int
    crop: Crop
    boxes: Boxes | None


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
        boxes = None if request.boxes is None else request.boxes[start:stop]
        shrunk = max(size) / max(copies[0].shape)
        crop = choose_square(
            request.crop, room, copies[begin:end], transforms, shrunk, request.step, request.size, boxes
        )
        takes.append(Take(piece.shot, start, stop, transforms, lost, room, crop))
    return takes


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


# --- shots ---


class _Sketch(NamedTuple):
    tiny: npt.NDArray[np.float32]  # (h, w, 3), grey levels
    shares: npt.NDArray[np.float32]  # (256, 3): the share of values at or below each level


def find_cuts(frames: Iterable[Pixels]) -> list[int]:
    """The first frame of every shot but the first one, by number; frames are uint8 (H, W, 3) and are not kept."""
    leaps: list[float] = []  # from frame t to frame t + 1
    returns: set[tuple[int, int]] = set()  # leaps t < u that a flash makes: frame u + 1 looks like frame t
    recent: deque[_Sketch] = deque(maxlen=FLASH + 2)
    for pixels in frames:
        recent.append(_sketch(pixels))
        if len(recent) < 2:
            continue
        leaps.append(_apart(recent[-2], recent[-1]))
        last = len(leaps) - 1
        for first in range(max(0, last - FLASH), last):
            lower = min(leaps[first], leaps[last])
            if lower > LEAST and _apart(recent[first - last - 2], recent[-1]) < lower / 2:
                returns.add((first, last))
    heights = np.array(leaps)
    found = {place for place in range(len(leaps)) if _stands_out(heights, place)}
    flashes = {place for pair in returns if found.issuperset(pair) for place in pair}
    return [place + 1 for place in sorted(found - flashes)]


def _stands_out(leaps: npt.NDArray[np.float64], place: int) -> bool:
    """Whether a leap is far larger than most on either side of it; a quarter of those may be cuts themselves."""
    before, after = leaps[max(0, place - AROUND) : place], leaps[place + 1 : place + 1 + AROUND]
    usual = max(float(np.quantile(side, 0.75, method="lower")) if len(side) else 0.0 for side in (before, after))
    return bool(leaps[place] > max(LEAST, TIMES * usual))


def _sketch(pixels: Pixels) -> _Sketch:
    height, width = pixels.shape[:2]
    block = max(1, max(height, width) // SIDE)
    rows, columns = max(1, height // block), max(1, width // block)
    cut = pixels[: rows * block, : columns * block]
    sums: npt.NDArray[np.float32] = np.add.reduceat(cut, range(0, rows * block, block), 0, np.float32)
    sums = np.add.reduceat(sums, range(0, columns * block, block), 1)
    step = max(1, block // 4)
    thin = cut[::step, ::step].reshape(-1, 3)
    counts = np.stack([np.bincount(thin[:, channel], minlength=256) for channel in range(3)], 1)
    shares = np.cumsum(counts, 0).astype(np.float32) / np.float32(len(thin))
    return _Sketch(sums / np.float32(block * block), shares)


def _apart(one: _Sketch, two: _Sketch) -> float:
    """Grey levels: tiny pixels after the best shift, plus the earth mover's distance of the levels."""
    if one.tiny.shape != two.tiny.shape:
        return 255.0
    height, width = one.tiny.shape[:2]
    down, across = min(SHIFT, height // 4), min(SHIFT, width // 4)
    fixed = one.tiny[down : height - down, across : width - across]
    windows = np.lib.stride_tricks.sliding_window_view(two.tiny, fixed.shape[:2], (0, 1))  # (shifts, shifts, 3, h, w)
    shifted = np.abs(windows - fixed.transpose(2, 0, 1)).mean((2, 3, 4)).min()
    levels = np.abs(one.shares - two.shares).sum(0).mean()
    return float(shifted + levels)
