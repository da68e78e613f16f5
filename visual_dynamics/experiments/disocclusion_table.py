"""Disocclusion on Shapes+Texture: what does the network paint where the input showed nothing?

Paper      "Handling Disocclusions" and its figure: shapes are completed with their texture. It gives no numbers.
Command    visual-dynamics reproduce disocclusion [--model MODEL] [--samples SCENES]
Cost       some five minutes on two CPU cores.

Protocol: 200 test scenes of the textured world, drawn at sub-pixel places. Revealed is the part of an object that is
seen in the true next frame, but was covered by another object or outside the frame before; revealed background was
covered by an object. A pixel belongs to it where that is half of the pixel or more. Errors are measured there alone.

"ours" moves the input by the motion code of its true pair. That code has seen the answer: "ours, code of another scene"
takes it from a scene that looks different and moves alike. "true flow" takes every pixel from where the material was
before, and so shows there whatever covered it. "Flow" has to guess the motion, as in the paper's tables. "true shapes
without texture" is the true next frame with every object in its mean colour: below it, a texture is painted rightly.
Sampled futures move otherwise than the truth, and are not scored. Squares lie on top and move along their stripes: they
are revealed at the frame's border only, where repeating the border is right.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.baselines.flow_transfer import FlowTransfer, warp
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pair
from visual_dynamics.data.shapes_drawing import DARK
from visual_dynamics.experiments import disocclusion_figures
from visual_dynamics.experiments.futures_figure import as_pixels, encoded
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.analogy import analogy
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.predictor import Predictor

SUMMARY = "errors and pictures where a motion reveals what was hidden (figure on Shapes+Texture)"
SCENES, SMALL_SCENES = 200, 20
FLOW_SCENES, SMALL_FLOW_SCENES = shapes.TRAIN_PAIRS, 1_000
RENDERING: shapes.Rendering = "smooth"
HALF = 0.5  # share of a pixel from which on it counts as revealed
PICTURES = 2  # scenes that are shown of each object
MARGIN, LEAST_SIDE = 5, 24  # pixels: around what is zoomed into, and the smallest zoom


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes-texture"
    samples: int | None = None  # scenes
    seed: int = 0
    small: bool = False  # a quick look: fewer scenes, also for Flow


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Every method's errors in every region, and the pictures of some scenes."""
    started = time.monotonic()
    count = options.samples or (SMALL_SCENES if options.small else SCENES)
    model = load(options.model, str(device))
    scenes = shapes.draw_scenes(count, options.seed, "test")
    pair = textured(scenes, model.size)
    regions = revealed(scenes, model.size)
    known = shapes.draw_scenes(SMALL_FLOW_SCENES if options.small else FLOW_SCENES, 0)
    flow = FlowTransfer(shapes.scene_pairs(known, RENDERING, model.size, device, textured=True))
    tell("training scenes of Flow", 1)
    others = replace(shapes.draw_scenes(count, options.seed + 1, "test"), motions=scenes.motions)
    rows = {
        "copy": pair.frame,
        "Flow": flow.sample_each(pair.frame, sample_seeds(options.seed, count)),
        "true flow": torch.stack([warp(*one) for one in zip(pair.frame, true_flow(scenes, model.size), strict=True)]),
        "ours": moved(model.predictor, pair, pair.frame, "ours", tell),
        "ours, code of another scene": moved(
            model.predictor, textured(others, model.size), pair.frame, "ours, code of another scene", tell
        ),
        "true shapes without texture": without_texture(scenes, model.size),
    }
    return {
        "experiment": "disocclusion",
        "rows": {name: errors(predicted.cpu(), pair.next_frame, regions) for name, predicted in rows.items()},
        "pixels": {name: int(region.sum()) for name, region in regions.items()},
        "pictures": pictures(rows | {"truth": pair.next_frame}, regions),
        "protocol": {"scenes": count, "size": model.size, "flow_pairs": len(known), "rendering": RENDERING},
    } | origin(options, model, started, device)


def textured(scenes: shapes.Scenes, size: int) -> Pair:
    return shapes.scene_pairs(scenes, RENDERING, size, textured=True).batch(torch.arange(len(scenes)))


