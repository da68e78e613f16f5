"""Disocclusion on Shapes+Texture: what does the network paint where the input showed nothing?

Paper      "Handling Disocclusions" and its figure: shapes are completed with their texture. It gives no numbers.
Command    visual-dynamics reproduce disocclusion [--model MODEL] [--samples SCENES]
Cost       some five minutes on two CPU cores.

Protocol: 200 test scenes of the textured world, drawn at sub-pixel places. A part of an object is revealed if the true
next frame shows it, but before it was covered by another object or outside the frame. Background is revealed if an
object covered it. A pixel belongs to such a region if at least half of it is revealed. Errors are measured there alone;
colours are in [0, 1]. Intervals are over scenes, each with all of its pixels of a region.

Rows: "ours" moves the input by the motion code of its true pair, which has seen the answer. "ours, code of another
scene" takes the code from a scene that looks different and moves alike. "true flow" takes every pixel from the place
where its material was, and so shows there whatever covered it. "Flow" is one sample of flow transfer, which has to
guess the motion. "true shapes without texture" is the true next frame with every object in its mean colour: an error
below it means that the texture is right. Sampled futures move otherwise than the truth, and are not scored. Squares lie
on top and move along their stripes: they are revealed at the frame's border only, where repeating the border is right.

The figure shows the scenes that reveal most of a circle, a square and a triangle, chosen by the truth alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.baselines import FlowTransfer, warp
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pair
from visual_dynamics.data.shapes_drawing import DARK
from visual_dynamics.evaluation.intervals import cluster_interval
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import Group, framed, sheet, table, to_pixels, with_interval, zoomed
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.predictor import Predictor

SCENES, SMALL_SCENES = 200, 20
FLOW_SCENES, SMALL_FLOW_SCENES = shapes.TRAIN_PAIRS, 1_000
RENDERING: shapes.Rendering = "smooth"
HALF = 0.5  # share of a pixel from which it counts as revealed
SHOWN = 2  # scenes in the figure for each object
MARGIN, LEAST_SIDE = 5, 24  # pixels: around the region in the enlarged part, and the smallest enlarged part
REGIONS = {
    "circle": "circles",
    "square": "squares",
    "triangle": "triangles",
    "objects": "all objects",
    "background": "background",
    "frame": "whole frame",
}
ENLARGED = {  # columns of the figure
    "copy": "input = copy",
    "truth": "truth",
    "ours": "ours",
    "ours, code of another scene": "ours, other code",
    "true flow": "true flow",
    "Flow": "Flow",
}
PLAIN = "true shapes without texture"


@dataclass(frozen=True)
class DisocclusionOptions(ExperimentOptions):
    model: str = "shapes-texture"


def compute(options: DisocclusionOptions, device: torch.device, progress: Progress) -> Measured:
    """The errors of every method in every region, and a figure of some scenes."""
    count = options.samples or (SMALL_SCENES if options.small else SCENES)
    model = load(options.model, str(device))
    scenes = shapes.draw_scenes(count, options.seed, "test")
    pair = textured(scenes, model.size)
    regions = revealed(scenes, model.size)
    known = shapes.draw_scenes(SMALL_FLOW_SCENES if options.small else FLOW_SCENES, 0)
    flow = FlowTransfer(shapes.scene_pairs(known, RENDERING, model.size, device, textured=True))
    progress("training scenes of Flow", 1)
    others = replace(shapes.draw_scenes(count, options.seed + 1, "test"), motions=scenes.motions)
    rows = {
        "copy": pair.frame,
        "Flow": flow.sample_each(pair.frame, sample_seeds(options.seed, count)),
        "true flow": torch.stack([warp(*one) for one in zip(pair.frame, true_flow(scenes, model.size), strict=True)]),
        "ours": analogies(model.predictor, pair, pair.frame),
        "ours, code of another scene": analogies(model.predictor, textured(others, model.size), pair.frame),
        PLAIN: without_texture(scenes, model.size),
    }
    progress("methods", 1)
    shown = most_revealed(regions)
    numbers = {
        "rows": {name: errors(predicted.cpu(), pair.next_frame, regions) for name, predicted in rows.items()},
        "pixels": {name: int(region.sum()) for name, region in regions.items()},
        "pictures": shown,
        "protocol": {"scenes": count, "size": model.size, "flow_pairs": len(known), "rendering": RENDERING},
    }
    figure = figure_of(shown, rows | {"truth": pair.next_frame}, regions["objects"])
    return Measured(numbers, {"disocclusion.png": figure} if shown else {})


def textured(scenes: shapes.Scenes, size: int) -> Pair:
    return shapes.scene_pairs(scenes, RENDERING, size, textured=True).batch(torch.arange(len(scenes)))


def analogies(predictor: Predictor, sources: Pair, frames: Tensor) -> Tensor:
    """Each frame (N, 3, S, S) moved by the motion code of its source."""
    return predictor.decode_each(frames, predictor.encode(*sources).mean).cpu()


def without_texture(scenes: shapes.Scenes, size: int) -> Tensor:
    """The true next frames with every object in the mean of its two colours."""
    plain = replace(scenes, colours=scenes.colours * (1 + DARK) / 2)
    return shapes.images(plain, True, RENDERING, size).float() / 255


def revealed(scenes: shapes.Scenes, size: int) -> dict[str, Tensor]:
    """Where the next frame shows what the frame hides, bool (N, size, size): of each object, of any, of the background.

    Beside them "frame", which is everywhere.
    """
    before, after = (shapes.masks(scenes, time, RENDERING, shapes.SIZE).visible for time in (False, True))
    known = torch.stack([seen_before(scenes, index) for index in range(len(shapes.OBJECTS))], 1)
    objects = (after - known).clamp(min=0)  # (N, 3, 128, 128)
    background = (before.sum(1, keepdim=True) - after.sum(1, keepdim=True)).clamp(min=0)  # it does not move
    shares = F.interpolate(torch.cat([objects, background], 1), size=(size, size), mode="area")
    found = dict(zip((*shapes.OBJECTS, "background"), (shares >= HALF).unbind(1), strict=True))
    return found | {"objects": shares[:, :-1].sum(1) >= HALF, "frame": torch.ones_like(found["background"])}


def seen_before(scenes: shapes.Scenes, index: int) -> Tensor:
    """What the frame shows of an object, carried to where the object goes: shares of pixels, float (N, 128, 128).

    All objects and the frame's borders are moved as this one is: what hid a part of it goes on hiding that part.
    """
    motion = scenes.motions[:, index]  # (N, 2)
    together = replace(scenes, anchors=scenes.anchors + motion[:, None])
    visible = shapes.masks(together, False, RENDERING, shapes.SIZE).visible[:, index]
    pixels, by = np.arange(shapes.SIZE), motion[:, :, None]
    inside = np.clip(np.minimum(pixels + 1 - by, shapes.SIZE - pixels + by), 0, 1)  # (N, 2, 128): x, y
    x, y = torch.from_numpy(inside).float().unbind(1)
    return visible * y[:, :, None] * x[:, None, :]


def true_flow(scenes: shapes.Scenes, size: int) -> Tensor:
    """Where the material of each pixel of the next frame was before: float (N, 2, size, size), dx and dy in pixels."""
    seen = shapes.masks(scenes, True, RENDERING, size).visible
    shown = torch.cat([seen, 1 - seen.sum(1, keepdim=True)], 1).argmax(1)  # (N, size, size): objects, then background
    motions = F.pad(torch.from_numpy(scenes.motions).float(), (0, 0, 0, 1))  # (N, 4, 2)
    each = torch.arange(len(scenes))[:, None, None]
    return -motions[each, shown].permute(0, 3, 1, 2) * size / shapes.SIZE


def errors(predicted: Tensor, truth: Tensor, regions: dict[str, Tensor]) -> dict[str, dict[str, Any]]:
    """For each region the mean squared error of a colour, with its interval, and the sum, a scene on average.

    The mean is None where a region is empty.
    """
    squared = (predicted - truth).square().sum(1).double()  # (N, S, S)
    found: dict[str, dict[str, Any]] = {}
    for name, region in regions.items():
        inside, scene = squared[region], region.nonzero()[:, 0]
        found[name] = {"mean": None, "interval": None, "sum": float(inside.sum()) / len(truth)}
        if len(inside):
            found[name] |= {"mean": float(inside.mean()) / 3, "interval": cluster_interval(inside / 3, scene)}
    return found


def most_revealed(regions: dict[str, Tensor]) -> list[dict[str, Any]]:
    """For each object the scenes that reveal most of it, none twice; and the square of the frame to enlarge."""
    shown: list[dict[str, Any]] = []
    for name in shapes.OBJECTS:
        areas = regions[name].sum((1, 2))
        taken = {one["scene"] for one in shown}
        order = [i for i in areas.argsort(descending=True, stable=True).tolist() if i not in taken and areas[i] > 0]
        for scene in order[:SHOWN]:
            box = zoom_box(regions[name][scene])
            shown.append({"scene": scene, "object": name, "pixels": int(areas[scene]), "zoom": box})
    return shown


def zoom_box(region: Tensor) -> list[int]:
    """[left, top, side] of a square around a region, bool (S, S), within the frame."""
    places = region.nonzero()  # (n, 2): y, x
    first, last = places.min(0).values, places.max(0).values + 1
    side = min(len(region), max(LEAST_SIDE, int((last - first).max()) + 2 * MARGIN))
    top, left = ((first + last - side) // 2).clamp(0, len(region) - side).tolist()
    return [left, top, side]


def figure_of(shown: list[dict[str, Any]], rows: dict[str, Tensor], regions: Tensor) -> bytes:
    """Whole frames before and after the motion, then the part in the pink frame, enlarged, with the region outlined."""
    whole = [[framed(to_pixels(rows[name][one["scene"]]), one["zoom"]) for name in ("copy", "truth")] for one in shown]
    closer = [
        [outlined(to_pixels(rows[name][one["scene"]]), regions[one["scene"]].numpy(), one["zoom"]) for name in ENLARGED]
        for one in shown
    ]
    return sheet(
        [
            Group("whole frames", ["input", "truth"], whole),
            Group("zoomed; outlined: what the input does not show of objects", list(ENLARGED.values()), closer),
        ]
    )


def outlined(picture: Pixels, region: NDArray[np.bool_], box: list[int]) -> Pixels:
    """The enlarged part, with a line around the region: dark outside of it, light inside, to show on any colour."""
    left, top, side = box
    large = zoomed(picture, box).copy()
    part = Image.fromarray(region[top : top + side, left : left + side])
    inside = np.array(part.resize(large.shape[1::-1], Image.Resampling.NEAREST))
    large[near(inside) & ~inside] = 0
    large[near(~inside) & inside] = 255
    return large


def near(region: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The region and the pixels that touch it."""
    padded = np.pad(region, 1)
    rows, columns = region.shape
    return np.any([padded[y : y + rows, x : x + columns] for y in range(3) for x in range(3)], axis=0)


