"""Ways through a clip whose frames are numbers: a guide that counts, and one that takes a wrong turn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from visual_dynamics.sprites.guide import find_way

COUNT = 10


def frame(number: float) -> Tensor:
    return torch.full((3, 1, 1), float(number))


COUNTED = [frame(number) for number in range(COUNT)]  # the reference, which goes on evenly


def numbers(way: dict[int, Tensor]) -> list[float]:
    return [float(way[place][0, 0, 0]) for place in sorted(way)]


class Counting:
    """What comes after n is n + 1, but wrong turns lead elsewhere; some drafts are doubtful."""

    def __init__(self, doubtful: tuple[int, ...] = (), **turns: float) -> None:
        self.turns = {int(name[5:]): to for name, to in turns.items()}
        self.doubtful = doubtful
        self.asked: list[tuple[int, int]] = []

    def __call__(self, before: int, after: int, made: Tensor) -> tuple[Tensor, float]:
        self.asked.append((before, after))
        number = float(made[0, 0, 0])
        return frame(self.turns.get(int(number), number + 1)), 1e9 if after in self.doubtful else 0.0


def poses(**wrong: float) -> dict[int, Tensor]:
    return {place: frame(wrong.get(f"at_{place}", place)) for place in range(COUNT)}


def test_single_poses_that_are_wrong_do_not_matter() -> None:
    guide = Counting()
    direct = poses(at_3=30, at_5=0, at_9=2)
    assert numbers(find_way(range(COUNT), direct, guide, range(COUNT), COUNTED)) == list(range(COUNT))
    assert guide.asked == [(place, place + 1) for place in range(COUNT - 1)]


def test_a_guide_gone_astray_starts_again_from_the_first_pose_it_missed() -> None:
    way = numbers(find_way(range(COUNT), poses(), Counting(from_4=50), range(COUNT), COUNTED))
    assert way == list(range(COUNT))


def test_a_start_from_a_wrong_pose_is_left_again() -> None:
    way = numbers(find_way(range(COUNT), poses(at_1=70), Counting(from_0=50), range(COUNT), COUNTED))
    assert way == [0, 70, *range(2, COUNT)]


def test_at_the_end_the_guide_is_trusted() -> None:
    way = numbers(find_way(range(COUNT), poses(), Counting(**{f"from_{COUNT - 2}": 50}), range(COUNT), COUNTED))
    assert way == [*range(COUNT - 1), 50]


def test_a_doubtful_draft_gives_way_to_a_pose_that_leads_on() -> None:
    way = numbers(find_way(range(COUNT), poses(), Counting(doubtful=(8,), from_7=50), range(COUNT), COUNTED))
    assert way == list(range(COUNT))
    slightly = Counting(doubtful=(8,), from_7=12)  # not far enough to be given up for the sum of its distances
    assert numbers(find_way(range(COUNT), poses(), slightly, range(COUNT), COUNTED)) == list(range(COUNT))
    wrong = poses(at_4=15)  # from here the guide does not come to 5: its own draft is kept, however doubtful
    assert numbers(find_way(range(COUNT), wrong, Counting(doubtful=(4,)), range(COUNT), COUNTED)) == list(range(COUNT))
    last = Counting(doubtful=(9,), from_8=50)  # nothing comes after it
    assert numbers(find_way(range(COUNT), poses(), last, range(COUNT), COUNTED)) == [*range(COUNT - 1), 50]
    near = poses(at_4=5)  # close enough to agree: the guide's own is kept, however doubtful
    assert numbers(find_way(range(COUNT), near, Counting(doubtful=(4,)), range(COUNT), COUNTED)) == list(range(COUNT))


def test_a_doubtful_guide_that_stands_still_gives_way() -> None:
    """Even in the last frame, and where the way on is no worse from its own frame."""
    stuck = Counting(doubtful=(5, 9), from_4=4, from_8=8)
    direct = poses(at_5=20, at_9=20)  # too far from its neighbours for the guide to lead on from there
    assert numbers(find_way(range(COUNT), direct, stuck, range(COUNT), COUNTED))[9] == 20
    held = [*COUNTED[:9], frame(8)]  # the reference stands still itself
    assert numbers(find_way(range(COUNT), direct, stuck, range(COUNT), held))[9] == 8


def test_a_turn_to_another_pose_is_taken_back_where_the_guide_cannot_go_on_from_it() -> None:
    guide = Counting(doubtful=(6,), from_4=11, from_11=11)  # 11 may be a pose: there is no doubt about it
    assert numbers(find_way(range(COUNT), poses(), guide, range(COUNT), COUNTED)) == list(range(COUNT))
    lost = Counting(doubtful=(6,), from_4=11, from_11=11, from_5=30)  # nor from the other pose
    way = numbers(find_way(range(COUNT), poses(), lost, range(COUNT), COUNTED))
    assert way == [*range(5), 11, *range(6, COUNT)]


@pytest.mark.parametrize("order", [[0], [2], [1, 0], [3, 0, 1, 2]])
def test_any_order_and_length(order: list[int]) -> None:
    direct = {place: frame(place) for place in order}
    way = find_way(order, direct, lambda before, after, made: (frame(after), 0.0), range(4), COUNTED)
    assert numbers(way) == sorted(order)


def test_held_poses_are_made_once() -> None:
    direct = {place: frame(place % 2) for place in range(4)}
    guide = Counting()
    assert numbers(find_way(range(4), direct, guide, [0, 1, 0, 1], COUNTED)) == [0, 1, 0, 1]
    assert guide.asked == [(0, 1)]
    still = find_way([0, 1], {0: frame(0), 1: frame(0)}, guide, [0, 0], COUNTED)
    assert numbers(still) == [0, 0] and len(guide.asked) == 1
