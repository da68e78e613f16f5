"""Where sprites stand in the network's frame, and how much larger, so that the network knows them.

A network that was trained on sprites in one place and size fails on sprites a few pixels off. So the reference is tried
in a few places, and put where the network best rebuilds its own motions. Then the target is tried around the
reference's place, and put where it best comes back from a motion there and back: its true frames are not known. Sprites
that do well as they are given stay there.

Measured on 12 sheets of Reed's test characters, in place or moved by up to 7 pixels: the error of a frame is 23 with
alignment, wherever they stood. Without it, 23 in place and 250 to 290 elsewhere; without the search around the first
guess, 140 to 200; without a place of the target's own, 250 where the two stand apart.

T frames, H, W height and width of a cell in pixels, S the side of the network's frames, k motions. Errors are squared
differences summed over a frame, colours in [0, 1], on black.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.images import Pixels
from visual_dynamics.sampling.palette import OPAQUE, Mask, over_black
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sampling.threads import in_threads
from visual_dynamics.sprites.frames import standing_boxes, with_hard_edges

# The characters of Reed et al., which the shipped models learned from: in the first frames of the 21 animations of 50
# training characters the lowest row is 53 to 56, mostly 55, the middle column 31.5, and sprites without helmets are 47
# to 50 rows high. They are 60x60 pixels in the middle of a black square of the model's size.
TRAINED_SIDE = 60
TRAINED_LOWEST, TRAINED_MIDDLE, TRAINED_HEIGHT = 53, 29.5, 49  # of 60: row, column, rows

GOOD = 0.1  # error as a share of that of copying, below which the search ends; Reed 0.02, a pixel off 0.3
BETTER = 0.85  # share of its error that a reference may keep if it is moved: above lies chance
BETTER_TARGET = 0.7  # the same for a target, whose errors there and back say less
UNLIKE = 30.0  # error of the reference above which the network does not know such sprites; Reed 3, other styles 100
CLIPS, MOTIONS = 3, 4  # that are tried: a few clips, with about this number of motions in all
FAR = 2  # pixels of a cell, by which a target of an unknown style is off, from which on it is moved
NEAR = 3  # pixels by which a single sprite may stand off: training characters do, too
LEAVING = 0.02  # share of the visible pixels that may leave the frame

Shift = tuple[int, int]  # down, right


class Place(NamedTuple):
    """Cells enlarged `factor` times, and row and column of their corner, which may lie outside the network's frame."""

    factor: int
    top: int
    left: int

    def moved(self, shift: Shift) -> Place:
        return Place(self.factor, self.top + shift[0], self.left + shift[1])


class Moving(NamedTuple):
    """A clip to be animated."""

    reference: Pixels  # (T, H, W, 4)
    pose: int  # its frame that has the target's pose
    target: Pixels  # (h, w, 4)


@dataclass(frozen=True)
class Alignment:
    """Places of reference and target, their distance from the places without alignment, and the error there."""

    reference: Place
    target: Place
    reference_shift: Shift = (0, 0)
    target_shift: Shift = (0, 0)
    error: float = 0.0  # of the reference's own motions, rebuilt

    @property
    def as_given(self) -> bool:
        return self.reference.factor == 1 and self.reference_shift == self.target_shift == (0, 0)

    @property
    def unlike(self) -> bool:
        """Whether the network has not learned from sprites like these."""
        return self.error > UNLIKE

    def place(self, clip: Moving, size: int) -> Moving:
        """The clip in the network's frames, (T, S, S, 4) and (S, S, 4), or itself if it stays as given."""
        if self.as_given:
            return clip
        (target,) = put(clip.target[None], self.target, size)
        return clip._replace(reference=put(clip.reference, self.reference, size), target=target)

    def undo(self, frames: Pixels, clip: Moving) -> Pixels:
        """Frames made from the placed clip, as cells of the target again: (T, h, w, 4)."""
        if self.as_given:
            return frames
        cells = take(frames, self.target, clip.target.shape[:2])
        cells[clip.pose] = with_hard_edges(clip.target[None])[0]  # also what was cut off
        return cells


