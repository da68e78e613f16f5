"""Where z comes from. A latent source turns seeds into motion codes, one seed a sample.

Sample k of seed s is drawn by a generator of its own, so it is the same whatever is drawn beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.posteriors import StoredPosteriors


class LatentSource(Protocol):
    """Anything that can be asked for motion codes."""

    def draw(self, seeds: Sequence[int]) -> Tensor:
        """One z for each seed: float32 (n, latent)."""
        ...


def sample_seeds(seed: int, count: int, first: int = 0) -> list[int]:
    """The seeds of samples first, first + 1, ... of a seed."""
    return [
        int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
        for number in range(first, first + count)
    ]


class TrainingPosteriors:
    """The paper's choice: z ~ q(z | v, I) of a training pair that is picked at random, whatever the input image is."""

    def __init__(self, stored: StoredPosteriors) -> None:
        if len(stored) == 0:
            raise UserError("this model's file holds no training posteriors")
        self.stored = stored

    def draw(self, seeds: Sequence[int]) -> Tensor:
        generators = [np.random.default_rng(seed) for seed in seeds]
        rows = [int(generator.integers(len(self.stored))) for generator in generators]
        return self.stored.posterior(torch.tensor(rows)).sample(noise_of(generators, self.stored.latent))


class Prior:
    """z ~ N(0, I), the prior that training pulls towards."""

    def __init__(self, latent: int) -> None:
        self.latent = latent

    def draw(self, seeds: Sequence[int]) -> Tensor:
        return noise_of([np.random.default_rng(seed) for seed in seeds], self.latent)


class PairPosterior:
    """z ~ q(z | v, I) of one given pair: the many readings of a motion that was seen."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior  # mean and log-variance, (latent,)

    def draw(self, seeds: Sequence[int]) -> Tensor:
        generators = [np.random.default_rng(seed) for seed in seeds]
        return self.posterior.sample(noise_of(generators, self.posterior.mean.shape[-1]))


def noise_of(generators: Sequence[np.random.Generator], latent: int) -> Tensor:
    """N(0, I) from each generator, (n, latent)."""
    noise = np.empty((len(generators), latent), np.float32)
    for row, generator in zip(noise, generators, strict=True):
        generator.standard_normal(out=row, dtype=np.float32)
    return torch.from_numpy(noise)