def moved(predictor: Predictor, sources: Pair, frames: Tensor, name: str, tell: Tell) -> Tensor:
    """Each frame (N, 3, S, S) moved by the motion code of its source."""
    found = []
    for before, after, frame in zip(*sources, frames, strict=True):
        found.append(analogy(predictor, before, after, frame).cpu())
        tell(name, len(found) / len(frames))
    return torch.stack(found)


def without_texture(scenes: shapes.Scenes, size: int) -> Tensor:
    """The true next frames with every object in the mean of its two colours."""
    plain = replace(scenes, colours=scenes.colours * (1 + DARK) / 2)
    return shapes.images(plain, True, RENDERING, size).float() / 255


def revealed(scenes: shapes.Scenes, size: int) -> dict[str, Tensor]:
    """Where the next frame shows what the frame hides, bool (N, size, size): of each object, of any, of the background.

    Beside them "frame", which is everywhere.
    """
    before, after = (shapes.visible_masks(scenes, time, RENDERING, shapes.SIZE) for time in (False, True))
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
    visible = shapes.visible_masks(together, False, RENDERING, shapes.SIZE)[:, index]
    pixels, by = np.arange(shapes.SIZE), motion[:, :, None]
    inside = np.clip(np.minimum(pixels + 1 - by, shapes.SIZE - pixels + by), 0, 1)  # (N, 2, 128): x, y
    x, y = torch.from_numpy(inside).float().unbind(1)
    return visible * y[:, :, None] * x[:, None, :]


def true_flow(scenes: shapes.Scenes, size: int) -> Tensor:
    """Where the material of each pixel of the next frame was before: float (N, 2, size, size), dx and dy in pixels."""
    seen = shapes.visible_masks(scenes, True, RENDERING, size)
    shown = torch.cat([seen, 1 - seen.sum(1, keepdim=True)], 1).argmax(1)  # (N, size, size): objects, then background
    motions = F.pad(torch.from_numpy(scenes.motions).float(), (0, 0, 0, 1))  # (N, 4, 2)
    each = torch.arange(len(scenes))[:, None, None]
    return -motions[each, shown].permute(0, 3, 1, 2) * size / shapes.SIZE


def errors(predicted: Tensor, truth: Tensor, regions: dict[str, Tensor]) -> dict[str, dict[str, float | None]]:
    """For each region the mean squared error of a colour (None where it is empty), and the sum, a scene on average."""
    squared = (predicted - truth).square().sum(1).double()  # (N, S, S)
    found: dict[str, dict[str, float | None]] = {}
    for name, region in regions.items():
        total, pixels = float(squared[region].sum()), int(region.sum())
        found[name] = {"mean": total / (3 * pixels) if pixels else None, "sum": total / len(truth)}
    return found


def pictures(rows: dict[str, Tensor], regions: dict[str, Tensor]) -> list[dict[str, Any]]:
    """For each object the scenes that reveal most of it, as base64 PNG: chosen by the truth alone, none twice."""
    shown: list[dict[str, Any]] = []
    taken: set[int] = set()
    for name in shapes.OBJECTS:
        areas = regions[name].sum((1, 2))
        order = [i for i in areas.argsort(descending=True, stable=True).tolist() if i not in taken and areas[i] > 0]
        for scene in order[:PICTURES]:
            taken.add(scene)
            region = regions["objects"][scene]
            shown.append(
                {
                    "scene": scene,
                    "object": name,
                    "pixels": int(areas[scene]),
                    "zoom": zoom_box(regions[name][scene]),
                    "region": encoded(region.to(torch.uint8).mul(255).numpy()),
                    "frames": {row: encoded(as_pixels(frames[scene])) for row, frames in rows.items()},
                }
            )
    return shown


def zoom_box(region: Tensor) -> list[int]:
    """[left, top, side] of a square around a region, bool (S, S), within the frame."""
    places = region.nonzero()  # (n, 2): y, x
    first, last = places.min(0).values, places.max(0).values + 1
    side = min(len(region), max(LEAST_SIDE, int((last - first).max()) + 2 * MARGIN))
    top, left = ((first + last - side) // 2).clamp(0, len(region) - side).tolist()
    return [left, top, side]


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figure and the tables; returns the tables as Markdown."""
    return disocclusion_figures.draw(result, folder)


headline = disocclusion_figures.headline
