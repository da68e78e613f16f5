"""The figures of results on a data set: an input, the truth, our reconstruction, sampled futures and a closer look.

Paper      the figures of results on Shapes, Exercise and PennAction: columns (a) to (e). The column Flow, the baseline
           of the paper's tables, and the strips in which a sampled motion repeats are added here. Sprites have a figure
           of their own: `reproduce futures-sprites`.
Command    visual-dynamics reproduce futures [--pairs FOLDER_OR_ZIP] [--model MODEL] [--samples ROWS]
Cost       about a minute on two CPU cores.

Protocol: rows are chosen before anything is predicted. Shapes: the first test scenes with all three shapes in sight,
at sub-pixel places. Pairs: drawn by the seed from those that test.txt lists, or from all where there is no such list.

Flow takes its motions from 2,000 training scenes (Shapes; the paper's 20,000 are in `reproduce shapes`) or from the
pairs of train.txt. Without both lists there is no Flow: an input could be its own neighbour.
"""

from __future__ import annotations

import base64
import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from visual_dynamics.api import Frames, Model, load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.data import shapes
from visual_dynamics.data.folders import has_list, read_pairs
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import futures_pictures
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.latents import sample_seeds

SUMMARY = "inputs, truths, reconstructions and sampled futures (figure of results on Shapes, or on given pairs)"
ROWS, SMALL_ROWS, MAX_ROWS = 5, 2, 50
SAMPLES = 3  # sampled futures a row
STEPS = 6  # of an extrapolation
ZOOM = 0.4  # side of the closer look, as a share of the frame's
FLOW_SCENES, SMALL_FLOW_SCENES = 2_000, 500  # that Flow knows of Shapes
CANDIDATES = 20  # test scenes looked at for a row of Shapes; some two in five will do
IN_SIGHT = 0.8  # share of every shape that is seen, before and after the motion
CREDIT = "Sprites by the Liberated Pixel Cup contributors (lpc.opengameart.org), CC-BY-SA 3.0 / GPL 3.0."


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    pairs: Path | None = None  # a folder or zip of N_im1 / N_im2 pairs, to show those instead of Shapes
    samples: int | None = None  # rows
    seed: int = 0
    small: bool = False  # a quick look: fewer rows, and fewer scenes for Flow


