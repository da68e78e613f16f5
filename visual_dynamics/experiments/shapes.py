"""The Shapes table and plot: does each shape move as it should?

Paper      "Movement of 2D Shapes": KL divergence between true and predicted motion, and the plot beside the table.
Command    visual-dynamics reproduce shapes [--pairs AUTHORS_PAIRS]
Cost       on two CPU cores about ten minutes, and two and a half more for each 1,000 of --samples; minutes on one H200.
Paper says Flow 6.77 / 7.07 / 6.07 / 8.42, AE 8.76 / 12.37 / 10.36 / 10.58, ours 1.70 / 2.48 / 1.14 / 2.46
           (circles / squares / triangles / circles-triangles).

Protocol: 500 test images, 100 futures each. `shapes-integer` was trained before 2026-11-18; training then watched its
error on the first 256 of these images. "ours" draws z from the stored posteriors of training pairs, as the paper
does. The displacement of each object is measured by masked matching, the same for truth and prediction; the paper has
optical flow, which is poor on flat colours, so its numbers and ours do not compare. Histograms of 41 x 41 bins on
[-5, 5]^2 pixels at 64x64. The truth: 100 true futures of each image, drawn by the world's law, also where --samples
leaves fewer to the rows. The floor: a second set, as large as a row, against the first.

The authors' pairs are of their training list; their test pairs are not here. Our models have not seen them, but the law
of the world that they learned from was measured on these pairs. There is one true next frame each: the truth is
measured on all of them, the rows on the first 500 images.

The floor has the sizes of the rows beside it. For the authors' pairs the world draws as many images at whole pixels,
one future of each, and as many of the first 500 as a row has; masks are found in the pictures, as in theirs. The floor
is a mean over eight such sets of one future. No true motion is on both sides. Intervals: images are drawn again with
all their futures, which by itself raises every KL; the values are shifted to have the measured number as their mean.

Two drawings of one law, each with a model that was trained on it. "generated": shapes stand where the law puts them.
"whole_pixels": places are rounded at 128x128, as in the authors' files; so is what the model for the authors' pairs
learned from. No AE was trained on these: its rows there show what another drawing costs, nothing about the KL term.
At 64x64 all true motions are then multiples of half a pixel, and every second bin of the true histogram is empty. A
prediction that is off this grid by half a bin lies in an empty one, and pays. What keeps ours from the floor there is
asked in two ways. Row "means of stored codes": without the noise of the posteriors. Second table: with bins of 1/4
px, each multiple of half a pixel in the middle of one. In the usual bins, of 10/41 px, a motion near the ends of the
range lies within 0.02 px of a border: an error of a fiftieth of a pixel puts it into another bin, for ours and for
the floor. Neither explains most of the distance, and triangles do not change at all.

What the KL term buys: ours and the AE with z from stored codes, from a mixture fitted to them and from N(0, I); and
stored codes of training scenes carried to test scenes. `kl-term` compares models that were trained alike. Over training
seeds: --set seeds=FILE,FILE names further models of the same recipe; mean and range are over them and the model itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import Copy, FlowTransfer, FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.data.folders import read_pairs
from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.evaluation.codes import StoredMeans, carried_codes, description
from visual_dynamics.evaluation.motion_tables import Motions, kl_tables, mean_table
from visual_dynamics.evaluation.shapes import (
    SIZE,
    Bench,
    Extent,
    Remembering,
    generated_bench,
    pairs_bench,
    sampled_motions,
)
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, listed_models
from visual_dynamics.reporting.compared_models import SOURCES, analogies_table, cells, claim, models_table
from visual_dynamics.reporting.drawing import listed, number, plot, table
from visual_dynamics.sampling.latents import LatentSource, Prior
from visual_dynamics.sampling.moves import ModelSampler

PAPER = {
    "Flow": (6.77, 7.07, 6.07, 8.42),
    "AE": (8.76, 12.37, 10.36, 10.58),
    "ours": (1.70, 2.48, 1.14, 2.46),
}
COLUMNS = (*motion.SHAPES, motion.TIED)
IMAGES = shapes.TEST_PAIRS
SAMPLES, TRUTHS = 50_000, 100  # in all, and of each image
FLOW_SCENES = shapes.TRAIN_PAIRS
ANALOGIES = 200
SMALL_IMAGES, SMALL_SAMPLES, SMALL_FLOW_SCENES, SMALL_ANALOGIES, SMALL_TRUTH = 50, 250, 1_000, 20, 500

TITLES = dict(zip(COLUMNS, ("Circles", "Squares", "Triangles", "Circles-Triangles"), strict=True))
SETS = {
    "generated": "generated test images",
    "whole_pixels": "generated test images, drawn at whole pixels",
    "authors": "the authors' pairs",
}
GRID_RANGE = motion.BINS / 8  # bins of 1/4 px: multiples of 1/2 px lie in the middle of theirs
MEANS = "ours, means of stored codes"
HEADLINE_SETS = ("generated", "authors")
AE_OF_OTHER_PLACES = "AE (trained on sub-pixel places)"


@dataclass(frozen=True)
class ShapesOptions(ExperimentOptions):
    model: str = "shapes"
    autoencoder: str = "shapes-ae"  # the AE baseline
    integer_model: str = "shapes-integer"  # trained on whole pixels: for such images and for the authors' pairs
    seeds: str | None = None  # further models of the same recipe, between commas
    pairs: Path | None = None  # the authors' pairs


def compute(options: ShapesOptions, device: torch.device, progress: Progress) -> Measured:
    """Measure every row on generated images in both drawings, and on the authors' if they are given."""
    samples = options.samples or (SMALL_SAMPLES if options.small else SAMPLES)
    extent = Extent(SMALL_IMAGES if options.small else IMAGES, samples, options.seed, 0 if options.small else TRUTHS)
    pairs = read_pairs(options.pairs) if options.pairs else None  # first: a wrong path is an error at once
    scenes = shapes.draw_scenes(SMALL_FLOW_SCENES if options.small else FLOW_SCENES, seed=0, split="train")
    model, autoencoder, integer_model, *seeds = (
        load(name, str(device))
        for name in (options.model, options.autoencoder, options.integer_model, *listed_models(options.seeds))
    )
    further = {f"ours, further model {place}": other for place, other in enumerate(seeds, 1)}
    smooth = methods(model, {f"AE{words}": z for words, z in samplers(autoencoder).items()}, scenes, "smooth")
    smooth |= {name: posterior_sampler(other) for name, other in further.items()}
    whole = methods(integer_model, {AE_OF_OTHER_PLACES: posterior_sampler(autoencoder)}, scenes, "integer")
    whole[MEANS] = ModelSampler(integer_model.predictor, StoredMeans(integer_model.weights.posteriors))
    true = partial(progress, "true futures")
    sets = {
        "generated": measure(smooth, generated_bench("smooth", extent, device, true), extent, progress),
        "whole_pixels": measure(whole, generated_bench("integer", extent, device, true), extent, progress),
    }
    if pairs is not None:
        pairs = pairs.subset(torch.arange(len(pairs))[: SMALL_TRUTH if options.small else None])
        bench = pairs_bench("authors' pairs", pairs, extent, device, true)
        sets["authors"] = measure(whole, bench, extent, progress)
    count = min(SMALL_ANALOGIES if options.small else ANALOGIES, samples)
    protocol: dict[str, float] = {"images": extent.images, "samples": samples, "size": SIZE}
    protocol |= {"bins": motion.BINS, "range": motion.RANGE, "epsilon": motion.EPSILON}
    numbers = {"sets": sets, "paper": PAPER, "columns": COLUMNS, "protocol": protocol}
    described = {"ours": model, **further, "ours, whole pixels": integer_model, "AE": autoencoder}
    numbers["models"] = {name: description(each) for name, each in described.items()}
    if further:
        numbers["over_seeds"] = over_seeds([sets["generated"]["rows"][name] for name in ("ours", *further)])
    return Measured(numbers | {"analogies": carried_codes({"ours": model, "AE": autoencoder}, options.seed, count)})


