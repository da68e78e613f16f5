"""Layers: what moved is found, by how much, and nothing else."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.sampling.motion_layers import explain, find_layers, mirrored


def squares(*boxes: tuple[float, float, float], size: int = 64, ground: float = 0.8) -> Tensor:
    """(3, size, size): squares (x, y, side) in pixels, each of a colour of its own, with smooth edges."""
    fine = 16
    image = torch.full((3, size * fine, size * fine), ground)
    for number, (x, y, side) in enumerate(boxes):
        left, top, end = round(x * fine), round(y * fine), round(side * fine)
        image[:, top : top + end, left : left + end] = torch.tensor([0.9, 0.1, 0.2]).roll(number)[:, None, None]
    return F.avg_pool2d(image[None], fine)[0]


def test_displacements_are_found_to_a_fraction_of_a_pixel() -> None:
    before = squares((10, 10, 14), (40, 36, 12))
    after = squares((13.25, 10, 14), (40, 31.5, 12))
    layers = find_layers(before, after)
    assert layers[0].tolist() == [0, 0]
    for true in ([-3.25, 0], [0, 4.5]):  # back to where it came from
        assert (layers - torch.tensor(true)).norm(dim=1).min() <= 0.15


def test_places_know_where_they_came_from() -> None:
    field = explain(squares((20, 20, 16)), squares((24, 18, 16)))
    assert field.source.shape == (2, 512, 512) and field.places == 8
    inside = field.source[:, 19 * 8 : 33 * 8, 25 * 8 : 39 * 8].flatten(1)
    np.testing.assert_allclose(inside.median(1).values, [-4, 2], atol=0.13)
    assert ((inside - torch.tensor([[-4.0], [2]])).abs() < 0.2).all(0).float().mean() > 0.95
    around = torch.ones(512, 512, dtype=torch.bool)
    around[14 * 8 : 40 * 8, 16 * 8 : 44 * 8] = False
    assert not field.source[:, around].any() and not field.made_up[around].any()
    assert field.made_up.mean() < 0.01


def test_a_tremble_is_no_motion() -> None:
    before = squares((20, 20, 16))
    noise = 2 / 255 * torch.randn(3, 64, 64, generator=torch.Generator().manual_seed(0))
    field = explain(before, (before + noise).clamp(0, 1))
    assert not field.source.any() and not field.made_up.any()


def test_what_was_nowhere_is_made_up() -> None:
    generator = torch.Generator().manual_seed(0)
    before, after = squares(), squares()
    after[:, 20:36, 30:46] = torch.rand(3, 16, 16, generator=generator)
    field = explain(before, after)
    assert field.made_up[23 * 8 : 33 * 8, 33 * 8 : 43 * 8].min() == 1
    assert not field.made_up[: 17 * 8].any()


@pytest.mark.parametrize("size", [(1, 1), (16, 3), (2, 64), (128, 72)])
def test_frames_of_any_size(size: tuple[int, int]) -> None:
    before, after = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(1))
    field = explain(before, after)
    height, width = (side * field.places for side in size)
    assert field.source.shape == (2, height, width) and field.made_up.shape == (height, width)
    assert field.source.isfinite().all()


def test_a_mirror_at_each_border() -> None:
    there = torch.arange(-4, 7)
    assert mirrored(there, 3).tolist() == [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]
    np.testing.assert_array_equal(mirrored(there.numpy(), 3), mirrored(there, 3).numpy())
    assert mirrored(there, 1).tolist() == [0] * 11
