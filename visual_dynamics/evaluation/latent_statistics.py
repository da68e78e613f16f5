"""How much of z is used: spread, non-zero elements and principal components of z_mean (the paper's sparsity of z).

Letters in shape comments: N pairs of frames, D dimensions of z.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NON_ZERO = 0.1  # an element of z_mean with a larger root mean square is not zero; the prior's deviation is 1
SHARE = 0.95  # of the variance of z_mean that the dominating components hold


class Interval(NamedTuple):
    """[centre - deviation, centre + deviation] of each dimension: a vertical line of the paper's figure."""

    centre: Tensor  # (D,)
    deviation: Tensor  # (D,)


def intervals(values: Tensor) -> Interval:
    """Mean and standard deviation over the pairs, of z_mean or z_logvar (N, D)."""
    _check(values)
    return Interval(values.mean(0), values.std(0, unbiased=False))


def non_zero(mean: Tensor, threshold: float = NON_ZERO) -> int:
    """How many elements of z_mean (N, D) are not zero: their root mean square over the pairs exceeds the threshold.

    A root mean square, not a largest value, which would grow with the number of pairs.
    """
    _check(mean)
    return int((mean.square().mean(0).sqrt() > threshold).sum())


def component_shares(mean: Tensor) -> Tensor:
    """The share of the variance of z_mean (N, D) that each principal component holds, falling, float64 (min(N, D),)."""
    _check(mean)
    centred = mean.double() - mean.double().mean(0)
    variances = torch.linalg.svdvals(centred).square()
    return variances / variances.sum().clamp_min(torch.finfo(variances.dtype).tiny)


def dominating_components(mean: Tensor, share: float = SHARE) -> int:
    """The fewest principal components that hold this share of the variance of z_mean (N, D); 0 without variance."""
    shares = component_shares(mean)
    return int((shares.cumsum(0) < share).sum()) + 1 if shares.any() else 0


def _check(values: Tensor) -> None:
    if values.ndim != 2 or not values.numel():
        raise ValueError(f"expected (N, D), not {tuple(values.shape)}")
    if not values.isfinite().all():
        raise ValueError("the posteriors are not finite")
