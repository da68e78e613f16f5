"""Augmentations draw the same numbers as ever: trained models can be made again."""

import pytest

from visual_dynamics.training.augment import LIST, draw

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
