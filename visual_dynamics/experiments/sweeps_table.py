"""Two sweeps over trainings on Shapes: the weight of the KL term, and the size of z.

Paper      the figure of z for several weights of the KL term; "Varying the Size of the Latent Representation".
Command    visual-dynamics reproduce sweeps [--runs FOLDER] [--samples FUTURES]
Cost       some ten minutes on one H200 with the trainings in parallel; on a CPU the trainings take days.
Paper says PCA components 3, 3, 3, 5 with a z of 8, 32, 128, 3,200; all sizes converge, a small z more slowly; the
           latent vector becomes sparser when the KL term weighs more.

Protocol: seven trainings that differ in nothing but this: four sizes of z with a beta of 16, and with a z of
3,200 also one of 1, 4 and 64. In the loss, KL + squared error / (2 sigma^2) with sigma 0.1, the KL term weighs 0.02
against the squared error; between 30 % and 60 % of the steps this weight grows by beta, to 0.32, and to 0.02,
0.08 and 1.28. That is the weight which the paper's figure varies; its text gives no values. It grows late, for under a
heavy KL term from the start a z of 3,200 takes many times longer to learn. 3,000 steps of 64 pairs, shapes at sub-pixel
places, colours hidden from the motion code, one seed.

The z of 128 and of 3,200 are scaled (--set latent_scale=true): their dimensions are read with fixed
weights that fall from 1 to 1/23 and to 1/250. Among equals the motion stays spread: a z of 128 like those of 8 and 32
came to a held-out error of 3.9 with 10 components; with a z of 3,200, in trials with a network of half the size, the
error stayed at twice that of a z of 8, whatever optimiser, rate or start was tried.

Each is measured on test scenes. z: 1,000 pairs, as in the latents experiment. Held-out error: 500 of them, with a z
drawn from their posteriors, as in training. Training error: mean of the logged batches in the last tenth of the steps,
a few hundred pairs with the network in training mode.
Motion: 500 images and 100 futures each, as in the Shapes table, with z from the training posteriors that the weights
file holds. There is room for 14 MB: of a z with many active dimensions few posteriors fit, so their number is told.

A training lies in FOLDER/NAME, as `visual-dynamics train` makes it. One that is finished is only measured (config.json,
log.jsonl and weights.safetensors are enough), one that was interrupted is resumed, a missing one is made. On a GPU
the commands of all seven, which stand below the tables, may run side by side before. Without --runs the trainings are
made one after the other, and thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pair, Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import latent_statistics as statistics
from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.evaluation.shape_futures import SIZE, generated_images, sampled_motions, true_motions
from visual_dynamics.experiments import latents, sweeps_figures
from visual_dynamics.experiments import shapes as shapes_experiment
from visual_dynamics.experiments.sweeps_runs import (
    RENDERING,
    is_finished,
    kl_weight,
    make_plan,
    make_run,
    read_log,
    temporary_folder,
    training_command,
)
from visual_dynamics.objective import squared_error
from visual_dynamics.posteriors import ACTIVE_NATS
from visual_dynamics.provenance import provenance
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.training.config import TrainingConfig

SUMMARY = "four sizes of z and four weights of the KL term: sparsity, convergence and motion (two figures of z)"
PAPER = {"components_by_size": latents.PAPER["components_by_size"]}
FOLDER = "runs/sweeps"  # in the commands that are shown
PAIRS, SMALL_PAIRS = 1_000, 100  # whose posteriors are measured
HELD_OUT = 500  # of them, whose error is measured
IMAGES, SMALL_IMAGES = shapes_experiment.IMAGES, 20
SAMPLES, SMALL_SAMPLES = shapes_experiment.SAMPLES, 40
POINTS = 80  # of a curve, at most
LAST = 0.1  # share of the steps whose mean is the final training error
BATCH = {"cpu": 16, "cuda": 128}
SHOWN_SHARES = 12  # principal components whose share is stored
UNIT = 0.01  # of the intervals: thousands of them are stored as whole numbers, as fine as a figure shows


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    runs: Path | None = None  # the folder of the trainings
    samples: int | None = None  # futures in all, for the motion
    seed: int = 0  # of the trainings and of what is measured
    small: bool = False  # a quick look: tiny networks, few steps


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Make the trainings that are missing, then measure all of them."""
    started = time.monotonic()
    plan = make_plan(options.seed, options.small)
    if device.type == "cpu" and not options.runs and not options.small:
        raise UserError("the trainings of sweeps take days on a CPU: give --runs FOLDER, which keeps them, or --small")
    samples = options.samples or (SMALL_SAMPLES if options.small else SAMPLES)
    pairs_wanted = SMALL_PAIRS if options.small else PAIRS
    with nullcontext(options.runs) if options.runs else temporary_folder() as folder:
        for name, config in plan.runs.items():  # a mistake is told before hours of training
            is_finished(folder / name, config)
        for name, config in plan.runs.items():
            make_run(folder / name, config, name, device, tell)
        models = {name: load(folder / name / "weights.safetensors", str(device)) for name in plan.runs}
        logs = {name: read_log(folder / name) for name in plan.runs}
    size = next(iter(models.values())).size
    pairs = shapes.shapes_pairs(pairs_wanted, options.seed, "test", RENDERING, size)
    held_out = pairs.subset(torch.arange(min(HELD_OUT, len(pairs))))
    runs = {
        name: describe(name, config, logs[name])
        | measure_latents(name, models[name], pairs, device, tell)
        | {"held_out_error": four_digits(reconstruction_error(models[name], held_out, device))}
        for name, config in plan.runs.items()
    }
    count = min(SMALL_IMAGES if options.small else IMAGES, samples)
    found, floor = measure_motion(models, count, samples, options.seed, device, tell)
    for name, row in found.items():
        runs[name] |= row
    return {
        "experiment": "sweeps",
        "runs": runs,
        "sizes": plan.sizes,
        "kl_weights": plan.weights,
        "floor": floor["kl"],
        "copy_error": four_digits(copy_error(held_out)),
        "paper": PAPER,
        "columns": shapes_experiment.COLUMNS,
        "protocol": {
            "non_zero": f"root mean square of z_mean over the pairs above {statistics.NON_ZERO:g}",
            "share": statistics.SHARE,
            "active_nats": ACTIVE_NATS,
            "pairs": len(pairs),
            "held_out": len(held_out),
            "images": count,
            "samples": count * max(1, samples // count),
            "unit": UNIT,
        },
        "seed": options.seed,
        "seconds": round(time.monotonic() - started, 1),
    } | provenance(device)


def describe(name: str, config: TrainingConfig, log: list[dict[str, float]]) -> dict[str, Any]:
    """How a training went."""
    steps = int(log[-1]["step"])
    last = [record["squared_error"] for record in log if record["step"] > (1 - LAST) * steps]
    seconds = log[-1]["seconds"]  # after the first step
    return {
        "command": training_command(f"{FOLDER}/{name}", config),
        "preset": config.preset,
        "bottleneck": config.beta,
        "kl_weight": four_digits(kl_weight(config)),
        "steps": steps,
        "seconds": round(seconds, 1),
        "pairs_per_second": four_digits((steps - 1) * config.batch / max(1e-9, seconds)),
        "training_error": four_digits(sum(last) / len(last)),
        "curve": curve(log),
    }


def curve(log: list[dict[str, float]]) -> dict[str, list[float]]:
    """Steps, squared error and KL: at most so many points, evenly chosen, the last of them kept."""
    chosen = log
    if len(log) > POINTS:
        chosen = [log[round(place * (len(log) - 1) / (POINTS - 1))] for place in range(POINTS)]
    return {name: [four_digits(record[name]) for record in chosen] for name in ("step", "squared_error", "kl")}


def four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def measure_latents(name: str, model: Model, pairs: Pairs, device: torch.device, tell: Tell) -> dict[str, Any]:
    """The statistics of the latents experiment, the long ones made short."""
    found = latents.measure(model, name, pairs, partial(tell, f"z of {name}"))
    kept = ("model", "weights", "latent", "non_zero", "non_zero_by_threshold", "components", "active")
    return {key: found[key] for key in kept} | {
        "component_shares": [round(share, 4) for share in found["component_shares"][:SHOWN_SHARES]],
        "nats_in_all": four_digits(found["nats_in_all"]),
        "posteriors": len(model.weights.posteriors),
        "trained_by": {key: model.weights.training.get(key) for key in ("commit", "device", "torch")},
        **{
            row: {part: [round(value / UNIT) for value in values] for part, values in found[row].items()}
            for row in ("z_mean", "z_logvar")
        },
    }


@torch.inference_mode()
def reconstruction_error(model: Model, pairs: Pairs, device: torch.device) -> float:
    """Squared error of the difference, summed over pixels and colours, mean over pairs; z is drawn from the posterior.

    Not its mean: a network with thousands of noisy dimensions has never seen a z without the noise, and fails on it.
    """
    errors, network = [], model.predictor.network
    random = torch.Generator().manual_seed(0)
    for chosen in torch.arange(len(pairs)).split(BATCH.get(device.type, BATCH["cpu"])):
        pair = Pair(*(frames.to(device) for frames in pairs.batch(chosen)))
        noise = torch.randn(len(chosen), network.config.latent, generator=random).to(device)
        predicted = network(pair.frame, pair.difference, noise).difference
        errors.append(squared_error(predicted, pair.difference).cpu())
    return float(torch.cat(errors).mean())


def copy_error(pairs: Pairs) -> float:
    """The same where nothing is moved."""
    pair = pairs.batch(torch.arange(len(pairs)))
    return float(squared_error(pair.frame, pair.next_frame).mean())


def measure_motion(
    models: dict[str, Model], count: int, samples: int, seed: int, device: torch.device, tell: Tell
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Rows of the Shapes table, one a model, and their floor; the truth is measured once for all of them."""
    scenes, images = generated_images(count, RENDERING, seed, device)
    each = max(1, samples // count)
    step = partial(tell, f"true futures ({RENDERING})")
    truth, second = (true_motions(scenes, RENDERING, images, each, seed + half, step) for half in (1, 2))
    rows = {}
    for name, model in models.items():
        moved = sampled_motions(futures_of(model), images, each, seed, partial(tell, f"motion of {name}"))
        rows[name] = compare(truth, moved)
    return rows, compare(truth, second)


def compare(truth: Tensor, moved: Tensor) -> dict[str, Any]:
    """KL divergences of the motion, and the shares of the objects that it could be measured of."""
    try:
        found = {name: four_digits(value) for name, value in motion.motion_table(truth, moved).items()}
    except UserError:  # a bad network's futures may show no object: that must not cost the others
        found = {}
    shares = {name: four_digits(share) for name, share in motion.measured_shares(moved).items()}
    return {"kl": {name: found.get(name) for name in shapes_experiment.COLUMNS}, "measured_shares": shares}


def futures_of(model: Model) -> FutureSampler:
    sampler = shapes_experiment.posterior_sampler(model)
    return sampler if model.size == SIZE else Enlarged(sampler, model.size)


class Enlarged:
    """The futures of a network with smaller frames at the size that motion is measured at: for the small setting."""

    def __init__(self, sampler: FutureSampler, size: int) -> None:
        self.sampler, self.size = sampler, size

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        small = F.interpolate(frame[None], size=self.size, mode="area")[0]
        side = frame.shape[-1]
        return F.interpolate(self.sampler.sample(small, seeds), size=side, mode="bilinear", align_corners=False)


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figures and the tables; returns the tables as Markdown."""
    return sweeps_figures.draw(result, folder)


headline = sweeps_figures.headline
