"""What moves in a take and what does not, by hand; what predictions are measured by, with oracles."""

from collections.abc import Iterator

import pytest
import torch

from tests.conftest import seeded
from visual_dynamics.evaluation.video_motion import (
    Regions,
    best_within,
    by_scene,
    differences,
    most_change,
    numbers,
    over_scenes,
    pair_sums,
    regions,
    shift_sums,
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
    where = Regions(corner(2, 4, 16), ~corner(4, 4, 16))  # 8 and 240 of 256 pixels
    frame = torch.full((3, 16, 16), 0.5)
    truth, one, two = frame.clone(), frame.clone(), frame.clone()
    truth[:, 0, 0] += 0.2  # 3 * 0.04 = 0.12
    one[:, 0, 0] += 0.1  # off by 0.03
    two[0, 15, 15] -= 0.1
    two[1, 3, 0] -= 0.1  # between the thresholds; off by 0.12 + 0.01 + 0.01
    found = pair_sums(frame, truth, torch.stack([one, two]), where)
    expected = {"true_motion": 0.12, "best_1": (0.03 + 0.14) / 2, "moved": 0.05 / 2}
    expected |= {"score": (0.03**0.5 + 0.14**0.5) / 2 - 0.05**0.5 / 2, "copy_score": 0.12**0.5}
    expected |= {"inside": 0.03 / 2, "outside": 0.02 / 2, "pixels_inside": 8, "pixels_outside": 248}
    expected |= {"stayed": 240 - 0.5, "pixels_still": 240, "between": 0.05, "between_inside": 0.03}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert "error" not in found and "best_3" not in found  # of samples none; of two no best of three
    made = numbers([found, found])
    ratios = {"true_motion": 0.12, "energy_score": expected["score"] / 0.12**0.5, "energy": 0.025 / 0.12}
    ratios |= {"best_1": 0.085 / 0.12, "inside": 0.015 / 8, "outside": 0.01 / 248, "ratio": 46.5}
    ratios |= {"still": 239.5 / 240, "diversity": 5 / 12, "inside_share": 0.6}
    assert {name: made[name] for name in ratios} == pytest.approx(ratios, rel=1e-5)
    assert "explained" not in made and "shifted" not in made


def test_explained_is_of_single_predictions() -> None:
    """A pair with much motion weighs more; empty regions divide nothing."""
    frame, everywhere = torch.zeros(3, 16, 16), Regions(corner(16, 16, 16), corner(0, 0, 16))
    large, little = frame + 0.8, frame + 0.1
    found = numbers([pair_sums(frame, t, p[None], everywhere) for t, p in ((large, large), (little, frame))])
    assert found["explained"] == pytest.approx(1 - 0.01 / (0.64 + 0.01))
    assert found["best_1"] == found["best_100"] == pytest.approx(0.01 / (0.64 + 0.01))
    assert found["outside"] is None and found["ratio"] is None and found["still"] is None


def test_a_code_on_the_shifted_input_by_hand() -> None:
    frame, truth = torch.zeros(4, 3, 16, 16), torch.ones(4, 3, 16, 16)
    own = pair_sums(frame[0], truth[0], truth[:1], Regions(corner(16, 16, 16), corner(0, 0, 16)))
    predicted = truth.clone()
    predicted[:2] = 0.5  # half of the inputs are left with a quarter of the squared difference
    assert numbers([own | shift_sums(frame, truth, predicted)])["shifted"] == pytest.approx(1 - 0.25 / 2)


def test_every_scene_weighs_alike() -> None:
    """Scene a has three pairs of which a half is explained; scene b has one, of which all is."""
    where = Regions(corner(16, 16, 16), corner(0, 0, 16))
    frame, truth = torch.zeros(3, 16, 16), torch.ones(3, 16, 16)
    half = pair_sums(frame, truth, truth[None] * (1 - 0.5**0.5), where)
    whole = pair_sums(frame, truth, truth[None], where)
    found = by_scene(["a", "b", "a", "a"], [{"it": one} for one in (half, whole, half, half)], [where] * 4)
    assert {name: scene["pairs"] for name, scene in found["scenes"].items()} == {"a": 3, "b": 1}
    assert found["rows"]["it"]["explained"] == pytest.approx(0.75)
    assert found["intervals"]["it"]["explained"] == pytest.approx((0.5, 1.0))
    assert "ratio" not in found["intervals"]["it"] and found["rows"]["it"]["ratio"] is None
    single = by_scene(["a"] * 2, [{"it": half}] * 2, [where] * 2)
    assert not single["intervals"]["it"] and single["rows"]["it"]["explained"] == pytest.approx(0.5)


def test_means_over_scenes() -> None:
    assert over_scenes([1.0, None, 100.0], geometric=True) == (pytest.approx(10), pytest.approx((1.0, 100.0)))
    assert over_scenes([0.0, 4.0], geometric=True) == (4, None)  # nothing outside: a scene without a number
    assert over_scenes([1.0, 3.0]) == (2, (1, 3)) and over_scenes([None]) == (None, None)


def test_differences_are_scene_by_scene() -> None:
    values = {"a": (0.6, 0.8), "b": (0.7, 0.5), "c": (0.2, 0.5), "d": (0.1, None)}
    scenes = {
        name: {"rows": {"ours": {"score": ours}, "Flow": {"score": flow}}} for name, (ours, flow) in values.items()
    }
    found = differences(scenes, "ours", "Flow")["score"]
    assert found["mean"] == pytest.approx(-0.1) and (found["below"], found["scenes"]) == (2, 3)
    low, high = found["interval"]
    assert low == pytest.approx(-0.3) and high == pytest.approx(0.2)


def test_what_time_buys_by_hand() -> None:
    """The clock starts at 0. Frames come after 2, 4 and 9 seconds, with errors 4, 9 and 1, and then no more."""
    frames = [torch.full((1, 1, 1), value) for value in (2.0, 3.0, 1.0)]

    def found(*marks: float) -> list[tuple[int, float | None]]:
        moment = 0.0

        def coming() -> Iterator[torch.Tensor]:
            nonlocal moment
            for frame, seconds in zip(frames, (2.0, 4.0, 9.0), strict=True):
                moment = seconds
                yield frame

        return best_within(coming(), torch.zeros(1, 1, 1), marks, lambda: moment)

    assert found(1.0, 5.0, 60.0) == [(0, None), (2, 4.0), (3, 1.0)]
    assert found(3.0) == [(1, 4.0)] and best_within([], torch.zeros(1), (1.0,)) == [(0, None)]


def test_two_samples_differ_as_all_two_of_them_on_average() -> None:
    predicted = seeded(4, 3, 16, 16).sigmoid()
    frame, where = torch.zeros(3, 16, 16), Regions(corner(3, 5, 16), ~corner(4, 6, 16))
    found = pair_sums(frame, frame, predicted, where)
    each = [(predicted[i] - predicted[j]).square().sum(0) for i in range(4) for j in range(i)]
    mean = torch.stack(each).mean(0)
    assert found["between"] == pytest.approx(float(mean.sum()), rel=1e-5)
    assert found["between_inside"] == pytest.approx(float(mean[where.moving].sum()), rel=1e-5)


@pytest.mark.parametrize(("levels", "stays"), [(3, 1.0), (3.4, 1.0), (3.6, 0.0), (4, 0.0)])
def test_what_stays_changes_by_less_than_four_levels_of_a_file(levels: float, stays: float) -> None:
    where = Regions(corner(0, 0, 16), corner(16, 16, 16))
    for before in range(0, 250, 7):
        frame = torch.full((3, 16, 16), before / 255)
        assert numbers([pair_sums(frame, frame, (frame + levels / 255)[None], where)])["still"] == stays


def test_one_right_frame_of_ten_is_enough_and_later_ones_do_not_count() -> None:
    frame = seeded(3, 16, 16).sigmoid()
    truth = torch.where(corner(9, 9, 16), 1 - frame, frame)
    for right, distance in ((0, 0), (9, 0), (10, 1)):
        predicted = frame.repeat(11, 1, 1, 1)
        predicted[right] = truth
        found = numbers([pair_sums(frame, truth, predicted, Regions(corner(9, 9, 16), ~corner(9, 9, 16)))])
        assert [found["laplacian"], found["ms_ssim"]] == pytest.approx([distance] * 2, abs=1e-6)


def test_half_the_contrast_is_half_the_sharpness() -> None:
    frame, everywhere = torch.zeros(3, 16, 16), Regions(corner(16, 16, 16), corner(0, 0, 16))
    frame[:, ::2] = 0.8  # stripes; what is made of them has the same mean
    found = numbers([pair_sums(frame, frame, (0.2 + frame / 2)[None], everywhere)])
    assert found["sharpness"] == pytest.approx(0.5)


def test_oracles() -> None:
    frame = seeded(3, 16, 16).sigmoid()
    truth = torch.where(corner(3, 3, 16), 1 - frame, frame)
    where = Regions(corner(4, 4, 16), ~corner(4, 4, 16))
    right = numbers([pair_sums(frame, truth, truth[None], where)])
    none = ("energy_score", "best_10", "laplacian", "outside")
    assert [right[name] for name in ("explained", "energy", "still")] == [1, 1, 1]
    assert [right[name] for name in none] == [0] * 4 and right["ms_ssim"] == pytest.approx(0, abs=1e-6)
    assert right["inside"] and right["ratio"] is None  # nothing to divide by
    copied = numbers([pair_sums(frame, truth, frame.repeat(12, 1, 1, 1), where)])
    ones = ("energy_score", "best_1", "best_10", "laplacian", "ms_ssim", "still")
    assert [copied[name] for name in ones] == pytest.approx([1] * 6)
    assert copied["energy"] == copied["inside"] == 0 and copied["sharpness"] is None
