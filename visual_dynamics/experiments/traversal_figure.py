"""What dimensions of z mean: each of the strongest is varied alone, on several images.

Paper      "Visualizing the Latent Representation": the figure in which dimensions (a) to (c) move something, and (d),
           whose log-variance is about 0, moves nothing. The number beside it is added here.
Command    visual-dynamics reproduce traversal [--sprites FOLDER [--sprites-model MODEL]] [--samples IMAGES]
Cost       about 20 s for each model on one CPU core.
Paper says dimensions with a small variance record a certain type of motion, alike on all images; the others none.

Protocol: dimensions are ranked by the mean KL divergence of the stored training posteriors to the prior; one with 0.01
nats or less is inactive. A dimension goes from -3 to 3 deviations of z over these posteriors around the code with which
the image rests, that of two equal frames; the others stay there. Around z = 0, between all motions, images blur.
Pixels moved: mean absolute difference of colours in [0, 1] between the two ends, mean over 20 test images. Ratio: the
mean of the five strongest dimensions over the median of the inactive ones; of each it should be 20 at least. On Shapes
the shapes' displacements between the ends are measured, too. Images are chosen before anything is moved: generated test
scenes, those that hide least first; frames of Reed's test characters, drawn by the seed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import spread
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.motion_distribution import measure_displacement
from visual_dynamics.experiments import traversal_pictures
from visual_dynamics.experiments.futures_figure import CREDIT, as_pixels, encoded
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling import moves
from visual_dynamics.sampling.moves import Usage, moved, path, stored_usage, traverse

SUMMARY = "what the strongest dimensions of z move, each varied alone (figure of the meaning of z)"
IMAGES, SMALL_IMAGES = 20, 3  # that pixels are measured on
SHOWN = 3  # of them in the figure
STRONGEST = 5
VALUES = moves.VALUES  # on the path of a dimension
TARGET = 20.0  # ratio
MEASURED = 32  # active dimensions at most, and as many inactive ones


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    sprites_model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters, to show the sprites' model as well
    samples: int | None = None  # images
    seed: int = 0
    small: bool = False  # a quick look: fewer images


@dataclass(frozen=True)
class Images:
    """What is moved."""

    frames: Tensor  # float (N, 3, S, S)
    source: str  # in words
    masks: Tensor | None = None  # float (N, 3, S, S): circle, square, triangle


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """The Shapes model, and the sprites' where they are given."""
    started = time.monotonic()
    count = options.samples or (SMALL_IMAGES if options.small else IMAGES)
    model = ranked_model(options.model, device)
    other = ranked_model(options.sprites_model, device) if options.sprites else None
    images = shapes_images(count, options.seed, model.size)
    sets = {"shapes": measure(model, options.model, images, lambda share: tell("shapes", share))}
    if options.sprites and other:
        images = sprite_images(options.sprites, count, options.seed, other.size)
        sets["sprites"] = measure(other, options.sprites_model, images, lambda share: tell("sprites", share))
    return {
        "experiment": "traversal",
        "sets": sets,
        "protocol": {"strongest": STRONGEST, "values": path_values().tolist(), "target": TARGET},
    } | origin(options, model, started, device)


def ranked_model(name: str, device: torch.device) -> Model:
    """A model whose dimensions can be ranked; a learned prior does not say how much one of them tells of a motion."""
    model = load(name, str(device))
    if not len(model.weights.posteriors):
        raise UserError(
            f"{name} holds no training posteriors, by which dimensions of z are ranked: choose another model"
        )
    return model


def shapes_images(count: int, seed: int, size: int) -> Images:
    """The first test scenes, those in which the shapes hide least of each other first."""
    scenes = shapes.draw_scenes(count, seed, "test")
    visible, whole = (mask.sum((2, 3)) for mask in shapes.masks(scenes, rendering="smooth", size=16))
    scenes = scenes.subset((visible / whole).nan_to_num(0).amin(1).argsort(descending=True, stable=True))
    frames = shapes.images(scenes, rendering="smooth", size=size).float() / 255
    masks = shapes.visible_masks(scenes, rendering="smooth", size=size)
    return Images(frames, "generated test scenes, at sub-pixel places", masks)


