"""Whether the motions of two things depend on each other, how strongly, and along which directions: motions in,
numbers out.

Strength is the distance correlation (Székely, Rizzo and Bakirov 2007; bias-corrected, 2013). It is 0 on average for
independent motions, and for those alone: it finds dependences of any form. It is 1 where one motion is the other one
rotated, mirrored or scaled. Motions are not whitened first: noise across the main direction keeps its small weight.
The p-value comes from permutations of the samples, corrected for the number of pairs (Holm).

Letters: N samples, K things, P permutations, d = (dx, dy) in pixels, y down.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

PERMUTATIONS = 999  # the least p-value is 1 / (PERMUTATIONS + 1)
FEWEST = 16  # samples in which both motions of a pair are known
SPREAD = 0.25  # pixels of standard deviation along the main direction: a thing that moves less stands still
BLOCK = 100  # permutations at a time: 3 MB at 64 samples

Array = NDArray[np.float64]


class Dependence(NamedTuple):
    """How the motions of things `first` and `second` depend on each other."""

    first: int
    second: int
    strength: float  # distance correlation in [0, 1]
    p: float  # probability of this strength by chance, corrected for the number of pairs
    first_direction: tuple[float, float]  # unit vectors: when the first thing moves along its own, so does the second
    second_direction: tuple[float, float]
    correlation: float  # of the motions along these directions
    samples: int  # in which both motions are known


class Spread(NamedTuple):
    """How one thing moves."""

    mean: tuple[float, float]
    direction: tuple[float, float]  # unit vector: the line along which it moves most
    along: float  # standard deviation on that line, in pixels
    across: float


def dependences(motions: Tensor, seed: int = 0, permutations: int = PERMUTATIONS) -> list[Dependence]:
    """Every pair of things that move, from motions (N, K, 2); the strongest first.

    A sample counts for a pair where neither is NaN. Pairs with fewer than FEWEST, and things that stand still, are left
    out.
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
        found.append(Dependence(first, second, strength, p, *directions(a, b), len(a)))
    corrected = holm([pair.p for pair in found])
    found = [pair._replace(p=p) for pair, p in zip(found, corrected, strict=True)]
    return sorted(found, key=lambda pair: -pair.strength)


def spread(motions: Array) -> Spread:
    """Mean and main direction of motions (N, 2)."""
    covariance = np.cov(motions.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    across, along = np.sqrt(values.clip(0)).tolist()
    mean, (x, y) = motions.mean(0).tolist(), vectors[:, 1].tolist()
    sign = _sign(x, y)
    return Spread((mean[0], mean[1]), (sign * x, sign * y), along, across)


def _sign(x: float, y: float) -> float:
    """1 or -1: a line has two directions; by convention the longer component points to the right or down."""
    return -1.0 if (x if abs(x) >= abs(y) else y) < 0 else 1.0


def directions(a: Array, b: Array) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Unit vectors u, v along which motions (N, 2) have the greatest covariance, and their correlation there."""
    left, _, right = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
    sign = _sign(float(left[0, 0]), float(left[1, 0]))
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
    """Distances between all samples (N, k), less their means, so that chance alone gives 0: (N, N)."""
    count = len(values)
    away = np.sqrt(((values[:, None] - values) ** 2).sum(2))
    rows = away.sum(0) / (count - 2)
    centred: Array = away - rows - rows[:, None] + away.sum() / ((count - 1) * (count - 2))
    np.fill_diagonal(centred, 0)
    return centred


def holm(p: list[float]) -> list[float]:
    """P-values corrected for their number, in the order given (Holm 1979)."""
    order = sorted(range(len(p)), key=lambda number: p[number])
    corrected, largest = [0.0] * len(p), 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[number]))
        corrected[number] = largest
    return corrected
