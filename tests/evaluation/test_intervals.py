"""Intervals against values of the literature and of the normal distribution."""

import math

import numpy as np
import pytest
import torch

from visual_dynamics.evaluation.intervals import bootstrap_interval, cluster_interval, wilson_interval


def test_wilson_as_in_the_literature() -> None:
    assert wilson_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson_interval(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson_interval(1.0, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)


def test_clusters_count_as_many_as_they_are() -> None:
    """40 clusters of 25 equal values are worth 40 values, not 1,000."""
    each = torch.arange(40) % 2
    values, clusters = each.repeat_interleave(25).double(), torch.arange(40).repeat_interleave(25) * 3 + 7
    low, high = cluster_interval(values, clusters)
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(40), rel=0.1)
    alone = cluster_interval(values, torch.arange(1000))
    assert alone[1] - alone[0] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(1000), rel=0.1)
    assert cluster_interval(values, clusters) == (low, high)  # the seed decides


def test_a_large_cluster_weighs_more_than_a_small_one() -> None:
    """Of 20 clusters ten are one value of 1, ten are nine values of 0: the mean of all is a tenth."""
    sizes = torch.tensor([1, 9]).repeat(10)
    values, clusters = torch.tensor([1.0, 0.0]).repeat(10).repeat_interleave(sizes), torch.arange(20)
    low, high = cluster_interval(values, clusters.repeat_interleave(sizes))
    assert 0 < low < 0.1 < high < 0.3


def test_any_statistic_has_an_interval() -> None:
    """A bootstrap of a mean is as wide as theory says; a statistic that no unit changes has no width."""
    values = np.random.default_rng(3).normal(size=400)
    low, high = bootstrap_interval(lambda places: float(values[places].mean()), len(values))
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(400), rel=0.1)
    assert bootstrap_interval(lambda places: 2.0, 10, draws=20) == (2.0, 2.0)
    sometimes = bootstrap_interval(lambda places: 2.0 if places[0] else math.nan, 10, draws=50)
    assert sometimes == (2.0, 2.0)  # a draw without a value does not count


def test_a_mistake_is_an_error() -> None:
    with pytest.raises(ValueError, match="values and clusters"):
        cluster_interval(torch.rand(3), torch.arange(2))
    with pytest.raises(ValueError, match="no units"):
        bootstrap_interval(lambda places: 0.0, 0)
