"""The motion codes that a Shapes model stores: their scenes, their noise, and what they do to other scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import spread
from visual_dynamics.evaluation.intervals import cluster_interval
from visual_dynamics.model.motion_encoder import LOG_VARIANCE
from visual_dynamics.sampling.latents import TrainingPosteriors
from visual_dynamics.sampling.predictor import EncodedImage, Predictor
from visual_dynamics.weights import Weights


def stored_scenes(weights: Weights, count: int) -> shapes.Scenes | None:
    """The training scenes whose codes are the first `count` stored ones; None for a model of other data."""
    config = weights.training.get("config", {})
    if config.get("data") != "shapes":
        return None
    total = config.get("pairs") or shapes.TRAIN_PAIRS
    order = spread(total, min(count, len(weights.posteriors)), config["seed"])
    return shapes.draw_scenes(total, config["seed"], "train").subset(order)


def stored_means(weights: Weights, count: int) -> Tensor:
    """Means of the first stored posteriors, (count, latent)."""
    return weights.posteriors.posterior(torch.arange(min(count, len(weights.posteriors)))).mean


class StoredMeans:
    """z is the mean of a stored posterior, picked at random: `TrainingPosteriors` without its noise."""

    def __init__(self, stored: TrainingPosteriors) -> None:
        self.stored = stored

    def draw(self, seeds: Sequence[int], image: EncodedImage | None = None) -> Tensor:
        rows = [int(np.random.default_rng(seed).integers(len(self.stored))) for seed in seeds]
        return self.stored.posterior(torch.tensor(rows)).mean


def carried_errors(
    predictor: Predictor,
    codes: Tensor,
    sources: shapes.Scenes,
    targets: shapes.Scenes,
    rendering: shapes.Rendering = "smooth",
) -> dict[str, Any]:
    """Squared error of a frame, summed over pixels and colours, when code i (latent,) of source i moves target i.

    The target gets the source's motion in truth. "reconstruction": the code on its own scene; "copy": no motion at all.
    Means, and intervals over the scenes.
    """
    every = torch.arange(len(codes))
    moved = replace(targets, motions=sources.motions)
    source, target = (shapes.scene_pairs(s, rendering, predictor.size).batch(every) for s in (sources, moved))
    made = {
        "analogy": (predictor.decode_each(target.frame, codes).cpu(), target.next_frame),
        "reconstruction": (predictor.decode_each(source.frame, codes).cpu(), source.next_frame),
        "copy": (target.frame, target.next_frame),
    }
    errors = {name: (ours - truth).square().sum((1, 2, 3)) for name, (ours, truth) in made.items()}
    means: dict[str, Any] = {name: float(values.mean()) for name, values in errors.items()}
    return means | {"intervals": {name: cluster_interval(values, every) for name, values in errors.items()}}


def carried_codes(models: Mapping[str, Model], seed: int, count: int) -> dict[str, Any]:
    """`carried_errors` of each model, on test scenes that its codes are not of.

    Row NAME: codes of training scenes, as they are stored; row "NAME, codes of test scenes": as its motion encoder
    reads them. Left out: rows of a model of other data, or of one that cannot read the motion of a pair.
    """
    drawn = shapes.draw_scenes(2 * count, seed + 1, "test")
    sources, targets = drawn.subset(slice(0, count)), drawn.subset(slice(count, 2 * count))
    found = {}
    for name, model in models.items():
        if known := stored_scenes(model.weights, count):
            codes = stored_means(model.weights, count)
            found[name] = carried_errors(model.predictor, codes, known, targets.subset(slice(0, len(codes))))
        if model.weights.encodes_motion:
            pair = shapes.scene_pairs(sources, "smooth", model.size).batch(torch.arange(count))
            codes = model.predictor.encode(pair.frame, pair.next_frame).mean
            found[f"{name}, codes of test scenes"] = carried_errors(model.predictor, codes, sources, targets)
    return found


def log_variance_floor(stored: TrainingPosteriors) -> dict[str, Any]:
    """The least stored log-variance of each dimension of z, and how many dimensions reach the bound.

    A dimension at the bound has no noise: it carries any amount of motion past the KL term. What is not stored is the
    prior, with log-variance 0.
    """
    least = torch.zeros(stored.latent)
    if len(stored):
        low, step = stored.scales[2:]
        least[stored.dimensions.long()] = low + step * stored.log_variance.amin(0)
    return {
        "least_log_variance": [round(value, 3) for value in least.tolist()],
        "at_bound": int((least <= LOG_VARIANCE[0]).sum()),
    }


def description(model: Model) -> dict[str, Any]:
    """Which model this is, how it was made (steps: of its last training), and how noisy its stored codes are."""
    training, config = model.weights.training, model.weights.training.get("config", {})
    return {
        "weights": model.weights.digest,
        "training_seed": config.get("seed"),
        "training_commit": training.get("commit"),
        "steps": training.get("step"),
        "autoencoder": bool(config.get("autoencoder")),
        **log_variance_floor(model.weights.posteriors),
    }


def distance_to_stored(stored: TrainingPosteriors, codes: Tensor) -> Tensor:
    """How far codes (n, latent) are from the nearest stored one, in units of their distance to the mean stored one.

    (n,), over the dimensions that are stored. Near 0: the code is stored.
    """
    known = stored.posterior(torch.arange(len(stored))).mean[:, stored.dimensions.long()]
    own = codes[:, stored.dimensions.long()]
    return torch.cdist(own, known).amin(1) / (own - known.mean(0)).norm(dim=1).clamp_min(1e-9)
