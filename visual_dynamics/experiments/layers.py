"""The learned layers: what the feature maps that the cross convolution moves respond to, and how well one map covers
one object.

Paper      the figure "Learned layers" and "Visualizing Learned Layers", Shapes only: "it learns to detect circles and
           triangles; it also detects vertical boundaries of squares". There is no number in the paper.
Command    visual-dynamics reproduce layers [--model MODEL] [--samples TEST_IMAGES]
Cost       about fifteen minutes on one CPU thread with --samples 50, an hour with all 500 images.

Protocol: the segments after their ReLU, 32 at each of four scales, enlarged to the frame (bilinear). For each object
one map, one sign and one threshold (of 100 equal steps between the map's lowest and highest value) are chosen on 200
training scenes, for the greatest mean intersection over union (IoU) with the object's mask. The IoU is then measured on
500 test images, with an interval over images. A pixel belongs to a mask if at least half of it does. Visible masks are
what is seen of an object; whole masks are what would be seen if nothing were drawn over it. Both have a choice of their
own. An image counts for an object if at least 12 of 64x64 pixels of it are seen.

"Of each image" is lenient: map, sign and threshold are chosen on the test image itself, for the greatest IoU with its
mask, so another map may stand for an object in every image. Shapes have one colour each. So the best colour channel of
each image, with its best threshold, is the floor: it has a higher IoU than the maps.

Read-outs, beside the single map: per-pixel least squares of all maps of one scale, and of all scales, fitted to the
masks of the same 200 scenes. Floors: the same encoder with random weights; a colour channel of the input (colours are
permuted between objects at random); the mean visible mask, a fixed place; and the true masks of all objects together,
which is the IoU of a map that finds objects without telling them apart.

Figures: layers_scale_N shows the maps of a scale under what they respond to most, in the first test scenes with all
shapes in sight. The number is the mean response there over the sum of those on circle, square, triangle and ground
(0.25: no preference). White is the highest response of a map, drawn as square roots to show the faint ones.
layers_regions is white where region and visible mask agree, red for the region alone, blue for the mask alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.layers import (
    BEST,
    COLOUR,
    KINDS,
    LEVELS,
    ONE,
    READ_OUT,
    SEEN,
    SIGNS,
    Bank,
    Choice,
    MaskedImages,
    measure,
    region,
)
from visual_dynamics.images import Pixels
from visual_dynamics.media import encode_png
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import (
    Group,
    enlarged,
    listed,
    number,
    opened,
    sheet,
    table,
    to_pixels,
    with_interval,
)

ROWS = {
    ONE: "one map for all images",
    BEST: "the best map of each image",
    "read-out of one scale": "read-out of one scale's maps",
    READ_OUT: "read-out of all maps",
    f"{ONE}, untrained": "floor: one map for all images, random weights",
    f"{BEST}, untrained": "floor: the best map of each image, random weights",
    "read-out of one scale, untrained": "floor: read-out of one scale's maps, random weights",
    f"{READ_OUT}, untrained": "floor: read-out of all maps, random weights",
    "colour channel": "floor: one colour channel for all images",
    COLOUR: "floor: the best colour channel of each image, and its best threshold",
    "mean mask": "floor: the mean mask",
    "all objects together": "floor: the true masks of all objects together",
}
CHOOSING, SMALL_CHOOSING = 200, 16  # training scenes
SMALL_IMAGES = 16  # test images of a quick look
SHOWN, IN_SIGHT = 4, 0.7  # images in the figures, and the share of every object that is seen in them
TILE, BAND = 96, 16  # pixels a side of a map in the galleries, and maps beside each other


@dataclass(frozen=True)
class LayersOptions(ExperimentOptions):
    model: str = "shapes"


def compute(options: LayersOptions, device: torch.device, progress: Progress) -> Measured:
    """Choose on training scenes, measure on test images, and show a few of them."""
    model = load(options.model, str(device))
    count = options.samples or (SMALL_IMAGES if options.small else shapes.TEST_PAIRS)
    choosing = world(SMALL_CHOOSING if options.small else CHOOSING, options.seed, "train", model.size)
    test = world(count, options.seed, "test", model.size)
    network = model.predictor.network
    bank, rows = measure(network, choosing, test, "trained", progress)
    _, untrained = measure(random_network(network, options.seed), choosing, test, "untrained", progress)
    rows |= {f"{name}, untrained": row for name, row in untrained.items() if f"{name}, untrained" in ROWS}
    shown = in_sight(test)
    numbers = {
        "rows": rows,
        "seen": dict(zip(shapes.OBJECTS, test.seen.sum(0).tolist(), strict=False)),
        "preferences": [[round(share, 4) for share in shares] for shares in bank.preferences.tolist()],
        "protocol": {
            "images": count,
            "choosing": len(choosing.frames),
            "levels": LEVELS,
            "least_seen": SEEN,
            "size": model.size,
            "scales": network.config.scales,
            "maps": network.config.maps,
            "shown": shown.tolist(),
            "objects": shapes.OBJECTS,
        },
    }
    return Measured(numbers, figures(bank, test.subset(shown, device), rows))


def world(count: int, seed: int, split: shapes.Split, size: int) -> MaskedImages:
    scenes = shapes.draw_scenes(count, seed, split)
    frames = shapes.images(scenes, rendering="smooth", size=size).float() / 255
    return MaskedImages(frames, *shapes.masks(scenes, rendering="smooth", size=size))


def random_network(network: VisualDynamics, seed: int) -> VisualDynamics:
    """The same network before any training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = VisualDynamics(network.config)
    return made.to(next(network.parameters()).device).eval()


