"""Where z comes from, as a weights file stores it: q(z | v, I) of training pairs, or a mixture fitted to them.

N training pairs, A stored dimensions of z, K components, n chosen pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.objective import kl_per_dimension

ACTIVE_NATS = 0.01  # a dimension of z is stored where its posterior carries this much on average
PRIOR_BYTES = 1_000_000  # of a learned prior, at most


@dataclass(frozen=True)
class StoredPosteriors:
    """q(z | v, I) of N training pairs, one byte a number, for the dimensions that carry motion.

    Elsewhere the posterior is the prior N(0, 1), and nothing needs to be stored. Byte b of dimension k stands for
    low[k] + step[k] * b.
    """

    dimensions: Tensor  # int32 (A,), the stored dimensions of z
    mean: Tensor  # uint8 (N, A)
    log_variance: Tensor  # uint8 (N, A)
    scales: Tensor  # float32 (4, A): low and step of the mean, low and step of the log-variance
    latent: int

    def __len__(self) -> int:
        return len(self.mean)

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
            and _are_dimensions(self.dimensions, active, self.latent)
        )
        if not whole:
            raise ValueError("its training posteriors are malformed")

    @staticmethod
    def none(latent: int) -> StoredPosteriors:
        """What a file without posteriors holds."""
        nothing = torch.zeros(0, 0, dtype=torch.uint8)
        return StoredPosteriors(torch.zeros(0, dtype=torch.int32), nothing, nothing, torch.zeros(4, 0), latent)

    @staticmethod
    def compress(posterior: Posterior, max_bytes: int) -> StoredPosteriors:
        """Keep the informative dimensions of as many posteriors as fit; rows are taken in order."""
        informative = kl_per_dimension(posterior).mean(0) > ACTIVE_NATS
        places = informative.nonzero().flatten()
        room = (max_bytes - 20 * len(places)) // max(1, 2 * len(places))  # after scales and dimensions, two bytes each
        rows = min(len(posterior.mean), max(1, room))
        mean, mean_scale = _to_bytes(posterior.mean[:rows, places].float())
        log_variance, log_variance_scale = _to_bytes(posterior.log_variance[:rows, places].float())
        return StoredPosteriors(
            dimensions=places.to(torch.int32).cpu(),
            mean=mean,
            log_variance=log_variance,
            scales=torch.cat([mean_scale, log_variance_scale]),
            latent=posterior.mean.shape[1],
        )


@dataclass(frozen=True)
class StoredPrior:
    """A mixture of K Gaussians in the dimensions that carry motion; elsewhere the prior N(0, 1)."""

    dimensions: Tensor  # int32 (A,), the dimensions of z
    weight: Tensor  # float32 (K,), sums to 1
    mean: Tensor  # float32 (K, A)
    factor: Tensor  # float32 (K, A, A), lower triangular: covariance = factor factor^T
    latent: int

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
            and _are_dimensions(self.dimensions, active, self.latent)
        )
        if not whole:
            raise ValueError("its learned prior is malformed")


def _to_bytes(values: Tensor) -> tuple[Tensor, Tensor]:
    """float (N, A) -> bytes (N, A) and float32 (2, A): lowest value and step of each column."""
    low = values.amin(0)
    step = ((values.amax(0) - low) / 255).clamp_min(1e-8)
    return ((values - low) / step).round().to(torch.uint8).cpu(), torch.stack([low, step]).float().cpu()


def _are_dimensions(places: Tensor, active: int, latent: int) -> bool:
    return places.shape == (active,) and bool(((places >= 0) & (places < latent)).all())