@dataclass(frozen=True)
class Inputs:
    """The pairs of the rows, and what Flow may take motions from."""

    pairs: Pairs
    names: list[str]  # of the rows
    source: str  # where they come from, in words
    flow: Pairs | None = None
    flow_source: str = ""
    note: str = ""


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Every picture of every row, as base64 PNG."""
    started = time.monotonic()
    count = rows_asked(options)
    model = load(options.model, str(device))
    if options.pairs:
        inputs = listed_inputs(options.pairs, count, options.seed, model.size, tell)
    else:
        known = SMALL_FLOW_SCENES if options.small else FLOW_SCENES
        inputs = shapes_inputs(count, options.seed, model.size, known)
    shown = show_all(model, inputs, options.seed, device, tell)
    return {"experiment": "futures"} | shown | origin(options, model, started, device)


class Sized(Protocol):
    """Options that say how many rows there are."""

    @property
    def samples(self) -> int | None: ...

    @property
    def small(self) -> bool: ...


def rows_asked(options: Sized) -> int:
    count = options.samples or (SMALL_ROWS if options.small else ROWS)
    if count > MAX_ROWS:
        raise UserError(f"the figure has at most {MAX_ROWS} rows, not {count}")
    return count


def show_all(model: Model, inputs: Inputs, seed: int, device: torch.device, tell: Tell) -> dict[str, Any]:
    """The rows, and where they come from."""
    flow = None if inputs.flow is None else FlowTransfer(inputs.flow.to(device))
    rows: list[dict[str, Any]] = []
    for frame, truth in zip(*inputs.pairs.batch(torch.arange(len(inputs.names))), strict=True):
        own = seed + len(rows)  # `sample --seed` gives the same futures
        rows.append({"name": inputs.names[len(rows)], "seed": own} | show(model, flow, frame, truth, own))
        tell("rows", len(rows) / len(inputs.names))
    return {
        "rows": rows,
        "protocol": {
            "source": inputs.source,
            "flow": None if inputs.flow is None else {"pairs": len(inputs.flow), "source": inputs.flow_source},
            "size": model.size,
            "note": inputs.note,
        },
    }


def shapes_inputs(count: int, seed: int, size: int, known: int) -> Inputs:
    """The first test scenes with all shapes in sight; then, should there be too few, the first of the others.

    `known`: training scenes that Flow knows.
    """
    scenes = shapes.draw_scenes(CANDIDATES * count, seed, "test")
    areas = scenes.sizes**2 * np.array([np.pi / 4, 1, 0.5])  # (N, 3): of circle, square, triangle
    small = 16  # pixels are averages: small masks tell an area as well as large ones
    seen = [
        shapes.visible_masks(scenes, moved, "smooth", small).sum((2, 3)).numpy() * (shapes.SIZE / small) ** 2 / areas
        for moved in (False, True)
    ]
    hidden = np.min(seen, axis=(0, 2)) < IN_SIGHT  # (N,)
    chosen = np.argsort(hidden, kind="stable")[:count]
    return Inputs(
        shapes.scene_pairs(scenes.subset(chosen), "smooth", size),
        [f"test scene {place}" for place in chosen],
        "Shapes: the first generated test scenes with all shapes in sight, at sub-pixel places",
        shapes.shapes_pairs(known, 0, "train", "smooth", size),
        "training scenes",
    )


def listed_inputs(path: Path, count: int, seed: int, size: int, tell: Tell) -> Inputs:
    """Pairs drawn by the seed from test.txt; Flow takes those of train.txt."""
    listed = has_list(path, "test")

    def read(split: str | None, what: str) -> Pairs:
        return read_pairs(path, split, size, progress=lambda done, of: tell(what, done / of))

    every = read("test" if listed else None, "pairs")
    places = spread(len(every), count, seed)
    return Inputs(
        every.subset(places),
        [f"pair {place + 1} of {len(every):,}" for place in places.tolist()],
        f"{path.name}: pairs of test.txt" if listed else f"{path.name}: all pairs, as no test.txt lists some",
        read("train", "training pairs") if listed and has_list(path, "train") else None,
        "pairs of train.txt",
    )


def show(model: Model, flow: FlowTransfer | None, frame: Tensor, truth: Tensor, seed: int) -> dict[str, Any]:
    """One row of a frame and its true next frame, float (3, S, S)."""
    still, following = as_pixels(frame), as_pixels(truth)
    reconstruction = model.apply(still, model.encode(still, following))
    pictures = {
        "input": encoded(still),
        "truth": encoded(following),
        "reconstruction": encoded(reconstruction),
        "samples": [encoded(future) for future in model.sample(still, SAMPLES, seed)],
        "flow": encoded(as_pixels(flow.sample(frame, sample_seeds(seed, 1))[0])) if flow else None,
        "steps": [encoded(step) for step in model.extrapolate(still, STEPS, seed)[1:]],
    }
    errors = {"reconstruction": squared_error(reconstruction, following), "copy": squared_error(still, following)}
    return {"pictures": pictures, "zoom": zoom_box(still, following), "errors": errors}


def zoom_box(frame: Frames, truth: Frames) -> list[int]:
    """[left, top, side] of the square with the most motion, the middle one where several have the same."""
    side = round(ZOOM * len(frame))
    motion = torch.from_numpy((frame.astype(float) - truth) ** 2).sum(2)  # whole numbers: sums are exact
    inside = F.avg_pool2d(motion[None], side, stride=1, divisor_override=1)[0]
    best = (inside == inside.max()).nonzero()  # (n, 2): top, left
    middle = (best - best.double().mean(0)).square().sum(1).argmin()
    top, left = best[middle].tolist()
    return [left, top, side]


def squared_error(picture: Frames, truth: Frames) -> float:
    """Colours in [0, 1], summed over the frame."""
    return float((((picture.astype(float) - truth) / 255) ** 2).sum())


def as_pixels(frame: Tensor) -> Frames:
    """float (3, S, S) -> uint8 (S, S, 3)"""
    return (frame.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()


def encoded(picture: Frames, colours: int | None = None) -> str:
    """A picture as text for JSON: the base64 of a PNG, in a palette of so many colours where it is to be small."""
    stream, image = io.BytesIO(), Image.fromarray(picture)
    image = image.quantize(colours, dither=Image.Dither.NONE) if colours else image
    image.save(stream, "PNG", optimize=colours is not None)
    return base64.b64encode(stream.getvalue()).decode("ascii")


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the two figures and their notes; returns the notes as Markdown."""
    return futures_pictures.draw(result, folder)


headline = futures_pictures.headline
