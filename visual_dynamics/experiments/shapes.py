"""The Shapes table and plot: does each shape move as it should?

Paper      "Movement of 2D Shapes": KL divergence between true and predicted motion, and the plot beside the table.
Command    visual-dynamics reproduce shapes [--pairs AUTHORS_PAIRS]
Cost       about two minutes on one H200, about two hours on two CPU cores; --samples 2000 makes it minutes.
Paper says Flow 6.77 / 7.07 / 6.07 / 8.42, AE 8.76 / 12.37 / 10.36 / 10.58, ours 1.70 / 2.48 / 1.14 / 2.46
           (circles / squares / triangles / circles-triangles).

Protocol: 500 test images, 100 futures each. Trainings before 2026-11-18 watched their error on 256 of these images.
The displacement of each object is measured by masked matching, the same
for truth and prediction; histograms of 41 x 41 bins on [-5, 5]^2 pixels at 64x64. The truth: 100 true futures of each
image, drawn by the world's law. The floor: a second such set against the first. The authors' pairs have one true next
frame each: the truth is measured on it, and the floor compares two halves of the pairs.

Two drawings of one law, each with a model that was trained on it. "generated": shapes stand where the law puts them.
"whole_pixels": places are rounded at 128x128, as in the authors' files. At 64x64 all true motions are then multiples
of half a pixel, and every second bin of the true histogram is empty. A prediction that is right within 0.07 px, but
not on the grid, pays 0.3 nats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import Copy, FlowTransfer, FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.data.folders import read_pairs
from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.evaluation.shapes import (
    GROUP,
    SIZE,
    ShapeImages,
    generated_images,
    sampled_motions,
    segment_shapes,
    true_motions,
)
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import listed, number, plot, table
from visual_dynamics.sampling.latents import Prior
from visual_dynamics.sampling.moves import ModelSampler

PAPER = {
    "Flow": (6.77, 7.07, 6.07, 8.42),
    "AE": (8.76, 12.37, 10.36, 10.58),
    "ours": (1.70, 2.48, 1.14, 2.46),
}
COLUMNS = (*motion.SHAPES, "circles_triangles")
IMAGES = shapes.TEST_PAIRS
SAMPLES = 50_000
ANALOGIES = 200
SMALL_IMAGES, SMALL_SAMPLES, SMALL_FLOW_SCENES, SMALL_ANALOGIES = 50, 250, 1_000, 20
SMALL_TRUTH = 500  # of the authors' pairs

TITLES = {
    "circles": "Circles",
    "squares": "Squares",
    "triangles": "Triangles",
    "circles_triangles": "Circles-Triangles",
}
SETS = {
    "generated": "generated test images",
    "whole_pixels": "generated test images, drawn at whole pixels",
    "authors": "the authors' pairs",
}


@dataclass(frozen=True)
class ShapesOptions(ExperimentOptions):
    model: str = "shapes"
    autoencoder: str = "shapes-ae"  # the AE baseline
    integer_model: str = "shapes-integer"  # trained on whole pixels: for such images and for the authors' pairs
    pairs: Path | None = None  # the authors' pairs


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    images: int
    samples: int  # futures of all images together
    seed: int

    def over(self, available: int) -> tuple[int, int]:
        """The number of images, and of futures of each."""
        count = min(self.images, self.samples, available)
        return count, max(1, self.samples // count)


def compute(options: ShapesOptions, device: torch.device, progress: Progress) -> Measured:
    """Measure every row on generated images in both drawings, and on the authors' if they are given."""
    samples = options.samples or (SMALL_SAMPLES if options.small else SAMPLES)
    extent = Extent(SMALL_IMAGES if options.small else IMAGES, samples, options.seed)
    scenes = shapes.draw_scenes(SMALL_FLOW_SCENES if options.small else shapes.TRAIN_PAIRS, seed=0, split="train")
    model, autoencoder, integer_model = (
        load(name, str(device)) for name in (options.model, options.autoencoder, options.integer_model)
    )
    smooth = methods(model, {"AE": autoencoder}, scenes, "smooth")
    whole = methods(integer_model, {"AE (trained on sub-pixel places)": autoencoder}, scenes, "integer")
    sets = {
        "generated": measure_generated(smooth, "smooth", extent, device, progress),
        "whole_pixels": measure_generated(whole, "integer", extent, device, progress),
    }
    if options.pairs:
        truths = SMALL_TRUTH if options.small else None
        sets["authors"] = measure_authors(whole, options.pairs, truths, extent, device, progress)
    analogies = min(SMALL_ANALOGIES if options.small else ANALOGIES, samples)
    protocol: dict[str, float] = {"images": extent.images, "samples": samples, "size": SIZE}
    protocol |= {"bins": motion.BINS, "range": motion.RANGE, "epsilon": motion.EPSILON}
    numbers = {"sets": sets, "paper": PAPER, "columns": COLUMNS, "protocol": protocol}
    return Measured(numbers | {"analogies": measure_analogies(model, "smooth", options.seed, analogies)})


