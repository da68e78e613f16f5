"""What a training on Shapes has learned: the error on held-out pairs, and how its futures move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from visual_dynamics.evaluation.motion_tables import Motions, kl_tables
from visual_dynamics.evaluation.shapes import SIZE, Enlarged, Extent, generated_bench, sampled_motions
from visual_dynamics.objective import squared_error
from visual_dynamics.sampling.moves import ModelSampler

RENDERING: shapes.Rendering = "smooth"
COLUMNS = (*motion.SHAPES, motion.TIED)
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


def drawn_codes(model: Model, pair: Pair) -> Tensor:
    """A code of each pair as training draws it, (N, latent): see `reconstruction_error`."""
    posterior = model.predictor.encode(pair.frame, pair.next_frame)
    noise = torch.randn(posterior.mean.shape, generator=torch.Generator().manual_seed(0))
    return posterior.mean if is_autoencoder(model) else posterior.sample(noise)


def measure_motion(
    samplers: Mapping[str, FutureSampler],
    extent: Extent,
    device: torch.device,
    progress: Callable[[str, float], object],
) -> tuple[dict[str, dict[str, Any]], dict[str, float | None]]:
    """Rows of the Shapes table, one a sampler, and their floor; the truth is measured once for all of them."""
    bench = generated_bench(RENDERING, extent, device, partial(progress, "true futures"))
    rows = {}
    for name, sampler in samplers.items():
        step = partial(progress, f"motion of {name}")
        moved = sampled_motions(sampler, bench.images, bench.floor.each, extent.seed, step)
        rows[name] = compare(bench.truth, Motions(moved, bench.floor.each))
    return rows, compare(bench.truth, bench.floor)["kl"]


def compare(truth: Motions, moved: Motions) -> dict[str, Any]:
    """KL divergences of the motion with intervals over images, and the shares of the objects that could be measured."""
    kl: dict[str, float | None] = dict.fromkeys(COLUMNS)
    intervals: dict[str, list[float] | None] = dict.fromkeys(COLUMNS)
    try:
        found = kl_tables(truth, {"moved": moved})["moved"]
        intervals = {name: [four_digits(end) for end in ends] for name, ends in found["intervals"].items()}
        kl = {name: four_digits(found[name]) for name in COLUMNS}
    except UserError:
        pass  # the futures of a bad network may show no object; the others are still measured
    shares = {name: four_digits(share) for name, share in motion.measured_shares(moved.displacements).items()}
    return {"kl": kl, "kl_intervals": intervals, "measured_shares": shares}
