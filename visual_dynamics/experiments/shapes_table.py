"""The Shapes table and plot: does each shape move as it should?

Paper      "Movement of 2D Shapes": KL divergence between true and predicted motion, and the plot beside the table.
Command    visual-dynamics reproduce shapes [--pairs AUTHORS_PAIRS]
Cost       about two minutes on one H200, about two hours on two CPU cores; --samples 2000 makes it minutes.
Paper says Flow 6.77 / 7.07 / 6.07 / 8.42, AE 8.76 / 12.37 / 10.36 / 10.58, ours 1.70 / 2.48 / 1.14 / 2.46
           (circles / squares / triangles / circles-triangles).

Protocol: 500 test images, 100 futures each. The displacement of each object is measured by masked matching, the same
for truth and prediction; histograms of 41 x 41 bins on [-5, 5]^2 pixels at 64x64. Truth are 100 true futures of each
image (drawn by the world's law), the floor is a second such set against the first. On the authors' pairs the world
cannot be asked again: truth are their measured next frames, the floor compares two halves of them.

Two drawings of one law, each with a model that was trained on it. "generated": shapes stand where the law puts them.
"whole_pixels": places are rounded at 128x128, as in the authors' files, so that at 64x64 all true motions are
multiples of half a pixel. Every second bin of the true histogram is then empty, and a prediction that is right within
0.07 px, but not on the grid, pays 0.3 nats.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines.copying import Copy
from visual_dynamics.baselines.flow_transfer import FlowTransfer
from visual_dynamics.baselines.sampler import FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.data.folders import read_pairs
from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.evaluation.shape_segments import segment_shapes
from visual_dynamics.experiments import shapes_figures
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.analogy import apply_motion
from visual_dynamics.sampling.latents import Prior, TrainingPosteriors, sample_seeds
from visual_dynamics.sampling.sampler import ModelSampler

SUMMARY = "KL divergence of the motion of circles, squares and triangles (table and plot on Shapes)"
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
SIZE = 64
GROUP = 1000  # futures measured at once


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    autoencoder: str = "shapes-ae"  # the AE baseline
    integer_model: str = "shapes-integer"  # trained on whole pixels: for such images and for the authors' pairs
    pairs: Path | None = None  # the authors' pairs
    samples: int | None = None
    seed: int = 0
    small: bool = False  # a quick look: fewer images, samples and pairs, also for Flow


@dataclass(frozen=True)
class Images:
    """Inputs to predict from, with the visible masks of their objects."""

    frames: Tensor  # float (N, 3, 64, 64)
    masks: Tensor  # float (N, 3, 64, 64): circle, square, triangle

    def __len__(self) -> int:
        return len(self.frames)


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Measure every row on generated images in both drawings, and on the authors' where they are given."""
    started = time.monotonic()
    samples = options.samples or (SMALL_SAMPLES if options.small else SAMPLES)
    most = SMALL_IMAGES if options.small else IMAGES
    scenes = shapes.draw_scenes(SMALL_FLOW_SCENES if options.small else shapes.TRAIN_PAIRS, seed=0, split="train")
    model, autoencoder, integer_model = (
        load_on(name, device) for name in (options.model, options.autoencoder, options.integer_model)
    )
    smooth = samplers(scenes, "smooth", model, {"AE": autoencoder}, device)
    whole = samplers(scenes, "integer", integer_model, {"AE (trained on sub-pixel places)": autoencoder}, device)
    sets = {
        "generated": measure_generated(smooth, "smooth", most, samples, options.seed, device, tell),
        "whole_pixels": measure_generated(whole, "integer", most, samples, options.seed, device, tell),
    }
    if options.pairs:
        sets["authors"] = measure_authors(
            whole, options.pairs, SMALL_TRUTH if options.small else None, most, samples, options.seed, device, tell
        )
    return {
        "experiment": "shapes",
        "sets": sets,
        "analogies": measure_analogies(
            model, "smooth", options.seed, min(SMALL_ANALOGIES if options.small else ANALOGIES, samples)
        ),
        "paper": PAPER,
        "columns": COLUMNS,
        "protocol": {
            "images": most,
            "samples": samples,
            "size": SIZE,
            "bins": motion.BINS,
            "range": motion.RANGE,
            "epsilon": motion.EPSILON,
            "meter": "masked matching",
        },
        "autoencoder_weights": autoencoder.weights.digest,
        "integer_weights": integer_model.weights.digest,
    } | origin(options, model, started, device)


