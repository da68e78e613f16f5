"""Which parts of an image move as one, and how each moves in many futures of it: pictures in, masks and motions out.

Nothing is known of what the image shows. It is cut into connected regions of near-constant colour; each region is
matched as a whole in every future; regions that are explained by the motion of another one that they touch, or whose
colour they share, become one segment with it. The ground is the segment that stays: it begins as the largest region.
So a textured thing is put together from its flat pieces by their common fate. What that needs: pieces of at least 2x2
pixels, a ground that stays, and motions that differ from thing to thing in some of the futures.

Letters: N futures, R regions, K segments, H x W the frame, D = 2 reach + 1 displacements tried along an axis,
d = (dx, dy) a displacement in pixels, x to the right and y down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

REACH = 7  # pixels: displacements are looked for in [-REACH, REACH]^2
FLAT = 0.04  # colours in [0, 1] that differ by no more in any channel are one; 8 bits and soft edges stay apart
STAGES = (FLAT, 0.1, 0.2, 0.4)  # differences from a region's colour at which pixels of soft edges are allotted to it
FAR = 0.3  # distance of two colours from which on a miss costs 1; below, the squared distance over FAR^2
HIDDEN = 0.4  # price of a pixel that the displacement puts under another segment or outside the frame
RING = 3  # pixels of ground around a segment that are matched, too: they say where it ends
EXPLAINED = 0.15  # a motion explains a region where it costs so little more than the best one (random motions: 1) ...
ALIKE = 0.4  # ... and so little where the region has the very colour of what moves; on Shapes others start at 0.5
UNSURE = 2.0  # pixels of misses: displacements that cost no more than that above the best one are as good ...
ANYWHERE = 3  # ... and where they lie further apart than so many pixels, the motion was not measured
LEAST = 8  # pixels of the smallest segment


@dataclass(frozen=True)
class MotionSegments:
    """The segments of one image, the largest first, without the ground."""

    masks: Tensor  # bool (K, H, W); no pixel belongs to two
    motions: Tensor  # float (N, K, 2): dx, dy of each in each future; NaN where it could not be measured

    def __len__(self) -> int:
        return len(self.masks)


def motion_segments(frame: Tensor, futures: Tensor, reach: int = REACH) -> MotionSegments:
    """Segments of a frame (3, H, W) and their motions in futures of it (N, 3, H, W); floats in [0, 1]."""
    if frame.ndim != 3 or frame.shape[0] != 3 or futures.ndim != 4 or futures.shape[1:] != frame.shape:
        shapes = f"{tuple(frame.shape)} and {tuple(futures.shape)}"
        raise ValueError(f"a frame is (3, H, W) and its futures are (N, 3, H, W), not {shapes}")
    frame, futures = frame.detach().float().cpu(), futures.detach().float().cpu()
    masks, still = join_regions(frame, futures, flat_regions(frame), reach)
    while True:
        surfaces = cost_surfaces(frame, masks, still, futures, reach)
        joined = _join_explained(frame, masks, surfaces)
        if len(joined) == len(masks):
            break
        masks = joined
    motions = [torch.where(sure(surface)[:, None], refined(surface), torch.nan) for surface in surfaces]
    return MotionSegments(masks, torch.stack(motions, 1) if motions else torch.zeros(len(futures), 0, 2))


# --- regions: what the picture alone tells ---


def flat_regions(frame: Tensor, flat: float = FLAT) -> Tensor:
    """Numbers (H, W) of connected regions of near-constant colour in a frame (3, H, W); 0 is the largest.

    Pixels of 2x2 blocks of one colour are linked; the others, soft edges and thin lines, go to the region that they
    touch whose colour is nearest. A picture without such a block is one region.
    """
    image = frame.numpy()
    _, height, width = image.shape
    blocks = np.lib.stride_tricks.sliding_window_view(image, (2, 2), (1, 2))  # (3, H-1, W-1, 2, 2)
    even = (blocks.max((3, 4)) - blocks.min((3, 4)) <= flat).all(0)  # (H-1, W-1)
    number = np.arange(height * width).reshape(height, width)
    found = _connected(number, even)
    found = np.where(_in_blocks(even), found, -1)
    _, compact, sizes = np.unique(found[found >= 0], return_inverse=True, return_counts=True)
    if not len(sizes):
        return torch.zeros(height, width, dtype=torch.long)
    rank = np.empty(len(sizes), np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    labels = np.full((height, width), -1, np.int64)
    labels[found >= 0] = rank[compact.ravel()]
    return torch.from_numpy(_grown(image, labels))


def _in_blocks(even: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(H, W): whether a pixel lies in one of the blocks (H-1, W-1), which are named by their top left pixels."""
    padded = np.pad(even, 1)
    return padded[1:, 1:] | padded[1:, :-1] | padded[:-1, 1:] | padded[:-1, :-1]


