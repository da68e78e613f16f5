"""What moves in a take and what does not, by hand; what predictions are measured by, with oracles."""

import pytest
import torch

from tests.conftest import seeded
from visual_dynamics.evaluation.video_motion import (
    Regions,
    Sums,
    most_change,
    numbers,
    pair_sums,
    regions,
    scene_intervals,
)


def corner(height: int, width: int, size: int = 8) -> torch.Tensor:
    region = torch.zeros(size, size, dtype=torch.bool)
    region[:height, :width] = True
    return region


def test_change_is_the_largest_of_all_pairs_and_colours() -> None:
    frames, following = (torch.full((3, 3, 2, 2), 100, dtype=torch.uint8) for _ in range(2))
    following[0, 2, 0, 0], following[2, 0, 0, 0], frames[1, 1, 1, 1] = 90, 103, 255
    assert most_change(frames, following).tolist() == [[10, 0], [0, 155]]


def test_regions_by_hand() -> None:
    most = torch.zeros(64, 64, dtype=torch.int16)
    most[10:14, 20:30] = 17  # moves
    most[40, 5:8] = torch.tensor([16, 8, 7], dtype=torch.int16)  # neither, neither, noise
    found = regions(most)
    moving = torch.zeros(64, 64, dtype=torch.bool)
    moving[8:16, 18:32] = True  # two pixels wider
    still = ~moving
    still[40, 5:7] = False
    assert torch.equal(found.moving, moving) and torch.equal(found.still, still)
    small = torch.zeros(16, 16)
    small[0, 0] = 200
    assert torch.equal(regions(small).moving, corner(2, 2, 16))  # one pixel at least, and none across the border


def test_sums_by_hand() -> None:
    where = Regions(corner(2, 4), ~corner(4, 4))  # 8 and 48 of 64 pixels
    frame = torch.full((3, 8, 8), 0.5)
    truth, one, two = frame.clone(), frame.clone(), frame.clone()
    truth[:, 0, 0] += 0.2  # 3 * 0.04 = 0.12
    one[:, 0, 0] += 0.1  # off by 0.03
    two[0, 7, 7] -= 0.1  # off by 0.12 + 0.01
    found = pair_sums(frame, truth, torch.stack([one, two]), where)
    expected = {"true_motion": 0.12, "error": (0.03 + 0.13) / 2, "best": 0.03, "inside": 0.03 / 2, "outside": 0.01 / 2}
    expected |= {"pixels_inside": 8, "pixels_outside": 56, "stayed": 48 - 0.5, "pixels_still": 48}
    expected |= {"between": 0.04, "between_inside": 0.03}
    assert found._asdict() == pytest.approx(expected, rel=1e-5)
    made = numbers([found, found])
    assert made == pytest.approx(
        {
            "true_motion": 0.12,
            "explained": 1 - 0.08 / 0.12,
            "best": 0.25,
            "inside": 0.015 / 8,
            "outside": 0.005 / 56,
            "ratio": 21,
            "still": 47.5 / 48,
            "diversity": 1 / 3,
            "inside_share": 0.75,
        },
        rel=1e-5,
    )


def test_pairs_count_by_their_motion_and_pixels() -> None:
    """A pair with much motion weighs more in what is explained; empty regions divide nothing."""
    frame, everywhere = torch.zeros(3, 8, 8), Regions(corner(8, 8), corner(0, 0))
    large, little = frame + 0.8, frame + 0.1
    found = numbers([pair_sums(frame, t, p[None], everywhere) for t, p in ((large, large), (little, frame))])
    assert found["explained"] == pytest.approx(1 - 0.01 / (0.64 + 0.01))
    assert found["outside"] is None and found["ratio"] is None and found["still"] is None


def test_intervals_are_over_scenes() -> None:
    """Scene a: 2 of 8 explained, in two pairs; scene b: 4 of 4. Drawn twice a has 1/4, b all, and both 6/12."""
    none = dict.fromkeys(Sums._fields, 0.0)
    a, b = Sums(**none | {"true_motion": 4.0, "error": 3.0}), Sums(**none | {"true_motion": 4.0})
    found = scene_intervals(["a", "b", "a"], [{"it": a}, {"it": b}, {"it": a}], ["explained", "still"])
    assert found is not None and found["it"]["explained"] == pytest.approx((0.25, 1.0))
    assert "still" not in found["it"]  # there is no such pixel
    assert scene_intervals(["a", "a"], [{"it": a}, {"it": a}], ["explained"]) is None


def test_two_samples_differ_as_all_two_of_them_on_average() -> None:
    predicted = seeded(4, 3, 8, 8).sigmoid()
    frame, where = torch.zeros(3, 8, 8), Regions(corner(3, 5), ~corner(4, 6))
    found = pair_sums(frame, frame, predicted, where)
    each = [(predicted[i] - predicted[j]).square().sum(0) for i in range(4) for j in range(i)]
    mean = torch.stack(each).mean(0)
    assert found.between == pytest.approx(float(mean.sum()), rel=1e-5)
    assert found.between_inside == pytest.approx(float(mean[where.moving].sum()), rel=1e-5)


@pytest.mark.parametrize(("levels", "stays"), [(3, 1.0), (3.4, 1.0), (3.6, 0.0), (4, 0.0)])
def test_what_stays_changes_by_less_than_four_levels_of_a_file(levels: float, stays: float) -> None:
    where = Regions(corner(0, 0), corner(8, 8))
    for before in range(0, 250, 7):
        frame = torch.full((3, 8, 8), before / 255)
        assert numbers([pair_sums(frame, frame, (frame + levels / 255)[None], where)])["still"] == stays


def test_oracles() -> None:
    frame = seeded(3, 8, 8).sigmoid()
    truth = torch.where(corner(3, 3), 1 - frame, frame)
    where = Regions(corner(4, 4), ~corner(4, 4))
    right = numbers([pair_sums(frame, truth, truth[None], where)])
    assert (right["explained"], right["best"], right["still"], right["outside"]) == (1, 0, 1, 0)
    assert right["inside"] and right["ratio"] is None  # nothing to divide by
    copied = numbers([pair_sums(frame, truth, frame[None], where)])
    assert (copied["explained"], copied["best"], copied["still"], copied["inside"]) == (0, 1, 1, 0)
