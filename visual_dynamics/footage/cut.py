"""A plan becomes frames and pairs: in a third reading of the clip, takes are steadied, cropped and made small.

A pair is dropped for the first of these reasons that applies, in the pictures as they are stored:

still          fewer than 5 of 32 x 32 cells change, on average over a cell, by more than 6 levels in any colour. Cells
               rather than pixels: codecs flicker along sharp edges, and frames have many sizes
light          half of the pixels become brighter, or darker, by more than 3 levels
everything     more than 6 in 10 pixels change by more than 10 levels: a dissolve, a missed cut, a wrong transform
camera         the camera moves, and in one of the frames it could not be measured
crop           the given box is not in the picture
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.footage.camera import IDENTITY, warp
from visual_dynamics.footage.crops import common
from visual_dynamics.footage.plan import ClipPlan, Progress, Take, rescaled, with_progress, working_frames
from visual_dynamics.images import Box, Pixels

CELLS = 32  # along each side
CELL_CHANGED = 6.0  # grey levels, in any colour
FEWEST = 5  # cells that change if something moves
CHANGED = 10  # grey levels, in any colour: a pixel that differs by more has changed
LIGHT = 3.0  # grey levels
EVERYTHING = 0.6  # share of the pixels


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


def cut_clip(plan: ClipPlan, size: int, progress: Progress = lambda share: None) -> Iterator[CutTake]:
    """Every take of a plan with frames of size x size; one take at a time is in memory."""
    frames = with_progress(working_frames(plan.clip, plan.rate, plan.factor), progress, 2, plan.frames)
    place = 0
    for take in plan.takes:
        own = islice(frames, take.start - place, take.stop - place)
        place = take.stop
        if take.crop is None:
            for _ in own:
                pass
            yield _cut(plan, take, [], [], Counter(crop=max(0, take.stop - take.start - plan.step)), size)
            continue
        window = Window(take.crop, take.room, size)
        pictures = [
            window.of(warp(frame.pixels, transform)) for frame, transform in zip(own, take.transforms, strict=False)
        ]
        yield _with_good_pairs(plan, take, pictures, size)


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


def _with_good_pairs(plan: ClipPlan, take: Take, pictures: list[Pixels], size: int) -> CutTake:
    """The good pairs among the pictures (S, S, 3) of a take."""
    dropped: Counter[str] = Counter()
    pairs: list[tuple[int, int]] = []
    for first in range(len(pictures) - plan.step):
        second = first + plan.step
        reason = fault(pictures[first], pictures[second])
        if reason is None and take.lost & {first, second}:
            reason = "camera"
        if reason is None:
            pairs.append((first, second))
        else:
            dropped[reason] += 1
    return _cut(plan, take, pictures, pairs, dropped, size)


def _cut(
    plan: ClipPlan, take: Take, pictures: list[Pixels], pairs: list[tuple[int, int]], dropped: Counter[str], size: int
) -> CutTake:
    used = sorted({number for pair in pairs for number in pair})
    places = {number: place for place, number in enumerate(used)}
    first, second = (np.array([places[pair[which]] for pair in pairs], np.int64) for which in (0, 1))
    moves = [rescaled(take.transforms[number], plan.factor) for number in used]
    return CutTake(
        take=take,
        frames=np.array([pictures[number].transpose(2, 0, 1) for number in used], np.uint8).reshape(-1, 3, size, size),
        times=np.array([(take.start + number) / plan.rate for number in used], np.float64),
        transforms=np.array([IDENTITY if move is None else move for move in moves], np.float64).reshape(-1, 2, 3),
        first=first,
        second=second,
        dropped=dict(sorted(dropped.items())),
    )
