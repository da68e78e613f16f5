"""KL tables and their intervals: by hand, by a slow bootstrap written here, and by what sets of images really give."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.evaluation.test_motion_distribution import true_world
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.motion_distribution import BINS, EPSILON, RANGE, motion_table
from visual_dynamics.evaluation.motion_tables import Motions, kl_tables, mean_table

NAN = math.nan


def moves(circle: list[float], square: list[float], triangle: list[float]) -> Tensor:
    """Displacements (R, 3, 2): circle (0, c), square (s, 0), triangle (t, -t)."""
    c, s, t = (torch.tensor(values) for values in (circle, square, triangle))
    return torch.stack([torch.stack(pair, 1) for pair in ((0 * c, c), (s, 0 * s), (t, -t))], 1)


def test_worked_by_hand() -> None:
    """Two images with two futures each; a bin is 0.24 px wide."""
    truth = moves([1, 1, 1, 3], [0, 0, 2, 2], [1, 1, 1, NAN])
    other = moves([1, 1, 3, 3], [0, 2, 2, 9], [1, -1, NAN, 1])
    found = kl_tables(Motions(truth, 2), {"row": Motions(other, 2)})["row"]
    whole = 1 + (BINS * BINS + 1) * EPSILON  # the sum of a predicted histogram with epsilon in each bin

    def kl(*shares: tuple[float, float]) -> float:
        return sum(p * math.log(p * whole / (q + EPSILON)) for p, q in shares)

    assert found["circles"] == pytest.approx(kl((3 / 4, 2 / 4), (1 / 4, 2 / 4)))
    assert found["squares"] == pytest.approx(kl((2 / 4, 1 / 4), (2 / 4, 2 / 4)))  # a quarter lies outside
    assert found["triangles"] == pytest.approx(kl((1, 2 / 3)))  # three were measured
    # (circle dy, triangle dx): truth (1, 1) three times; prediction (1, 1), (1, -1), (3, 1)
    assert found["circles_triangles"] == pytest.approx(kl((1, 1 / 3)))


def test_the_same_numbers_as_without_intervals() -> None:
    truth, other = true_world(600, 0), true_world(900, 1)
    truth[::7, 1] = NAN
    found = kl_tables(Motions(truth, 2), {"row": Motions(other, 3)}, draws=2)["row"]
    assert {name: found[name] for name in motion_table(truth, other)} == pytest.approx(motion_table(truth, other))


def test_whole_images_are_drawn_again() -> None:
    """Against a bootstrap of displacements, one draw at a time, shifted to the measured value."""
    truth, other = true_world(80, 2), true_world(120, 3)
    found = kl_tables(Motions(truth, 2), {"row": Motions(other, 4)})["row"]  # images 30 to 39 have true futures only
    chance, values = np.random.default_rng(9), []
    for _ in range(1000):
        images = torch.from_numpy(chance.integers(40, size=40))
        both = truth.view(40, 2, 3, 2)[images].flatten(0, 1), other.view(30, 4, 3, 2)[images[images < 30]].flatten(0, 1)
        values.append(motion_table(*both)["squares"])
    expected = np.quantile(values, (0.025, 0.975)) - np.mean(values) + found["squares"]
    assert found["intervals"]["squares"] == pytest.approx(expected, abs=0.1 * float(np.ptp(expected)))


def test_many_equal_futures_of_an_image_count_as_one() -> None:
    truth, other = true_world(50, 4), true_world(50, 5)
    once = kl_tables(Motions(truth), {"row": Motions(other)})["row"]
    often = kl_tables(Motions(truth.repeat_interleave(9, 0), 9), {"row": Motions(other.repeat_interleave(9, 0), 9)})
    for name, interval in once["intervals"].items():
        assert often["row"]["intervals"][name] == pytest.approx(interval)


@pytest.mark.parametrize(("scale", "least", "most"), [(1.0, 1.0, 2.6), (0.9, 0.8, 1.4)])
def test_intervals_are_as_wide_as_numbers_of_other_images_differ(scale: float, least: float, most: float) -> None:
    """At the floor up to twice as wide; further from it, as wide."""
    measured, widths = [], []
    for seed in range(40):
        truth, other = true_world(1000, 100 + seed), scale * true_world(2000, 500 + seed)
        row = kl_tables(Motions(truth, 10), {"row": Motions(other, 20)}, draws=150)["row"]
        low, high = row["intervals"]["squares"]
        assert low <= row["squares"] <= high
        measured.append(row["squares"])
        widths.append(high - low)
    ratio = np.mean(widths) / (2 * 1.96 * np.std(measured))
    assert least < ratio < most


def test_mean_of_tables() -> None:
    one, two = ({"circles": value, "intervals": {"circles": [value / 2, 2 * value]}} for value in (1.0, 3.0))
    assert mean_table([one, two]) == {"circles": 2.0, "intervals": {"circles": [1.0, 4.0]}}


def test_what_cannot_be_compared() -> None:
    truth = true_world(4, 0)
    with pytest.raises(ValueError, match="images that the truth does not have"):
        kl_tables(Motions(truth), {"row": Motions(true_world(5, 0))})
    with pytest.raises(UserError, match="no displacement could be measured"):
        kl_tables(Motions(truth), {"row": Motions(torch.full((4, 3, 2), NAN))})
    far = kl_tables(Motions(truth), {"row": Motions(truth + 3 * RANGE)}, draws=20)["row"]
    assert far["squares"] > 10 and far["intervals"]["squares"][0] > 0
