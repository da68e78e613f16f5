"""Dependence of motions: made motions whose dependence is known, and an oracle for the distance correlation."""

import numpy as np
import pytest
import torch

from visual_dynamics.relations.dependence import (
    FEWEST,
    dependences,
    directions,
    distance_correlation,
    holm,
    spread,
)


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-5, 5, shape)


def along(values: np.ndarray, x: float, y: float) -> np.ndarray:
    return values[:, None] * np.array([x, y])


def shapes_law(count: int, noise: float = 0.1) -> torch.Tensor:
    """Motions (N, 3, 2) by the law of the Shapes world, measured with some noise."""
    c, s = uniform(2, count)
    motions = np.stack([along(c, 0, 1), along(s, 1, 0), along(c, 1, -1)], 1)
    return torch.from_numpy(motions + noise * np.random.default_rng(1).standard_normal(motions.shape))


def test_the_law_of_shapes_is_found_and_nothing_else() -> None:
    strongest, *others = dependences(shapes_law(64))
    assert (strongest.first, strongest.second) == (0, 2) and strongest.samples == 64
    assert strongest.strength > 0.97 and strongest.p == pytest.approx(3 / 1000)  # the least of 999, of three pairs
    assert strongest.first_direction == pytest.approx((0, 1), abs=0.05)
    assert strongest.second_direction == pytest.approx((0.5**0.5, -(0.5**0.5)), abs=0.05)
    assert strongest.correlation > 0.99
    assert len(others) == 2 and all(pair.strength < 0.4 and pair.p > 0.05 for pair in others)


def test_strength_is_that_of_the_definition() -> None:
    """The bias-corrected distance correlation, summed term by term."""
    a, b = uniform(12, 2), uniform(12, 2, seed=1)
    b[:, 0] += a[:, 1]

    def centred(values: np.ndarray) -> np.ndarray:
        n = len(values)
        d = np.array([[np.linalg.norm(one - other) for other in values] for one in values])
        u = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                if i != j:
                    u[i, j] = d[i, j] - d[i].sum() / (n - 2) - d[:, j].sum() / (n - 2) + d.sum() / ((n - 1) * (n - 2))
        return u

    left, right = centred(a), centred(b)
    squared = (left * right).sum() / np.sqrt((left**2).sum() * (right**2).sum())
    strength, _ = distance_correlation(a, b, 9, np.random.default_rng(0))
    assert squared > 0 and strength == pytest.approx(squared**0.5)


def test_a_turned_and_scaled_motion_is_as_strong_as_can_be() -> None:
    a = uniform(40, 2)
    turned = 0.3 * a @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert distance_correlation(a, turned, 99, np.random.default_rng(0)) == (pytest.approx(1), 0.01)


def test_a_dependence_without_correlation_is_found() -> None:
    a = uniform(100)
    parabola = np.stack([a**2, np.zeros_like(a)], 1)
    strength, p = distance_correlation(along(a, 1, 0), parabola, 199, np.random.default_rng(0))
    assert abs(np.corrcoef(a, a**2)[0, 1]) < 0.3 and strength > 0.4 and p == 1 / 200


def test_p_values_of_independent_motions_are_uniform() -> None:
    found = [
        distance_correlation(uniform(20, 2, seed=2 * k), uniform(20, 2, seed=2 * k + 1), 99, np.random.default_rng(k))
        for k in range(200)
    ]
    p = np.array([each[1] for each in found])
    assert 0.01 <= (p <= 0.05).mean() <= 0.1 and 0.4 < p.mean() < 0.6


@pytest.mark.parametrize(("thing", "other_pair"), [(0, (1, 2)), (1, (0, 2)), (2, (0, 1))])
def test_what_was_not_measured_does_not_count(thing: int, other_pair: tuple[int, int]) -> None:
    motions = shapes_law(64)
    motions[: 64 - FEWEST, thing] = torch.nan
    kept = {(pair.first, pair.second): pair.samples for pair in dependences(motions)}
    assert kept == {(0, 1): FEWEST, (0, 2): FEWEST, (1, 2): FEWEST} | {other_pair: 64}
    motions[-1, thing] = torch.nan
    assert [(pair.first, pair.second) for pair in dependences(motions)] == [other_pair]


def test_what_stands_still_has_no_pair() -> None:
    motions = shapes_law(32)
    motions[:, 2] = 0.01 * motions[:, 0]  # moves exactly with the circle, but by hundredths of a pixel
    assert [(pair.first, pair.second) for pair in dependences(motions)] == [(0, 1)]
    assert dependences(torch.zeros(32, 0, 2)) == []


def test_the_result_depends_on_the_seed_alone() -> None:
    motions = shapes_law(20)
    assert dependences(motions, 3, 99) == dependences(motions.clone(), 3, 99)


def test_spread_is_along_the_main_direction() -> None:
    found = spread(along(uniform(500), -0.6, -0.8) + np.array([1.0, 2.0]))
    assert found.direction == pytest.approx((0.6, 0.8)) and found.along == pytest.approx(10 / 12**0.5, rel=0.1)
    assert found.across == pytest.approx(0, abs=1e-6) and found.mean == pytest.approx((1, 2), abs=0.5)


def test_directions_of_motions_without_spread() -> None:
    assert directions(np.zeros((5, 2)), uniform(5, 2))[2] == 0
    assert distance_correlation(np.zeros((5, 2)), uniform(5, 2), 9, np.random.default_rng(0)) == (0.0, 1.0)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
