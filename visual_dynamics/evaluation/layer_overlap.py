"""How well a map that responds to something in an image covers an object: maps and masks in, numbers out.

One threshold turns a map into a region: the pixels at or above it, or those below it, for a map that falls where the
object is. Region and mask are compared by their intersection over union (IoU). Map, sign and threshold are chosen on
some images (`overlaps`, `choose`) and measured on others (`region`, `compare`).

Letters: B images, M maps, K masks, T thresholds, H x W the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SIGNS = ("high", "low")  # where the region is: at or above the threshold, or below it


class Choice(NamedTuple):
    """The map, sign and threshold for an object, and their mean IoU on the images where they were chosen."""

    map: int
    sign: int  # index into SIGNS
    threshold: float
    overlap: float


class Overlap(NamedTuple):
    """A region against a mask, each (B,), in pixels."""

    both: Tensor
    region: Tensor
    mask: Tensor

    @property
    def iou(self) -> Tensor:
        """0 where both are empty: nothing was found."""
        return self.both / (self.region + self.mask - self.both).clamp(min=1)


def levels_between(lowest: Tensor, highest: Tensor, count: int) -> Tensor:
    """`count` thresholds a map, (M, T), at equal steps strictly between its lowest and highest value, each (M,)."""
    steps = torch.arange(1, count + 1, device=lowest.device) / (count + 1)
    return lowest[:, None] + (highest - lowest)[:, None] * steps


def overlaps(maps: Tensor, masks: Tensor, levels: Tensor) -> Tensor:
    """IoU of every map, sign and threshold with every mask: (B, K, M, 2, T).

    `maps` float (B, M, H, W), `masks` bool (B, K, H, W), `levels` (M, T), rising. Each pixel is assigned once to one of
    the T + 1 steps between thresholds; sums from the top are then the areas of all regions.
    """
    (images, count, *_), steps = maps.shape, levels.shape[1] + 1
    values = maps.flatten(2).transpose(0, 1).flatten(1).contiguous()  # (M, B H W)
    step = torch.searchsorted(levels.contiguous(), values, right=True)  # how many thresholds a pixel reaches
    step = step.unflatten(1, (images, -1)).transpose(0, 1)  # (B, M, H W)
    inside = masks.flatten(2).to(maps)  # (B, K, H W)

    def areas(weight: Tensor) -> Tensor:
        """(B, M, T): pixels at or above each threshold, counted by their weight (B, H W)."""
        counted = torch.zeros(images, count, steps, dtype=maps.dtype, device=maps.device)
        counted.scatter_add_(2, step, weight[:, None].expand(-1, count, -1))
        return counted.flip(2).cumsum(2).flip(2)[..., 1:]

    pixels, sizes = inside.shape[2], inside.sum(2)[:, :, None, None]  # (B, K, 1, 1)
    region = areas(torch.ones_like(inside[:, 0]))[:, None]  # (B, 1, M, T)
    both = torch.stack([areas(weight) for weight in inside.unbind(1)], 1)  # (B, K, M, T)
    high, low = Overlap(both, region, sizes).iou, Overlap(sizes - both, pixels - region, sizes).iou
    return torch.stack([high, low], 3)


def choose(mean: Tensor, levels: Tensor, among: Sequence[int]) -> Choice:
    """The best of some maps for one mask, from its mean overlaps (M, 2, T)."""
    part = mean[list(among)]
    best = int(part.argmax())
    place, rest = divmod(best, part[0].numel())
    sign, step = divmod(rest, part.shape[2])
    return Choice(among[place], sign, float(levels[among[place], step]), float(part.flatten()[best]))


def region(maps: Tensor, choice: Choice) -> Tensor:
    """bool (B, H, W): the region of the chosen one of maps (B, M, H, W)."""
    high = maps[:, choice.map] >= choice.threshold
    return high if SIGNS[choice.sign] == "high" else ~high


def compare(regions: Tensor, masks: Tensor) -> Overlap:
    """bool (B, H, W) against bool (B, H, W)."""
    return Overlap(*(pixels.sum((1, 2)) for pixels in (regions & masks, regions, masks)))


class LeastSquares:
    """The best weighted sums of maps, and a constant, for given masks; images are added a batch at a time."""

    def __init__(self, maps: int, masks: int) -> None:
        self.squares = torch.zeros(maps + 1, maps + 1, dtype=torch.float64)
        self.products = torch.zeros(maps + 1, masks, dtype=torch.float64)

    def add(self, maps: Tensor, masks: Tensor) -> None:
        """`maps` (B, M, H, W), `masks` (B, K, H, W): the share of each pixel that an object fills."""
        inputs = maps.transpose(0, 1).flatten(1)
        inputs = torch.cat([inputs, torch.ones_like(inputs[:1])]).double()  # (M + 1, B H W)
        self.squares += (inputs @ inputs.T).cpu()
        self.products += (inputs @ masks.transpose(0, 1).flatten(1).double().T).cpu()

    def solve(self, among: Sequence[int]) -> Tensor:
        """Weights (M + 1, K), the constant last; 0 for all maps but `among`."""
        used = [*among, len(self.squares) - 1]
        found = torch.zeros_like(self.products)
        # Maps that never respond make the matrix singular: the solution of least norm leaves them out.
        found[used] = torch.linalg.pinv(self.squares[used][:, used], hermitian=True) @ self.products[used]
        return found.float()


def weighted_sums(maps: Tensor, weights: Tensor) -> Tensor:
    """Maps (B, M, H, W) by weights (M + 1, K) to (B, K, H, W)."""
    return torch.einsum("bmhw,mk->bkhw", maps, weights[:-1]) + weights[-1][:, None, None]


def preferences(responses: Tensor, areas: Tensor) -> Tensor:
    """(M, R): a map's mean response in each of R regions, over the sum of these means; 1 / R is no preference.

    `responses` (M, R) summed over the pixels of each region, `areas` (R,). A map that never responds has 0.
    """
    means = responses / areas.clamp(min=1)
    return means / means.sum(1, keepdim=True).clamp(min=1e-12)