def draw(result: dict[str, Any], folder: Path) -> str:
    """Errors by method and region: of one colour, and summed over the region."""
    shown = ", ".join(f"{one['scene']} ({one['object']})" for one in result["pictures"])
    protocol = result["protocol"]
    return "\n\n".join(
        [
            "### Revealed by the motion: squared error of a colour, in thousandths (95 % interval)",
            error_table(result, "mean", 1000, 1),
            "### The same, summed over the region of a scene",
            error_table(result, "sum", 1, 2),
            f"{protocol['scenes']} test scenes at {protocol['size']}x{protocol['size']}, {protocol['rendering']} "
            f"drawing; Flow knows {protocol['flow_pairs']:,} training pairs. In the figure: scenes {shown or 'none'}; "
            "outlined is what was revealed of objects.",
        ]
    )


def error_table(result: dict[str, Any], what: str, scale: float, digits: int) -> str:
    """One number of every method and region."""
    rows = [["pixels", *(f"{result['pixels'][name]:,}" for name in REGIONS)]]
    rows += [
        [row, *(error_cell(found[name], what, scale, digits) for name in REGIONS)]
        for row, found in result["rows"].items()
    ]
    return table([what, *REGIONS.values()], rows, bold=["ours"])


def error_cell(found: dict[str, Any], what: str, scale: float, digits: int) -> str:
    return with_interval(found[what], found.get("interval") if what == "mean" else None, digits, scale)


def headline(result: dict[str, Any]) -> Headline:
    ours, floor = (error_cell(result["rows"][row]["objects"], "mean", 1, 4) for row in ("ours", PLAIN))
    measure = "squared error of a colour where an object is revealed"
    return Headline(measure, "no numbers", ours, f"{floor} (truth without texture)")


EXPERIMENT = Experiment(
    "disocclusion",
    "errors and pictures where a motion reveals what was hidden (figure on Shapes+Texture)",
    __doc__,
    DisocclusionOptions,
    compute,
    draw,
    headline,
)
