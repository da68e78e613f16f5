"""Where each part of a predicted frame came from: a few layers of the frame before, each moved as a whole.

1. Find the few displacements that explain the change best. All edges that move alike vote for one displacement, so it
   is exact to about a sixteenth of a pixel. Optical flow fails on flat colours; here they follow their edges.
2. Give each pixel one displacement, with smooth borders between them.
3. Mark what no displacement explains as made up: it was hidden before, or changed its look.

Letters in shape comments: h, w height and width of the model's frames in pixels; K displacements, the first of which is
(0, 0); r places for each pixel on each side.
Displacements are (dx, dy) in pixels of the model's frames, y down: next frame(y) = frame(y + d).
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.sampling.threads import one_thread

Index = TypeVar("Index", Tensor, NDArray[np.int64])

# Costs are squared differences of colours in [0, 1], summed over the channels.
MOST_COST = 0.08  # of a match, however bad
NOISE = 0.001  # smaller differences count as none: a network's output varies by about 1/255 where nothing moves
STILL = 0.002  # cost of any motion, so that a part moves only if it must
FAR = 1e-4  # cost of each pixel of its length
SEAM = 0.06  # cost between neighbours whose displacements differ by a pixel or more; in proportion for less
MADE_UP = 0.02  # cost of a pixel that is made up
LEAST_GAIN = 0.03  # of all costs together, for one more displacement
MOST_LAYERS = 24
SEARCH_SIZE = 64  # longer side of the frames in the search for displacements; larger ones are averaged down
SEARCH_SHARE = 4  # the longest displacement is a fourth of that
FINEST = 1 / 16  # pixel
FINE = 2  # places for each pixel on each side where matches are compared
PLACES, MOST_PLACES = 512, 8  # of a field: about 512 on its longer side, at most 8 for each pixel


class Field(NamedTuple):
    """Where the parts of a frame (3, h, w) come from, at r h x r w places."""

    source: Tensor  # (2, r h, r w): dx, dy from each place to where it was, in pixels of the frame
    made_up: Tensor  # (r h, r w) in [0, 1]: how much of each place was nowhere before
    places: int  # r


@one_thread()
def explain(frame: Tensor, next_frame: Tensor) -> Field:
    """The field that turns a frame into the next one, both floats in [0, 1], (3, h, w)."""
    height, width = frame.shape[1:]
    places = places_of(height, width)
    size = places * height, places * width
    layers = find_layers(frame, next_frame)
    scores = _smoothed(_matches(frame, next_frame, layers), layers)  # (K + 1, FINE h, FINE w)
    scores = _resized(scores, size, "bilinear")
    chosen = scores[:-1].argmin(0)  # made-up places need a displacement, too: both are mixed at their borders
    made_up = (scores[-1] < scores[:-1].amin(0)).float()[None]
    border = places // 2
    made_up = F.avg_pool2d(made_up, 2 * border + 1, 1, border, count_include_pad=False)
    return Field(layers[chosen].permute(2, 0, 1).contiguous(), made_up[0], places)


def places_of(height: int, width: int) -> int:
    """r for frames of that size."""
    return max(1, min(MOST_PLACES, PLACES // max(height, width)))


def find_layers(frame: Tensor, next_frame: Tensor) -> Tensor:
    """(K, 2): the displacements that explain most of the change between frames (3, h, w), the best first.

    Greedy: the next displacement is the one that reduces the least cost of each pixel most. All displacements by whole
    pixels are tried; the best one is then refined by smaller and smaller steps.
    """
    factor = max(1.0, max(frame.shape[1:]) / SEARCH_SIZE)
    coarse, next_coarse = (_resized(x, _scaled(x, 1 / factor), "area") for x in (frame, next_frame))
    fine, next_fine = (_resized(x, _scaled(x, FINE), "bicubic") for x in (frame, next_frame))
    reach = max(coarse.shape[1:]) // SEARCH_SHARE
    tried, costs = _all_shifts(coarse, next_coarse, reach)  # (D, 2), (D, h, w)
    shorter = 1 - 0.3 * tried.norm(dim=1) / max(reach, 1)  # of two that explain the same, prefer the shorter one
    least, least_fine = costs[len(tried) // 2], _cost(fine, next_fine, window=5)  # those of no motion
    found = [torch.zeros(2)]
    while len(found) < MOST_LAYERS:
        gains = (least - costs).clamp_(min=0).sum((1, 2)) * shorter
        best = int(gains.argmax())
        if gains[best] < LEAST_GAIN:
            break
        layer = _refined(tried[best] * factor, factor / 2, fine, next_fine, least_fine)
        cost = _cost(_shifted(fine, FINE * layer), next_fine, window=5)
        least_fine = torch.minimum(least_fine, cost)
        at_coarse = _resized(cost[None], tuple(least.shape), "area")[0]
        least = torch.stack([least, costs[best], at_coarse]).amin(0)
        found.append(layer)
    return _settled(torch.stack(found), fine, next_fine)


def _settled(layers: Tensor, frame: Tensor, next_frame: Tensor) -> Tensor:
    """Each displacement (K, 2) refined again, now that the others are known."""
    costs = torch.stack([_cost(_shifted(frame, FINE * layer), next_frame, window=5) for layer in layers])
    for place in range(1, len(layers)):
        others = torch.cat([costs[:place], costs[place + 1 :]]).amin(0)
        layers[place] = _refined(layers[place], 4 * FINEST, frame, next_frame, others)
        costs[place] = _cost(_shifted(frame, FINE * layers[place]), next_frame, window=5)
    return layers


def _all_shifts(frame: Tensor, next_frame: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Every whole displacement up to `reach` pixels in x and y, (D, 2), and its cost at each pixel, (D, h, w)."""
    height, width = frame.shape[1:]
    around = (mirrored(torch.arange(-reach, count + reach), count) for count in (height, width))
    padded = frame[:, next(around)][:, :, next(around)]
    steps = range(2 * reach + 1)
    cost = [
        (padded[:, y : y + height, x : x + width] - next_frame).square_().sum(0).sub_(NOISE).clamp_(0, MOST_COST)
        for y in steps
        for x in steps
    ]
    tried = torch.tensor([(x - reach, y - reach) for y in steps for x in steps], dtype=torch.float32)
    return tried, F.avg_pool2d(torch.stack(cost), 3, 1, 1, count_include_pad=False)