def align(predictor: Predictor, clips: Sequence[Moving]) -> Alignment:
    """One place for all frames of the reference, and one for all of the target."""
    chosen = [clips[number] for number in np.unique(np.linspace(0, len(clips) - 1, CLIPS).round().astype(int))]
    examples = [example for clip in chosen if (example := _example(clip, max(1, MOTIONS // len(chosen))))]
    (height, width), (h, w) = clips[0].reference.shape[1:3], clips[0].target.shape[:2]

    def standing(factor: int) -> tuple[Place, Place]:
        boxes = standing_boxes((factor * height, factor * width), (factor * h, factor * w), predictor.size)
        return Place(factor, *boxes[0][:2]), Place(factor, *boxes[1][:2])

    as_given, beside = standing(1)
    if not examples:  # nothing moves
        return Alignment(as_given, beside)
    found, error = _align_reference(predictor, examples, as_given, standing(_factor(predictor.size, clips))[0])
    start, beside = standing(found.factor)
    shift = (found.top - start.top, found.left - start.left)
    other = _align_target(predictor, examples, found, beside.moved(shift), known=error <= UNLIKE)
    aligned = Alignment(found, other, shift, (other.top - beside.top, other.left - beside.left), error)
    placed = [aligned.place(clip, predictor.size) for clip in clips]
    if not all((frame[..., 3] >= OPAQUE).any() for clip in placed for frame in (*clip.reference, clip.target)):
        return Alignment(*standing(1), error=error)  # all of a frame that was not tried would leave
    return aligned


def standing_place(sprite: Pixels, size: int) -> Place | None:
    """Where a single sprite (H, W, 4) should stand, without a motion to try places with; None: it stands well as it is.

    It is moved to the seed of the search in `align`.
    """
    height, width = sprite.shape[:2]
    given = Place(1, (size - height) // 2, (size - width) // 2)
    place = _trained_place(size, 1, *_anchor(sprite))
    near = max(abs(place.top - given.top), abs(place.left - given.left)) <= NEAR
    return None if near or _leaving(sprite[None], place, size) > LEAVING else place


def _trained_place(size: int, factor: int, low: float, middle: float) -> Place:
    """The place that brings a sprite's lowest row and middle column to where training characters stand."""
    margin = (size - TRAINED_SIDE) // 2
    top = margin + TRAINED_LOWEST - factor * (low + 1) + 1
    left = margin + TRAINED_MIDDLE + 0.5 - factor * (middle + 0.5)
    return Place(factor, round(top), round(left))


def put(frames: Pixels, place: Place, size: int) -> Pixels:
    """(T, H, W, 4) -> (T, S, S, 4): what leaves the frame is cut off; around opaque frames it is opaque black."""
    large = frames.repeat(place.factor, axis=1).repeat(place.factor, axis=2)
    return _window(large, -place.top, -place.left, size, size)


def take(frames: Pixels, place: Place, shape: tuple[int, ...]) -> Pixels:
    """(T, S, S, 4) -> (T, H, W, 4): `put` undone."""
    height, width = shape
    step = place.factor
    large = _window(frames, place.top, place.left, step * height, step * width)
    return np.ascontiguousarray(large[:, step // 2 :: step, step // 2 :: step])


def _window(frames: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """(T, H, W, 4) -> (T, height, width, 4) from (top, left) on, which may reach beyond the frames."""
    window = np.zeros((len(frames), height, width, 4), np.uint8)
    window[..., 3] = 255 if (frames[..., 3] >= OPAQUE).all() else 0
    first, last = max(top, 0), min(top + height, frames.shape[1])
    start, end = max(left, 0), min(left + width, frames.shape[2])
    if first < last and start < end:
        window[:, first - top : last - top, start - left : end - left] = frames[:, first:last, start:end]
    return window


class _Example(NamedTuple):
    before: Pixels  # (1, H, W, 4), the pose
    after: Pixels  # (k, H, W, 4), the frames least like it, least like first
    target: Pixels  # (1, h, w, 4)


def _example(clip: Moving, count: int) -> _Example | None:
    seen = over_black(clip.reference).astype(np.float32)
    unlike = np.square(seen - seen[clip.pose]).sum(axis=(1, 2, 3))
    chosen = [frame for frame in np.argsort(-unlike, kind="stable")[:count] if unlike[frame] > 0]
    if not chosen:
        return None
    return _Example(clip.reference[clip.pose][None], clip.reference[chosen], clip.target[None])


def _factor(size: int, clips: Sequence[Moving]) -> int:
    """The whole enlargement that brings sprites nearest to the trained height; both cells still fit."""
    largest = max(clips[0].reference.shape[1:3] + clips[0].target.shape[:2])
    rows = [np.flatnonzero(_silhouette(clip.reference[clip.pose]).any(axis=1)) for clip in clips]
    height = float(np.median([row[-1] - row[0] + 1 for row in rows]))
    factors = range(1, max(1, size // largest) + 1)
    return min(factors, key=lambda factor: abs(np.log(factor * height / TRAINED_HEIGHT)))


def _align_reference(
    predictor: Predictor, examples: Sequence[_Example], as_given: Place, enlarged: Place
) -> tuple[Place, float]:
    """The place where the network best rebuilds the reference's own motions, and their error there."""
    size = predictor.size
    errors: dict[Place, float] = {}

    def score(place: Place) -> float:
        found = np.array(list(in_threads(lambda example: _rebuilt(predictor, example, place), examples)))  # (n, 2)
        errors[place] = float(np.median(found[:, 0]))
        return float(np.median(found[:, 0] / found[:, 1]))

    def stays(place: Place) -> bool:
        return all(_leaving(np.concatenate(example[:2]), place, size) <= LEAVING for example in examples)

    given = score(as_given)
    low, middle = np.median([_anchor(example.before[0]) for example in examples], axis=0)
    best = _search(as_given, given, _trained_place(size, enlarged.factor, low, middle), score, stays)
    return best, errors[best]


def _align_target(
    predictor: Predictor, examples: Sequence[_Example], reference: Place, beside: Place, known: bool
) -> Place:
    """The place where the target best comes back from the reference's motions; `beside`: beside the reference.

    If the network does not know such sprites, its errors say nothing: then only a target that is far off is moved.
    """
    size = predictor.size
    apart = [np.subtract(_anchor(example.before[0]), _anchor(example.target[0])) for example in examples]
    down, right = (round(reference.factor * float(distance)) for distance in np.median(apart, axis=0))
    seed = Place(reference.factor, reference.top + down, reference.left + right)

    def stays(place: Place) -> bool:
        return all(_leaving(example.target, place, size) <= LEAVING for example in examples)

    if not known:
        near = max(abs(seed.top - beside.top), abs(seed.left - beside.left)) <= FAR * reference.factor
        return beside if near or not stays(seed) else seed
    pairs = [as_frames(np.concatenate([example.before, example.after[:1]]), reference, size) for example in examples]
    codes = [predictor.encode(pair, pair.flip(0)).mean for pair in pairs]  # there and back

    def miss(number: int, place: Place) -> float:
        pair, (there, back) = pairs[number], codes[number]
        frame = as_frames(examples[number].target, place, size)
        moved = predictor.preview(predictor.encode_image(frame[0]), there[None])[0]
        returned = predictor.preview(predictor.encode_image(moved), back[None])
        return _error(returned, frame) / max(_error(pair[:1], pair[1:]), 1e-6)

    def score(place: Place) -> float:
        return float(np.median(list(in_threads(lambda number: miss(number, place), range(len(examples))))))

    return _search(beside, score(beside), seed, score, stays, BETTER_TARGET)


def _search(
    given: Place,
    error: float,
    seed: Place,
    score: Callable[[Place], float],
    stays: Callable[[Place], bool],
    better: float = BETTER,
) -> Place:
    """The best of the seed and the 8 places around it; or the given one if that is good, or not much worse."""
    errors, best = {given: error}, given
    shifts = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    for place in map(seed.moved, sorted(shifts, key=lambda shift: abs(shift[0]) + abs(shift[1]))):
        if errors[best] < GOOD:
            break
        if place not in errors and stays(place):
            errors[place] = score(place)
            if errors[place] < min(errors[best], better * error):
                best = place
    return best


def _rebuilt(predictor: Predictor, example: _Example, place: Place) -> tuple[float, float]:
    """The mean error of an example's motions, encoded and applied to its own pose, and that of copying it."""
    frames = as_frames(np.concatenate(example[:2]), place, predictor.size)
    before, after = frames[0], frames[1:]
    codes = predictor.encode(before.expand_as(after), after).mean
    rebuilt = predictor.preview(predictor.encode_image(before), codes)
    return _error(rebuilt, after), max(_error(before, after), 1e-6)


def _error(frames: Tensor, truth: Tensor) -> float:
    """Mean over (T, 3, S, S)"""
    return float((frames.cpu() - truth).square().sum((1, 2, 3)).mean())


def as_frames(frames: Pixels, place: Place, size: int) -> Tensor:
    """(T, H, W, 4) -> floats (T, 3, S, S) in [0, 1]"""
    return torch.from_numpy(over_black(put(frames, place, size))).permute(0, 3, 1, 2).float() / 255


def _silhouette(frame: Pixels) -> Mask:
    """(H, W, 4) -> (H, W): the visible pixels; on an opaque background, which is black, all but the black ones."""
    visible = frame[..., 3] >= OPAQUE
    drawn: Mask = frame[..., :3].max(axis=-1) > 0
    return drawn if visible.all() and drawn.any() else visible


def _anchor(frame: Pixels) -> tuple[int, float]:
    """Lowest row of a sprite, and the column that halves its pixels; a weapon held out moves the middle more."""
    shape = _silhouette(frame)
    columns = np.cumsum(shape.sum(axis=0))
    halves = np.searchsorted(columns, columns[-1] / 2), np.searchsorted(columns, columns[-1] / 2, side="right")
    return int(np.flatnonzero(shape.any(axis=1))[-1]), float(np.mean(halves))


def _leaving(frames: Pixels, place: Place, size: int) -> float:
    """Share of the visible pixels of (T, H, W, 4) that would be outside the network's frame."""
    shapes = np.stack([_silhouette(frame) for frame in frames])
    rows, columns = (
        place.factor * np.arange(side) + start for side, start in zip(shapes.shape[1:], place[1:], strict=True)
    )
    inside_rows, inside_columns = ((start >= 0) & (start + place.factor <= size) for start in (rows, columns))
    return 1 - float(shapes[:, inside_rows][:, :, inside_columns].sum() / shapes.sum())