def sprite_images(folder: Path, count: int, seed: int, size: int) -> Images:
    """A frame of each of `count` test characters; no character twice."""
    characters = sprites.read_characters(folder, sprites.reed_split().test)
    chosen = characters.subset(spread(len(characters), count, seed).numpy())
    pairs = sprites.sprite_pairs(chosen, size=max(64, size)).resized(size)
    each = len(pairs) // len(chosen)
    moments = torch.randint(each, (len(chosen),), generator=torch.Generator().manual_seed(seed))
    frames = pairs.batch(torch.arange(len(chosen)) * each + moments).frame
    return Images(frames, f"frames of Reed's test characters. {CREDIT}")


def path_values() -> Tensor:
    return moves.path_values(VALUES)


def measure(model: Model, name: str, images: Images, tell: Any) -> dict[str, Any]:
    """What the dimensions of a model move, and pictures of the strongest and of one inactive."""
    used = stored_usage(model.weights.posteriors)
    strongest, inactive = used.active[:STRONGEST], used.inactive[:MEASURED]
    rows = vary(model, used, used.active[:MEASURED] + inactive, images, tell)
    by_dimension = {row["dimension"]: row["moved"] for row in rows}
    strong = [by_dimension[dimension] for dimension in strongest] or [0.0]
    still = median(by_dimension[dimension] for dimension in inactive) if inactive else None
    return {
        "model": Path(name).name,
        "weights": model.weights.digest,
        "latent": len(used.nats),
        "images": len(images.frames),
        "source": images.source,
        "active": len(used.active),
        "inactive": used.inactive,
        "rows": rows,
        "moved_by_strongest": fmean(strong),
        "moved_by_inactive": still,
        "ratio": fmean(strong) / still if still else None,
        "least_ratio": min(strong) / still if still else None,
        "pictures": sheets(model, used, strongest + inactive[:1], images),
    }


def vary(model: Model, used: Usage, dimensions: list[int], images: Images, tell: Any) -> list[dict[str, Any]]:
    """For each dimension the pixels moved from one end to the other, mean over the images; on Shapes also how far, in
    pixels, the places of each shape at the two ends lie apart."""
    ends = torch.cat([path(used, dimension, path_values()[[0, -1]]) for dimension in dimensions])
    pixels, places = [], []
    for number, frame in enumerate(images.frames):
        found = traverse(model.predictor, frame, ends).cpu()
        pixels.append([moved(pair) for pair in found.split(2)])
        if images.masks is not None:
            masks = images.masks[number].expand(len(ends), -1, -1, -1)
            place = measure_displacement(frame.expand_as(found), masks, found)  # (2 * dimensions, 3 shapes, 2)
            places.append(place[1::2] - place[::2])
        tell((number + 1) / len(images.frames))
    rows: list[dict[str, Any]] = [
        {"dimension": dimension, "nats": float(used.nats[dimension]), "moved": fmean(values)}
        for dimension, values in zip(dimensions, zip(*pixels, strict=True), strict=True)
    ]
    if places:
        for row, (circle, square, triangle) in zip(rows, torch.stack(places).nanmean(0).tolist(), strict=True):
            row |= {"circle_dy": circle[1], "square_dx": square[0], "triangle_dx": triangle[0]}
    return rows


def sheets(model: Model, used: Usage, dimensions: list[int], images: Images) -> list[dict[str, Any]]:
    """A picture for each dimension, with a row an image and a column a value."""
    codes = torch.cat([path(used, dimension, path_values()) for dimension in dimensions])
    frames = [traverse(model.predictor, frame, codes).cpu() for frame in images.frames[:SHOWN]]
    strips = [[torch.cat(list(strip), dim=2) for strip in each.split(VALUES)] for each in frames]  # (3, S, VALUES * S)
    return [
        {"dimension": dimension, "sheet": encoded(as_pixels(torch.cat(rows, dim=1)))}
        for dimension, rows in zip(dimensions, zip(*strips, strict=True), strict=True)
    ]


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write filmstrips, animations and tables; returns the tables as Markdown."""
    return traversal_pictures.draw(result, folder)


headline = traversal_pictures.headline
