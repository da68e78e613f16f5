"""95 % intervals of published numbers. The unit drawn again is the one that generalises: image, character, scene.

Letters in shape comments: N values, K clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Z95 = 1.959964  # a normal distribution holds 95 % within this many standard deviations on both sides
DRAWS = 10_000  # of the bootstrap of a mean
SLOW_DRAWS = 1_000  # of the bootstrap of any other statistic
BOUNDS = (0.025, 0.975)

Interval = tuple[float, float]


def wilson_interval(share: float, count: int) -> Interval:
    """Wilson's interval of a share, from `count` independent trials."""
    spread = Z95**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def cluster_interval(values: Tensor, clusters: Tensor, seed: int = 0) -> Interval:
    """Interval of the mean of the values (N,): percentiles of the means of clusters drawn with replacement.

    `clusters` (N,) says which values belong together; a cluster comes with all of its values.
    """
    if values.ndim != 1 or values.shape != clusters.shape or not len(values):
        raise ValueError(f"values and clusters are (N,) twice, not {tuple(values.shape)} and {tuple(clusters.shape)}")
    numbers = np.unique(clusters.numpy(), return_inverse=True)[1]  # (N,), below K
    sums, sizes = np.bincount(numbers, values.double().numpy()), np.bincount(numbers)  # (K,) each
    drawn = np.random.default_rng(seed).integers(len(sums), size=(DRAWS, len(sums)))
    low, high = np.quantile(sums[drawn].sum(1) / sizes[drawn].sum(1), BOUNDS)
    return float(low), float(high)


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], float], units: int, seed: int = 0, draws: int = SLOW_DRAWS
) -> Interval:
    """Interval of any statistic of `units` units: its percentiles over units drawn with replacement.

    statistic: places of units (units,), some of them twice -> its value on these. Draws on which it
    is nan, as a mean of nothing is, do not count.
    """
    if units < 1:
        raise ValueError("no units to draw from")
    generator = np.random.default_rng(seed)
    values = [statistic(generator.integers(units, size=units)) for _ in range(draws)]
    low, high = np.nanquantile(values, BOUNDS)
    return float(low), float(high)
