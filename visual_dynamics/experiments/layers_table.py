"""The learned layers: what the feature maps that the cross convolution moves respond to, and how well one map covers
one object.

Paper      the figure "Learned layers" and "Visualizing Learned Layers", Shapes only: "it learns to detect circles and
           triangles; it also detects vertical boundaries of squares". There is no number in the paper.
Command    visual-dynamics reproduce layers [--model MODEL] [--samples TEST_IMAGES]
Cost       about fifteen minutes on one CPU thread with --samples 50, an hour with all 500 images.

Protocol: the segments after their ReLU, 32 at each of four scales, enlarged to the frame (bilinear). For each object
one map, one sign and one absolute threshold (of 100 equal steps between the map's lowest and highest value) are chosen
on 200 training scenes, for the greatest mean intersection over union (IoU) with the object's mask; then the IoU is
measured on 500 test images. A pixel belongs to a mask where at least half of it does. Visible masks are what is seen of
an object, whole masks what would be seen were nothing drawn over it; both have a choice of their own. Images in which
fewer than 12 of 64x64 pixels of an object are seen do not count for it.

"Of the image": map, sign and threshold are the best for an object in each test image by itself, so that another map may
stand for it in every image. That is a lenient measure: shapes have one colour each, and a threshold in a colour channel
of the input does at least as well.

Read-outs, beside the single map: per-pixel least squares of all maps of one scale, and of all scales, fitted to the
masks of the same 200 scenes. Floors: the same encoder with random weights; a colour channel of the input (colours are
permuted between objects at random); the mean visible mask, a fixed place; and the true masks of all objects together,
which is what a map would reach that finds objects without telling them apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.evaluation import layer_overlap as overlap
from visual_dynamics.experiments import layers_figures
from visual_dynamics.experiments.layers_pictures import in_sight, pictures
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin

SUMMARY = "what the segments respond to, and their overlap with the objects (figure of learned layers)"
KINDS = ("visible", "whole")
BEST, COLOUR = "best map of the image", "colour channel of the image"  # chosen anew for each test image
LEARNED = ("best map", BEST, "read-out of one scale", "read-out of all scales")  # rows that depend on the weights
CHOOSING, SMALL_CHOOSING = 200, 16  # training scenes
SMALL_IMAGES = 16  # test images of a quick look
LEVELS = 100  # thresholds tried a map
SEEN = 12 / 64**2  # share of the frame: an object of which less is seen does not count
BATCH = 4  # images at once


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    samples: int | None = None  # test images
    seed: int = 0
    small: bool = False  # a quick look: fewer scenes to choose on and to measure on


@dataclass(frozen=True)
class Images:
    """Frames with the masks of their objects, as shares of pixels."""

    frames: Tensor  # float (N, 3, S, S)
    visible: Tensor  # float (N, 3, S, S): circle, square, triangle
    whole: Tensor

    def __len__(self) -> int:
        return len(self.frames)

    def batches(self, device: torch.device, what: str, tell: Tell) -> Iterator[Images]:
        for start in range(0, len(self), BATCH):
            yield self.subset(slice(start, start + BATCH), device)
            tell(what, min(1.0, (start + BATCH) / len(self)))

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
    """All maps of one network, with read-outs of them and floors, and which of them stand for the targets of a row."""

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
        """(all, T): between the extremes of a segment; whatever else is a share has thresholds between 0 and 1."""
        others = self.read_out.shape[1] + 3 + len(self.places) + 1
        lowest, highest = torch.cat([self.lowest, torch.zeros(others)]), torch.cat([self.highest, torch.ones(others)])
        return overlap.levels_between(lowest, highest, LEVELS)

    def of_image(self) -> dict[str, slice]:
        """The maps of which the best is taken for each image by itself."""
        colours = len(self.lowest) + self.read_out.shape[1]
        return {BEST: slice(0, len(self.lowest)), COLOUR: slice(colours, colours + 3)}

    def rows(self, target: int) -> dict[str, list[int]]:
        """The maps that may stand for a target, by the names of the rows."""
        maps, (scales, targets) = len(self.lowest), (self.network.config.scales, len(KINDS) * len(shapes.OBJECTS))
        colours = maps + (scales + 1) * targets
        places = colours + 3
        return {
            "best map": list(range(maps)),
            "read-out of one scale": [maps + scale * targets + target for scale in range(scales)],
            "read-out of all scales": [maps + scales * targets + target],
            "colour channel": list(range(colours, places)),
            "mean mask": [places + target % len(shapes.OBJECTS)],
            "all objects together": [places + len(self.places)],
        }


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Choose on training scenes, measure on test images, and take pictures of a few of them."""
    started = time.monotonic()
    model = load(options.model, str(device))
    count = options.samples or (SMALL_IMAGES if options.small else shapes.TEST_PAIRS)
    choosing = world(SMALL_CHOOSING if options.small else CHOOSING, options.seed, "train", model.size)
    test = world(count, options.seed, "test", model.size)
    network = model.predictor.network
    bank, rows = measure(network, choosing, test, device, "trained", tell)
    _, untrained = measure(random_network(network, options.seed), choosing, test, device, "untrained", tell)
    rows |= {f"{name}, untrained": row for name, row in untrained.items() if name in LEARNED}
    shown = in_sight(test)
    return {
        "experiment": "layers",
        "rows": rows,
        "seen": dict(zip(shapes.OBJECTS, test.seen.sum(0).tolist(), strict=False)),
        "preferences": [[round(share, 4) for share in shares] for shares in bank.preferences.tolist()],
        "pictures": pictures(bank, test.subset(shown, device), rows),
        "protocol": {
            "images": count,
            "choosing": len(choosing),
            "levels": LEVELS,
            "least_seen": SEEN,
            "size": model.size,
            "scales": network.config.scales,
            "maps": network.config.maps,
            "shown": shown.tolist(),
            "objects": shapes.OBJECTS,
        },
    } | origin(options, model, started, device)


