"""Overlaps against plain set arithmetic, and made-up maps whose right choice is known."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.conftest import seeded
from visual_dynamics.evaluation import layers
from visual_dynamics.evaluation.layers import Choice


def pixels(region: Tensor) -> set[tuple[int, ...]]:
    return set(map(tuple, region.nonzero().tolist()))


def by_sets(region: Tensor, mask: Tensor) -> float:
    one, other = pixels(region), pixels(mask)
    return len(one & other) / len(one | other) if one | other else 0.0


def random_masks(*shape: int, seed: int = 0) -> Tensor:
    return seeded(*shape, seed=seed) > 0.5


def test_every_overlap_is_that_of_sets() -> None:
    maps, masks = seeded(2, 3, 7, 9).relu(), random_masks(2, 4, 7, 9, seed=1)
    masks[0, 1] = False  # an object that is not there
    levels = layers.levels_between(maps.amin((0, 2, 3)), maps.amax((0, 2, 3)), 5)
    levels[0, 2] = maps[0, 0].max()  # a threshold that a pixel meets exactly
    levels = levels.sort(1).values
    found = layers.overlaps(maps, masks, levels)
    assert found.shape == (2, 4, 3, 2, 5)
    for image, mask, number, step in np.ndindex(2, 4, 3, 5):
        high = maps[image, number] >= levels[number, step]
        for sign, region in enumerate((high, ~high)):
            expected = by_sets(region, masks[image, mask])
            assert float(found[image, mask, number, sign, step]) == pytest.approx(expected, abs=1e-6)


def test_measuring_agrees_with_choosing() -> None:
    maps, masks = seeded(5, 4, 8, 8), random_masks(5, 1, 8, 8, seed=2)
    levels = layers.levels_between(maps.amin((0, 2, 3)), maps.amax((0, 2, 3)), 20)
    choice = layers.choose(layers.overlaps(maps, masks, levels).mean(0)[0], levels, range(4))
    again = layers.compare(layers.region(maps, choice), masks[:, 0])
    assert float(again.iou.mean()) == pytest.approx(choice.overlap, abs=1e-6)
    assert again.both.tolist() == [
        len(pixels(one) & pixels(other)) for one, other in zip(layers.region(maps, choice), masks[:, 0], strict=True)
    ]


def test_levels_lie_evenly_between_the_extremes() -> None:
    levels = layers.levels_between(torch.tensor([0.0, -1.0]), torch.tensor([4.0, 1.0]), 3)
    assert levels.tolist() == [[1.0, 2.0, 3.0], [-0.5, 0.0, 0.5]]


@pytest.mark.parametrize(("sign", "name"), [(1.0, "high"), (-1.0, "low")])
def test_the_right_map_sign_and_threshold_are_found(sign: float, name: str) -> None:
    masks = random_masks(6, 2, 10, 10, seed=3)
    maps = seeded(6, 5, 10, 10, seed=4)
    maps[:, 3] = sign * (2.0 + 3.0 * masks[:, 1] + 0.5 * seeded(6, 10, 10, seed=5).clamp(-1, 1))  # below 3, above 4
    levels = layers.levels_between(maps.amin((0, 2, 3)), maps.amax((0, 2, 3)), 40)
    mean = layers.overlaps(maps, masks, levels).mean(0)
    choice = layers.choose(mean[1], levels, range(5))
    assert (choice.map, layers.SIGNS[choice.sign]) == (3, name) and choice.overlap == pytest.approx(1)
    assert 2.5 <= sign * choice.threshold <= 4.5
    assert torch.equal(layers.region(maps, choice), masks[:, 1])
    other = layers.choose(mean[1], levels, [4, 0])  # the right one may not be chosen
    assert other.map in (0, 4) and other.overlap < 0.6


def test_nothing_against_nothing_is_nothing_found() -> None:
    nothing = torch.zeros(1, 4, 4, dtype=torch.bool)
    assert layers.compare(nothing, nothing).iou.tolist() == [0]
    assert not layers.region(torch.zeros(1, 1, 4, 4), Choice(0, 0, 0.5, 0)).any()


def test_least_squares_finds_the_weights_that_made_a_mask() -> None:
    maps = seeded(6, 5, 8, 8)
    maps[:, 4] = 0  # a map that never responds
    true = torch.tensor([0.5, -1.0, 0.0, 2.0])
    masks = torch.stack([(maps[:, :4] * true[:, None, None]).sum(1) + 0.3, maps[:, 2]], 1)
    fit = layers.LeastSquares(5, 2)
    for part, target in zip(maps.split(4), masks.split(4), strict=True):
        fit.add(part, target)
    weights = fit.solve(range(5))
    assert torch.allclose(weights[:, 0], torch.tensor([*true, 0.0, 0.3]), atol=1e-5)
    assert torch.allclose(layers.weighted_sums(maps, weights), masks, atol=1e-4)
    # NumPy's least squares on two of the maps
    some = fit.solve([1, 2])
    columns = [maps[:, 1].flatten(), maps[:, 2].flatten(), torch.ones(6 * 64)]
    expected = np.linalg.lstsq(torch.stack(columns, 1).double().numpy(), masks[:, 0].flatten().numpy(), rcond=None)[0]
    assert np.allclose(some[[1, 2, 5], 0], expected, atol=1e-5) and not some[[0, 3, 4]].any()


def test_preferences_do_not_depend_on_areas() -> None:
    areas = torch.tensor([10.0, 90.0])
    found = layers.preferences(torch.tensor([[30.0, 90.0], [0.0, 0.0], [10.0, 90.0]]), areas)
    assert found.tolist() == [[0.75, 0.25], [0.0, 0.0], [0.5, 0.5]]