def methods(
    model: Model, autoencoders: dict[str, Model], known: shapes.Scenes, rendering: shapes.Rendering
) -> dict[str, FutureSampler]:
    """Row of the table -> its method, for one drawing. Flow takes its motions from the known scenes."""
    predictor = model.predictor
    return {
        "copy": Copy(),
        "Flow": FlowTransfer(shapes.scene_pairs(known, rendering, SIZE, predictor.device)),
        **{name: posterior_sampler(autoencoder) for name, autoencoder in autoencoders.items()},
        "ours, z from N(0, I)": ModelSampler(predictor, Prior(predictor.network.config.latent)),
        "ours, z from the learned prior": ModelSampler(predictor, model.learned_prior),
        "ours": posterior_sampler(model),
    }


def posterior_sampler(model: Model) -> ModelSampler:
    return ModelSampler(model.predictor, model.source("posteriors"))


def measure_generated(
    rows: dict[str, FutureSampler],
    rendering: shapes.Rendering,
    extent: Extent,
    device: torch.device,
    progress: Progress,
) -> dict[str, Any]:
    """Rows on generated test images, against true futures of the same images."""
    count, each = extent.over(extent.images)
    scenes, images = generated_images(count, rendering, extent.seed, device)
    step = partial(progress, f"true futures ({rendering})")
    truth, second = (true_motions(scenes, rendering, images, each, extent.seed + half, step) for half in (1, 2))
    measured = {
        name: sampled_motions(sampler, images, each, extent.seed, partial(progress, f"{name} ({rendering})"))
        for name, sampler in rows.items()
    }
    return summary(truth, second, measured, count * each)


def measure_authors(
    rows: dict[str, FutureSampler],
    path: Path,
    truths: int | None,
    extent: Extent,
    device: torch.device,
    progress: Progress,
) -> dict[str, Any]:
    """Rows on the authors' images. Truth: the next frame of all or the first `truths` pairs, one future an image."""
    pairs = read_pairs(path)
    pairs = pairs.subset(torch.arange(len(pairs))[:truths])
    masks = interpolate(segment_shapes(pairs.frames.to(device)), size=(SIZE, SIZE), mode="area")
    small = pairs.resized(SIZE)
    parts = []
    for chunk in torch.arange(len(small)).split(GROUP):
        pair = small.batch(chunk)
        found = motion.measure_displacement(pair.frame.to(device), masks[chunk].to(device), pair.next_frame.to(device))
        parts.append(found.cpu())
    truth = torch.cat(parts)
    count, each = extent.over(len(small))
    images = ShapeImages(small.batch(torch.arange(count)).frame.to(device), masks[:count].to(device))
    measured = {
        name: sampled_motions(sampler, images, each, extent.seed, partial(progress, f"{name} (authors' pairs)"))
        for name, sampler in rows.items()
    }
    result = summary(truth, None, measured, count * each)
    result["rows"]["floor"] = motion.motion_table(truth[::2], truth[1::2])
    result["truth_samples"] = len(truth)
    return result


