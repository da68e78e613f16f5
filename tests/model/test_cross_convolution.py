"""The cross convolutional layer against four nested loops, gradients, translations, and its own other form."""

import pytest
import torch
from torch import Tensor

from tests.conftest import seeded
from visual_dynamics.model.cross_convolution import by_groups, by_shifts, cross_convolution

FORMS = pytest.mark.parametrize("form", [by_groups, by_shifts, cross_convolution])


def by_loops(maps: Tensor, kernels: Tensor) -> Tensor:
    """The definition: example, map, row and column in four loops, each value a sum over the kernel."""
    batch, channels, side, _ = kernels.shape
    height, width = maps.shape[-2:]
    radius = side // 2
    out = torch.zeros(batch, channels, height, width, dtype=maps.dtype)
    for b in range(batch):
        for c in range(channels):
            for y in range(height):
                for x in range(width):
                    for i in range(side):
                        for j in range(side):
                            v, u = y + i - radius, x + j - radius
                            if 0 <= v < height and 0 <= u < width:
                                out[b, c, y, x] += kernels[b, c, i, j] * maps[b if len(maps) > 1 else 0, c, v, u]
    return out


@FORMS
@pytest.mark.parametrize(("maps_batch", "side"), [(3, 5), (1, 5), (3, 3)])
def test_equals_four_nested_loops(form, maps_batch, side) -> None:
    maps, kernels = seeded(maps_batch, 2, 6, 7, dtype=torch.float64), seeded(3, 2, side, side, dtype=torch.float64)
    torch.testing.assert_close(form(maps, kernels), by_loops(maps, kernels))


@FORMS
@pytest.mark.parametrize("maps_batch", [2, 1])
def test_both_gradients(form, maps_batch) -> None:
    maps = seeded(maps_batch, 2, 5, 4, dtype=torch.float64).requires_grad_()
    kernels = seeded(2, 2, 3, 3, seed=1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(form, (maps, kernels))


@FORMS
def test_one_hot_kernel_translates_by_its_offset(form) -> None:
    maps = seeded(1, 1, 9, 9)
    for i in range(5):
        for j in range(5):
            kernel = torch.zeros(1, 1, 5, 5)
            kernel[0, 0, i, j] = 1
            down, right = 2 - i, 2 - j
            padded = torch.nn.functional.pad(maps, [2, 2, 2, 2])
            expected = padded[:, :, 2 - down : 11 - down, 2 - right : 11 - right]
            torch.testing.assert_close(form(maps, kernel), expected, rtol=0, atol=0)


@FORMS
def test_each_example_meets_its_own_kernels_only(form) -> None:
    maps, kernels = seeded(4, 3, 8, 8), seeded(4, 3, 5, 5, seed=1)
    alone = torch.cat([form(maps[k : k + 1], kernels[k : k + 1]) for k in range(4)])
    torch.testing.assert_close(form(maps, kernels), alone)


def test_compiled_code_takes_the_form_that_fuses(monkeypatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    maps, kernels = seeded(2, 3, 8, 8), seeded(2, 3, 5, 5, seed=1)
    torch.testing.assert_close(cross_convolution(maps, kernels), by_shifts(maps, kernels), rtol=0, atol=0)
