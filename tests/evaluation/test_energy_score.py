"""The energy score and the best of N: by hand, unbiased, and against closed forms of the normal distribution."""

import itertools
import math

import pytest
import torch

from visual_dynamics.evaluation.energy_score import energy_score, expected_best


def test_by_hand() -> None:
    samples = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])  # 5, 4 and 3 from each other
    truth = torch.tensor([0.0, 0.0])  # 0, 5 and 4 away
    assert energy_score(samples, truth) == pytest.approx((0 + 5 + 4) / 3 - (5 + 4 + 3) / 3 / 2)
    assert energy_score(samples[1:2], truth) == 5  # one prediction: its distance
    assert energy_score(truth.repeat(4, 1), truth) == 0


def test_frames_are_long_vectors() -> None:
    samples, truth = torch.rand(4, 3, 5, 6), torch.rand(3, 5, 6)
    assert energy_score(samples, truth) == energy_score(samples.flatten(1), truth.flatten())


@pytest.mark.parametrize("deviation", [0.5, 1.0, 2.0])
def test_normal_distributions(deviation: float) -> None:
    """X ~ N(0, s^2), y = 1: E|X - y| and E|X - X'| have closed forms; ten samples estimate it without bias."""
    generator = torch.Generator().manual_seed(0)
    draws = deviation * torch.randn(20_000, 10, 1, generator=generator)
    truth = torch.ones(1)
    found = torch.tensor([energy_score(samples, truth) for samples in draws[:4000]])
    share = math.erf(1 / deviation / math.sqrt(2))  # folded normal distribution of mean 1
    to_truth = deviation * math.sqrt(2 / math.pi) * math.exp(-1 / (2 * deviation**2)) + share
    exact = to_truth - deviation / math.sqrt(math.pi)
    assert float(found.mean()) == pytest.approx(exact, abs=4 * float(found.std()) / len(found) ** 0.5)


def test_it_is_proper() -> None:
    """The true distribution N(0, I) beats one that is too wide, too narrow, or beside it."""
    generator = torch.Generator().manual_seed(1)
    truths, noise = torch.randn(600, 20, generator=generator), torch.randn(600, 8, 20, generator=generator)

    def mean(scale: float, shift: float = 0.0) -> float:
        return sum(energy_score(scale * n + shift, t) for n, t in zip(noise, truths, strict=True)) / len(truths)

    right = mean(1.0)
    assert all(right < other for other in (mean(0.5), mean(2.0), mean(0.0), mean(1.0, shift=0.5)))


def test_the_best_is_that_of_all_choices() -> None:
    errors = torch.tensor([7.0, 1.0, 4.0, 4.0, 9.0])
    for count in range(1, 6):
        every = [min(chosen) for chosen in itertools.combinations(errors.tolist(), count)]
        assert expected_best(errors, count) == pytest.approx(sum(every) / len(every))
    with pytest.raises(ValueError, match="best of 6 cannot be estimated from 5"):
        expected_best(errors, 6)
