"""The figures of results on a data set: an input, the truth, our reconstruction, sampled futures and a closer look.

Paper      the figures of results on Shapes, Exercise and PennAction: columns (a) to (e). The column Flow, the baseline
           of the paper's tables, and the strips in which a sampled motion repeats are added here. Sprites have a figure
           of their own: `reproduce futures-sprites`.
Command    visual-dynamics reproduce futures [--pairs FOLDER_OR_ZIP] [--model MODEL] [--samples ROWS]
Cost       about a minute on two CPU cores.

Protocol: rows are chosen before anything is predicted. Shapes: the first test scenes with all three shapes in sight,
at sub-pixel places. Pairs: drawn by the seed from those that test.txt lists, or from all, trained on or not, if there
is no such list.

Flow takes its motions from 2,000 training scenes (Shapes; the paper's 20,000 are in `reproduce shapes`) or from the
pairs of train.txt. Without both lists there is no Flow: an input could be its own neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.folders import has_list, read_pairs
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, sprites_folder
from visual_dynamics.reporting.drawing import (
    FutureRow,
    Group,
    average,
    enlarged,
    future_groups,
    number,
    sheet,
    table,
    to_pixels,
    with_interval,
    zoom_box,
)
from visual_dynamics.sampling.latents import sample_seeds

ROWS, SMALL_ROWS, MAX_ROWS = 5, 2, 50
SAMPLES = 3  # sampled futures a row
STEPS = 6  # of an extrapolation
FLOW_SCENES, SMALL_FLOW_SCENES = 2_000, 500  # of Shapes, for Flow
SMALL_CHARACTERS = 50  # for Flow, of the 500 training characters
CANDIDATES = 20  # test scenes to choose a row of Shapes from; about two in five will do
IN_SIGHT = 0.8  # share of every shape that is seen, before and after the motion
CREDIT = "Sprites by the Liberated Pixel Cup contributors (lpc.opengameart.org), CC-BY-SA 3.0 / GPL 3.0."
TWINS = "80 of the 100 have a twin with another weapon among the 500 training characters."


@dataclass(frozen=True)
class FuturesOptions(ExperimentOptions):
    model: str = "shapes"
    pairs: Path | None = None  # a folder or zip of N_im1 / N_im2 pairs, to show those instead of Shapes


@dataclass(frozen=True)
class SpriteFuturesOptions(ExperimentOptions):
    model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters


@dataclass(frozen=True)
class FutureInputs:
    """The pairs of the rows, and those that Flow takes its motions from."""

    pairs: Pairs
    names: list[str]  # of the rows
    source: str  # where they come from, in words
    flow: Pairs | None = None
    flow_source: str = ""
    note: str = ""


def compute(options: FuturesOptions, device: torch.device, progress: Progress) -> Measured:
    count = row_count(options)
    model = load(options.model, str(device))
    if options.pairs:
        inputs = listed_inputs(options.pairs, count, options.seed, model.size, progress)
    else:
        flow_scenes = SMALL_FLOW_SCENES if options.small else FLOW_SCENES
        inputs = shapes_inputs(count, options.seed, model.size, flow_scenes)
    return show_all("futures", model, inputs, options.seed, progress)


def compute_sprites(options: SpriteFuturesOptions, device: torch.device, progress: Progress) -> Measured:
    """The figure of results on Sprites: as `reproduce futures`, on Reed's test characters.

    Paper      the figure of results on Sprites, left: columns (a) to (e); its table of the study with people, right, is
               `reproduce realism`. The column Flow and the strips in which a sampled motion repeats are added here.
    Command    visual-dynamics reproduce futures-sprites --sprites FOLDER [--model MODEL] [--samples ROWS]
    Cost       about half a minute on one CPU core (Flow reads 500 characters).

    Protocol: characters of Reed's 100, drawn by the seed before anything is predicted. Rows take the animations, and
    the views, in turn. Flow takes its motions from neighbouring frames of Reed's 500 training characters. The model and
    Flow may know a row all the same: 80 of the 100 have a twin among the 500, which shares half of the frames.
    """
    folder, count = sprites_folder(options), row_count(options)
    model = load(options.model, str(device))
    flow_characters = SMALL_CHARACTERS if options.small else None
    inputs = sprite_inputs(folder, count, options.seed, model.size, progress, flow_characters)
    return show_all("futures-sprites", model, inputs, options.seed, progress)


def row_count(options: ExperimentOptions) -> int:
    count = options.samples or (SMALL_ROWS if options.small else ROWS)
    if count > MAX_ROWS:
        raise UserError(f"the figure has at most {MAX_ROWS} rows, not {count}")
    return count


def shapes_inputs(count: int, seed: int, size: int, flow_scenes: int) -> FutureInputs:
    """The first test scenes with all shapes in sight; if these are too few, then the first of the others."""
    scenes = shapes.draw_scenes(CANDIDATES * count, seed, "test")
    areas = scenes.sizes**2 * np.array([np.pi / 4, 1, 0.5])  # (N, 3): of circle, square, triangle
    small = 16  # pixels a side: enough to measure an area, as pixels are averages
    seen = [
        shapes.masks(scenes, moved, "smooth", small).visible.sum((2, 3)).numpy() * (shapes.SIZE / small) ** 2 / areas
        for moved in (False, True)
    ]
    hidden = np.min(seen, axis=(0, 2)) < IN_SIGHT  # (N,)
    chosen = np.argsort(hidden, kind="stable")[:count]
    return FutureInputs(
        shapes.scene_pairs(scenes.subset(chosen), "smooth", size),
        [f"test scene {place}" for place in chosen],
        "Shapes: the first generated test scenes with all shapes in sight, at sub-pixel places",
        shapes.shapes_pairs(flow_scenes, 0, "train", "smooth", size),
        "training scenes",
    )


def listed_inputs(path: Path, count: int, seed: int, size: int, progress: Progress) -> FutureInputs:
    """Pairs drawn by the seed from test.txt; Flow takes those of train.txt."""
    listed = has_list(path, "test")

    def read(split: str | None, step: str) -> Pairs:
        return read_pairs(path, split, size, progress=lambda done, total: progress(step, done / total))

    every = read("test" if listed else None, "pairs")
    places = spread(len(every), count, seed)
    return FutureInputs(
        every.subset(places),
        [f"pair {place + 1} of {len(every):,}" for place in places.tolist()],
        f"{path.name}: pairs of test.txt" if listed else f"{path.name}: all pairs, as there is no test.txt",
        read("train", "training pairs") if listed and has_list(path, "train") else None,
        "pairs of train.txt",
    )


def sprite_inputs(
    folder: Path, count: int, seed: int, size: int, progress: Progress, flow_characters: int | None = None
) -> FutureInputs:
    """A moment of each of `count` test characters; Flow takes all training characters, or the first n of them."""
    train, test = read_split(folder, progress, flow_characters)
    who = spread(len(test), count, seed).numpy()
    moments = sprite_moments(len(who), seed)
    pairs = sprites.sprite_pairs(test.subset(who), size=max(64, size))
    each = len(pairs) // len(who)
    places = [row * each + frame - clip for row, (clip, frame) in enumerate(moments)]  # a clip has one pair less
    names = []
    for character, (clip, frame) in zip(test.numbers[who], moments, strict=True):
        animation, view, frames = sprites.CLIPS[clip]
        names.append(f"character {character}, {animation}, {view}, frame {frame - frames.start + 1}")
    return FutureInputs(
        pairs.subset(torch.tensor(places)).resized(size),
        names,
        f"Sprites: neighbouring frames of Reed's {len(test)} test characters",
        sprites.sprite_pairs(train, size=max(64, size)).resized(size),
        f"neighbouring frames of {len(train)} training characters",
        f"{TWINS} {CREDIT}",
    )


def read_split(
    folder: Path, progress: Progress, most: int | None = None
) -> tuple[sprites.Characters, sprites.Characters]:
    """Reed's training characters, or the first `most` of them, and his test characters."""
    split = sprites.reed_split()

    def read(numbers: sprites.Numbers, what: str) -> sprites.Characters:
        return sprites.read_characters(folder, numbers, lambda done, of: progress(what, done / of))

    return read(split.train[:most], "training characters"), read(split.test, "test characters")


