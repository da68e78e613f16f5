"""How well sampled futures fit what happened: the energy score, and the best of N futures.

The energy score is proper: on average no sampler does better than one that draws from the true distribution. The
squared error of a sample is not: its best sampler always returns the mean.

Letters in shape comments: n samples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def energy_score(samples: Tensor, truth: Tensor) -> float:
    """E|X - y| - E|X - X'| / 2 for samples (n, ...) and the truth (...); |.| is the Euclidean norm. Less is better.

    Unbiased: X and X' are different samples, so n = 10 and n = 100 estimate the same number. A single sample stands for
    a prediction that is always the same: its score is its distance to the truth.
    """
    flat = samples.double().flatten(1)
    to_truth = (flat - truth.double().flatten()).norm(dim=1).mean()
    if len(flat) < 2:
        return float(to_truth)
    return float(to_truth - torch.pdist(flat).mean() / 2)


def expected_best(errors: Tensor, count: int) -> float:
    """The least of `count` errors on average, over all choices of `count` among n independent ones (n,): unbiased."""
    total = len(errors)
    if not 1 <= count <= total:
        raise ValueError(f"the best of {count} cannot be estimated from {total}")
    ascending = errors.double().sort().values.tolist()
    ways = math.comb(total, count)  # place k is the least of those that take it and `count` - 1 of the later ones
    return math.fsum(
        math.comb(total - 1 - place, count - 1) / ways * error
        for place, error in enumerate(ascending[: total - count + 1])
    )
