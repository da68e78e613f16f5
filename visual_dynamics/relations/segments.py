"""Which parts of an image move as one, and how each moves in many futures of it: pictures in, masks and motions out.

Nothing is known about what the image shows. The method has three steps:

1. Cut the image into connected regions of near-constant colour.
2. Match each region as a whole in every future.
3. Join a region to a segment that it touches, or whose colour it has, where the motion of that segment explains it.

The ground is the segment that stays; it begins as the largest region. A textured thing is put together from its flat
pieces by their common fate. Three conditions must hold: pieces have at least 2x2 pixels, the ground stays, and in some
futures two things have different motions.

Letters: N futures, R regions, K segments, H x W the frame, D = 2 reach + 1 displacements along an axis,
d = (dx, dy) a displacement in pixels, x to the right and y down.
"""

from __future__ import annotations

from typing import NamedTuple

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
HIDDEN = 0.4  # cost of a pixel that the displacement puts under another segment or outside the frame
RING = 3  # pixels of ground around a segment that are matched as well: they show where it ends
EXPLAINED = 0.15  # a motion explains a region up to this share of unexplained cost (random motions: 1) ...
ALIKE = 0.4  # ... or up to this one if both have the same colour; on Shapes, wrong motions start at 0.5
UNSURE = 2.0  # pixels of misses: displacements are as good as the best one if they cost at most this much more ...
ANYWHERE = 3  # ... and if those lie further apart than this many pixels, the motion is unknown
LEAST = 8  # pixels of the smallest segment


class MotionSegments(NamedTuple):
    """The segments of one image, the largest first, without the ground."""

    masks: Tensor  # bool (K, H, W); no pixel belongs to two
    motions: Tensor  # float (N, K, 2): dx, dy of each in each future; NaN where it is unknown


def motion_segments(frame: Tensor, futures: Tensor, reach: int = REACH) -> MotionSegments:
    """Segments of a frame (3, H, W) and their motions in futures of it (N, 3, H, W); floats in [0, 1]."""
    if frame.ndim != 3 or frame.shape[0] != 3 or futures.ndim != 4 or futures.shape[1:] != frame.shape:
        shapes = f"{tuple(frame.shape)} and {tuple(futures.shape)}"
        raise ValueError(f"a frame is (3, H, W) and its futures are (N, 3, H, W), not {shapes}")
    frame, futures = frame.detach().float().cpu(), futures.detach().float().cpu()
    masks, still = _join_regions(frame, futures, flat_regions(frame), reach)
    while True:
        surfaces = _cost_surfaces(frame, masks, still, futures, reach)
        joined = _join_explained(frame, masks, surfaces)
        if len(joined) == len(masks):
            break
        masks = joined
    motions = [torch.where(sure(surface)[:, None], refined(surface), torch.nan) for surface in surfaces]
    return MotionSegments(masks, torch.stack(motions, 1) if motions else torch.zeros(len(futures), 0, 2))


# --- 1. regions: what the picture alone shows ---


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


# --- 2. motions: a segment is matched as a whole ---


def near(mask: Tensor) -> Tensor:
    """bool (H, W): the mask and the pixels within RING pixels of it."""
    return F.max_pool2d(mask.float()[None], 2 * RING + 1, 1, RING)[0] > 0


def _cost_surfaces(frame: Tensor, masks: Tensor, still: Tensor, futures: Tensor, reach: int) -> list[Tensor]:
    """The cost surfaces (N, D, D) of segments (K, H, W), which may hide each other; `still` (H, W) may hide any."""
    rings = [near(mask) & ~masks.any(0) & ~still for mask in masks]
    alone = [cost_surface(frame, mask, ground, futures, None, reach) for mask, ground in zip(masks, rings, strict=True)]
    parts = [*masks, still]
    places = [*(lowest(surface) for surface in alone), torch.zeros(len(futures), 2)]
    return [  # again, now with the places of the others, which may cover this one
        cost_surface(frame, masks[k], rings[k], futures, _covered_by_others(frame, parts, places, futures, k), reach)
        for k in range(len(masks))
    ]


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


def _covered_by_others(frame: Tensor, masks: list[Tensor], motions: list[Tensor], futures: Tensor, k: int) -> Tensor:
    """bool (N, H, W): pixels of the futures that show another segment than k, each moved by its motions (N, 2)."""
    covered = torch.zeros(len(futures), *frame.shape[1:], dtype=torch.bool)
    for other in range(len(masks)):
        if other == k:
            continue
        for n, (dx, dy) in enumerate(motions[other].round().int().tolist()):
            moved = torch.roll(masks[other], (dy, dx), (0, 1))
            same = (torch.roll(frame, (dy, dx), (1, 2)) - futures[n]).square().sum(0) < FAR**2
            covered[n] |= moved & same
    return covered


