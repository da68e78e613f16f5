"""How a part of an image moves in futures of it: flat regions, and matching of parts as a whole.

Everything of a part votes for one displacement. The inside of a flat part fits anywhere: its outline says
where it goes.

Letters: N futures, H x W the frame, D = 2 reach + 1 displacements along an axis, d = (dx, dy) a displacement in pixels,
x to the right and y down.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.sampling.palette import connected

REACH = 7  # pixels: displacements are searched in [-REACH, REACH]^2
FLAT = 0.04  # largest difference of any channel, in [0, 1], between pixels of one colour; soft edges differ by more
STAGES = (FLAT, 0.1, 0.2, 0.4)  # pixels of soft edges join a region in this order of the colour difference to it
FAR = 0.3  # distance of two colours from which a miss costs 1; below, it costs the squared distance over FAR^2
OTHER = 0.2  # distance to all colours of a part from which a pixel shows something else
HIDDEN = 0.4  # cost of a pixel that the displacement puts under another segment or outside the frame
RING = 3  # pixels of ground around a segment that are matched as well: they show where it ends
UNSURE = 2.0  # pixels of misses: displacements are as good as the best one if they cost at most this much more ...
STEPS = 16  # the finest step is 1/STEPS pixel
ANYWHERE = 3  # ... and if those lie further apart than this many pixels, the motion is unknown


# --- regions: what the picture alone shows ---


def flat_regions(frame: Tensor) -> Tensor:
    """Numbers (H, W) of connected regions of near-constant colour in a frame (3, H, W); 0 is the largest.

    Pixels of 2x2 blocks of one colour are linked. The others, soft edges and thin lines, go to the region that they
    touch whose colour is nearest. A picture without such a block is one region.
    """
    image = frame.numpy()
    _, height, width = image.shape
    blocks = np.lib.stride_tricks.sliding_window_view(image, (2, 2), (1, 2))  # (3, H-1, W-1, 2, 2)
    even = (blocks.max((3, 4)) - blocks.min((3, 4)) <= FLAT).all(0)  # (H-1, W-1)
    pixels = np.arange(height * width).reshape(height, width)
    corners = [pixels[:-1, 1:], pixels[1:, :-1], pixels[1:, 1:]]  # of each block, beside the one at its top left
    links = np.tile(pixels[:-1, :-1][even], 3), np.concatenate([corner[even] for corner in corners])
    inside = np.zeros(height * width, bool)
    inside[np.concatenate(links)] = True
    _, compact, sizes = np.unique(connected(height * width, *links)[inside], return_inverse=True, return_counts=True)
    if not len(sizes):
        return torch.zeros(height, width, dtype=torch.long)
    labels = np.full(height * width, -1, np.int64)
    labels[inside] = np.argsort(np.argsort(-sizes, kind="stable"))[compact]  # rank by size
    return torch.from_numpy(_grown(image, labels.reshape(height, width)))


def _grown(image: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels (H, W) in which every -1 has become the label of a neighbour, the one with the nearest mean colour.

    Small differences of colour go first: a line of one pixel is followed to its end before its sides are shared.
    """
    pixels, known = image.reshape(3, -1), labels.ravel() >= 0
    counts = np.bincount(labels.ravel()[known])
    means = np.stack([np.bincount(labels.ravel()[known], channel[known]) for channel in pixels], 1) / counts[:, None]
    for limit in (*STAGES, np.inf):
        while True:
            around = np.pad(labels, 1, constant_values=-1)
            beside = np.stack([around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]])  # (4, H, W)
            away = np.abs(means[beside] - np.moveaxis(image, 0, -1)).max(-1)
            away[(beside < 0) | (away > limit)] = np.inf
            taken = (labels < 0) & (away.min(0) < np.inf)
            if not taken.any():
                break
            labels = np.where(taken, np.take_along_axis(beside, away.argmin(0)[None], 0)[0], labels)
    return labels


# --- motions: a part is matched as a whole ---


def near(mask: Tensor, pixels: int = RING) -> Tensor:
    """bool (H, W): the mask and what lies within some pixels of it."""
    return F.max_pool2d(mask.float()[None], 2 * pixels + 1, 1, pixels)[0] > 0


def other_colours(colours: Tensor, pictures: Tensor) -> Tensor:
    """bool (N, H, W): pixels of pictures (N, 3, H, W) that are far from all of the colours (C, 3)."""
    pixels = pictures.permute(0, 2, 3, 1).flatten(1, 2)  # (N, H W, 3)
    away = torch.stack([torch.cdist(one, colours).amin(1) for one in pixels])  # (N, H W): one by one saves memory
    return (away > OTHER).view(len(pictures), *pictures.shape[2:])


def cost_surface(
    frame: Tensor, mask: Tensor, ground: Tensor, futures: Tensor, covered: Tensor | None, reach: int
) -> Tensor:
    """(N, D, D), first axis dy: the cost of each displacement, in misses among the pixels of mask and ground (H, W).

    `covered` bool (N, H, W): pixels of the futures that show something else, which may lie over the segment.
    """
    rows, columns = ((mask | ground).any(axis).nonzero().flatten() for axis in (1, 0))
    surface = torch.zeros(len(futures), 2 * reach + 1, 2 * reach + 1)
    if not len(rows):
        return surface
    top, left, bottom, right = int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1
    window = (..., slice(top, bottom), slice(left, right))
    wider = (..., slice(top, bottom + 2 * reach), slice(left, right + 2 * reach))  # of what is padded by the reach
    weight, still = (mask | ground)[window].float(), frame[window]
    outside = F.pad(torch.zeros_like(mask), (reach,) * 4, value=True)  # (H + 2 reach, W + 2 reach)
    cheap = outside if covered is None else outside | F.pad(covered, (reach,) * 4)
    least, most = torch.where(outside, HIDDEN, 0.0)[wider], torch.where(cheap, HIDDEN, 1.0)[wider]
    target = F.pad(futures, (reach,) * 4)[wider]
    for dy in range(2 * reach + 1):
        for dx in range(2 * reach + 1):
            place = (..., slice(dy, dy + bottom - top), slice(dx, dx + right - left))
            miss = (target[place] - still).square_().sum(1).div_(FAR**2)  # (N, rows, columns)
            surface[:, dy, dx] = (miss.minimum(most[place]).maximum(least[place]) * weight).sum((1, 2))
    return surface


