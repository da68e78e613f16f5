"""Relations: which shapes move together, found from one image and its sampled futures, without labels.

Paper      not in it; its conclusion hopes for "inferring objects' higher-order relationships by examining correlations
           in their motion distributions".
Command    visual-dynamics reproduce relations [--model MODEL] [--samples TEST_IMAGES]
Cost       about seven minutes on one idle CPU core.
Target     the edge circle-triangle in at least 95 % of the images in which both are visible, a false edge
           (circle-square or square-triangle) in at most 5 % of all images.

Protocol: 200 generated test images of Shapes, 64 futures each, z from the training posteriors. Segments, motions and
edges come from image and futures alone (relations/graph.py). An edge has a distance correlation of at least 0.5, and p
at most 0.05 by 999 permutations, corrected for the pairs of the image (Holm). Strength 0 means independent; 1 means
that one motion determines the other.

The true masks only score the result. A segment is the shape that has most of its pixels, if these are at least half of
them. A shape is visible if at least 32 of 64x64 pixels are seen, a quarter of the smallest circle; the table also has
the share at 12 pixels. A shape that is cut into several segments has an edge if one of them has. The strength of a pair
of shapes is that of its two largest segments.

Intervals of shares are Wilson's, over images.

Ceiling: the same with true futures of the first 50 images, drawn by the world's law. Floor: the measured motions of
each segment in another random order, so that nothing depends on anything.

The figure shows the first test images. Arrows have the length of two standard deviations of a segment's motion: when
the segment at one end of an edge goes along its arrow, so does the other (or both go the other way). Without an edge
they have two heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.intervals import wilson_interval
from visual_dynamics.relations.dependence import PERMUTATIONS, Dependence, dependences
from visual_dynamics.relations.graph import (
    LEVEL,
    SAMPLES,
    SIDE,
    STRENGTH,
    Relations,
    draw_graph,
    draw_segments,
    find_relations,
    relations_of,
)
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import Group, enlarged, number, sheet, table, to_pixels, with_interval

IMAGES, SMALL_IMAGES = 200, 10
TRUE_IMAGES, SMALL_TRUE_IMAGES = 50, 5  # with true futures
SHOWN, ACROSS = 6, 2  # images in the figure, and beside each other
VISIBLE = (32, 12)  # pixels: thresholds of "visible"; the target holds for the first
TRUE_EDGE = "circle-triangle"
EDGES = (TRUE_EDGE, "circle-square", "square-triangle")
TRUE_DIRECTIONS = {"circle": (0.0, 1.0), "triangle": (0.5**0.5, -(0.5**0.5))}  # down; right and up
TARGET = {"found": 0.95, "false": 0.05}
ROWS = {
    "ours": "sampled futures",
    "true futures": "ceiling: true futures",
    "shuffled": "floor: sampled motions, shuffled",
}


@dataclass(frozen=True)
class RelationsOptions(ExperimentOptions):
    model: str = "shapes"


def compute(options: RelationsOptions, device: torch.device, progress: Progress) -> Measured:
    """The graph of every image, and how well it finds the law of the world."""
    model = load(options.model, str(device))
    count = options.samples or (SMALL_IMAGES if options.small else IMAGES)
    with_truth = SMALL_TRUE_IMAGES if options.small else TRUE_IMAGES
    scenes = shapes.draw_scenes(count, options.seed, "test")
    frames = shapes.images(scenes, rendering="smooth", size=model.size).float() / 255
    visible = shapes.masks(scenes, rendering="smooth", size=model.size).visible
    scores: dict[str, list[dict[str, Any]]] = {row: [] for row in ROWS}
    shown: list[tuple[Tensor, Relations]] = []
    for place, (frame, masks) in enumerate(zip(frames, visible, strict=True)):
        seed = options.seed * 10_000 + place
        found = find_relations(model.predictor, frame, model.source(), SAMPLES, seed)
        scores["ours"].append(score(found, masks))
        scores["shuffled"].append(score(found._replace(pairs=shuffled_pairs(found.motions, seed)), masks))
        if place < with_truth:
            following = true_futures(scenes, place, seed, model.size)
            scores["true futures"].append(score(relations_of(frame, following, seed), masks))
        if place < SHOWN:
            shown.append((frame, found))
        progress("images", (place + 1) / count)
    numbers = {
        "rows": {row: summary(each) for row, each in scores.items()},
        "pictures": [
            {"names": names_of(found.masks, masks), "graph": found.graph()}
            for (_, found), masks in zip(shown, visible, strict=False)
        ],
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
            {"image": place} | one
            for place, one in enumerate(scores["ours"])
            if is_false(one) or (both_seen(one, VISIBLE[0]) and TRUE_EDGE not in one["found"])
        ],
    }
    return Measured(numbers, {"relations.png": figure_of(shown)})


def true_futures(scenes: shapes.Scenes, place: int, seed: int, size: int) -> Tensor:
    """SAMPLES true futures of one scene, float (N, 3, S, S)."""
    many = scenes.subset([place] * SAMPLES).with_new_motions(seed)
    return shapes.images(many, moved=True, rendering="smooth", size=size).float() / 255


def shuffled_pairs(motions: Tensor, seed: int) -> list[Dependence]:
    """The dependence found in motions (N, K, 2) when every segment has the futures in another order."""
    chance = torch.Generator().manual_seed(seed)
    columns = [motion[torch.randperm(len(motion), generator=chance)] for motion in motions.unbind(1)]
    return dependences(torch.stack(columns, 1) if columns else motions, seed)


# ------------------------------------------------------------------------------------------------ scores of a graph


def names_of(masks: Tensor, visible: Tensor) -> list[str]:
    """The shape that each segment (K, H, W) lies on, by the true masks (3, H, W); "ground" where it is none."""
    names = []
    for mask in masks:
        inside = (visible * mask).sum((1, 2))
        best = int(inside.argmax())
        names.append(shapes.OBJECTS[best] if inside[best] >= mask.sum() / 2 else "ground")
    return names


def score(found: Relations, visible: Tensor) -> dict[str, Any]:
    """One image's graph against the true masks (3, H, W)."""
    names, edges = names_of(found.masks, visible), found.edges
    strengths: dict[str, float] = {}
    for pair in sorted(found.pairs, key=lambda one: (one.first, one.second)):  # the largest segments first
        strengths.setdefault(between(names, pair), pair.strength)
    apart = [angles(names, edge) for edge in edges if between(names, edge) == TRUE_EDGE]
    return {
        "pixels": {name: float(mask.sum()) for name, mask in zip(shapes.OBJECTS, visible, strict=True)},
        "names": names,
        "found": sorted({between(names, edge) for edge in edges}),
        "strengths": {name: strengths[name] for name in EDGES if name in strengths},
        "angles": apart[0] if apart else None,
    }


