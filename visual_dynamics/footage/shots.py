"""Where one shot of a clip ends and the next begins, found in tiny copies of the frames.

Two neighbouring frames are as far apart as the sum of two distances, both in grey levels from 0 to 255:
- tiny copies of the frames, pixel by pixel, after the best shift of a few tiny pixels: a pan or a shake is no cut;
- histograms, wherever a level occurs: motion inside the picture is no cut.

A cut is a single leap of that sum, compared with the frames around it: fast motion makes many large sums in a row. A
flash of up to two frames leaps twice, but ends where it began. Dissolves and fades are gradual and are not found.
Lights that go on or off are found, as if they were cuts. Written by hand: PySceneDetect would install a second OpenCV.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from visual_dynamics.images import Pixels

SIDE = 32  # tiny pixels along the longer side of a tiny copy
SHIFT = 3  # tiny pixels each way, a tenth of the picture
LEAST = 10.0  # grey levels; frames closer than that belong together
TIMES = 2.5  # a cut is this many times farther apart than the frames around it
AROUND = 6  # frames before and after that a leap is compared with
FLASH = 2  # frames that a flash may last

Floats = npt.NDArray[np.float32]


class _Sketch(NamedTuple):
    tiny: Floats  # (h, w, 3), grey levels
    shares: Floats  # (256, 3): the share of values at or below each level


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
    sums: Floats = np.add.reduceat(cut, range(0, rows * block, block), 0, np.float32)
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