def samplers(
    scenes: shapes.Scenes,
    rendering: shapes.Rendering,
    model: Model,
    autoencoders: dict[str, Model],
    device: torch.device,
) -> dict[str, FutureSampler]:
    """The methods of the table by the names of their rows, for one drawing. `scenes`: those that Flow knows."""
    return {
        "copy": Copy(),
        "Flow": FlowTransfer(shapes.scene_pairs(scenes, rendering, SIZE, device)),
        **{name: posterior_sampler(autoencoder) for name, autoencoder in autoencoders.items()},
        "ours, z from N(0, I)": ModelSampler(model.predictor, Prior(model.predictor.network.config.latent)),
        "ours, z from the learned prior": ModelSampler(model.predictor, model.learned_prior),
        "ours": posterior_sampler(model),
    }


def load_on(name: str | Path, device: torch.device) -> Model:
    return load(name, str(device))


def posterior_sampler(model: Model) -> ModelSampler:
    return ModelSampler(model.predictor, TrainingPosteriors(model.weights.posteriors))


def measure_generated(
    rows: dict[str, FutureSampler],
    rendering: shapes.Rendering,
    most: int,
    samples: int,
    seed: int,
    device: torch.device,
    tell: Tell,
) -> dict[str, Any]:
    """Rows on `most` generated test images, against true futures of the same images."""
    count = min(most, samples)
    scenes, images = generated_images(count, rendering, seed, device)
    each = max(1, samples // count)
    truth, second = (measure_truth(scenes, rendering, images, each, seed + 1 + half, tell) for half in range(2))
    measured = {
        name: measure_row(sampler, images, each, seed, f"{name} ({rendering})", tell) for name, sampler in rows.items()
    }
    return summary(truth, second, measured, samples=count * each)


def generated_images(
    count: int, rendering: shapes.Rendering, seed: int, device: torch.device
) -> tuple[shapes.Scenes, Images]:
    """Test scenes, and how they look before they move."""
    scenes = shapes.draw_scenes(count, seed, "test")
    frames = shapes.images(scenes, rendering=rendering, size=SIZE)
    masks = shapes.visible_masks(scenes, rendering=rendering, size=SIZE)
    return scenes, Images(frames.to(device).float() / 255, masks.to(device))


def measure_truth(
    scenes: shapes.Scenes, rendering: shapes.Rendering, images: Images, each: int, seed: int, tell: Tell
) -> Tensor:
    """Displacements of true futures, (N * each, 3, 2): the same images with new motions, drawn by the world's law."""
    parts = []
    for number in range(each):
        other = scenes.with_new_motions(seed * 10_000 + number)
        next_frames = shapes.images(other, moved=True, rendering=rendering, size=SIZE, device=images.frames.device)
        parts.append(motion.measure_displacement(images.frames, images.masks, next_frames.to(images.frames) / 255))
        tell(f"true futures ({rendering})", (number + 1) / each)
    return torch.cat(parts).cpu()


def measure_row(sampler: FutureSampler, images: Images, each: int, seed: int, name: str, tell: Tell) -> Tensor:
    """Displacements in `each` futures of every image, (N * each, 3, 2)."""
    parts = []
    per_group = max(1, GROUP // each)
    for start in range(0, len(images), per_group):
        chosen = range(start, min(start + per_group, len(images)))
        futures = [sampler.sample(images.frames[i], sample_seeds(seed * 10_000 + i, each)) for i in chosen]
        repeat = torch.tensor(chosen, device=images.frames.device).repeat_interleave(each)
        next_frames = torch.cat(futures).to(images.frames)
        parts.append(motion.measure_displacement(images.frames[repeat], images.masks[repeat], next_frames))
        tell(name, min(1.0, (start + per_group) / len(images)))
    return torch.cat(parts).cpu()


def measure_authors(
    rows: dict[str, FutureSampler],
    path: Path,
    truths: int | None,
    most: int,
    samples: int,
    seed: int,
    device: torch.device,
    tell: Tell,
) -> dict[str, Any]:
    """Rows on the authors' own images; truth is what their next frames show, one future an image, of all or the first
    `truths` pairs."""
    pairs = read_pairs(path)
    pairs = pairs.subset(torch.arange(len(pairs))[:truths])
    masks = resize_masks(segment_shapes(pairs.frames.to(device)), SIZE)
    small = pairs.resized(SIZE)
    every = torch.arange(len(small))
    truth = torch.cat(
        [
            motion.measure_displacement(part.frame.to(device), mask.to(device), part.next_frame.to(device)).cpu()
            for part, mask in ((small.batch(chunk), masks[chunk]) for chunk in every.split(GROUP))
        ]
    )
    count = min(most, samples, len(small))
    images = Images(small.batch(every[:count]).frame.to(device), masks[:count].to(device))
    each = max(1, samples // count)
    measured = {
        name: measure_row(sampler, images, each, seed, f"{name} (authors' pairs)", tell)
        for name, sampler in rows.items()
    }
    result = summary(truth, None, measured, samples=count * each)
    result["rows"]["floor"] = motion.motion_table(truth[::2], truth[1::2])
    result["truth_samples"] = len(truth)
    return result


def measure_analogies(model: Model, rendering: shapes.Rendering, seed: int, count: int = 200) -> dict[str, float]:
    """Squared error of a frame (summed over pixels and colours, mean over pairs) when the motion code of one scene
    moves another, whose true answer the world can draw; beside it the code on its own scene, and no motion at all."""
    scenes = shapes.draw_scenes(2 * count, seed + 1, "test")
    sources = scenes.subset(slice(0, count))
    targets = replace(scenes.subset(slice(count, 2 * count)), motions=sources.motions)
    every = torch.arange(count)
    source, target = (shapes.scene_pairs(s, rendering, SIZE).batch(every) for s in (sources, targets))
    errors: dict[str, list[Tensor]] = {"analogy": [], "reconstruction": [], "copy": []}
    for before, after, frame, answer in zip(*source, *target, strict=True):
        code = model.predictor.encode(before, after).mean
        for name, start, truth in (("reconstruction", before, after), ("analogy", frame, answer)):
            errors[name].append((apply_motion(model.predictor, start, code).cpu() - truth).square().sum())
        errors["copy"].append((frame - answer).square().sum())
    return {name: float(torch.stack(values).mean()) for name, values in errors.items()}


def resize_masks(masks: Tensor, size: int) -> Tensor:
    return torch.nn.functional.interpolate(masks, size=(size, size), mode="area")


def summary(truth: Tensor, second: Tensor | None, measured: dict[str, Tensor], samples: int) -> dict[str, Any]:
    """Everything that tables and plots need, as plain numbers."""
    rows = {name: motion.motion_table(truth, values) for name, values in measured.items()}
    if second is not None:
        rows["floor"] = motion.motion_table(truth, second)
    shown = {"truth": truth, "ours": measured["ours"]}
    return {
        "samples": samples,
        "rows": rows,
        "correlations": {name: motion.motion_correlations(values) for name, values in (shown | measured).items()},
        "measured_shares": {name: motion.measured_shares(values) for name, values in (shown | measured).items()},
        "histograms": {name: shapes_figures.histograms(values) for name, values in shown.items()},
    }


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the plot and the table; returns the table as Markdown."""
    return shapes_figures.draw(result, folder)


headline = shapes_figures.headline
