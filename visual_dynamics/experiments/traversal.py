"""What dimensions of z mean: each of the strongest is varied alone, on several images.

Paper      "Visualizing the Latent Representation": the figure in which dimensions (a) to (c) move something, and (d),
           whose log-variance is about 0, moves nothing. The number beside it is added here.
Command    visual-dynamics reproduce traversal [--sprites FOLDER [--set sprites_model=MODEL]] [--samples IMAGES]
Cost       about 20 s for each model on one CPU core.
Paper says dimensions with a small variance record a certain type of motion, alike on all images; the others none.

Protocol: dimensions are ranked by the mean KL divergence of the stored training posteriors to the prior; one with 0.01
nats or less is inactive. A dimension goes from -3 to 3 deviations of z over these posteriors; the others stay. The path
leads through the code of the image at rest, that of two equal frames: z = 0 would decode to a blurred average.

Pixels moved: mean absolute difference of colours in [0, 1] between the two ends, mean over 20 test images. Two ratios:
the mean of the five strongest dimensions over the median of the inactive ones, whose number is given, and over the
median of all dimensions. The first should be 20 at least for each of the five. Intervals: images are drawn again, each
with all its dimensions. On Shapes the displacements of the shapes between the ends are measured, too. Images are chosen
before anything is moved: generated test scenes, those that hide least first; frames of Reed's test characters, drawn by
the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import spread
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.intervals import Interval, bootstrap_interval
from visual_dynamics.evaluation.motion_distribution import measure_displacement
from visual_dynamics.experiments.futures import CREDIT
from visual_dynamics.images import Pixels
from visual_dynamics.media import encode_animation
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import Group, enlarged, number, opened, sheet, table, to_pixels, with_interval
from visual_dynamics.sampling.moves import VALUES, Usage, moved, path, path_values, stored_usage, traverse

IMAGES, SMALL_IMAGES = 20, 3  # that pixels are measured on
SHOWN = 3  # of them in the figure
STRONGEST = 5
TARGET = 20.0  # ratio
MEASURED = 128  # active dimensions at most, and as many inactive ones; each then stands for several
PICTURE = 128  # pixels a side of a picture, about
EVERY = 2  # value of a path is in the filmstrip
RATE = 8  # pictures a second of the animation
SHAPES = {"circle_dy": "circle dy, px", "square_dx": "square dx, px", "triangle_dx": "triangle dx, px"}


@dataclass(frozen=True)
class TraversalOptions(ExperimentOptions):
    model: str = "shapes"
    sprites_model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters, to show the sprites' model as well


@dataclass(frozen=True)
class StartImages:
    """What is moved."""

    frames: Tensor  # float (N, 3, S, S)
    source: str  # in words
    masks: Tensor | None = None  # float (N, 3, S, S): circle, square, triangle


def compute(options: TraversalOptions, device: torch.device, progress: Progress) -> Measured:
    """The Shapes model, and the sprites' if they are given."""
    count = options.samples or (SMALL_IMAGES if options.small else IMAGES)
    models = {"shapes": options.model} | ({"sprites": options.sprites_model} if options.sprites else {})
    sets: dict[str, Any] = {}
    pictures: dict[str, bytes] = {}
    for name, (which, model) in {name: (which, ranked_model(which, device)) for name, which in models.items()}.items():
        if options.sprites and name == "sprites":
            images = sprite_images(options.sprites, count, options.seed, model.size)
        else:
            images = shapes_images(count, options.seed, model.size)
        sets[name] = measure(model, which, images, partial(progress, name))
        pictures |= {f"traversal_{name}.{kind}": data for kind, data in drawn(model, sets[name], images).items()}
    protocol = {"strongest": STRONGEST, "values": path_values(VALUES).tolist(), "target": TARGET}
    return Measured({"sets": sets, "protocol": protocol}, pictures)


def ranked_model(name: str, device: torch.device) -> Model:
    """A model whose dimensions can be ranked; a learned prior does not say which dimensions are used."""
    model = load(name, str(device))
    if not len(model.weights.posteriors):
        raise UserError(f"{name} holds no training posteriors, which rank the dimensions of z: choose another model")
    return model


def shapes_images(count: int, seed: int, size: int) -> StartImages:
    """The first test scenes, those in which the shapes hide least of each other first."""
    scenes = shapes.draw_scenes(count, seed, "test")
    visible, whole = (mask.sum((2, 3)) for mask in shapes.masks(scenes, rendering="smooth", size=16))
    scenes = scenes.subset((visible / whole).nan_to_num(0).amin(1).argsort(descending=True, stable=True))
    frames = shapes.images(scenes, rendering="smooth", size=size).float() / 255
    masks = shapes.masks(scenes, rendering="smooth", size=size).visible
    return StartImages(frames, "generated test scenes, at sub-pixel places", masks)


