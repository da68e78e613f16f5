"""Relations: which shapes move together, found from one image and its sampled futures, without labels.

Paper      not in it; its conclusion hopes for "inferring objects' higher-order relationships by examining correlations
           in their motion distributions".
Command    visual-dynamics reproduce relations [--model MODEL] [--samples TEST_IMAGES]
Cost       about seven minutes on one idle CPU core.
Target     the edge circle-triangle in at least 95 % of the images in which both are visible, a false edge
           (circle-square or square-triangle) in at most 5 % of all images.

Protocol: 200 generated test images of Shapes, 64 futures each, z from the training posteriors. Segments, motions and
edges come from image and futures alone (applications/relations.py). The true masks only score them: a segment is the
shape that has most of its pixels, if that is at least half of them. Visible is a shape of which at least 32 of 64x64
pixels are seen, a quarter of the smallest circle; the share at 12 pixels is given, too. A shape that is cut into
several segments has an edge where one of them has. The strength of a couple is that of its two largest segments.

Beside it the ceiling: the same with true futures of the first 50 images, drawn by the world's law; and the floor: the
measured motions of each segment put in another random order, so that nothing depends on anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.experiments import relations_figures
from visual_dynamics.experiments.futures_figure import as_pixels, encoded
from visual_dynamics.relations.dependence import PERMUTATIONS, Dependence, dependences
from visual_dynamics.relations.graph import (
    LEVEL,
    SAMPLES,
    STRENGTH,
    Relations,
    find_relations,
    relations_of,
)
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin

SUMMARY = "which shapes move together, found without labels from sampled futures (a hope of the paper's conclusion)"
IMAGES, SMALL_IMAGES = 200, 10
TRUE_IMAGES, SMALL_TRUE_IMAGES = 50, 5  # with true futures
SHOWN = 6  # images in the figure: the first
VISIBLE = (32, 12)  # pixels: thresholds of "visible", the first of them that of the requirement
TRUE_COUPLE = "circle-triangle"
COUPLES = (TRUE_COUPLE, "circle-square", "square-triangle")
WAYS = {"circle": (0.0, 1.0), "triangle": (0.5**0.5, -(0.5**0.5))}  # circle down, triangle right and up
TARGET = {"found": 0.95, "false": 0.05}


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    samples: int | None = None  # test images
    seed: int = 0
    small: bool = False  # a quick look: fewer images


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """The graph of every image, and how well it tells the law of the world."""
    started = time.monotonic()
    model = load(options.model, str(device))
    count = options.samples or (SMALL_IMAGES if options.small else IMAGES)
    with_truth = SMALL_TRUE_IMAGES if options.small else TRUE_IMAGES
    scenes = shapes.draw_scenes(count, options.seed, "test")
    frames = shapes.images(scenes, rendering="smooth", size=model.size).float() / 255
    visible = shapes.visible_masks(scenes, rendering="smooth", size=model.size)
    sampled, shuffled, true, pictures = [], [], [], []
    for number, frame in enumerate(frames):
        seed = options.seed * 10_000 + number
        found = find_relations(model.predictor, frame, model.source(), SAMPLES, seed)
        sampled.append(score(found, found.edges, visible[number]))
        by_chance = Relations(found.masks, found.motions, found.segments, shuffled_couples(found.motions, seed))
        shuffled.append(score(by_chance, by_chance.edges, visible[number]))
        if number < with_truth:
            ideal = relations_of(frame, true_futures(scenes, number, seed, model.size), seed)
            true.append(score(ideal, ideal.edges, visible[number]))
        if number < SHOWN:
            pictures.append(picture(frame, found, visible[number]))
        tell("images", (number + 1) / count)
    return {
        "experiment": "relations",
        "rows": {"ours": summary(sampled), "true futures": summary(true), "shuffled": summary(shuffled)},
        "pictures": pictures,
        "protocol": {
            "images": count,
            "futures": SAMPLES,
            "size": model.size,
            "visible": VISIBLE,
            "strength": STRENGTH,
            "level": LEVEL,
            "permutations": PERMUTATIONS,
            "target": TARGET,
        },
        "failures": [
            {"image": number} | one
            for number, one in enumerate(sampled)
            if is_false(one) or (both_seen(one, VISIBLE[0]) and TRUE_COUPLE not in one["found"])
        ],
    } | origin(options, model, started, device)


def true_futures(scenes: shapes.Scenes, number: int, seed: int, size: int) -> Tensor:
    """SAMPLES true futures of one scene, float (N, 3, S, S)."""
    many = scenes.subset([number] * SAMPLES).with_new_motions(seed)
    return shapes.images(many, moved=True, rendering="smooth", size=size).float() / 255


def shuffled_couples(motions: Tensor, seed: int) -> list[Dependence]:
    """What is found in motions (N, K, 2) when every segment has the futures in another order."""
    chance = torch.Generator().manual_seed(seed)
    columns = [motion[torch.randperm(len(motion), generator=chance)] for motion in motions.unbind(1)]
    return dependences(torch.stack(columns, 1) if columns else motions, seed)


def names_of(masks: Tensor, visible: Tensor) -> list[str]:
    """The shape that each segment (K, H, W) lies on, by the true masks (3, H, W); "ground" where it is none."""
    names = []
    for mask in masks:
        inside = (visible * mask).sum((1, 2))
        best = int(inside.argmax())
        names.append(shapes.OBJECTS[best] if inside[best] >= mask.sum() / 2 else "ground")
    return names


def score(found: Relations, edges: list[Dependence], visible: Tensor) -> dict[str, Any]:
    """One image's graph against the true masks (3, H, W)."""
    names = names_of(found.masks, visible)
    strengths: dict[str, float] = {}
    for couple in sorted(found.pairs, key=lambda one: (one.first, one.second)):  # the largest segments first
        strengths.setdefault(between(names, couple), couple.strength)
    apart = [angles(names, edge) for edge in edges if between(names, edge) == TRUE_COUPLE]
    return {
        "pixels": {name: float(mask.sum()) for name, mask in zip(shapes.OBJECTS, visible, strict=True)},
        "names": names,
        "found": sorted({between(names, edge) for edge in edges}),
        "strengths": {name: strengths[name] for name in COUPLES if name in strengths},
        "angles": apart[0] if apart else None,
    }