def methods(
    model: Model, autoencoders: Mapping[str, FutureSampler], known: shapes.Scenes, rendering: shapes.Rendering
) -> dict[str, FutureSampler]:
    """Row of the table -> its method, for one drawing. Flow takes its motions from the known scenes."""
    ours = {f"ours{words}": sampler for words, sampler in reversed(samplers(model).items())}
    flow = FlowTransfer(shapes.scene_pairs(known, rendering, SIZE, model.predictor.device))
    return {"copy": Copy(), "Flow": flow, **autoencoders, **ours}


def samplers(model: Model) -> dict[str, FutureSampler]:
    """Where z comes from, as the rows name it -> futures of this model."""
    predictor, latent = Remembering(model.predictor, IMAGES), model.predictor.network.config.latent
    sources: tuple[LatentSource, ...] = (model.source("posteriors"), model.learned_prior, Prior(latent))
    return {words: ModelSampler(predictor, source) for words, source in zip(SOURCES.values(), sources, strict=True)}


def posterior_sampler(model: Model) -> ModelSampler:
    return ModelSampler(model.predictor, model.source("posteriors"))


def measure(rows: dict[str, FutureSampler], bench: Bench, extent: Extent, progress: Progress) -> dict[str, Any]:
    """All numbers of tables and plots of one set of images."""
    each, measured = bench.floor.each, {}
    for name, sampler in rows.items():
        step = partial(progress, f"{name} ({bench.name})")
        measured[name] = sampled_motions(sampler, bench.images, each, extent.seed, step)
    motions = {name: Motions(found, each) for name, found in measured.items()}
    on_grid = {name: motions[name] for name in ("ours", MEANS) if MEANS in motions}
    shown = {"truth": bench.truth.displacements, "ours": measured["ours"]}
    return {
        "images": len(bench.images),
        "samples": len(measured["ours"]),
        "sizes": bench.sizes,
        "rows": tables_with_floor(bench, motions),
        **({"on_grid": tables_with_floor(bench, on_grid, GRID_RANGE)} if on_grid else {}),
        "correlations": {name: motion.motion_correlations(values) for name, values in (shown | measured).items()},
        "measured_shares": {name: motion.measured_shares(values) for name, values in (shown | measured).items()},
        "histograms": {name: histograms(values) for name, values in shown.items()},
    }