def sprite_moments(count: int, seed: int) -> list[tuple[int, int]]:
    """For each row the number of a clip, and a frame (of the character's 178) with a next one in that clip.

    Animations and views take turns; the frame is drawn.
    """
    random = torch.Generator().manual_seed(seed)
    numbers = {(clip.animation, clip.view): number for number, clip in enumerate(sprites.CLIPS)}
    animations, moments = list(sprites.ANIMATIONS), []
    for row in range(count):
        turn, place = divmod(row, len(animations))
        view = sprites.VIEWS[(row + turn + seed) % len(sprites.VIEWS)]
        number = numbers.get((animations[place], view), numbers["hurt", "down"])
        frames = range(sprites.FRAMES)[sprites.CLIPS[number].frames]
        moments.append((number, frames[int(torch.randint(len(frames) - 1, (), generator=random))]))
    return moments


def show_all(name: str, model: Model, inputs: FutureInputs, seed: int, progress: Progress) -> Measured:
    """Every row, as numbers and as pictures of both figures."""
    flow = None if inputs.flow is None else FlowTransfer(inputs.flow.to(model.predictor.device))
    numbers: list[dict[str, Any]] = []
    rows: list[FutureRow] = []
    clips: list[list[Pixels]] = []
    for frame, truth in zip(*inputs.pairs.batch(torch.arange(len(inputs.names))), strict=True):
        own = seed + len(rows)  # `sample --seed` gives the same futures
        row = show(model, flow, frame, truth, own)
        errors = {"reconstruction": squared_error(row.reconstruction, row.truth)}
        errors["copy"] = squared_error(row.input, row.truth)
        numbers.append({"name": inputs.names[len(rows)], "seed": own, "zoom": row.zoom, "errors": errors})
        rows.append(row)
        clips.append([enlarged(step) for step in model.extrapolate(row.input, STEPS, own)])
        progress("rows", len(rows) / len(inputs.names))
    protocol = {
        "source": inputs.source,
        "flow": None if inputs.flow is None else {"pairs": len(inputs.flow), "source": inputs.flow_source},
        "size": model.size,
        "note": inputs.note,
    }
    still = Group("input", [""], [clip[:1] for clip in clips])
    steps = Group("steps", [str(step + 1) for step in range(STEPS)], [clip[1:] for clip in clips])
    pictures = {f"{name}.png": sheet(future_groups(rows)), f"{name}_extrapolation.png": sheet([still, steps])}
    return Measured({"rows": numbers, "protocol": protocol}, pictures)


