"""Which of a network's maps covers an object best: chosen on some images, measured on others.

The maps are the segments that the cross convolution moves. Beside single maps stand read-outs (weighted sums of maps)
and floors: colour channels, the mean mask, the masks of all objects together.

Letters: N images, B of them at a time, M segments, S x S the frame, T thresholds. Targets are the visible masks of all
objects, then their whole masks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.shapes import OBJECTS
from visual_dynamics.evaluation import layer_overlap as overlap
from visual_dynamics.model.network import VisualDynamics

KINDS = ("visible", "whole")
ONE, BEST, COLOUR = "best map", "best map of the image", "colour channel of the image"
READ_OUT = "read-out of all scales"
LEVELS = 100  # thresholds tried for each map
SEEN = 12 / 64**2  # share of the frame: an object of which less is seen does not count
BATCH = 4  # images at once

Progress = Callable[[str, float], object]  # name of a step, and the share of it that is done


@dataclass(frozen=True)
class Images:
    """Frames with the masks of their objects, as shares of pixels."""

    frames: Tensor  # float (N, 3, S, S)
    visible: Tensor  # float (N, 3, S, S): circle, square, triangle
    whole: Tensor

    def batches(self, device: torch.device, step: str, progress: Progress) -> Iterator[Images]:
        for start in range(0, len(self.frames), BATCH):
            yield self.subset(slice(start, start + BATCH), device)
            progress(step, min(1.0, (start + BATCH) / len(self.frames)))

    def subset(self, rows: slice | Tensor, device: torch.device) -> Images:
        return Images(*(values[rows].to(device) for values in (self.frames, self.visible, self.whole)))

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

    def respond(self, images: Images) -> Tensor:
        """(B, all, S, S): segments, read-outs, colour channels, mean masks, all objects together."""
        maps = segments(self.network, images.frames)
        places = self.places.to(maps).expand(len(maps), -1, -1, -1)
        anything = images.visible.sum(1, keepdim=True)
        sums = overlap.weighted_sums(maps, self.read_out.to(maps))
        return torch.cat([maps, sums, images.frames, places, anything], 1)

    def levels(self) -> Tensor:
        """(all, T): between the extremes of a segment; all others are shares, with thresholds between 0 and 1."""
        others = self.read_out.shape[1] + 3 + len(self.places) + 1
        lowest, highest = torch.cat([self.lowest, torch.zeros(others)]), torch.cat([self.highest, torch.ones(others)])
        return overlap.levels_between(lowest, highest, LEVELS)

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
    network: VisualDynamics, choosing: Images, test: Images, device: torch.device, what: str, progress: Progress
) -> tuple[Bank, dict[str, Any]]:
    """Rows by their names: for each kind of mask and each object the choice and its overlap on the test images."""
    bank = look(network, choosing, device, f"{what}: extremes and read-outs", progress)
    levels = bank.levels().to(device)
    total, counted = torch.zeros(()), torch.zeros(())
    for images in choosing.batches(device, f"{what}: choosing", progress):
        found = overlap.overlaps(bank.respond(images), images.targets, levels) * images.seen[:, :, None, None, None]
        total, counted = total + found.sum(0).cpu(), counted + images.seen.sum(0).cpu()
    mean = total / counted.clamp(min=1)[:, None, None, None]  # (6, all, 2, T)
    choices = {
        (name, target): overlap.choose(mean[target], levels, among)
        for target in range(len(mean))
        for name, among in bank.rows(target).items()
    }
    compared, best = defaultdict(list), defaultdict(list)
    for images in test.batches(device, f"{what}: test images", progress):
        maps = bank.respond(images)
        for (name, target), choice in choices.items():
            seen = images.seen[:, target]
            both = overlap.compare(overlap.region(maps, choice)[seen], images.targets[seen, target])
            compared[name, target].append(torch.stack([*both, both.iou]).cpu())
        for name, among in bank.of_image().items():
            ious = overlap.overlaps(maps[:, among], images.targets, levels[among]).flatten(2).amax(2)  # (B, 6)
            for target in range(len(mean)):
                best[name, target].append(ious[images.seen[:, target], target].cpu())
    cells = {place: summary(choices[place], torch.cat(parts, 1)) for place, parts in compared.items()}
    cells |= {place: mean_and_error(torch.cat(parts).double()) for place, parts in best.items()}
    rows: dict[str, Any] = {}
    for (name, target), cell in cells.items():
        kind, thing = divmod(target, len(OBJECTS))
        rows.setdefault(name, {kind: {} for kind in KINDS})[KINDS[kind]][OBJECTS[thing]] = cell
    return bank, rows


def look(network: VisualDynamics, choosing: Images, device: torch.device, step: str, progress: Progress) -> Bank:
    """A first pass: the extremes of every map, the read-outs, and what each map prefers."""
    config = network.config
    fit = overlap.LeastSquares(config.kernel_channels, len(KINDS) * len(OBJECTS))
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
    liked = overlap.preferences(responses, areas)
    return Bank(network, lowest, highest, read_out, choosing.visible.mean(0), liked)


def summary(choice: overlap.Choice, found: Tensor) -> dict[str, Any]:
    """One cell of the table. `found` (4, images): pixels in both, in the region, in the mask; IoU."""
    both, region, mask, iou = found.double()

    def share(part: Tensor, of: Tensor) -> float | None:
        return float(part.sum() / of) if float(of) else None  # None: no image, or no region in any

    return {
        "map": choice.map,
        "sign": overlap.SIGNS[choice.sign],
        "threshold": choice.threshold,
        "iou_choosing": choice.overlap,
        **mean_and_error(iou),
        "inside": share(both, region.sum()),  # share of the region that lies in the mask
        "covered": share(both, mask.sum()),  # share of the mask that the region covers
    }


def mean_and_error(iou: Tensor) -> dict[str, Any]:
    """Of the overlaps (N,) of N images: their mean and its standard error, None without any."""
    count = len(iou)
    mean, error = (float(iou.mean()), float(iou.std(correction=0)) / count**0.5) if count else (None, None)
    return {"iou": mean, "iou_error": error, "images": count}