def between(names: list[str], couple: Dependence) -> str:
    """ "circle-triangle", say; a shape with itself where it is cut into two segments."""
    return "-".join(sorted((names[couple.first], names[couple.second])))


def angles(names: list[str], edge: Dependence) -> dict[str, float]:
    """Degrees between the found directions and the true ones; both may be reversed together."""
    ways = {names[edge.first]: edge.first_direction, names[edge.second]: edge.second_direction}
    cosines = {name: ways[name][0] * x + ways[name][1] * y for name, (x, y) in WAYS.items()}
    sign = 1 if sum(cosines.values()) >= 0 else -1
    return {name: float(torch.tensor(sign * value).clamp(-1, 1).acos().rad2deg()) for name, value in cosines.items()}


def both_seen(one: dict[str, Any], pixels: int) -> bool:
    return bool(min(one["pixels"][name] for name in WAYS) >= pixels)


def is_false(one: dict[str, Any]) -> bool:
    return any(name in one["found"] for name in COUPLES[1:])


def summary(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table."""
    found = {}
    for pixels in VISIBLE:
        seen = [one for one in scores if both_seen(one, pixels)]
        found[str(pixels)] = {"images": len(seen), "share": share(TRUE_COUPLE in one["found"] for one in seen)}
    known = [one["angles"] for one in scores if one["angles"]]
    return {
        "images": len(scores),
        "found": found,
        "false": share(is_false(one) for one in scores),
        "false_each": {name: share(name in one["found"] for one in scores) for name in COUPLES[1:]},
        "one_shape": share(any(f"{name}-{name}" in one["found"] for name in shapes.OBJECTS) for one in scores),
        "strengths": {
            name: mean(one["strengths"][name] for one in scores if name in one["strengths"]) for name in COUPLES
        },
        "segments": mean(len(one["names"]) for one in scores),
        "seen": mean(sum(area >= VISIBLE[0] for area in one["pixels"].values()) for one in scores),
        "right_segments": share(  # one segment for each visible shape, and none besides
            sorted(one["names"]) == sorted(name for name, area in one["pixels"].items() if area >= VISIBLE[0])
            for one in scores
        ),
        "angles": {name: mean(one[name] for one in known) for name in WAYS},
    }


def share(flags: Iterable[bool]) -> float | None:
    return mean(float(flag) for flag in flags)


def mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


def picture(frame: Tensor, found: Relations, visible: Tensor) -> dict[str, Any]:
    """The input, the segments (brightness n + 1 is segment n) and the graph."""
    labels = torch.zeros(frame.shape[1:], dtype=torch.uint8)
    for number, mask in enumerate(found.masks, 1):
        labels[mask] = number
    return {
        "input": encoded(as_pixels(frame)),
        "segments": encoded(labels[:, :, None].expand(-1, -1, 3).numpy()),
        "names": names_of(found.masks, visible),
        "graph": found.graph(),
    }


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figure and the table; returns the table as Markdown."""
    return relations_figures.draw(result, folder)
