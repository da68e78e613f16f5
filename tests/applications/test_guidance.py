"""Ways through a clip whose frames are numbers: a guide that counts, and one that takes a wrong turn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from visual_dynamics.applications.guidance import STARTS, find_way


def frame(number: float) -> Tensor:
    return torch.full((3, 1, 1), float(number))


def numbers(way: dict[int, Tensor]) -> dict[int, float]:
    return {place: float(picture[0, 0, 0]) for place, picture in way.items()}


class Counting:
    """What comes after n is n + 1; from the first frame it goes to `turn`."""

    def __init__(self, turn: float = 1) -> None:
        self.turn, self.asked = turn, []

    def __call__(self, before: int, after: int, made: Tensor) -> Tensor:
        self.asked.append((before, after))
        return frame(self.turn if before == 0 else float(made[0, 0, 0]) + 1)


def test_the_guide_s_own_way_is_taken_if_it_is_near_the_poses() -> None:
    direct = {place: frame(place) for place in range(6)} | {3: frame(5)}  # one pose is taken for another
    guide = Counting()
    assert numbers(find_way(range(6), direct, guide, range(6))) == {place: place for place in range(6)}
    assert guide.asked == [(place, place + 1) for place in range(5)]


def test_a_guide_gone_astray_starts_again_from_a_pose() -> None:
    direct = {place: frame(place) for place in range(8)} | {1: frame(30)}  # no start for another way
    way = numbers(find_way(range(8), direct, Counting(turn=20), range(8)))
    assert way == {place: place for place in range(8)} | {1: 30}


def test_poses_that_the_guide_never_meets_change_nothing() -> None:
    far = {0: frame(0)} | {place: frame((-1) ** place * 1000) for place in range(1, 6)}
    assert numbers(find_way(range(6), far, Counting(), range(6))) == {place: place for place in range(6)}


@pytest.mark.parametrize("order", [[0], [2], [1, 0], [3, 0, 1, 2]])
def test_any_order_and_length(order: list[int]) -> None:
    direct = {place: frame(place) for place in order}
    way = find_way(order, direct, lambda before, after, made: frame(after), range(4))
    assert numbers(way) == {place: place for place in order}


def test_held_poses_are_made_once() -> None:
    direct = {place: frame(place % 2) for place in range(4)}
    guide = Counting()
    assert numbers(find_way(range(4), direct, guide, [0, 1, 0, 1])) == {0: 0, 1: 1, 2: 0, 3: 1}
    assert guide.asked == [(0, 1)] and STARTS == 3
