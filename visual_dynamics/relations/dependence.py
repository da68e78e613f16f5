"""Whether two things that move depend on each other, how strongly, and which way: motions in, numbers out.

Strength is the distance correlation (Székely, Rizzo and Bakirov 2007; bias-corrected, 2013), which is nought for
independent motions only, whatever the dependence is: 0 in the mean where there is none, 1 where the motion of one is
that of the other, turned, mirrored or scaled. Motions are not whitened first, so the noise across the line on which a
thing moves weighs no more than it is large. Its p-value comes from permutations of the samples, corrected for the
number of couples that are looked at (Holm).

Letters: N samples, K things, P permutations, d = (dx, dy) in pixels, y down.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

PERMUTATIONS = 999  # the least p-value is 1 / (PERMUTATIONS + 1)
FEWEST = 16  # samples in which both were measured, for any couple
SPREAD = 0.25  # pixels of deviation along its main direction: a thing that moves less stands still
BLOCK = 100  # permutations at a time: 3 MB at 64 samples

Array = NDArray[np.float64]


class Couple(NamedTuple):
    """What is known of the dependence of things `first` and `second`."""

    first: int
    second: int
    strength: float  # distance correlation in [0, 1]
    p: float  # of so strong a dependence by chance, corrected for the number of couples
    first_direction: tuple[float, float]  # unit vectors: when the first moves along its own, so does the second
    second_direction: tuple[float, float]
    correlation: float  # of the motions along these directions
    samples: int  # in which both were measured


class Spread(NamedTuple):
    """How one thing moves."""

    mean: tuple[float, float]
    direction: tuple[float, float]  # unit vector: the line along which it moves most
    along: float  # deviation on that line, in pixels
    across: float


def dependences(motions: Tensor, seed: int = 0, permutations: int = PERMUTATIONS) -> list[Couple]:
    """Every couple of things that move, from motions (N, K, 2); the strongest first.

    A sample counts for a couple where neither is NaN. Couples with fewer than FEWEST, and things that stand still, are
    left out.
    """
    table = motions.detach().cpu().double().numpy()
    found = []
    for first, second in combinations(range(table.shape[1]), 2):
        both = np.isfinite(table[:, [first, second]]).all((1, 2))
        a, b = table[both, first], table[both, second]
        if len(a) < FEWEST or min(spread(a).along, spread(b).along) < SPREAD:
            continue
        chance = np.random.default_rng([seed, first, second])
        strength, p = distance_correlation(a, b, permutations, chance)
        found.append(Couple(first, second, strength, p, *directions(a, b), len(a)))
    corrected = holm([couple.p for couple in found])
    found = [couple._replace(p=p) for couple, p in zip(found, corrected, strict=True)]
    return sorted(found, key=lambda couple: -couple.strength)


def spread(motions: Array) -> Spread:
    """Mean and main direction of motions (N, 2)."""
    covariance = np.cov(motions.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    across, along = np.sqrt(values.clip(0)).tolist()
    mean, (x, y) = motions.mean(0).tolist(), vectors[:, 1].tolist()
    sign = _sense(x, y)
    return Spread((mean[0], mean[1]), (sign * x, sign * y), along, across)


def _sense(x: float, y: float) -> float:
    """1 or -1: a line has no sense, so by agreement the longer part of a direction points to the right or down."""
    return -1.0 if (x if abs(x) >= abs(y) else y) < 0 else 1.0


def directions(a: Array, b: Array) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Unit vectors u, v along which motions (N, 2) have the greatest covariance, and their correlation there."""
    left, _, right = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
    sign = _sense(float(left[0, 0]), float(left[1, 0]))
    u, v = sign * left[:, 0], sign * right[0]
    along, beside = a @ u, b @ v
    flat = min(along.std(), beside.std()) < 1e-9
    correlation = 0.0 if flat else float(np.corrcoef(along, beside)[0, 1])
    return (float(u[0]), float(u[1])), (float(v[0]), float(v[1])), correlation


def distance_correlation(a: Array, b: Array, permutations: int, chance: np.random.Generator) -> tuple[float, float]:
    """Strength in [0, 1] of the dependence of a (N, k) and b (N, l), and the share of permutations that reach it."""
    left, right = _centred(a), _centred(b)  # (N, N)
    norm = float(np.sqrt((left**2).sum() * (right**2).sum()))
    if norm < 1e-12:
        return 0.0, 1.0
    product = float((left * right).sum())
    reached = 0
    for start in range(0, permutations, BLOCK):
        order = chance.permuted(np.tile(np.arange(len(b)), (min(BLOCK, permutations - start), 1)), axis=1)  # (P, N)
        shuffled = right[order[:, :, None], order[:, None, :]]  # (P, N, N)
        reached += int(((left * shuffled).sum((1, 2)) >= product * (1 - 1e-9)).sum())
    strength = float(np.sqrt(np.clip(product / norm, 0, 1)))
    return strength, (reached + 1) / (permutations + 1)


def _centred(values: Array) -> Array:
    """Distances of all samples (N, k) from each other, less their means, so that chance alone gives nought: (N, N)."""
    count = len(values)
    away = np.sqrt(((values[:, None] - values) ** 2).sum(2))
    rows = away.sum(0) / (count - 2)
    centred: Array = away - rows - rows[:, None] + away.sum() / ((count - 1) * (count - 2))
    np.fill_diagonal(centred, 0)
    return centred


def holm(p: list[float]) -> list[float]:
    """P-values corrected for how many they are, in the order given (Holm 1979)."""
    order = sorted(range(len(p)), key=lambda number: p[number])
    corrected, largest = [0.0] * len(p), 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[number]))
        corrected[number] = largest
    return corrected