def between(names: list[str], pair: Dependence) -> str:
    """Such as "circle-triangle"; a shape with itself where it is cut into two segments."""
    return "-".join(sorted((names[pair.first], names[pair.second])))


def angles(names: list[str], edge: Dependence) -> dict[str, float]:
    """Degrees between the found directions and the true ones; both may point the other way."""
    found = {names[edge.first]: edge.first_direction, names[edge.second]: edge.second_direction}
    cosines = {name: found[name][0] * x + found[name][1] * y for name, (x, y) in TRUE_DIRECTIONS.items()}
    sign = 1 if sum(cosines.values()) >= 0 else -1
    return {name: float(torch.tensor(sign * value).clamp(-1, 1).acos().rad2deg()) for name, value in cosines.items()}


def both_seen(one: dict[str, Any], pixels: int) -> bool:
    return bool(min(one["pixels"][name] for name in TRUE_DIRECTIONS) >= pixels)


def is_false(one: dict[str, Any]) -> bool:
    return any(name in one["found"] for name in EDGES[1:])


def summary(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table."""
    found = {}
    for pixels in VISIBLE:
        seen = [one for one in scores if both_seen(one, pixels)]
        found[str(pixels)] = {"images": len(seen), **share(TRUE_EDGE in one["found"] for one in seen)}
    known = [one["angles"] for one in scores if one["angles"]]
    return {
        "images": len(scores),
        "found": found,
        "false": (false := share(is_false(one) for one in scores))["share"],
        "false_interval": false["interval"],
        "false_each": {name: mean(name in one["found"] for one in scores) for name in EDGES[1:]},
        "one_shape": mean(any(f"{name}-{name}" in one["found"] for name in shapes.OBJECTS) for one in scores),
        "strengths": {
            name: mean(one["strengths"][name] for one in scores if name in one["strengths"]) for name in EDGES
        },
        "segments": mean(len(one["names"]) for one in scores),
        "seen": mean(sum(area >= VISIBLE[0] for area in one["pixels"].values()) for one in scores),
        "right_segments": mean(  # one segment for each visible shape, and none besides
            sorted(one["names"]) == sorted(name for name, area in one["pixels"].items() if area >= VISIBLE[0])
            for one in scores
        ),
        "angles": {name: mean(one[name] for one in known) for name in TRUE_DIRECTIONS},
    }


def share(answers: Iterable[bool]) -> dict[str, Any]:
    """Share of yes, with its interval over images; None without any image."""
    known = list(answers)
    found = mean(known)
    return {"share": found, "interval": None if found is None else wilson_interval(found, len(known))}


def mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


def figure_of(shown: Sequence[tuple[Tensor, Relations]]) -> bytes:
    """Input, segments and graph of every image, some images to a row."""
    tiles = []
    for frame, found in shown:
        picture = to_pixels(frame)
        segments, graph = draw_segments(picture, found.masks), draw_graph(picture, found.graph())
        tiles.append([enlarged(one, SIDE) for one in (picture, segments)] + [graph])
    across = min(ACROSS, len(tiles))
    tiles += [[np.full_like(tiles[0][0], 255)] * 3] * (-len(tiles) % across)
    columns = ["input", "segments found", "relations found"]
    return sheet([Group("", columns, tiles[column::across]) for column in range(across)])


# ------------------------------------------------------------------------------------------------------------ tables


def draw(result: dict[str, Any], folder: Path) -> str:
    """Edges found and false edges; then strengths, directions and segments."""
    protocol = result["protocol"]
    return "\n\n".join(
        [
            "### Relations",
            edge_table(result),
            segment_table(result),
            f"{protocol['images']} generated test images of {protocol['size']}x{protocol['size']} pixels, "
            f"{protocol['futures']} futures each. False edges are shares of all images.",
        ]
    )


def edge_table(result: dict[str, Any]) -> str:
    first, second = result["protocol"]["visible"]
    target = result["protocol"]["target"]
    head = ["(95 % interval)", "images"]
    head += [f"circle-triangle found, both visible (at least {first} px)", f"at least {second} px"]
    rows = [["to reach", "", f"≥ {percent(target['found'])}", "", f"≤ {percent(target['false'])}", "", ""]]
    for name, title in ROWS.items():
        row = result["rows"][name]
        found = [row["found"][str(pixels)] for pixels in (first, second)]
        shares = [f"{percent(one['share'], one.get('interval'))} of {one['images']}" for one in found]
        false = [percent(row["false"], row.get("false_interval")), *map(percent, row["false_each"].values())]
        rows.append([title, str(row["images"]), *shares, *false])
    return table([*head, "false edge", *EDGES[1:]], rows, bold=[ROWS["ours"]])


def segment_table(result: dict[str, Any]) -> str:
    head = ["mean", *(f"strength {name}" for name in EDGES), "circle's direction off by, degrees", "triangle's"]
    head += ["segments", "visible shapes", "images with just these", "an edge within one shape"]
    rows = []
    for name, title in ROWS.items():
        row = result["rows"][name]
        cells = [number(row["strengths"][pair], 2) for pair in EDGES]
        cells += [number(row["angles"][shape], 1) for shape in TRUE_DIRECTIONS]
        cells += [number(row["segments"], 2), number(row["seen"], 2)]
        rows.append([title, *cells, percent(row["right_segments"]), percent(row["one_shape"])])
    return table(head, rows, bold=[ROWS["ours"]])


def percent(value: float | None, interval: Sequence[float] | None = None) -> str:
    return "none" if value is None else f"{with_interval(value, interval, 1, 100)} %"


def headline(result: dict[str, Any]) -> Headline:
    """Of images in which both are visible, by the threshold of the target."""
    least = result["protocol"]["visible"][0]

    def both(name: str) -> str:
        row = result["rows"][name]
        found = row["found"][str(least)]
        return f"{percent(found['share'], found.get('interval'))} / {percent(row['false'], row.get('false_interval'))}"

    measure = "images with the edge circle-triangle, if both are visible / with a false edge"
    floors = f"{both('true futures')} (ceiling: true futures), {both('shuffled')} (shuffled motions)"
    return Headline(measure, "no numbers", both("ours"), floors)


EXPERIMENT = Experiment(
    "relations",
    "which shapes move together, found without labels from sampled futures (a hope of the paper's conclusion)",
    __doc__,
    RelationsOptions,
    compute,
    draw,
    headline,
)
