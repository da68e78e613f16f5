"""Faults put by hand into a small figure that waves: each is named, with its frames and numbers; nothing else is."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import uniform_filter1d

from visual_dynamics.data.aseprite import DIRECTIONS, Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.critic import CHECKS, Finding, changing, criticise, without_background
from visual_dynamics.sprites.faults import Motion, _blurred, likeness, moved, way_gain

SKIN, SHIRT, SHOES, ARM = (230, 180, 140, 255), (40, 90, 200, 255), (60, 40, 20, 255), (120, 30, 30, 255)


def figure(arms: Sequence[int]) -> Pixels:
    """32 x 32 cells: head, body, two feet, and an arm whose height is given for each frame."""
    frames = np.zeros((len(arms), 32, 32, 4), np.uint8)
    for frame, height in zip(frames, arms, strict=True):
        frame[4:10, 12:18] = SKIN
        frame[5, 13:15] = (20, 20, 20, 255)
        frame[10:24, 11:19] = SHIRT
        frame[12:20, 13:15] = (70, 120, 230, 255)
        frame[24:28, 11:14] = frame[24:28, 16:19] = SHOES
        frame[height : height + 2, 19:25] = ARM
    return frames


WAVE = (18, 16, 14, 12, 10, 8)


def sheet(frames: Pixels, *tags: Tag) -> Sheet:
    return Sheet(frames, np.full(len(frames), 100), tags)


def found(frames: Pixels, *tags: Tag, cycles: bool | None = None, palette: Pixels | None = None) -> list[Finding]:
    return list(criticise(sheet(frames, *tags), cycles=cycles, palette=palette).findings)


def test_a_clean_figure() -> None:
    assert found(figure(WAVE)) == []
    assert found(np.concatenate([figure(WAVE)] * 2), Tag("wave", 0, 5), Tag("back", 6, 11, "reverse")) == []


@pytest.mark.parametrize(
    "shift, words", [((2, 0), "2 px below"), ((-3, 0), "3 px above"), ((0, 2), "2 px to the right of")]
)
def test_a_frame_that_stands_elsewhere(shift: tuple[int, int], words: str) -> None:
    frames = figure(WAVE)
    frames[2] = np.roll(frames[2], shift, (0, 1))
    (one,) = [fault for fault in found(frames) if fault.check == "anchor"]
    assert one.frames == (2,) and one.words.startswith(f"stands {words} where")
    assert 0.3 <= one.value <= 1 and one.limit == 0.3


def test_bobbing_by_a_pixel_is_no_fault() -> None:
    frames = figure(WAVE)
    frames[2] = np.roll(frames[2], 1, 0)
    assert found(frames) == []


@pytest.mark.parametrize("rise", [2, 3])
def test_a_body_that_rises_on_standing_feet_is_no_fault(rise: int) -> None:
    frames = figure(WAVE)
    frames[2, :24] = np.roll(frames[2, :24], -rise, 0)
    assert found(frames) == []


def test_what_another_view_shares_is_design() -> None:
    frames = figure(WAVE)
    frames[2] = np.roll(frames[2], -3, 0)
    both = np.concatenate([frames, frames[:, :, ::-1]])
    left, right = Tag("left", 0, 5), Tag("right", 6, 11)
    assert found(both, left, right) == []
    both[6:] = figure(WAVE)[:, :, ::-1]
    assert [(fault.check, fault.animation, fault.frames) for fault in found(both, left, right)] == [
        ("anchor", "left", (2,))
    ]


def test_numbers_of_frames_are_those_of_the_sheet() -> None:
    frames = np.concatenate([figure(WAVE[:3]), figure(WAVE)])
    frames[5] = np.roll(frames[5], 2, 0)
    faults = found(frames, Tag("short", 0, 2), Tag("back", 3, 8, "reverse"))
    assert [fault.frames for fault in faults] == [(5,)] and faults[0].animation == "back"


def test_sliding_feet() -> None:
    frames = figure(WAVE)
    frames[3:, 24:28] = np.roll(frames[3:, 24:28], 2, 2)
    (one,) = found(frames)
    assert (one.check, one.frames, one.value) == ("feet", (3,), 2) and "2 px to the right" in one.words


def test_feet_that_move_by_a_pixel_are_no_fault() -> None:
    frames = figure(WAVE)
    frames[3:, 24:28] = np.roll(frames[3:, 24:28], 1, 2)
    assert found(frames) == []


def test_feet_that_drift_are_one_fault() -> None:
    """Two pixels in two frames that follow each other; each step alone would be too small."""
    frames = figure((18, 17, 16, 15, 14, 13, 12, 11))
    frames[4, 24:28] = np.roll(frames[4, 24:28], -1, 1)
    frames[5:, 24:28] = np.roll(frames[5:, 24:28], -2, 2)
    (one,) = found(frames)
    assert (one.check, one.frames, one.value) == ("feet", (4, 5), 2) and "to the left" in one.words


def test_a_cycle_that_does_not_close() -> None:
    closed = figure((18, 15, 12, 9, 12, 15))
    walk = Tag("hero walk", 0, 5)
    assert found(closed, walk) == []
    (one,) = found(figure((18, 16, 14, 12, 10, 8)), walk)
    assert (one.check, one.frames, one.limit) == ("seam", (5, 0), 1.6) and one.value > 1.6
    assert found(figure(WAVE), replace(walk, direction="pingpong")) == []
    assert found(figure(WAVE), walk, cycles=False) == [] and len(found(figure(WAVE), cycles=True)) == 1


def test_a_cycle_that_repeats_its_first_frame() -> None:
    (one,) = found(figure((18, 15, 12, 9, 12, 15, 18)), Tag("run", 0, 6))
    assert (one.check, one.frames) == ("seam", (6, 0)) and "halts" in one.words


def test_frames_that_have_changed_places() -> None:
    swapped = figure((18, 16, 10, 12, 14, 8))
    tags = Tag("left", 0, 5), Tag("right", 6, 11)
    faults = found(np.concatenate([swapped, figure(WAVE)[:, :, ::-1]]), *tags)
    assert [(fault.check, fault.animation, fault.frames) for fault in faults] == [("order", "left", (2, 4))]


def test_exchanged_frames_without_another_view() -> None:
    there_and_back = (8, 9, 11, 13, 15, 16, 14, 12, 10)
    assert found(figure(there_and_back)) == []
    (one,) = found(figure((8, 16, 11, 13, 15, 9, 14, 12, 10)))
    assert (one.check, one.frames, one.limit) == ("order", (1, 5), 0.3) and one.value > 0.3


def test_an_animation_that_does_not_move() -> None:
    still = figure((12,) * 5)
    (one,) = found(still)
    assert (one.check, one.frames, one.value) == ("still", (0, 1, 2, 3, 4), 0)
    still[2, 5, 13] = (200, 180, 140, 255)  # one pixel of some 200
    assert [fault.check for fault in found(still)] == ["still"]
    assert found(still, Tag("idle", 0, 4)) == []  # a blink


def test_an_animation_that_stops_halfway() -> None:
    (one,) = found(figure((18, 16, 14, 14, 14)))
    assert (one.check, one.frames, one.value) == ("still", (2, 3, 4), 0.6)
    assert found(figure((18, 16, 14, 12, 12))) == []  # held for two frames


def test_changing_counts_visible_pixels() -> None:
    frames = figure((12, 14))
    assert changing(frames) == pytest.approx(24 / (36 + 112 + 24 + 24))  # two arms of 12 pixels
    frames[1] = frames[0]
    frames[1, 0, 0] = (9, 9, 9, 0)  # nobody sees it
    assert changing(frames) == 0


def test_colours_that_a_palette_lacks() -> None:
    frames = figure(WAVE)
    palette = np.unique(frames[frames[..., 3] > 0][:, :3], axis=0)
    frames[3, 12, 12, :3] = (40, 90, 201)  # one level off
    assert found(frames) == []
    (one,) = found(frames, palette=palette)
    assert (one.check, one.frames, one.value) == ("palette", (3,), 1) and "#285ac9" in one.words


def test_stray_colours_need_a_sheet_that_is_large_enough() -> None:
    frames = np.concatenate([figure(WAVE)] * 4)
    frames[7, 12, 12, :3] = (0, 255, 0)
    (one,) = found(frames, *(Tag(f"row {row}", 6 * row, 6 * row + 5) for row in range(4)))
    assert (one.check, one.frames, one.animation) == ("palette", (7,), "row 1") and "#00ff00" in one.words
    assert found(frames[6:12]) == []
    frames[7, 12:14, 12:14, :3] = (0, 255, 0)
    frames[7, 14, 12, :3] = (0, 255, 0)  # five pixels: a spark
    assert found(frames, *(Tag(f"row {row}", 6 * row, 6 * row + 5) for row in range(4))) == []


def test_half_transparent_dirt() -> None:
    frames = figure(WAVE)
    frames[4, 12, 12, 3] = 200
    (one,) = found(frames)
    assert (one.check, one.frames, one.value) == ("alpha", (4,), 1) and "alpha 200" in one.words
    frames[:, 12, 12, 3] = 200  # in every frame: glass
    assert found(frames) == []
    frames[:, 24:28, 11:14, 3] = np.arange(120, 132).reshape(4, 3)  # a soft shadow, of levels of its own
    frames[4, 24:28, 11:14, 3] += 60
    assert found(frames) == []


def test_a_background_is_cut_out() -> None:
    frames = figure(WAVE)
    opaque = np.where(frames[..., 3:] > 0, frames, np.array([90, 200, 90, 255], np.uint8))
    assert (without_background(opaque) == frames).all()
    opaque[2] = np.roll(opaque[2], 2, 0)
    assert [(fault.check, fault.frames) for fault in found(opaque)] == [("anchor", (2,))]


def test_checks_can_be_left_out() -> None:
    frames = figure((12,) * 5)
    frames[1, 12, 12, 3] = 7
    assert {fault.check for fault in found(frames)} == {"still", "alpha"}
    assert [fault.check for fault in criticise(sheet(frames), ["alpha"]).findings] == ["alpha"]


@given(st.data())
def test_any_sheet_gets_a_report(data: st.DataObject) -> None:
    count, height, width = (data.draw(st.integers(1, most)) for most in (6, 9, 9))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    frames = random.integers(0, 256, (count, height, width, 4), dtype=np.uint8)
    frames[..., 3] *= random.random((count, height, width)) < data.draw(st.sampled_from([0, 0.1, 0.9, 1]))
    frames = frames[random.integers(0, data.draw(st.integers(1, count)), count)]  # some are alike
    tags = []
    for name in data.draw(st.lists(st.sampled_from(["walk", "idle", "\n", ""]), max_size=4)):
        first = data.draw(st.integers(0, count - 1))
        last = data.draw(st.integers(first, count - 1))
        tags.append(Tag(name, first, last, data.draw(st.sampled_from(DIRECTIONS))))
    palette = data.draw(st.sampled_from([None, np.zeros((1, 3), np.uint8)]))
    report = criticise(sheet(frames, *tags), cycles=data.draw(st.sampled_from([None, True, False])), palette=palette)
    words = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert words["clean"] == (not report.findings) and len(words["animations"]) == max(1, len(tags))
    assert all(fault.check in CHECKS and set(fault.frames) <= set(range(count)) for fault in report.findings)
    assert set(report.marked()) == {frame for fault in report.findings for frame in fault.frames}


# --- the measures ---


@given(st.integers(-9, 9), st.integers(-9, 9))
def test_moved_is_a_roll_without_what_comes_in(down: int, right: int) -> None:
    frame = np.random.default_rng(0).random((7, 5, 4), dtype=np.float32)
    padded = np.pad(frame, ((10, 10), (10, 10), (0, 0)))
    assert (moved(frame, down, right) == np.roll(padded, (down, right), (0, 1))[10:17, 10:15]).all()


def test_blur_likeness_and_the_way() -> None:
    random = np.random.default_rng(1)
    frames = random.random((2, 9, 8, 4), dtype=np.float32)
    expected = frames
    for axis in (1, 2, 1, 2):
        expected = uniform_filter1d(expected, 5, axis=axis, mode="constant")
    assert np.allclose(_blurred(frames, 2), expected, atol=1e-6)
    one, other = (table + table.T for table in random.random((2, 5, 5)))
    pairs = np.triu_indices(5, 1)
    assert likeness(one, other) == pytest.approx(np.corrcoef(one[pairs], other[pairs])[0, 1])
    line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))  # the way through it has length 4
    assert way_gain(line, (1, 3)) == pytest.approx(1 - 8 / 4)  # 0 3 2 1 4: 3 + 1 + 1 + 3
    assert way_gain(line[np.ix_([0, 3, 2, 1, 4], [0, 3, 2, 1, 4])], (1, 3)) == pytest.approx(1 - 4 / 8)
    assert way_gain(line, (0, 1), back=True) == pytest.approx(1 - (1 + 2 + 1 + 1 + 3) / 8)  # 1 0 2 3 4, and back


def test_the_shift_of_a_frame_in_numbers() -> None:
    frames = figure((12,) * 3)
    frames[1] = np.roll(frames[1], (4, -6), (0, 1))  # further than the search around no shift
    one = Motion.of(frames).displaced[1]
    assert one.shift == (-4, 6) and one.gain == pytest.approx(1) and one.half == pytest.approx(1)
