"""Statistics of z against made-up posteriors whose answer is known, and numpy's own decompositions."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.conftest import seeded
from visual_dynamics.evaluation.latent_statistics import component_shares, dominating_components, intervals, non_zero


def of_rank(rank: int, dimensions: int = 40, pairs: int = 300) -> Tensor:
    """z_mean that varies in `rank` directions alike, far from the origin."""
    directions = torch.linalg.qr(seeded(dimensions, rank, seed=1, dtype=torch.float64)).Q
    weights = torch.linalg.qr(seeded(pairs, rank + 1, seed=2, dtype=torch.float64)).Q
    weights = torch.linalg.qr(weights - weights.mean(0)).Q[:, :rank]  # centred and orthogonal: equal variances
    return weights @ directions.T + 7


@pytest.mark.parametrize("rank", [1, 4, 10])
def test_components_of_known_rank(rank: int) -> None:
    mean = of_rank(rank)
    assert dominating_components(mean) == rank  # all alike: up to rank 19 none can be missed
    assert dominating_components(mean, share=0.5) == int(np.ceil(rank / 2))
    np.testing.assert_allclose(component_shares(mean)[:rank], 1 / rank, rtol=1e-9)


def test_components_against_numpy() -> None:
    mean = seeded(200, 30, seed=3) * torch.linspace(0.1, 3, 30) + seeded(30)
    values = mean.double().numpy()
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    covariance = np.linalg.eigvalsh(np.cov(values.T))[::-1]
    for variances in (singular**2, covariance):
        shares = variances / variances.sum()
        np.testing.assert_allclose(component_shares(mean), shares, rtol=1e-9)
        assert dominating_components(mean) == np.searchsorted(shares.cumsum(), 0.95) + 1


def test_what_never_varies_has_no_component() -> None:
    assert dominating_components(torch.full((20, 5), 3.0)) == 0


def test_non_zero_elements() -> None:
    pairs = 1000
    mean = torch.zeros(pairs, 6)
    mean[:, 1] = 0.11  # always a little
    mean[:, 2] = 0.09
    mean[0, 3] = 3.0  # once: a root mean square of 0.095
    mean[:20, 4] = -3.0  # at times: 0.42
    mean[:, 5] = torch.linspace(-1, 1, pairs)
    assert non_zero(mean) == 3
    assert [non_zero(mean, threshold) for threshold in (0.0, 0.05, 0.3, 5)] == [5, 5, 2, 0]
    assert non_zero(mean[torch.randperm(pairs)]) == non_zero(-mean) == 3


def test_intervals_are_mean_and_deviation() -> None:
    values = seeded(50, 4, seed=5) * 3 - 1
    centre, deviation = intervals(values)
    np.testing.assert_allclose(centre, values.numpy().mean(0), rtol=1e-5)
    np.testing.assert_allclose(deviation, values.numpy().std(0), rtol=1e-5)


def test_mistakes_are_told() -> None:
    for function in (intervals, non_zero, component_shares, dominating_components):
        for wrong in (torch.zeros(5), torch.zeros(0, 5), torch.full((3, 2), torch.nan)):
            with pytest.raises(ValueError):
                function(wrong)