def sprite_images(folder: Path, count: int, seed: int, size: int) -> StartImages:
    """A frame of each of `count` test characters; no character twice."""
    characters = sprites.read_characters(folder, sprites.reed_split().test)
    chosen = characters.subset(spread(len(characters), count, seed).numpy())
    pairs = sprites.sprite_pairs(chosen, size=max(64, size)).resized(size)
    each = len(pairs) // len(chosen)
    moments = torch.randint(each, (len(chosen),), generator=torch.Generator().manual_seed(seed))
    frames = pairs.batch(torch.arange(len(chosen)) * each + moments).frame
    return StartImages(frames, f"frames of Reed's test characters. {CREDIT}")


def measure(model: Model, name: str, images: StartImages, progress: Callable[[float], object]) -> dict[str, Any]:
    """What the dimensions of a model move."""
    used = stored_usage(model.weights.posteriors)
    active, inactive = used.active[:MEASURED], used.inactive[:MEASURED]
    rows, pixels = vary(model, used, active + inactive, images, progress)
    stands_for = [len(used.active) / max(1, len(active))] * len(active)
    stands_for += [len(used.inactive) / max(1, len(inactive))] * len(inactive)
    summarise = partial(summary, pixels, len(active), np.array(stands_for))
    found = summarise(np.arange(len(images.frames)))

    def interval(key: str) -> Interval:
        return bootstrap_interval(lambda places: summarise(places)[key] or 0.0, len(images.frames))

    return {
        "model": Path(name).name,
        "weights": model.weights.digest,
        "latent": len(used.nats),
        "images": len(images.frames),
        "source": images.source,
        "active": len(used.active),
        "inactive": used.inactive,
        "rows": rows,
        **found,
        "intervals": {key: interval(key) for key, value in found.items() if value is not None},
    }


def summary(
    pixels: NDArray[np.float64], active: int, stands_for: NDArray[np.float64], images: NDArray[np.int64]
) -> dict[str, float | None]:
    """Numbers of some images, from pixels moved (images, dimensions): active dimensions first, the strongest first."""
    by_dimension = pixels[images].mean(0)
    strong = by_dimension[: min(active, STRONGEST)]
    strongest, least = (float(strong.mean()), float(strong.min())) if active else (0.0, 0.0)
    still = float(np.median(by_dimension[active:])) if len(by_dimension) > active else None
    every = weighted_median(by_dimension, stands_for)
    return {
        "moved_by_strongest": strongest,
        "moved_by_inactive": still,
        "moved_by_all": every,
        "ratio": strongest / still if still else None,
        "least_ratio": least / still if still else None,
        "ratio_to_all": strongest / every if every else None,
    }


def weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The median of values, each of which stands for `weights` equal ones."""
    order = values.argsort()
    below = weights[order].cumsum() / weights.sum()  # share up to each value
    middle = [int(np.searchsorted(below, 0.5, side)) for side in ("left", "right")]
    return float(np.mean(values[order][np.minimum(middle, len(values) - 1)]))


def vary(
    model: Model, used: Usage, dimensions: list[int], images: StartImages, progress: Callable[[float], object]
) -> tuple[list[dict[str, Any]], NDArray[np.float64]]:
    """For each dimension the pixels moved from one end to the other: mean over the images, and (images, dimensions).

    On Shapes also how far apart, in pixels, the places of each shape at the two ends lie.
    """
    ends = torch.cat([path(used, dimension, path_values(VALUES)[[0, -1]]) for dimension in dimensions])
    pixels, places = [], []
    for place, frame in enumerate(images.frames):
        found = traverse(model.predictor, frame, ends).cpu()
        pixels.append([moved(pair) for pair in found.split(2)])
        if images.masks is not None:
            masks = images.masks[place].expand(len(ends), -1, -1, -1)
            shifts = measure_displacement(frame.expand_as(found), masks, found)  # (2 * dimensions, 3 shapes, 2)
            places.append(shifts[1::2] - shifts[::2])
        progress((place + 1) / len(images.frames))
    rows: list[dict[str, Any]] = [
        {"dimension": dimension, "nats": float(used.nats[dimension]), "moved": fmean(values)}
        for dimension, values in zip(dimensions, zip(*pixels, strict=True), strict=True)
    ]
    if places:
        for row, (circle, square, triangle) in zip(rows, torch.stack(places).nanmean(0).tolist(), strict=True):
            row |= {"circle_dy": circle[1], "square_dx": square[0], "triangle_dx": triangle[0]}
    return rows, np.array(pixels)


def drawn(model: Model, found: dict[str, Any], images: StartImages) -> dict[str, bytes]:
    """The strongest dimensions and an inactive one: a filmstrip (png) and an animation (webp)."""
    used, values = stored_usage(model.weights.posteriors), path_values(VALUES)
    dimensions = used.active[:STRONGEST] + used.inactive[:1]
    if not dimensions:
        return {}
    steps = torch.cat([path(used, dimension, values) for dimension in dimensions])
    strips: list[list[list[Pixels]]] = []  # image, dimension, value
    for frame in images.frames[:SHOWN]:
        large = [enlarged(to_pixels(one), PICTURE) for one in traverse(model.predictor, frame, steps)]
        strips.append([large[start : start + VALUES] for start in range(0, len(large), VALUES)])
    words = [nats(found, dimension) for dimension in dimensions]
    filmstrip = [
        Group(f"image {place}", [f"{value:g}" for value in values[::EVERY].tolist()], [row[::EVERY] for row in strip])
        for place, strip in enumerate(strips, 1)
    ]
    there = range(VALUES)
    pages = []  # all dimensions side by side, a row an image, from one end to the other and back
    for value in (*there, *reversed(there[1:-1])):
        groups = [
            Group(f"dim. {dimension}", [words[place]], [[strip[place][value]] for strip in strips])
            for place, dimension in enumerate(dimensions)
        ]
        pages.append(opened(sheet(groups)))
    labels = [f"{dimension}\n{text}" for dimension, text in zip(dimensions, words, strict=True)]
    return {"png": sheet(filmstrip, labels), "webp": encode_animation(np.stack(pages), RATE, ".webp")}


def nats(found: dict[str, Any], dimension: int) -> str:
    if dimension in found["inactive"]:
        return "inactive"
    return next(f"{row['nats']:.1f} nats" for row in found["rows"] if row["dimension"] == dimension)


def draw(result: dict[str, Any], folder: Path) -> str:
    """Table and conclusion of each model."""
    parts = []
    for name, found in result["sets"].items():
        parts += [f"### Dimensions of z, {name}", moved_table(found), conclusion(found, result["protocol"])]
    parts.append("Last in filmstrip and animation comes an inactive dimension, if there is one.")
    return "\n\n".join(parts)


def headline(result: dict[str, Any]) -> Headline:
    strongest = result["protocol"]["strongest"]
    measure = f"pixels moved, the {strongest} strongest dimensions over others: {' / '.join(result['sets'])}"
    ours = " / ".join(ratios(found) for found in result["sets"].values())
    return Headline(
        measure, "no numbers", ours, f"{result['protocol']['target']:g} over the inactive (target, at least)"
    )


def ratios(found: dict[str, Any]) -> str:
    """Both ratios in words."""
    inactive, intervals = len(found["inactive"]), found.get("intervals", {})

    def ratio(key: str) -> str:
        if found.get(key) is None:
            return "not measured"
        return with_interval(found[key], intervals[key], 1) if key in intervals else number(found[key], 1)

    first = f"{ratio('ratio')} over the median of {inactive:,} inactive" if inactive else "none is inactive"
    return f"{first}, {ratio('ratio_to_all')} over the median of all {found['latent']:,}"


def moved_table(found: dict[str, Any]) -> str:
    """What each dimension moves: the strongest first, the inactive ones last."""
    more = {name: words for name, words in SHAPES.items() if name in found["rows"][0]}
    rows = []
    for row in found["rows"]:
        inactive = " (inactive)" if row["dimension"] in found["inactive"] else ""
        cells = [f"{row['dimension']}{inactive}", number(row["nats"], 2), number(row["moved"], 5)]
        rows.append([*cells, *(number(row[name], 1, form="+") for name in more)])
    return table(["dimension", "KL, nats", "pixels moved", *more.values()], rows)


def conclusion(found: dict[str, Any], protocol: dict[str, Any]) -> str:
    """The ratio, or why there is none, and where the numbers come from."""
    count = len(found["inactive"])
    if not count:
        words = "No dimension is inactive: there is nothing to compare with."
    elif found["moved_by_inactive"] == 0:
        words = "The inactive dimensions move nothing at all."
    else:
        strong, still = number(found["moved_by_strongest"], 4), number(found["moved_by_inactive"], 5)
        words = (
            f"The strongest {protocol['strongest']} move pixels by {strong} on average, the inactive by {still} "
            f"(median of {count:,}); the least of the strongest {number(found['least_ratio'], 1)} times as much as "
            f"these (target: at least {protocol['target']:g})."
        )
    words += (
        f" Ratio: {ratios(found)}. Where a picture shows several copies of a shape, the dimension moved alone has "
        "left the codes that training knows; a displacement is then that of the best match."
    )
    source = found["source"].removesuffix(".")
    return (
        f"{found['active']:,} of {found['latent']:,} dimensions are active. {words} {found['images']} images: {source}."
    )


EXPERIMENT = Experiment(
    "traversal",
    "what the strongest dimensions of z move, each varied alone (figure of the meaning of z)",
    __doc__,
    TraversalOptions,
    compute,
    draw,
    headline,
    frame_size=None,
    newest=("sets", "shapes", "intervals"),
)