def show(model: Model, flow: FlowTransfer | None, frame: Tensor, truth: Tensor, seed: int) -> FutureRow:
    """One row of a frame and its true next frame, float (3, S, S)."""
    still, following = to_pixels(frame), to_pixels(truth)
    return FutureRow(
        still,
        following,
        model.apply(still, model.encode(still, following)),
        list(model.sample(still, SAMPLES, seed)),
        to_pixels(flow.sample(frame, sample_seeds(seed, 1))[0]) if flow else None,
        zoom_box(still, following),
    )


def squared_error(picture: Pixels, truth: Pixels) -> float:
    """Colours in [0, 1], summed over the frame."""
    return float((((picture.astype(float) - truth) / 255) ** 2).sum())


def draw(result: dict[str, Any], folder: Path) -> str:
    """What each row shows, and how near the reconstruction comes."""
    rows = [
        [str(place), row["name"], *(number(row["errors"][name], 1) for name in ("reconstruction", "copy"))]
        for place, row in enumerate(result["rows"], 1)
    ]
    head = ["row", "input", "error of the reconstruction", "of copying the input"]
    return "\n\n".join(["### Sampled futures", table(head, rows, numbers=False), notes(result)])


def headline(result: dict[str, Any]) -> Headline:
    """Means of a few rows, so with their range instead of an interval."""
    rows = result["rows"]
    ours, copy = (mean_and_range([row["errors"][name] for row in rows]) for name in ("reconstruction", "copy"))
    measure = f"squared error of the reconstruction, mean (range) of {len(rows)} rows"
    return Headline(measure, "no numbers", ours, f"{copy} (copying the input)")


def mean_and_range(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return with_interval(average(values), (min(known), max(known)) if known else None, 1)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the figures."""
    protocol = result["protocol"]
    flow = protocol["flow"]
    parts = [
        f"{protocol['source']}. (c): the pair encoded and decoded. (d): z from training posteriors.",
        f"Flow: a sample of flow transfer from {flow['pairs']:,} pairs ({flow['source']})." if flow else "",
        "(e): the pink frame enlarged, the square with the most true motion. Extrapolation: the motion of sample 1,",
        f"repeated. Errors: squared differences of colours in [0, 1], summed over a frame. {protocol['note']}",
        f"Row r is `sample --seed` {result['seed']} + r - 1, model {result['model']}.",
    ]
    return " ".join(part for part in parts if part)


FUTURES = Experiment(
    "futures",
    "inputs, truths, reconstructions and sampled futures (figure of results on Shapes, or on given pairs)",
    __doc__,
    FuturesOptions,
    compute,
    draw,
    headline,
    frame_size=None,
)
FUTURES_SPRITES = Experiment(
    "futures-sprites",
    "inputs, truths, reconstructions and sampled futures of sprites (figure of results on Sprites)",
    compute_sprites.__doc__ or "",
    SpriteFuturesOptions,
    compute_sprites,
    draw,
    headline,
)
