"""What a training on Shapes has learned: the error on held-out pairs, and how its futures move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from visual_dynamics.api import LatentName, Model
from visual_dynamics.baselines import FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pair, Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.evaluation.shapes import SIZE, Enlarged, generated_images, sampled_motions, true_motions
from visual_dynamics.objective import squared_error
from visual_dynamics.sampling.moves import ModelSampler

RENDERING: shapes.Rendering = "smooth"
BATCH = {"cpu": 16, "cuda": 128}


def four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def sampler_of(model: Model, source: LatentName = "posteriors") -> FutureSampler:
    """Futures of frames of SIZE, also where the frames of the network are smaller."""
    sampler = ModelSampler(model.predictor, model.source(source))
    return sampler if model.size == SIZE else Enlarged(sampler, model.size)


@torch.inference_mode()
def reconstruction_error(model: Model, pairs: Pairs) -> float:
    """Squared error of the difference, summed over pixels and colours, mean over pairs; z is drawn as in training.

    From the posterior, not its mean: a network with thousands of noisy dimensions has never seen a z without the noise,
    and fails on it. An autoencoder decodes the mean.
    """
    errors, predictor = [], model.predictor
    random, sampled = torch.Generator().manual_seed(0), not is_autoencoder(model)
    for chosen in torch.arange(len(pairs)).split(BATCH.get(predictor.device.type, BATCH["cpu"])):
        pair = Pair(*(frames.to(predictor.device) for frames in pairs.batch(chosen)))
        noise = torch.randn(len(chosen), predictor.network.config.latent, generator=random).to(predictor.device)
        predicted = predictor.network(pair.frame, pair.difference, noise if sampled else None).difference
        errors.append(squared_error(predicted, pair.difference).cpu())
    return float(torch.cat(errors).mean())


def is_autoencoder(model: Model) -> bool:
    return bool(model.weights.training.get("config", {}).get("autoencoder"))


def measure_motion(
    samplers: Mapping[str, FutureSampler],
    columns: Sequence[str],
    count: int,
    samples: int,
    seed: int,
    device: torch.device,
    progress: Callable[[str, float], object],
) -> tuple[dict[str, dict[str, Any]], dict[str, float | None]]:
    """Rows of the Shapes table, one a sampler, and their floor; the truth is measured once for all of them."""
    scenes, images = generated_images(count, RENDERING, seed, device)
    each = max(1, samples // count)
    truth, second = (
        true_motions(scenes, RENDERING, images, each, seed + half, partial(progress, "true futures")) for half in (1, 2)
    )
    rows = {}
    for name, sampler in samplers.items():
        moved = sampled_motions(sampler, images, each, seed, partial(progress, f"motion of {name}"))
        rows[name] = compare(truth, moved, columns)
    return rows, compare(truth, second, columns)["kl"]


def compare(truth: Tensor, moved: Tensor, columns: Sequence[str]) -> dict[str, Any]:
    """KL divergences of the motion, and the shares of the objects whose motion could be measured."""
    try:
        found = {name: four_digits(value) for name, value in motion.motion_table(truth, moved).items()}
    except UserError:  # the futures of a bad network may show no object; the others are still measured
        found = {}
    shares = {name: four_digits(share) for name, share in motion.measured_shares(moved).items()}
    return {"kl": {name: found.get(name) for name in columns}, "measured_shares": shares}