def in_sight(images: MaskedImages) -> Tensor:
    """Places of the first images with all objects in sight; then, if there are too few, the first of the others."""
    area = images.whole.sum((2, 3))
    least = area.amax() / 4  # a shape that the frame cuts off for the most part is not in sight either
    good = ((images.visible.sum((2, 3)) >= IN_SIGHT * area) & (area >= least)).all(1)
    return good.logical_not().int().argsort(stable=True)[:SHOWN]


def figures(bank: Bank, images: MaskedImages, rows: dict[str, Any]) -> dict[str, bytes]:
    """A gallery of each scale, and the regions of the best maps."""
    maps = bank.respond(images)
    grey = maps[:, : len(bank.lowest)]
    grey = grey / grey.amax((0, 2, 3)).clamp(min=1e-6)[:, None, None]  # white: the most that any of these images has
    inputs = [to_pixels(frame) for frame in images.frames]
    scales = zip(grey.split(bank.network.config.maps, 1), bank.preferences.split(bank.network.config.maps), strict=True)
    made = {f"layers_scale_{n}.png": gallery(inputs, *scale) for n, scale in enumerate(scales, 1)}
    groups = [Group("input", [""], [[enlarged(picture)] for picture in inputs])]
    for target, thing in enumerate(shapes.OBJECTS):
        pictures: list[list[Pixels]] = [[] for _ in inputs]
        for name in (ONE, READ_OUT):
            cell = rows[name]["visible"][thing]
            choice = Choice(cell["map"], SIGNS.index(cell["sign"]), cell["threshold"], 0.0)
            regions = zip(region(maps, choice), images.targets[:, target], strict=True)
            for place, (chosen, mask) in enumerate(regions):
                if name == ONE:
                    pictures[place].append(map_picture(grey[place, choice.map], 192))
                pictures[place].append(enlarged(both_regions(chosen, mask)))
        groups.append(Group(thing, ["best map", "its region", "all maps"], pictures))
    return made | {"layers_regions.png": sheet(groups)}


def gallery(inputs: list[Pixels], grey: Tensor, preferences: Tensor) -> bytes:
    """The maps (N, M, S, S) of a scale under what they respond to most, the strongest first; a few to a band."""
    liked = preferences.argmax(1).tolist()
    shares = preferences.amax(1).tolist()
    order = sorted(range(len(liked)), key=lambda place: (liked[place], -shares[place]))
    bands = []
    for start in range(0, len(order), BAND):
        groups = [Group("input", [""], [[resized(picture, TILE)] for picture in inputs])]
        for thing, some in groupby(order[start : start + BAND], lambda place: liked[place]):
            places = list(some)
            tiles = [[map_picture(maps[place], TILE) for place in places] for maps in grey]
            groups.append(
                Group((*shapes.OBJECTS, "ground")[thing], [f"{shares[place]:.2f}" for place in places], tiles)
            )
        bands.append(opened(sheet(groups)))
    width = max(band.shape[1] for band in bands)
    wide = [np.pad(band, ((0, 0), (0, width - band.shape[1]), (0, 0)), constant_values=255) for band in bands]
    return encode_png(np.concatenate(wide))