def _connected(number: NDArray[np.int64], even: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The least of the numbers (H, W) that links lead to: all four pixels of a block are linked."""
    least = number.copy()
    while True:
        low = np.where(
            even,
            np.minimum(
                np.minimum(least[1:, 1:], least[1:, :-1]),
                np.minimum(least[:-1, 1:], least[:-1, :-1]),
            ),
            number.size,
        )
        padded = np.pad(low, 1, constant_values=number.size)
        after = np.minimum(np.minimum(padded[1:, 1:], padded[1:, :-1]), np.minimum(padded[:-1, 1:], padded[:-1, :-1]))
        after = np.minimum(after, least)
        after = np.minimum(after, after.ravel()[after])  # jump: what the pixel with that number has found
        if (after == least).all():
            return least
        least = after


def _grown(image: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels (H, W) in which every -1 has become the label of a neighbour, the one with the nearest mean colour.

    What hardly differs in colour goes first: a line of one pixel is followed to its end before its sides are shared.
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


# --- motions: a segment is matched as a whole ---


def near(mask: Tensor) -> Tensor:
    """bool (H, W): the pixels within RING pixels of the mask, and the mask."""
    return F.max_pool2d(mask.float()[None], 2 * RING + 1, 1, RING)[0] > 0


def cost_surfaces(frame: Tensor, masks: Tensor, still: Tensor, futures: Tensor, reach: int) -> list[Tensor]:
    """The cost surfaces (N, D, D) of segments (K, H, W), which may hide each other; `still` (H, W) may hide any."""
    rings = [near(mask) & ~masks.any(0) & ~still for mask in masks]
    alone = [cost_surface(frame, mask, ground, futures, None, reach) for mask, ground in zip(masks, rings, strict=True)]
    parts = [*masks, still]
    places = [*(lowest(surface) for surface in alone), torch.zeros(len(futures), 2)]
    return [  # again, now that it is known where the others went, and what they may cover
        cost_surface(frame, masks[k], rings[k], futures, covered_by_others(frame, parts, places, futures, k), reach)
        for k in range(len(masks))
    ]


def cost_surface(
    frame: Tensor, mask: Tensor, ground: Tensor, futures: Tensor, covered: Tensor | None, reach: int
) -> Tensor:
    """(N, D, D), first axis dy: what each displacement costs, in misses among the pixels of mask and ground (H, W).

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
    """The cheapest displacements (N, 2), dx and dy in whole pixels; of several, the one nearest to none."""
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
        middle = surface[number, row, column]
        bend = before + after - 2 * middle
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


def covered_by_others(frame: Tensor, masks: list[Tensor], motions: list[Tensor], futures: Tensor, k: int) -> Tensor:
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


# --- segments: regions that share a fate ---


def join_regions(frame: Tensor, futures: Tensor, labels: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Masks (K, H, W) of the segments that regions (H, W) make, the largest first, and what stays but for the ground.

    Regions of one colour are tried as one: what is drawn over a thing cuts it into pieces too small to be measured.
    Those that the common motion does not explain go apart. Groups then come in the order of their size. One that the
    motion of a segment it touches explains joins it. Another begins a segment of its own if its motion can be measured
    in at least half of the futures; else it is taken to stay, as the ground does: still things may lie over others.
    """
    regions = torch.stack([labels == number for number in range(int(labels.max()) + 1)])  # (R, H, W)
    alike = _one_colour(_colours(frame, regions))  # (R, R)
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
    moving = sorted(segments[1:], key=lambda mask: -int(mask.sum()))
    masks = torch.stack(moving) if moving else torch.zeros(0, *labels.shape, dtype=torch.bool)
    return masks, segments[0] & ~ground


def _colours(frame: Tensor, masks: Tensor) -> Tensor:
    """(R, 3): the median colour in each of the masks (R, H, W), which soft edges do not change."""
    return torch.stack([frame[:, mask].median(1).values for mask in masks]) if len(masks) else torch.zeros(0, 3)


def _one_colour(colours: Tensor) -> Tensor:
    """bool (R, R): which of the colours (R, 3) are the same."""
    return (colours[:, None] - colours).abs().amax(2) <= FLAT


def _common_fates(surfaces: dict[int, Tensor], alike: Tensor) -> list[list[int]]:
    """Groups of regions of one colour and one motion, from their cost surfaces (N, D, D); regions are in their order,
    the largest first, and so are the groups."""
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

    Only one that it touches or whose colour it has. The surfaces know by now what may be covered, which those of single
    regions did not.
    """
    alike = _one_colour(_colours(frame, masks))
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
            return torch.stack(sorted(together, key=lambda mask: -int(mask.sum())))
    return masks


def unexplained(surface: Tensor, motion: Tensor) -> float:
    """What given motions (N, 2) cost more than the best ones, over what random ones do: 0 fits, 1 does not at all."""
    side = surface.shape[1]
    column, row = (motion.round().long() + side // 2).clamp(0, side - 1).unbind(1)
    best = surface.amin((1, 2))
    excess = (surface[torch.arange(len(surface)), row, column] - best).sum()
    return float(excess / (surface.mean((1, 2)) - best).sum().clamp(min=1e-6))