def _refined(layer: Tensor, step: float, frame: Tensor, next_frame: Tensor, least: Tensor) -> Tensor:
    """The displacement (2,) near a given one that reduces the costs `least` of fine frames (3, H, W) most."""
    around = torch.cartesian_prod(*[torch.tensor([0.0, -1.0, 1.0])] * 2)  # (9, 2), the middle first
    while step >= FINEST:
        near = layer + step * around
        gains = [(least - _cost(_shifted(frame, FINE * one), next_frame, window=5)).clamp_(min=0).sum() for one in near]
        layer, step = near[int(torch.stack(gains).argmax())], step / 2
    return layer


def _matches(frame: Tensor, next_frame: Tensor, layers: Tensor) -> Tensor:
    """(K + 1, FINE h, FINE w): the cost of each displacement at each place; the last one is that of making it up."""
    fine, next_fine = (_resized(x, _scaled(x, FINE), "bicubic") for x in (frame, next_frame))
    costs = [_cost(_shifted(fine, FINE * layer), next_fine, window=3) for layer in layers]
    lengths = layers.norm(dim=1)
    motion = STILL * lengths.clamp(max=1) + FAR * lengths
    return torch.cat([torch.stack(costs) + motion[:, None, None], torch.full_like(costs[0], MADE_UP)[None]])


def _smoothed(costs: Tensor, layers: Tensor) -> Tensor:
    """Costs (K + 1, H, W) with those of seams to the neighbours: semi-global matching in four directions."""
    seams = SEAM * torch.cdist(layers, layers).clamp(max=1)
    seams = F.pad(seams, (0, 1, 0, 1), value=SEAM)  # to and from what is made up
    seams[-1, -1] = 0
    rows = costs.permute(1, 2, 0)  # (H, W, K + 1)
    total = torch.zeros_like(rows)
    for across in (False, True):
        for back in (False, True):
            order = rows.transpose(0, 1) if across else rows
            sums = _along(order.flip(0), seams).flip(0) if back else _along(order, seams)
            total += sums.transpose(0, 1) if across else sums
    return total.permute(2, 0, 1)


def _along(costs: Tensor, seams: Tensor) -> Tensor:
    """The least cost of a path from the first row down to each place with each choice, (L, W, K + 1)."""
    sums = [costs[0]]
    for row in costs[1:]:
        before = sums[-1] - sums[-1].amin(1, keepdim=True)  # all numbers stay small
        sums.append(row + (before[:, :, None] + seams).amin(1))
    return torch.stack(sums)


def _cost(moved: Tensor, next_frame: Tensor, window: int) -> Tensor:
    """(3, H, W) twice -> (H, W): how badly they match, averaged over a window."""
    cost = (moved - next_frame).square().sum(0, keepdim=True).sub_(NOISE).clamp_(0, MOST_COST)
    return F.avg_pool2d(cost, window, 1, window // 2, count_include_pad=False)[0]


def _shifted(image: Tensor, shift: Tensor) -> Tensor:
    """out(y) = image(y + shift), bilinear, mirrored at the border. (C, H, W), (2,) in pixels."""
    for axis, by in ((2, float(shift[0])), (1, float(shift[1]))):
        count, whole = image.shape[axis], math.floor(by)
        first, second = (mirrored(torch.arange(count) + whole + more, count) for more in (0, 1))
        image = image.index_select(axis, first).lerp(image.index_select(axis, second), by - whole)
    return image


def mirrored(index: Index, count: int) -> Index:
    """Whole numbers of any size to 0, ..., count - 1; those outside are mirrored at the border."""
    index = index % (2 * count)
    return index + (2 * count - 1 - 2 * index) * (index >= count)


def _scaled(image: Tensor, factor: float) -> tuple[int, int]:
    height, width = image.shape[1:]
    return max(1, round(height * factor)), max(1, round(width * factor))


def _resized(image: Tensor, size: tuple[int, ...], mode: str) -> Tensor:
    """(C, H, W) -> (C, *size)"""
    if tuple(image.shape[1:]) == size:
        return image
    return F.interpolate(image[None], size, mode=mode, align_corners=None if mode == "area" else False)[0]
