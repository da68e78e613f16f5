"""The variational bound of the paper, per example.

Sums run over the dimensions of z and over all pixels and colours; nothing is averaged but the batch, by the caller.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.model.motion_encoder import Posterior

PYRAMID = 4  # levels, the last of which holds all that is coarser


class Bound(NamedTuple):
    """The two terms of Eq. 5 for each example; loss = kl + weight * squared_error. A third, where one is asked for."""

    kl: Tensor  # (B,), nats
    squared_error: Tensor  # (B,), sum of squared differences of colours in [0, 1]
    pyramid_error: Tensor | None = None  # (B,)


def kl_per_dimension(posterior: Posterior) -> Tensor:
    """1/2 (mean^2 + var - log var - 1) of every dimension of z, in nats, (B, latent)."""
    mean, log_variance = posterior
    return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1)


def kl_to_unit_gaussian(posterior: Posterior) -> Tensor:
    """D_KL(q(z | v, I) || N(0, I)), the sum over the dimensions, in nats, (B,)."""
    return kl_per_dimension(posterior).sum(dim=1)


def squared_error(predicted: Tensor, target: Tensor) -> Tensor:
    """||v - f_mean(z, I)||^2, summed over pixels and colours, (B,)."""
    return (predicted - target).square().flatten(1).sum(dim=1)


def pyramid_error(predicted: Tensor, target: Tensor) -> Tensor:
    """L1 distance of two Laplacian pyramids, (B,); level l weighs 4^l, as it has 4^l times fewer pixels. The paper has
    no such term. Where an edge may be in either of two places, a squared error prefers a blurred one; this does not."""
    rest, total = predicted - target, torch.zeros_like(predicted[:, 0, 0, 0])  # a pyramid is linear
    for level in range(PYRAMID - 1):
        coarse = F.avg_pool2d(rest, 2, ceil_mode=True)
        detail = rest - F.interpolate(coarse, rest.shape[-2:], mode="bilinear", align_corners=False)
        total, rest = total + 4**level * detail.abs().flatten(1).sum(dim=1), coarse
    return total + 4 ** (PYRAMID - 1) * rest.abs().flatten(1).sum(dim=1)


def reconstruction_weight(sigma: float) -> float:
    """lambda = 1 / (2 sigma^2), from p(v | z, I) = N(v; f_mean(z, I), sigma^2 I) (Eq. 3 and the appendix)."""
    return 1 / (2 * sigma**2)


def bound(posterior: Posterior, predicted: Tensor, target: Tensor) -> Bound:
    """Both terms of Eq. 5 with one sample of z an example (L = 1)."""
    return Bound(kl_to_unit_gaussian(posterior), squared_error(predicted, target))


def loss(terms: Bound, sigma: float, kl_weight: float = 1.0, pyramid_weight: float = 0.0) -> Tensor:
    """Eq. 5, (B,): kl_weight * D_KL + lambda ||v - f_mean||^2. kl_weight is 1 but for the first steps of training;
    0 with a z that is not sampled gives the paper's autoencoder. pyramid_weight * pyramid error comes on top."""
    bound = kl_weight * terms.kl + reconstruction_weight(sigma) * terms.squared_error
    return bound if terms.pyramid_error is None else bound + pyramid_weight * terms.pyramid_error
