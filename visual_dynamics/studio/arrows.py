"""Which way things move between two pictures: a small field of arrows, by matching blocks.

Letters in shape comments: S side of a picture in pixels, B blocks, D displacements that are tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK, STEP = 12, 8  # pixels: side of a block, and from one to the next
REACH = 7  # pixels that a thing may have moved
CHANGE = 0.02  # mean difference of colours from which a block counts as changed
SHORTEST = 0.8  # pixels; shorter arrows are none
AXES = ("left–right", "diagonal ↗", "up–down", "diagonal ↘")  # from eighth to eighth of a turn
GOOD_SHARE = 0.25  # of all arrows' length, from which an axis is named


class Arrow(NamedTuple):
    """Where a block was and where it went, in pixels, y down."""

    x: float
    y: float
    dx: float
    dy: float


def arrows_between(before: Tensor, after: Tensor) -> list[Arrow]:
    """From one frame (3, S, S) to another: where each block that changed went, by its least squared difference."""
    size = before.shape[-1]
    block, step = min(BLOCK, size // 2), min(STEP, max(1, size // 4))
    shifts = [(dx, dy) for dy in range(-REACH, REACH + 1) for dx in range(-REACH, REACH + 1)]
    padded = F.pad(after[None], [REACH] * 4, mode="replicate")[0]
    windows = [padded[:, REACH + dy : REACH + dy + size, REACH + dx : REACH + dx + size] for dx, dy in shifts]
    differences = torch.stack([(window - before).square().mean(0) for window in windows])  # (D, S, S)
    errors = F.avg_pool2d(differences, block, step)  # (D, rows, columns)
    errors += 1e-6 * torch.tensor([math.hypot(*shift) for shift in shifts])[:, None, None]  # of equals the shortest
    changed = F.avg_pool2d((after - before).abs().mean(0)[None], block, step)[0] > CHANGE  # (rows, columns)
    best = errors.argmin(0)
    arrows = []
    for row, column in changed.nonzero().tolist():
        dx, dy = shifts[int(best[row, column])]
        if math.hypot(dx, dy) >= SHORTEST:
            arrows.append(Arrow(column * step + block / 2, row * step + block / 2, dx, dy))
    return arrows


def in_words(arrows: list[Arrow]) -> str:
    """The axes along which things move, those with a good share of all motion, the largest first."""
    lengths = dict.fromkeys(AXES, 0.0)
    for arrow in arrows:
        eighth = round(math.atan2(-arrow.dy, arrow.dx) / (math.pi / 4))  # 0 is to the right, 2 up
        lengths[AXES[eighth % 4]] += math.hypot(arrow.dx, arrow.dy)
    total = sum(lengths.values())
    named = [axis for axis in sorted(AXES, key=lambda axis: -lengths[axis]) if lengths[axis] >= GOOD_SHARE * total]
    return ", ".join(named) if total else "shape or colour"
