"""Where z comes from. A latent source turns seeds into motion codes, one seed a sample.

Sample k of seed s has a generator of its own: it does not depend on which other samples are drawn.

The mixture is fitted by hand: scikit-learn would add 45 MB for these 100 lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.posteriors import PRIOR_BYTES, StoredPosteriors, StoredPrior

# Chosen by the likelihood of held-out posteriors: it is highest near 96 components for the Shapes models (18,000
# samples, 7 and 8 dimensions; 192 are worse), and from 48 to 96 for the sprites (15,000 samples, 15 dimensions).
COMPONENTS = 96  # at most
SAMPLES_EACH = 20  # samples that a component needs for each dimension
TRIES = 8  # candidates for each centre at the start
ITERATIONS = 100  # at most
SAMPLES, DRAWS = 20_000, 4  # the fit sees about 20,000 z, at most 4 of one posterior
LEAST_GAIN = 1e-3  # nats a sample; the fit stops where an iteration gains less
FLOOR = 1e-4  # variance of one further sample of each component, which keeps it from collapsing; the data has 1
BLOCK = 200_000  # numbers in memory at a time


class LatentSource(Protocol):
    """Anything that draws motion codes."""

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


class LearnedPrior:
    """A mixture fitted to the training posteriors: z ~ sum of weight_k N(mean_k, covariance_k), N(0, 1) elsewhere.

    Beyond the paper. The mixture takes about 20 kB where the posteriors of `shapes` take 280, and sampling needs no
    stored examples. "Elsewhere" are the dimensions that carry no motion.
    """

    def __init__(self, stored: StoredPrior) -> None:
        self.stored = stored
        self.bounds = stored.weight.double().cumsum(0)[:-1].numpy()  # between the components, in [0, 1]

    def draw(self, seeds: Sequence[int]) -> Tensor:
        generators = [np.random.default_rng(seed) for seed in seeds]
        chosen = torch.from_numpy(np.searchsorted(self.bounds, [generator.random() for generator in generators]))
        z, places = noise_of(generators, self.stored.latent), self.stored.dimensions.long()
        # Not by a product of matrices, whose rounding may differ with the number of samples.
        z[:, places] = self.stored.mean[chosen] + (self.stored.factor[chosen] * z[:, None, places]).sum(2)
        return z


def noise_of(generators: Sequence[np.random.Generator], latent: int) -> Tensor:
    """N(0, I) from each generator, (n, latent)."""
    noise = np.empty((len(generators), latent), np.float32)
    for row, generator in zip(noise, generators, strict=True):
        generator.standard_normal(out=row, dtype=np.float32)
    return torch.from_numpy(noise)


# --- fitting the mixture ---


def fit_prior(posteriors: StoredPosteriors, seed: int = 0, most: int = COMPONENTS) -> LearnedPrior:
    """The learned prior of a model, from samples of its stored posteriors. The same seed gives the same prior."""
    generator = torch.Generator().manual_seed(seed)
    places = posteriors.dimensions.long()
    count, dimensions = posteriors.mean.shape
    rows = torch.arange(count).repeat(max(1, min(DRAWS, SAMPLES // count)))
    noise = torch.randn(len(rows), posteriors.latent, generator=generator)
    z = posteriors.posterior(rows).sample(noise)[:, places].double()
    room = PRIOR_BYTES // (4 * (1 + dimensions + dimensions**2) + 4 * dimensions)
    if room == 0:
        raise UserError(f"a learned prior of {dimensions} dimensions does not fit into {PRIOR_BYTES / 1e6:g} MB")
    centre = z.mean(0)
    spread = (z - centre).square().mean(0).sqrt().clamp_min(1e-6)
    components = max(1, min(most, room, len(z) // (SAMPLES_EACH * max(1, dimensions))))
    found, _ = fit_mixture((z - centre) / spread, components, generator)
    stored = StoredPrior(
        dimensions=posteriors.dimensions,
        weight=found.weight.float(),
        mean=(centre + spread * found.mean).float(),
        factor=(spread[:, None] * found.factor).float(),
        latent=posteriors.latent,
    )
    return LearnedPrior(stored)


class Mixture(NamedTuple):
    """K Gaussians in D dimensions, float64."""

    weight: Tensor  # (K,), sums to 1
    mean: Tensor  # (K, D)
    factor: Tensor  # (K, D, D), lower triangular: covariance = factor factor^T

    def log_joint(self, z: Tensor) -> Tensor:
        """log(weight_k N(z; mean_k, covariance_k)) of samples (n, D): (n, K)."""
        precision = torch.cholesky_inverse(self.factor)  # (K, D, D)
        slope = (precision @ self.mean[:, :, None]).squeeze(2)  # (K, D)
        constant = self.weight.log() - log_determinant(self.factor) - 0.5 * (slope * self.mean).sum(1)
        constant = constant - 0.5 * z.shape[1] * math.log(2 * math.pi)
        return constant + z @ slope.T - 0.5 * squares(z) @ precision.flatten(1).T

    @property
    def block(self) -> int:
        """Samples in memory at a time."""
        return max(1, BLOCK // max(1, len(self.mean), self.mean.shape[1] ** 2))


def squares(z: Tensor) -> Tensor:
    """All products of two numbers of a sample, (n, D) -> (n, D * D)."""
    return (z[:, :, None] * z[:, None, :]).flatten(1)


def log_determinant(factor: Tensor) -> Tensor:
    """Half the log-determinants of covariances, (K,)."""
    return factor.diagonal(dim1=1, dim2=2).log().sum(1)


def fit_mixture(z: Tensor, components: int, generator: torch.Generator) -> tuple[Mixture, list[float]]:
    """Expectation maximisation of samples z (n, D) with about unit variance, from a k-means++ start.

    Also returns the objective after each iteration, which never falls: the mean log-likelihood, plus an inverse Wishart
    prior on the covariances, as if each component had seen one more sample of variance FLOOR.
    """
    mixture, reached = start(z, components, generator), [-math.inf]
    for _ in range(ITERATIONS):
        total, count, first, second = 0.0, *(torch.zeros_like(part) for part in mixture)
        for part in z.split(mixture.block):
            joint = mixture.log_joint(part)
            evidence = joint.logsumexp(1)
            share = (joint - evidence[:, None]).exp().T  # (K, n), which component each sample comes from
            total += float(evidence.sum())
            count += share.sum(1)
            first += share @ part
            second += (share @ squares(part)).view_as(second)
        reached.append((total + log_prior(mixture.factor)) / len(z))
        if reached[-1] - reached[-2] < LEAST_GAIN:
            break
        mean = first / count.clamp_min(1e-12)[:, None]
        scatter = second - count[:, None, None] * mean[:, :, None] * mean[:, None, :]
        floor = FLOOR * torch.eye(z.shape[1], dtype=z.dtype)
        covariance = (scatter + floor) / (count + 1)[:, None, None]
        mixture = Mixture(count / len(z), mean, torch.linalg.cholesky(covariance))
    return mixture, reached[1:]


def log_prior(factor: Tensor) -> float:
    """-1/2 (log det + FLOOR trace of the inverse) of all covariances together."""
    inverse = torch.linalg.inv(factor)  # the inverse covariance is inverse^T inverse
    return float(-log_determinant(factor).sum() - 0.5 * FLOOR * inverse.square().sum())


def start(z: Tensor, components: int, generator: torch.Generator) -> Mixture:
    """Greedy k-means++: of a few samples, drawn in proportion to the squared distance from the centres so far, the one
    that leaves the least distance becomes the next centre."""
    count, dimensions = z.shape
    chosen = [int(torch.randint(count, (1,), generator=generator))]
    distance = (z - z[chosen[0]]).square().sum(1)
    for _ in range(components - 1):
        tried = torch.multinomial(distance.clamp_min(1e-12), TRIES, replacement=True, generator=generator)
        left = torch.minimum(distance, torch.cdist(z[tried], z).square())  # (TRIES, n)
        best = int(left.sum(1).argmin())
        chosen.append(int(tried[best]))
        distance = left[best]
    deviation = float((distance.mean() / max(1, dimensions)).clamp_min(FLOOR).sqrt())
    factor = deviation * torch.eye(dimensions, dtype=z.dtype).repeat(components, 1, 1)
    return Mixture(torch.full((components,), 1 / components, dtype=z.dtype), z[chosen], factor)
