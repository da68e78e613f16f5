"""Which of a network's maps covers an object best: chosen on some images, measured on others.

One threshold turns a map into a region: the pixels at or above it, or those below it, for a map that falls where the
object is. Region and mask are compared by their intersection over union (IoU). The maps are the segments that the cross
convolution moves. Beside single maps stand read-outs (weighted sums of maps) and floors: colour channels, the mean
mask, the masks of all objects together.

Letters: N images, B of them at a time, M maps, K masks, T thresholds, H x W or S x S the frame. The masks are the
visible ones of all objects, then their whole ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.shapes import OBJECTS
from visual_dynamics.evaluation.intervals import cluster_interval
from visual_dynamics.model.network import VisualDynamics

KINDS = ("visible", "whole")
SIGNS = ("high", "low")  # where the region is: at or above the threshold, or below it
ONE, BEST, COLOUR = "best map", "best map of the image", "colour channel of the image"
READ_OUT = "read-out of all scales"
LEVELS = 100  # thresholds tried for each map
SEEN = 12 / 64**2  # share of the frame: an object of which less is seen does not count
BATCH = 4  # images at once

Progress = Callable[[str, float], object]  # name of a step, and the share of it that is done


# --- one map and one mask ---


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


# --- all maps of a network ---


@dataclass(frozen=True)
class MaskedImages:
    """Frames with the masks of their objects, as shares of pixels."""

    frames: Tensor  # float (N, 3, S, S)
    visible: Tensor  # float (N, 3, S, S): circle, square, triangle
    whole: Tensor

    def batches(self, device: torch.device, step: str, progress: Progress) -> Iterator[MaskedImages]:
        for start in range(0, len(self.frames), BATCH):
            yield self.subset(slice(start, start + BATCH), device)
            progress(step, min(1.0, (start + BATCH) / len(self.frames)))

    def subset(self, rows: slice | Tensor, device: torch.device) -> MaskedImages:
        return MaskedImages(*(values[rows].to(device) for values in (self.frames, self.visible, self.whole)))

    @property
    def targets(self) -> Tensor:
        """bool (N, 6, S, S): the visible masks, then the whole ones."""
        return torch.cat([self.visible, self.whole], 1) >= 0.5

    @property
    def seen(self) -> Tensor:
        """bool (N, 6): whether the object of each target counts."""
        return (self.visible.mean((2, 3)) >= SEEN).repeat(1, len(KINDS))


@dataclass
class Bank:
    """All maps of one network, with read-outs and floors, and the maps that may stand for the targets of a row."""

    network: VisualDynamics
    lowest: Tensor  # (M,) of each segment
    highest: Tensor
    read_out: Tensor  # (M + 1, (scales + 1) * 6): the scales one by one, then all of them
    places: Tensor  # float (3, S, S): the mean visible masks
    preferences: Tensor  # (M, 4): how much of a segment's response goes to circle, square, triangle, background

    def respond(self, images: MaskedImages) -> Tensor:
        """(B, all, S, S): segments, read-outs, colour channels, mean masks, all objects together."""
        maps = segments(self.network, images.frames)
        places = self.places.to(maps).expand(len(maps), -1, -1, -1)
        anything = images.visible.sum(1, keepdim=True)
        sums = weighted_sums(maps, self.read_out.to(maps))
        return torch.cat([maps, sums, images.frames, places, anything], 1)

    def levels(self) -> Tensor:
        """(all, T): between the extremes of a segment; all others are shares, with thresholds between 0 and 1."""
        others = self.read_out.shape[1] + 3 + len(self.places) + 1
        lowest, highest = torch.cat([self.lowest, torch.zeros(others)]), torch.cat([self.highest, torch.ones(others)])
        return levels_between(lowest, highest, LEVELS)

    def of_image(self) -> dict[str, slice]:
        """The maps of which the best is taken for each image by itself."""
        colours = len(self.lowest) + self.read_out.shape[1]
        return {BEST: slice(0, len(self.lowest)), COLOUR: slice(colours, colours + 3)}

    def rows(self, target: int) -> dict[str, list[int]]:
        """The maps that may stand for a target, by the names of the rows."""
        maps, (scales, targets) = len(self.lowest), (self.network.config.scales, len(KINDS) * len(OBJECTS))
        colours = maps + (scales + 1) * targets
        places = colours + 3
        return {
            ONE: list(range(maps)),
            "read-out of one scale": [maps + scale * targets + target for scale in range(scales)],
            READ_OUT: [maps + scales * targets + target],
            "colour channel": list(range(colours, places)),
            "mean mask": [places + target % len(OBJECTS)],
            "all objects together": [places + len(self.places)],
        }


@torch.inference_mode()
def segments(network: VisualDynamics, frames: Tensor) -> Tensor:
    """All maps of all scales as large as the frames, (B, M, S, S)."""
    enlarged = (
        F.interpolate(maps.float(), size=frames.shape[-2:], mode="bilinear", align_corners=False)
        for maps in network.encode_image(frames)
    )
    return torch.cat(list(enlarged), 1)


def measure(
    network: VisualDynamics, choosing: MaskedImages, test: MaskedImages, what: str, progress: Progress
) -> tuple[Bank, dict[str, Any]]:
    """Rows by their names: for each kind of mask and each object the choice and its overlap on the test images."""
    device = next(network.parameters()).device
    bank = look(network, choosing, device, f"{what}: extremes and read-outs", progress)
    levels = bank.levels().to(device)
    total, counted = torch.zeros(()), torch.zeros(())
    for images in choosing.batches(device, f"{what}: choosing", progress):
        found = overlaps(bank.respond(images), images.targets, levels) * images.seen[:, :, None, None, None]
        total, counted = total + found.sum(0).cpu(), counted + images.seen.sum(0).cpu()
    mean = total / counted.clamp(min=1)[:, None, None, None]  # (6, all, 2, T)
    choices = {
        (name, target): choose(mean[target], levels, among)
        for target in range(len(mean))
        for name, among in bank.rows(target).items()
    }
    compared, best = defaultdict(list), defaultdict(list)
    for images in test.batches(device, f"{what}: test images", progress):
        maps = bank.respond(images)
        for (name, target), choice in choices.items():
            seen = images.seen[:, target]
            both = compare(region(maps, choice)[seen], images.targets[seen, target])
            compared[name, target].append(torch.stack([*both, both.iou]).cpu())
        for name, among in bank.of_image().items():
            ious = overlaps(maps[:, among], images.targets, levels[among]).flatten(2).amax(2)  # (B, 6)
            for target in range(len(mean)):
                best[name, target].append(ious[images.seen[:, target], target].cpu())
    cells = {place: summary(choices[place], torch.cat(parts, 1)) for place, parts in compared.items()}
    cells |= {place: mean_iou(torch.cat(parts).double()) for place, parts in best.items()}
    rows: dict[str, Any] = {}
    for (name, target), cell in cells.items():
        kind, thing = divmod(target, len(OBJECTS))
        rows.setdefault(name, {kind: {} for kind in KINDS})[KINDS[kind]][OBJECTS[thing]] = cell
    return bank, rows


def look(network: VisualDynamics, choosing: MaskedImages, device: torch.device, step: str, progress: Progress) -> Bank:
    """A first pass: the extremes of every map, the read-outs, and what each map prefers."""
    config = network.config
    fit = LeastSquares(config.kernel_channels, len(KINDS) * len(OBJECTS))
    lowest = torch.full((config.kernel_channels,), torch.inf)
    highest, responses, areas = -lowest, torch.zeros(()), torch.zeros(())
    for images in choosing.batches(device, step, progress):
        maps = segments(network, images.frames)
        lowest, highest = lowest.minimum(maps.amin((0, 2, 3)).cpu()), highest.maximum(maps.amax((0, 2, 3)).cpu())
        fit.add(maps, torch.cat([images.visible, images.whole], 1))
        places = torch.cat([images.visible, 1 - images.visible.sum(1, keepdim=True)], 1)  # (B, 4, S, S)
        responses = responses + torch.einsum("bmhw,brhw->mr", maps, places).cpu()
        areas = areas + places.sum((0, 2, 3)).cpu()
    scales = range(0, config.kernel_channels, config.maps)
    groups = [*(range(first, first + config.maps) for first in scales), range(config.kernel_channels)]
    read_out = torch.cat([fit.solve(group) for group in groups], 1)
    liked = preferences(responses, areas)
    return Bank(network, lowest, highest, read_out, choosing.visible.mean(0), liked)


def summary(choice: Choice, found: Tensor) -> dict[str, Any]:
    """One cell of the table. `found` (4, images): pixels in both, in the region, in the mask; IoU."""
    both, region, mask, iou = found.double()

    def share(part: Tensor, of: Tensor) -> float | None:
        return float(part.sum() / of) if float(of) else None  # None: no image, or no region in any

    return {
        "map": choice.map,
        "sign": SIGNS[choice.sign],
        "threshold": choice.threshold,
        "iou_choosing": choice.overlap,
        **mean_iou(iou),
        "inside": share(both, region.sum()),  # share of the region that lies in the mask
        "covered": share(both, mask.sum()),  # share of the mask that the region covers
    }


def mean_iou(iou: Tensor) -> dict[str, Any]:
    """Of the overlaps (N,) of N images: their mean and its interval over images, None without any."""
    count = len(iou)
    mean, interval = (float(iou.mean()), cluster_interval(iou, torch.arange(count))) if count else (None, None)
    return {"iou": mean, "interval": interval, "images": count}