def map_picture(responses: Tensor, side: int) -> Pixels:
    """A map (S, S) in [0, 1] as grey; square roots show the faint responses."""
    return resized(to_pixels(responses.sqrt().expand(3, -1, -1)), side)


def resized(picture: Pixels, side: int) -> Pixels:
    return np.array(Image.fromarray(picture).resize((side, side), Image.Resampling.BILINEAR))


def both_regions(region: Tensor, mask: Tensor) -> Pixels:
    """White where region and mask agree that the object is, red for the region alone, blue for the mask alone."""
    return to_pixels(torch.stack([region, region & mask, mask]).float())


def draw(result: dict[str, Any], folder: Path) -> str:
    """IoU by row and object, the maps chosen, and the counts behind them."""
    protocol = result["protocol"]
    size, seen = protocol["size"], ", ".join(f"{name} {count}" for name, count in result["seen"].items())
    return "\n\n".join(
        [
            "### Learned layers",
            iou_table(result),
            choice_table(result),
            f"Chosen on {protocol['choosing']} training scenes, measured on {protocol['images']} test images; images "
            f"that count: {seen}. {protocol['scales']} scales with {protocol['maps']} maps each, enlarged to "
            f"{size}x{size}; {protocol['levels']} thresholds for each map.",
        ]
    )


def headline(result: dict[str, Any]) -> Headline:
    """The protocol, one map for all images, then the lenient one; each with its own floors."""

    def ious(row: str) -> str:
        return listed([cell["iou"] for cell in result["rows"][row]["visible"].values()], 2)

    def own(row: str) -> str:
        return " / ".join(iou_cell(cell) for cell in result["rows"][row]["visible"].values())

    def floors(row: str, colour: str) -> str:
        return f"{ious(f'{row}, untrained')} (random weights), {ious(colour)} (colour channel)"

    return Headline(
        f"IoU of a map with what is seen of an object: {' / '.join(result['protocol']['objects'])}",
        "no numbers",
        f"one map for all images: {own(ONE)}; the best map of each test image, chosen on it: {own(BEST)}",
        f"one for all images: {floors(ONE, 'colour channel')}; the best of each image: {floors(BEST, COLOUR)}",
    )


def iou_table(result: dict[str, Any]) -> str:
    """Mean IoU of every row with the visible and the whole mask of each object."""
    cells = [(kind, thing) for kind in KINDS for thing in result["protocol"]["objects"]]
    rows = [
        [title, *(iou_cell(result["rows"][name][kind][thing]) for kind, thing in cells)] for name, title in ROWS.items()
    ]
    head = ["mean IoU on test images (95 % interval)", *(f"{thing}, {kind}" for kind, thing in cells)]
    return table(head, rows, bold=[ROWS[ONE]])


def iou_cell(cell: dict[str, Any], digits: int = 2) -> str:
    return with_interval(cell["iou"], cell.get("interval"), digits)


def choice_table(result: dict[str, Any]) -> str:
    """Which map stands for which object."""
    head = ["one map for", "scale", "map", "region", "threshold", "IoU where chosen", "IoU on test images"]
    head += ["share of its region inside", "share of the mask covered"]
    rows = []
    for kind in KINDS:
        for name, cell in result["rows"][ONE][kind].items():
            scale, place = divmod(cell["map"], result["protocol"]["maps"])
            chosen = [str(scale + 1), str(place + 1), cell["sign"], number(cell["threshold"], 2)]
            shares = [number(cell[share], 2) for share in ("inside", "covered")]
            rows.append([f"{name}, {kind}", *chosen, number(cell["iou_choosing"], 3), iou_cell(cell, 3), *shares])
    return table(head, rows)


EXPERIMENT = Experiment(
    "layers",
    "what the segments respond to, and their overlap with the objects (figure of learned layers)",
    __doc__,
    LayersOptions,
    compute,
    draw,
    headline,
)
