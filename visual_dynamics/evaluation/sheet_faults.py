"""Faults put into animations of sprites, to measure what a critic finds.

An animation is uint8 RGBA (T, H, W, 4), at least one pixel of which is visible. Draws come from a generator that is
passed in. A fault that an animation cannot have gives None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from visual_dynamics.images import Pixels

Draws = np.random.Generator
PIXELS = 2  # by which frames and feet are moved
FEET = 0.12  # of the sprite's height, at the ground line
COLOURED = 3  # pixels of a stray colour
DIFFERENT = 0.05  # share of the visible pixels by which exchanged frames differ at least


class Faulty(NamedTuple):
    frames: Pixels  # (T, H, W, 4)
    places: tuple[int, ...]  # the frames that are wrong


Put = Callable[[Pixels, Draws], Faulty | None]


def moved_frame(frames: Pixels, draws: Draws) -> Faulty | None:
    """One frame, neither the first nor the last, elsewhere."""
    if len(frames) < 3:
        return None
    place = int(draws.integers(1, len(frames) - 1))
    shift = [(PIXELS, 0), (-PIXELS, 0), (0, PIXELS), (0, -PIXELS)][draws.integers(4)]
    made = frames.copy()
    made[place] = np.roll(frames[place], shift, (0, 1))
    return Faulty(made, (place,))


def slid_feet(frames: Pixels, draws: Draws) -> Faulty | None:
    """The feet elsewhere from one frame on."""
    place, by = int(draws.integers(1, len(frames))) if len(frames) > 1 else 0, int(draws.choice([-PIXELS, PIXELS]))
    return _with_feet(frames, [by * (k >= place) for k in range(len(frames))], (place,))


def drifting_feet(frames: Pixels, draws: Draws) -> Faulty | None:
    """The feet a pixel further in each frame."""
    by = int(draws.choice([-1, 1]))
    return _with_feet(frames, [by * k for k in range(len(frames))], tuple(range(1, len(frames))))


def _with_feet(frames: Pixels, shifts: list[int], places: tuple[int, ...]) -> Faulty | None:
    spans = [np.flatnonzero(frame.any(axis=1))[[0, -1]] for frame in frames[..., 3] > 0 if frame.any()]
    top, ground = np.median(spans, axis=0).astype(int)
    first = max(0, int(ground) + 1 - max(PIXELS, round(FEET * int(ground + 1 - top))))
    made = frames.copy()
    for frame, by in zip(made, shifts, strict=True):
        frame[first : ground + 1] = np.roll(frame[first : ground + 1], by, axis=1)
    return Faulty(made, places) if (made != frames).any() else None


def cut_cycle(frames: Pixels, draws: Draws) -> Faulty | None:
    """It ends at the frame that is least like its first."""
    unlike = np.abs(frames.astype(np.int16) - frames[0]).sum(axis=(1, 2, 3))
    last = int(unlike[3:-1].argmax()) + 3 if len(frames) > 4 else 0
    return Faulty(frames[: last + 1], (0, last)) if last else None


def doubled_cycle(frames: Pixels, draws: Draws) -> Faulty | None:
    """Its first frame once more at the end."""
    return Faulty(np.concatenate([frames, frames[:1]]), (0, len(frames))) if len(frames) > 2 else None


def exchanged_frames(frames: Pixels, draws: Draws) -> Faulty | None:
    """Two frames in each other's place."""
    pairs = [(i, j) for j in range(len(frames)) for i in range(j) if _differ(frames, i, j)]
    return _exchanged(frames, pairs, draws)


def exchanged_neighbours(frames: Pixels, draws: Draws) -> Faulty | None:
    return _exchanged(frames, [(k - 1, k) for k in range(1, len(frames)) if _differ(frames, k - 1, k)], draws)


def _exchanged(frames: Pixels, pairs: list[tuple[int, int]], draws: Draws) -> Faulty | None:
    if len(frames) < 4 or not pairs:
        return None
    first, second = pairs[draws.integers(len(pairs))]
    made = frames.copy()
    made[[first, second]] = frames[[second, first]]
    return Faulty(made, (first, second))


def _differ(frames: Pixels, first: int, second: int) -> bool:
    changed = (frames[first] != frames[second]).any(axis=-1).sum()
    return bool(changed >= DIFFERENT * (frames[[first, second], ..., 3] > 0).any(axis=0).sum())


def frozen(frames: Pixels, draws: Draws) -> Faulty | None:
    """All frames are the first."""
    if len(frames) == 1 or not frames[0, ..., 3].any():
        return None
    return Faulty(np.repeat(frames[:1], len(frames), axis=0), tuple(range(len(frames))))


def stopped(frames: Pixels, draws: Draws) -> Faulty | None:
    """From the middle on all frames are one."""
    middle = len(frames) // 2
    if len(frames) < 5:
        return None
    made = frames.copy()
    made[middle:] = frames[middle]
    return Faulty(made, tuple(range(middle, len(frames))))


def stray_colour(frames: Pixels, draws: Draws) -> Faulty | None:
    """A few visible pixels of a frame in a colour drawn from all."""
    place = int(draws.choice(np.flatnonzero(frames[..., 3].any(axis=(1, 2)))))
    rows, columns = np.nonzero(frames[place, ..., 3])
    chosen = draws.choice(len(rows), min(COLOURED, len(rows)), replace=False)
    made = frames.copy()
    made[place, rows[chosen], columns[chosen]] = [*draws.integers(0, 256, 3), 255]
    return Faulty(made, (place,))


def dirty_pixel(frames: Pixels, draws: Draws) -> Faulty | None:
    """A visible pixel of a frame becomes half transparent."""
    place = int(draws.choice(np.flatnonzero(frames[..., 3].any(axis=(1, 2)))))
    rows, columns = np.nonzero(frames[place, ..., 3])
    chosen = int(draws.integers(len(rows)))
    made = frames.copy()
    made[place, rows[chosen], columns[chosen], 3] = draws.integers(1, 255)
    return Faulty(made, (place,))
