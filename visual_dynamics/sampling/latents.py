"""Where z comes from. A latent source turns seeds into motion codes, one seed a sample.

Sample k of seed s has a generator of its own: it does not depend on which other samples are drawn. Weights files store
two of the sources, in tensors: training posteriors and learned prior. Letters in shape comments: N training pairs, A
stored dimensions of z, K components, n samples.

The mixture is fitted by hand: scikit-learn would add 45 MB for these 100 lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.objective import kl_per_dimension

if TYPE_CHECKING:
    from visual_dynamics.sampling.predictor import EncodedImage

ACTIVE_NATS = 0.01  # a dimension of z is stored where its posterior carries this much on average

# Chosen by the likelihood of held-out posteriors: it is highest near 96 components for the Shapes models (18,000
# samples, 7 and 8 dimensions; 192 are worse), and from 48 to 96 for the sprites (15,000 samples, 15 dimensions).
COMPONENTS = 96  # at most
SAMPLES_EACH = 20  # samples that a component needs for each dimension
TRIES = 8  # candidates for each centre at the start
ITERATIONS = 100  # at most
SAMPLES, DRAWS = 20_000, 4  # the fit sees about 20,000 z, at most 4 of one posterior
LEAST_GAIN = 1e-3  # nats a sample; the fit stops where an iteration gains less
FLOOR = 1e-4  # variance of one further sample of each component, which keeps it from collapsing; the data has 1
PRIOR_BYTES = 1_000_000  # of a learned prior, at most
BLOCK = 200_000  # numbers in memory at a time


class LatentSource(Protocol):
    """Anything that draws motion codes."""

    def draw(self, seeds: Sequence[int], image: EncodedImage) -> Tensor:
        """One z for each seed, where the source wants it for this image: float32 (n, latent)."""
        ...


def sample_seeds(seed: int, count: int, first: int = 0) -> list[int]:
    """The seeds of samples first, first + 1, ... of a seed."""
    return [
        int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
        for number in range(first, first + count)
    ]


class Prior:
    """z ~ N(0, I), the prior that training pulls towards."""

    def __init__(self, latent: int) -> None:
        self.latent = latent

    def draw(self, seeds: Sequence[int], image: EncodedImage | None = None) -> Tensor:
        return noise_of([np.random.default_rng(seed) for seed in seeds], self.latent)


@dataclass(frozen=True)
class TrainingPosteriors:
    """The paper's choice: z ~ q(z | v, I) of a training pair that is picked at random, whatever the input image is.

    Stored with one byte a number, for the dimensions that carry motion; elsewhere the posterior is the prior N(0, 1).
    Byte b of dimension k stands for low[k] + step[k] * b.
    """

    dimensions: Tensor  # int32 (A,), the stored dimensions of z
    mean: Tensor  # uint8 (N, A)
    log_variance: Tensor  # uint8 (N, A)
    scales: Tensor  # float32 (4, A): low and step of the mean, low and step of the log-variance
    latent: int

    def __len__(self) -> int:
        return len(self.mean)

    def draw(self, seeds: Sequence[int], image: EncodedImage | None = None) -> Tensor:
        generators = [np.random.default_rng(seed) for seed in seeds]
        rows = [int(generator.integers(len(self))) for generator in generators]
        return self.posterior(torch.tensor(rows)).sample(noise_of(generators, self.latent))

    def posterior(self, rows: Tensor) -> Posterior:
        """Posteriors of chosen training pairs over all of z: mean and log-variance, float32 (n, latent)."""
        mean, log_variance = torch.zeros(2, len(rows), self.latent)
        places = self.dimensions.long()
        mean[:, places] = self.scales[0] + self.scales[1] * self.mean[rows]
        log_variance[:, places] = self.scales[2] + self.scales[3] * self.log_variance[rows]
        return Posterior(mean, log_variance)

    def check(self) -> None:
        """Raise ValueError where the tensors do not fit each other."""
        count, active = self.mean.shape
        whole = (
            count > 0
            and self.log_variance.shape == (count, active)
            and self.scales.shape == (4, active)
            and self.mean.dtype == self.log_variance.dtype == torch.uint8
            and bool(torch.isfinite(self.scales).all())
            and are_dimensions(self.dimensions, active, self.latent)
        )
        if not whole:
            raise ValueError("its training posteriors are malformed")

    @staticmethod
    def none(latent: int) -> TrainingPosteriors:
        """What a file without posteriors holds."""
        empty = torch.zeros(0, 0, dtype=torch.uint8)
        return TrainingPosteriors(torch.zeros(0, dtype=torch.int32), empty, empty, torch.zeros(4, 0), latent)

    @staticmethod
    def compress(posterior: Posterior, max_bytes: int) -> TrainingPosteriors:
        """Keep the informative dimensions of as many posteriors as fit; rows are taken in order."""
        informative = kl_per_dimension(posterior).mean(0) > ACTIVE_NATS
        places = informative.nonzero().flatten()
        room = (max_bytes - 20 * len(places)) // max(1, 2 * len(places))  # after scales and dimensions, two bytes each
        rows = min(len(posterior.mean), max(1, room))
        mean, mean_scale = _to_bytes(posterior.mean[:rows, places].float())
        log_variance, log_variance_scale = _to_bytes(posterior.log_variance[:rows, places].float())
        return TrainingPosteriors(
            dimensions=places.to(torch.int32).cpu(),
            mean=mean,
            log_variance=log_variance,
            scales=torch.cat([mean_scale, log_variance_scale]),
            latent=posterior.mean.shape[1],
        )


@dataclass(frozen=True)
class LearnedPrior:
    """A mixture fitted to the training posteriors: z ~ sum of weight_k N(mean_k, covariance_k).

    Beyond the paper. It takes about 20 kB where the posteriors of `shapes` take 320, and sampling needs no stored
    examples. Dimensions that carry no motion are N(0, 1).
    """

    dimensions: Tensor  # int32 (A,), the dimensions of z
    weight: Tensor  # float32 (K,), sums to 1
    mean: Tensor  # float32 (K, A)
    factor: Tensor  # float32 (K, A, A), lower triangular: covariance = factor factor^T
    latent: int

    def draw(self, seeds: Sequence[int], image: EncodedImage | None = None) -> Tensor:
        generators = [np.random.default_rng(seed) for seed in seeds]
        bounds = self.weight.double().cumsum(0)[:-1].numpy()  # between the components, in [0, 1]
        chosen = torch.from_numpy(np.searchsorted(bounds, [generator.random() for generator in generators]))
        z, places = noise_of(generators, self.latent), self.dimensions.long()
        # Not by a product of matrices, whose rounding may differ with the number of samples.
        z[:, places] = self.mean[chosen] + (self.factor[chosen] * z[:, None, places]).sum(2)
        return z

    def check(self) -> None:
        """Raise ValueError where the tensors do not fit each other."""
        count, active = self.mean.shape
        parts = (self.weight, self.mean, self.factor)
        whole = (
            self.weight.shape == (count,)
            and self.factor.shape == (count, active, active)
            and all(part.dtype == torch.float32 and bool(torch.isfinite(part).all()) for part in parts)
            and bool((self.weight >= 0).all())
            and abs(float(self.weight.sum()) - 1) < 1e-3
            and are_dimensions(self.dimensions, active, self.latent)
        )
        if not whole:
            raise ValueError("its learned prior is malformed")


def noise_of(generators: Sequence[np.random.Generator], latent: int) -> Tensor:
    """N(0, I) from each generator, (n, latent)."""
    noise = np.empty((len(generators), latent), np.float32)
    for row, generator in zip(noise, generators, strict=True):
        generator.standard_normal(out=row, dtype=np.float32)
    return torch.from_numpy(noise)


def _to_bytes(values: Tensor) -> tuple[Tensor, Tensor]:
    """float (N, A) -> bytes (N, A) and float32 (2, A): lowest value and step of each column."""
    low = values.amin(0)
    step = ((values.amax(0) - low) / 255).clamp_min(1e-8)
    return ((values - low) / step).round().to(torch.uint8).cpu(), torch.stack([low, step]).float().cpu()


def are_dimensions(places: Tensor, active: int, latent: int) -> bool:
    return places.shape == (active,) and bool(((places >= 0) & (places < latent)).all())


# --- fitting the mixture ---


def fit_prior(posteriors: TrainingPosteriors, seed: int = 0) -> LearnedPrior:
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
    components = max(1, min(COMPONENTS, room, len(z) // (SAMPLES_EACH * max(1, dimensions))))
    found, _ = fit_mixture((z - centre) / spread, components, generator)
    return LearnedPrior(
        dimensions=posteriors.dimensions,
        weight=found.weight.float(),
        mean=(centre + spread * found.mean).float(),
        factor=(spread[:, None] * found.factor).float(),
        latent=posteriors.latent,
    )


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
