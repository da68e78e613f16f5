"""Order, noise and augmentations are pure functions of seed and step, and draw the same numbers as ever:
trained models can be made again."""

import pytest
import torch

from visual_dynamics.data.pairs import mix
from visual_dynamics.training.augment import LIST, ShuffledOrder, draw, step_noise

DRAWN = {  # sum, two values
    "zoom": [32.7266, 0.0135, 1.0],
    "mirror": [17.0, 0.0, 1.0],
    "reverse": [20.0, 1.0, 1.0],
    "shift": [-8.0, 0.0, 2.0],
    "colour-jitter": [95.4587, 0.9434, 0.07],
    "permute-channels": [188.0, 1.0, 0.0],
    "jitter": [9.0, 1.0, -1.0],
}


@pytest.mark.parametrize("name", LIST)
def test_draws_are_those_of_the_first_release(name: str) -> None:
    values = draw(name, 2, step=3, batch=32, seed=7).double()
    assert [round(float(value), 4) for value in (values.sum(), values.flatten()[5], values.flatten()[-3])] == DRAWN[
        name
    ]


def test_every_epoch_sees_every_pair_once() -> None:
    order = ShuffledOrder(count=10, batch=4, seed=0)
    walk = torch.cat([order.indices(step) for step in range(10)])
    for epoch in range(4):
        assert sorted(walk[10 * epoch : 10 * epoch + 10].tolist()) == list(range(10))
    assert walk[:10].tolist() != walk[10:20].tolist()


def test_a_step_needs_no_history() -> None:
    fresh, used = ShuffledOrder(7, 3, 1), ShuffledOrder(7, 3, 1)
    for step in range(20):
        used.indices(step)
    assert torch.equal(fresh.indices(11), used.indices(11))
    assert not torch.equal(ShuffledOrder(700, 300, 2).indices(0), ShuffledOrder(700, 300, 1).indices(0))


def test_noise() -> None:
    noise = step_noise(3, 64, 500, seed=0, device=torch.device("cpu"))
    assert torch.equal(noise, step_noise(3, 64, 500, seed=0, device=torch.device("cpu")))
    assert not torch.equal(noise, step_noise(4, 64, 500, seed=0, device=torch.device("cpu")))
    assert abs(noise.mean()) < 0.02 and abs(noise.std() - 1) < 0.02


def test_mixed_seeds_do_not_meet() -> None:
    assert len({mix(seed, number) for seed in range(50) for number in range(200)}) == 10_000
