"""Start poses among made-up frames: models that know which start pose leads where, by the brightness of a frame."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from tests.sprites.pairs import ReadsPairs
from visual_dynamics.sprites.guide import TRIED, find_start, likely


def frame(level: float) -> Tensor:
    """All of one brightness; frames of neighbouring levels can be distinguished."""
    return torch.full((3, 16, 16), level / 10)


def level(picture: Tensor) -> float:
    return round(10 * float(picture[0, 0, 0]), 3)


class Poses(ReadsPairs):
    """Carries differences over: a frame that is brighter than the start pose by 3 makes the target brighter by 3."""

    def __init__(self) -> None:
        self.encoded: list[float] = []

    def code(self, before: Tensor, after: Tensor) -> list[float]:
        self.encoded.append(level(before))
        return [level(after) - level(before)]

    def encode_image(self, picture: Tensor) -> Tensor:
        return picture

    def preview(self, image: Tensor, z: Tensor) -> Tensor:
        return torch.stack([frame(level(image) + move) for move in z[:, 0].tolist()])


class Next(Poses):
    """Knows what comes after a frame of the true clip; after any other it goes on far away."""

    def __init__(self, true: Sequence[float]) -> None:
        super().__init__()
        self.true = true

    def preview(self, image: Tensor, z: Tensor) -> Tensor:
        start = level(image)
        known = any(abs(start - number) < 1e-3 for number in self.true)
        return torch.stack([frame(start + move if known else start + 40) for move in z[:, 0].tolist()])


CLIP = [frame(number) for number in (5, 6, 7, 8, 9)]  # of the reference, which begins it in start pose 5


def asked(true: Sequence[float], target: float, *others: float) -> tuple[float, Poses]:
    poses = Poses()
    start = frame(target)
    found = find_start(poses, Next(true), CLIP, 0, [frame(n) for n in others], start, lambda x: x)  # type: ignore[arg-type]
    return level(found), poses


def test_another_start_pose_is_taken_where_only_it_makes_frames_that_follow_each_other() -> None:
    # The target stands at 12 where the reference stands at 2: so its clip has to be 16 to 19, not 13 to 16.
    assert asked([16, 17, 18, 19], 12, 3, 2, 1)[0] == 2


def test_the_own_start_pose_is_kept_where_it_does_or_where_none_does() -> None:
    found, poses = asked([13, 14, 15, 16], 12, 3, 2, 1)
    assert found == 5 and set(poses.encoded) == {5}  # and others are not tried
    assert asked([], 12, 3, 2, 1)[0] == 5


def test_nothing_to_choose_from() -> None:
    assert asked([16, 17, 18, 19], 12)[0] == 5
    poses, still = Poses(), [frame(5)] * 3
    kept = find_start(poses, poses, still, 1, [frame(2)], frame(1), lambda x: x)  # type: ignore[arg-type]
    assert kept is still[1] and not poses.encoded


def test_likely_start_poses_differ_and_are_those_of_the_nearest_silhouette() -> None:
    pictures = [torch.zeros(3, 8, 8) for _ in range(4)]
    for width, picture in enumerate(pictures, 2):
        picture[:, :, :width] = 1
    one, two, three, four = pictures
    found = likely([four, one, two.clone(), two, three], two)
    assert [level(picture.flip(2)) for picture in found] == [0.0] * 4  # twice the same start pose is one
    assert torch.equal(found[0], two) and torch.equal(found[1], one) | torch.equal(found[1], three)
    assert torch.equal(found[-1], four)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_few_start_poses_are_tried(count: int) -> None:
    _, poses = asked([], 12, *range(20, 20 + count))
    assert len(set(poses.encoded)) == 1 + min(count, TRIED)