def world(count: int, seed: int, split: shapes.Split, size: int) -> Images:
    scenes = shapes.draw_scenes(count, seed, split)
    frames = shapes.images(scenes, rendering="smooth", size=size).float() / 255
    return Images(frames, *shapes.masks(scenes, rendering="smooth", size=size))


def random_network(network: VisualDynamics, seed: int) -> VisualDynamics:
    """The same network before any training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = VisualDynamics(network.config)
    return made.to(next(network.parameters()).device).eval()


@torch.inference_mode()
def segments(network: VisualDynamics, frames: Tensor) -> Tensor:
    """All maps of all scales as large as the frames, (B, M, S, S)."""
    enlarged = (
        F.interpolate(maps.float(), size=frames.shape[-2:], mode="bilinear", align_corners=False)
        for maps in network.encode_image(frames)
    )
    return torch.cat(list(enlarged), 1)


def measure(
    network: VisualDynamics, choosing: Images, test: Images, device: torch.device, what: str, tell: Tell
) -> tuple[Bank, dict[str, Any]]:
    """Rows by their names: for each kind of mask and each object the choice and its overlap on the test images."""
    bank = look(network, choosing, device, f"{what}: extremes and read-outs", tell)
    levels = bank.levels().to(device)
    total, counted = torch.zeros(()), torch.zeros(())
    for images in choosing.batches(device, f"{what}: choosing", tell):
        found = overlap.overlaps(bank.respond(images), images.targets, levels) * images.seen[:, :, None, None, None]
        total, counted = total + found.sum(0).cpu(), counted + images.seen.sum(0).cpu()
    mean = total / counted.clamp(min=1)[:, None, None, None]  # (6, all, 2, T)
    targets = range(len(mean))
    choices = {
        (name, target): overlap.choose(mean[target], levels, among)
        for target in targets
        for name, among in bank.rows(target).items()
    }
    parts: dict[tuple[str, int], list[Tensor]] = {place: [] for place in choices}
    each: dict[tuple[str, int], list[Tensor]] = {(name, target): [] for name in bank.of_image() for target in targets}
    for images in test.batches(device, f"{what}: test images", tell):
        maps = bank.respond(images)
        for (name, target), choice in choices.items():
            seen = images.seen[:, target]
            compared = overlap.compare(overlap.region(maps, choice)[seen], images.targets[seen, target])
            parts[name, target].append(torch.stack([*compared, compared.iou]).cpu())
        for name, among in bank.of_image().items():
            best = overlap.overlaps(maps[:, among], images.targets, levels[among]).flatten(2).amax(2)  # (B, 6)
            for target in targets:
                each[name, target].append(best[images.seen[:, target], target].cpu())
    rows: dict[str, Any] = {}
    for (name, target), measured in parts.items():
        kind, thing = divmod(target, len(shapes.OBJECTS))
        row = rows.setdefault(name, {kind: {} for kind in KINDS})
        row[KINDS[kind]][shapes.OBJECTS[thing]] = summary(choices[name, target], torch.cat(measured, 1))
    for (name, target), best_ones in each.items():
        kind, thing = divmod(target, len(shapes.OBJECTS))
        row = rows.setdefault(name, {kind: {} for kind in KINDS})
        row[KINDS[kind]][shapes.OBJECTS[thing]] = mean_and_error(torch.cat(best_ones).double())
    return bank, rows


def look(network: VisualDynamics, choosing: Images, device: torch.device, what: str, tell: Tell) -> Bank:
    """A first pass: the extremes of every map, the read-outs, and what each map prefers."""
    config = network.config
    fit = overlap.LeastSquares(config.kernel_channels, len(KINDS) * len(shapes.OBJECTS))
    lowest = torch.full((config.kernel_channels,), torch.inf)
    highest, responses, areas = -lowest, torch.zeros(()), torch.zeros(())
    for images in choosing.batches(device, what, tell):
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


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the galleries, the regions and the table; returns the table as Markdown."""
    return layers_figures.draw(result, folder)


headline = layers_figures.headline