def tables_with_floor(bench: Bench, motions: Mapping[str, Motions], reach: float = motion.RANGE) -> dict[str, Any]:
    """Row of the table -> its divergences, with bins of [-reach, reach]^2; the floor is a mean over its truths."""
    floors = [kl_tables(truth, {"floor": bench.floor}, reach=reach)["floor"] for truth in bench.floor_truths]
    return kl_tables(bench.truth, motions, reach=reach) | {"floor": mean_table(floors)}


def over_seeds(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and range of each column over models that were trained alike."""
    values = {column: [row[column] for row in rows] for column in COLUMNS}
    ranges = {column: [min(each), max(each)] for column, each in values.items()}
    return {"models": len(rows), "mean": {column: fmean(each) for column, each in values.items()}, "range": ranges}


def histograms(displacements: Tensor) -> dict[str, list[list[float]]]:
    found = {name: motion.histogram(displacements[:, index]) for index, name in enumerate(motion.SHAPES)}
    found["circles_triangles"] = motion.joint_histogram(displacements)
    return {name: np.round(values.numpy(), 7).tolist() for name, values in found.items()}


def draw(result: dict[str, Any], folder: Path) -> str:
    """Plot, table and notes of each set of images; then what else tells the models apart."""
    parts = []
    for name in result["sets"]:
        plot_motions(result, name, folder / f"shapes_{name}.png")
        parts += [f"### {SETS[name].capitalize()}", kl_table(result, name), notes(result, name)]
        parts += [claim(result)] if name == "generated" else []
        parts += [grid_table(result, name)] if "on_grid" in result["sets"][name] else []
    return "\n\n".join(
        [*parts, "### Stored codes", models_table(result["models"]), analogies_table(result["analogies"])]
    )


def headline(result: dict[str, Any]) -> Headline:
    """Every set of images with its own floor; z from N(0, I), the prior of the equations, beside the stored codes."""
    columns, generated = result["columns"], result["sets"]["generated"]["rows"]
    ours, floors = [], []
    for name in HEADLINE_SETS:
        if name in result["sets"]:
            rows = result["sets"][name]["rows"]
            ours.append(f"{SETS[name]}: {' / '.join(cells(rows['ours'], columns))}")
            floors.append(f"{SETS[name]}: {' / '.join(cells(rows['floor'], columns))}")
    normal = generated[f"ours{SOURCES['N(0, I)']}"]
    ours.append(f"{SETS['generated']}, z from N(0, I): {' / '.join(cells(normal, columns))}")
    if seeds := result.get("over_seeds"):
        over = " / ".join(cells(seeds["mean"] | {"intervals": seeds["range"]}, columns))
        ours.insert(1, f"{seeds['models']} training seeds, mean and range: {over}")
    names = " / ".join(TITLES[column].lower() for column in columns)
    paper = f"{listed(result['paper']['ours'], 2)} (by optical flow: does not compare)"
    return Headline(f"KL of motions, nats: {names}", paper, "; ".join(ours), "; ".join(floors))


def kl_table(result: dict[str, Any], name: str) -> str:
    """One set of images: rows of the paper, ours, and the floor."""
    columns, measured = result["columns"], dict(result["sets"][name]["rows"])
    measured["floor (truth against truth)"] = measured.pop("floor")
    rows = [[f"{method}, paper", *(number(value, 2) for value in values)] for method, values in result["paper"].items()]
    rows += [[method, *cells(found, columns)] for method, found in measured.items()]
    if name == "generated" and (seeds := result.get("over_seeds")):
        words = f"ours, mean (range) of {seeds['models']} training seeds"
        rows.insert(-1, [words, *cells(seeds["mean"] | {"intervals": seeds["range"]}, columns)])
    return table(["KL(truth || prediction), nats", *(TITLES[column] for column in columns)], rows, bold=("ours",))


def grid_table(result: dict[str, Any], name: str) -> str:
    """The same motions in bins around the multiples of half a pixel, where all true motions of this drawing lie."""
    columns, measured = result["columns"], result["sets"][name]["on_grid"]
    rows = [[method, *cells(found, columns)] for method, found in measured.items()]
    head = [f"bins of 1/4 px, {SETS[name]}: KL, nats", *(TITLES[column] for column in columns)]
    return table(head, rows)


def notes(result: dict[str, Any], name: str) -> str:
    """What a reader must know to use the numbers."""
    measured, protocol = result["sets"][name], result["protocol"]
    found = measured["correlations"]["ours"]
    images = f"the first {measured['images']} of " if name == "authors" else f"{measured['images']} "
    return (
        f"{measured['samples']:,} samples on {images}{SETS[name]}, against {measured['sizes']['truth']:,} true "
        f"motions, as in the floor; in brackets 95 % intervals; zero-bin epsilon {protocol['epsilon']:g}. "
        f"Correlation of sampled motions: circle-triangle {number(found['circle_triangle'], 3)}, "
        f"circle-square {number(found['circle_square'], 3)}."
    )


def plot_motions(result: dict[str, Any], name: str, path: Path) -> None:
    """True and predicted distributions, one above the other, as in the paper's figure."""
    drawn, limit = result["sets"][name]["histograms"], result["protocol"]["range"]
    with plot(path, 11, 5.6, rows=2, columns=4, sharex=True, sharey=True) as axes:
        for row, (source, title) in zip(axes, (("truth", "ground truth"), ("ours", "our samples")), strict=True):
            for axis, column in zip(row, result["columns"], strict=True):
                # Histograms are indexed [x, y]; pictures have rows first. y points down, as in the image.
                values = np.sqrt(np.array(drawn[source][column]).T)
                axis.imshow(values, cmap="magma", extent=(-limit, limit, limit, -limit), interpolation="nearest")
                axis.set_title(f"{TITLES[column]}, {title}")
                joint = column == "circles_triangles"
                axis.set_xlabel("circle dy (px)" if joint else "dx (px)")
                axis.set_ylabel("triangle dx (px)" if joint else "dy (px)")


EXPERIMENT = Experiment(
    "shapes",
    "KL divergence of the motion of circles, squares and triangles (table and plot on Shapes)",
    __doc__,
    ShapesOptions,
    compute,
    draw,
    headline,
    newest=("sets", "generated", "sizes"),
)