def unexplained(surface: Tensor, motion: Tensor) -> float:
    """The extra cost of given motions (N, 2) over the best ones, as a share of that of random motions: 0 fits."""
    side = surface.shape[1]
    column, row = (motion.round().long() + side // 2).clamp(0, side - 1).unbind(1)
    best = surface.amin((1, 2))
    excess = (surface[torch.arange(len(surface)), row, column] - best).sum()
    return float(excess / (surface.mean((1, 2)) - best).sum().clamp(min=1e-6))


# --- 3. segments: regions that share a fate ---


def _join_regions(frame: Tensor, futures: Tensor, labels: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Masks (K, H, W) of the segments that regions (H, W) make, the largest first, and what stays but for the ground.

    Regions of one colour are first tried as one: a thing drawn over another cuts it into pieces too small to measure.
    Groups then come in the order of their size. A group that the motion of a neighbouring segment explains joins it.
    Another one begins a segment of its own if its motion is known in at least half of the futures. All others are
    taken to stay, as the ground does: still things may lie over others.
    """
    regions = torch.stack([labels == number for number in range(int(labels.max()) + 1)])  # (R, H, W)
    alike = _same_colour(frame, regions)  # (R, R)
    ground = regions[alike[0]].any(0)
    surfaces = {
        number: cost_surface(frame, region, near(region) & ground, futures, None, reach)
        for number, region in enumerate(regions)
        if not alike[0, number]
    }
    segments = [ground]  # bool (H, W) each
    motions = [torch.zeros(len(futures), 2)]
    for group in _common_fates(surfaces, alike):
        mask, surface = regions[group].any(0), sum((surfaces[number] for number in group), torch.zeros(()))
        around = near(mask)
        fits = [
            (unexplained(surface, motion), place)
            for place, (segment, motion) in enumerate(zip(segments, motions, strict=True))
            if (around & segment).any()
        ]
        least, place = min(fits)
        if least <= EXPLAINED:
            segments[place] = segments[place] | mask
        elif mask.sum() >= LEAST and sure(surface).float().mean() >= 0.5:
            segments.append(mask)
            motions.append(lowest(surface))
        else:
            segments[0] = segments[0] | mask
    moving = _largest_first(segments[1:])
    masks = torch.stack(moving) if moving else torch.zeros(0, *labels.shape, dtype=torch.bool)
    return masks, segments[0] & ~ground


def _largest_first(masks: list[Tensor]) -> list[Tensor]:
    return sorted(masks, key=lambda mask: -int(mask.sum()))


def _same_colour(frame: Tensor, masks: Tensor) -> Tensor:
    """bool (R, R): which masks (R, H, W) have the same median colour; soft edges do not change a median."""
    colours = [frame[:, mask].median(1).values for mask in masks]
    medians = torch.stack(colours) if colours else torch.zeros(0, 3)
    return (medians[:, None] - medians).abs().amax(2) <= FLAT


def _common_fates(surfaces: dict[int, Tensor], alike: Tensor) -> list[list[int]]:
    """Groups of regions of one colour and one motion, from their cost surfaces (N, D, D); the largest regions first."""
    groups, left = [], list(surfaces)
    while left:
        group = [number for number in left if alike[left[0], number]]
        motion = lowest(sum((surfaces[number] for number in group), torch.zeros(())))
        kept = [number for number in group if unexplained(surfaces[number], motion) <= ALIKE]
        group = kept if left[0] in kept else left[:1]  # no common motion: the largest alone
        groups.append(group)
        left = [number for number in left if number not in group]
    return groups


def _join_explained(frame: Tensor, masks: Tensor, surfaces: list[Tensor]) -> Tensor:
    """Masks (K, H, W) in which the smallest segment that the motion of a larger one explains has joined it.

    The two touch, or have the same colour. These surfaces know what may be covered; those of single regions did not.
    """
    alike = _same_colour(frame, masks)
    for small in reversed(range(len(masks))):
        around = near(masks[small])
        fits = [
            (
                unexplained(surfaces[small], lowest(surfaces[large])) / (ALIKE if alike[small, large] else EXPLAINED),
                large,
            )
            for large in range(small)
            if alike[small, large] or (around & masks[large]).any()
        ]
        least, large = min(fits, default=(2.0, 0))
        if least <= 1:
            together = [masks[k] | masks[small] if k == large else masks[k] for k in range(len(masks)) if k != small]
            return torch.stack(_largest_first(together))
    return masks
