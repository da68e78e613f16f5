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

import torch
from torch import Tensor

from visual_dynamics.sampling.matching import (
    FAR,
    FLAT,
    REACH,
    cost_surface,
    flat_regions,
    lowest,
    near,
    refined,
    sure,
)

EXPLAINED = 0.15  # a motion explains a region up to this share of unexplained cost (random motions: 1) ...
ALIKE = 0.4  # ... or up to this one if both have the same colour; on Shapes, wrong motions start at 0.5
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


# --- motions: a segment is matched as a whole, though others may hide it ---


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


# --- segments: regions that share a fate ---


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