def measure_analogies(model: Model, rendering: shapes.Rendering, seed: int, count: int) -> dict[str, float]:
    """Mean squared error of a frame (summed over pixels and colours) when the code of one scene moves another scene.

    The world draws the true answer. Beside it: the code on its own scene, and no motion at all.
    """
    scenes = shapes.draw_scenes(2 * count, seed + 1, "test")
    sources = scenes.subset(slice(0, count))
    targets = replace(scenes.subset(slice(count, 2 * count)), motions=sources.motions)
    every = torch.arange(count)
    source, target = (shapes.scene_pairs(s, rendering, SIZE).batch(every) for s in (sources, targets))
    codes = model.predictor.encode(source.frame, source.next_frame).mean
    made = {
        "analogy": (model.predictor.decode_each(target.frame, codes).cpu(), target.next_frame),
        "reconstruction": (model.predictor.decode_each(source.frame, codes).cpu(), source.next_frame),
        "copy": (target.frame, target.next_frame),
    }
    return {name: float((ours - truth).square().sum((1, 2, 3)).mean()) for name, (ours, truth) in made.items()}


def summary(truth: Tensor, second: Tensor | None, measured: dict[str, Tensor], samples: int) -> dict[str, Any]:
    """All numbers of tables and plots, from displacements (N, 3, 2). `second`: a second set of true ones."""
    rows = {name: motion.motion_table(truth, values) for name, values in measured.items()}
    if second is not None:
        rows["floor"] = motion.motion_table(truth, second)
    shown = {"truth": truth, "ours": measured["ours"]}
    return {
        "samples": samples,
        "rows": rows,
        "correlations": {name: motion.motion_correlations(values) for name, values in (shown | measured).items()},
        "measured_shares": {name: motion.measured_shares(values) for name, values in (shown | measured).items()},
        "histograms": {name: histograms(values) for name, values in shown.items()},
    }


def histograms(displacements: Tensor) -> dict[str, list[list[float]]]:
    found = {name: motion.histogram(displacements[:, index]) for index, name in enumerate(motion.SHAPES)}
    found["circles_triangles"] = motion.joint_histogram(displacements)
    return {name: np.round(values.numpy(), 7).tolist() for name, values in found.items()}


def draw(result: dict[str, Any], folder: Path) -> str:
    """Plot, table and notes of each set of images."""
    parts = []
    for name in result["sets"]:
        plot_motions(result, name, folder / f"shapes_{name}.png")
        parts += [f"### {SETS[name].capitalize()}", kl_table(result, name), notes(result, name)]
    found = result["analogies"]
    parts.append(
        f"Squared error of a frame when one scene's motion code moves another scene: {number(found['analogy'], 1)}; "
        f"its own scene: {number(found['reconstruction'], 1)}; nothing moved: {number(found['copy'], 1)}."
    )
    return "\n\n".join(parts)


def headline(result: dict[str, Any]) -> Headline:
    rows = result["sets"]["generated"]["rows"]
    ours, floor = (listed([rows[name][column] for column in result["columns"]], 2) for name in ("ours", "floor"))
    names = " / ".join(TITLES[column].lower() for column in result["columns"])
    return Headline(f"KL of motions, nats: {names}", listed(result["paper"]["ours"], 2), ours, floor)


def kl_table(result: dict[str, Any], name: str) -> str:
    """One set of images: rows of the paper, ours, and the floor."""
    columns, measured = result["columns"], dict(result["sets"][name]["rows"])
    measured["floor (truth against truth)"] = measured.pop("floor")
    rows = {f"{method}, paper": values for method, values in result["paper"].items()}
    rows |= {method: [found[column] for column in columns] for method, found in measured.items()}
    head = ["KL(truth || prediction), nats", *(TITLES[column] for column in columns)]
    return table(head, [[row, *(number(value, 2) for value in values)] for row, values in rows.items()], bold=("ours",))


def notes(result: dict[str, Any], name: str) -> str:
    """What a reader must know to use the numbers."""
    measured, protocol = result["sets"][name], result["protocol"]
    found = measured["correlations"]["ours"]
    images = "" if name == "authors" else f"{protocol['images']} "
    return (
        f"{measured['samples']:,} samples on {images}{SETS[name]}; zero-bin epsilon {protocol['epsilon']:g}. "
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
)
