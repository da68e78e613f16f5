"""Distances between sets of pairs: closed forms, unbiasedness, features by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import linalg

from visual_dynamics.evaluation.set_distances import (
    FEATURES,
    flow_histograms,
    frechet_distance,
    kernel_distance,
    random_features,
)


def normal(count: int, seed: int, size: int = 4) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def test_frechet_is_that_of_normal_distributions() -> None:
    mix = torch.tensor([[2.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0.5, 0], [0, 1, 0, 3]], dtype=torch.double)
    one, other = normal(500, 0), normal(400, 1) @ mix + torch.tensor([1.0, 0, -2, 0])
    first, second = (np.cov(x.numpy().T) for x in (one, other))
    root = linalg.sqrtm(first @ second).real
    expected = float(((one.mean(0) - other.mean(0)) ** 2).sum()) + np.trace(first + second - 2 * root)
    assert frechet_distance(one, other) == pytest.approx(expected, rel=1e-4)
    assert frechet_distance(one, one) == pytest.approx(0, abs=1e-5)
    assert frechet_distance(one, one + 3) == pytest.approx(4 * 9, rel=1e-5)


def test_kernel_distance_by_loops() -> None:
    one, other = normal(5, 2), normal(3, 3)

    def k(x: torch.Tensor, y: torch.Tensor) -> float:
        return float((x @ y / 4 + 1) ** 3)

    def within(each: torch.Tensor) -> float:
        values = [k(each[i], each[j]) for i in range(len(each)) for j in range(len(each)) if i != j]
        return sum(values) / len(values)

    between = np.mean([k(x, y) for x in one for y in other])
    assert kernel_distance(one, other) == pytest.approx(within(one) + within(other) - 2 * between)
    assert math.isnan(kernel_distance(one[:1], other))


def test_kernel_distance_has_no_bias() -> None:
    """Two small sets of one distribution are 0 apart on average; Frechet's distance of the same sets is not."""
    same = [kernel_distance(normal(6, 2 * seed), normal(6, 2 * seed + 1)) for seed in range(400)]
    assert abs(np.mean(same)) < 4 * np.std(same) / len(same) ** 0.5
    other = [kernel_distance(normal(6, 2 * seed), normal(6, 2 * seed + 1) + 1) for seed in range(400)]
    assert np.mean(other) > 10 * np.std(other) / len(other) ** 0.5
    assert frechet_distance(normal(6, 0), normal(6, 1)) > 0.1


def test_random_features_are_fixed_and_see_motion() -> None:
    frames = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    moved = frames.roll(2, 3)
    found = random_features(frames, moved)
    assert found.shape == (6, FEATURES) and found.dtype == torch.double
    torch.manual_seed(99)
    assert torch.equal(found, random_features(frames, moved))
    torch.testing.assert_close(found[2:3], random_features(frames[2:3], moved[2:3]))
    still = random_features(frames, frames)
    assert float((found - still).norm()) > 0.1 * float(still.norm())


def test_flow_histograms_by_hand() -> None:
    """A texture that moves by 3 pixels to the right, or up; classes of speed 0.5, 1, 2, 4."""
    pytest.importorskip("cv2")
    chance = torch.Generator().manual_seed(1)
    coarse = torch.rand(1, 3, 16, 16, generator=chance)
    frame = (255 * torch.nn.functional.interpolate(coarse, size=(64, 64), mode="bicubic").clamp(0, 1)).to(torch.uint8)
    frames = frame.expand(3, -1, -1, -1)
    following = torch.cat([frame, frame.roll(3, 3), frame.roll(-3, 2)])
    still, right, up = flow_histograms(frames, following)
    assert still.shape == (33,) and float(still[0]) == 1
    for found, way in ((right, 0), (up, 6)):  # eighths of a turn, y down
        assert int(found.argmax()) == 1 + 2 * 8 + way and float(found.square().sum()) == pytest.approx(1)
        assert float(found.max() ** 2) > 0.7