def lowest(surface: Tensor) -> Tensor:
    """The cheapest displacements (N, 2), dx and dy in whole pixels; of equal ones the shortest."""
    side = surface.shape[1]
    offset = torch.arange(side) - side // 2
    length = (offset[:, None].square() + offset.square()).sqrt()
    best = (surface + 1e-3 * length).flatten(1).argmin(1)
    return torch.stack([best % side, best // side], 1).float() - side // 2


def refined(surface: Tensor) -> Tensor:
    """The cheapest displacements (N, 2) to a fraction of a pixel, by a parabola through the neighbours on each axis."""
    side = surface.shape[1]
    best = lowest(surface)
    column, row = (best.long() + side // 2).unbind(1)
    number = torch.arange(len(surface))
    parts = []
    for dy, dx in ((0, 1), (1, 0)):
        before, after = (
            surface[number, (row + sign * dy).clamp(0, side - 1), (column + sign * dx).clamp(0, side - 1)]
            for sign in (-1, 1)
        )
        bend = before + after - 2 * surface[number, row, column]
        parts.append(torch.where(bend > 1e-6, (before - after) / (2 * bend.clamp(min=1e-6)), 0.0).clamp(-0.5, 0.5))
    return best + torch.stack(parts, 1)


def sure(surface: Tensor) -> Tensor:
    """bool (N,): whether all displacements that are as good as the best one lie close together, within the reach."""
    good = surface <= surface.amin((1, 2), keepdim=True) + UNSURE  # (N, D, D)
    close = []
    for axis in (1, 2):
        there = good.any(axis)  # (N, D)
        index = torch.arange(there.shape[1])
        first = torch.where(there, index, there.shape[1]).amin(1)
        last = torch.where(there, index, -1).amax(1)
        close.append((last - first <= ANYWHERE) & (first > 0) & (last < there.shape[1] - 1))
    return torch.stack(close).all(0)


# --- motions to a sixteenth of a pixel ---


def precise(frame: Tensor, part: Tensor, futures: Tensor, covered: Tensor, whole: Tensor) -> Tensor:
    """The displacements (N, 2) near whole ones that fit the pixels of a part (H, W) best, to 1/STEPS pixel.

    All pictures are blurred alike: otherwise bilinear sampling pulls edges towards whole pixels. What the blur mixes
    with pixels that show something else, `covered` (N, H, W), is left out.
    """
    rows, columns = part.nonzero().unbind(1)  # (P,) each
    far = int(whole.abs().max()) + 1
    hidden = F.pad(F.max_pool2d(covered.float()[:, None], 5, 1, 2), (far,) * 4, value=1.0)  # (N, 1, H + 2 far, ...)
    target = F.pad(_blurred(futures), (far,) * 4)
    still = _blurred(frame[None])[0][:, rows, columns]  # (3, P)
    misses, known = [], []
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            down, across = rows + whole[:, 1:].long() + far + dy, columns + whole[:, :1].long() + far + dx  # (N, P)
            place = (down * target.shape[-1] + across)[:, None]
            misses.append(target.flatten(2).gather(2, place.expand(-1, 3, -1)) - still)
            known.append(1 - hidden.flatten(2).gather(2, place))
    miss = torch.stack(misses, 1).flatten(2)  # (N, 9, 3 P)
    weight = torch.stack(known, 1).amin(1).expand(-1, 3, -1).flatten(1)  # (N, 3 P)
    return whole + best_mix((miss * weight[:, None]) @ miss.mT).flip(1)


def best_mix(gram: Tensor) -> Tensor:
    """The rest of a displacement (N, 2) [dy, dx] in [-1, 1], from products (N, 9, 9) of the misses of nine shifts.

    A bilinear sample is a mix of the nine whole-pixel shifts around it, row by row. The mixing weights sum to one, so
    misses mix like the shifts, and the squared difference is a quadratic form in the weights: each step costs a few
    products, not another pass over the pixels.
    """
    step = torch.arange(-STEPS, STEPS + 1, device=gram.device) / STEPS  # (33,)
    line = torch.stack([(-step).clamp_min(0), 1 - step.abs(), step.clamp_min(0)], 1)  # (33, 3): weights of -1, 0, 1
    mix = torch.einsum("ya,xb->yxab", line, line).reshape(-1, 9)  # (33 * 33, 9)
    quadratic = torch.einsum("mi,mj->mij", mix, mix).flatten(1)  # (33 * 33, 81)
    best = (gram.flatten(1) @ quadratic.T).argmin(1)  # (N,)
    return torch.stack([step[best // len(step)], step[best % len(step)]], 1)


def _blurred(pictures: Tensor) -> Tensor:
    """(N, 3, H, W) filtered by 1 4 6 4 1 along both axes; borders are repeated."""
    taps = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    kernel = (taps[:, None] * taps).expand(3, 1, 5, 5)
    return F.conv2d(F.pad(pictures, (2,) * 4, mode="replicate"), kernel, groups=3)
