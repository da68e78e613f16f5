"""Squares around what moves, and which pairs of frames are good."""

from __future__ import annotations

import numpy as np

from tests.footage.clips import texture
from visual_dynamics.footage.cut import (
    CutTake,
    Take,
    Window,
    choose_square,
    common,
    cut_take,
    fault,
    middle_square,
    motion_energy,
    motion_window,
    read_crop,
)
from visual_dynamics.footage.reading import Frame
from visual_dynamics.images import Box


def test_crops_are_read() -> None:
    assert read_crop("centre") == "centre" and read_crop("10,20,30,40") == Box(20, 10, 40, 30)
    assert middle_square(Box(2, 4, 10, 20)) == Box(2, 9, 10, 10)
    assert common(Box(0, 0, 10, 10), Box(5, 6, 10, 10)) == Box(5, 6, 5, 4)
    assert common(Box(0, 0, 2, 2), Box(5, 5, 2, 2)).height < 0


def test_a_given_crop_needs_half_of_itself_in_the_picture() -> None:
    def square(top: int) -> Box | None:
        return choose_square(Box(top, 10, 40, 60), Box(0, 0, 100, 100), [], [], 1.0, 1, 8, None)

    assert square(30) == Box(30, 20, 40, 40)
    assert square(80) == Box(80, 30, 20, 20)
    assert square(82) is None and square(200) is None


def test_windows() -> None:
    still = np.zeros((90, 160), np.uint8)
    here, there = still.copy(), still.copy()
    here[40:50, 60:70] = 200
    there[40:50, 64:74] = 200
    energy = motion_energy([here, there, here], [None] * 3, 1)
    assert energy[45, 62] > 100 and energy[45, 67] == 0 and energy[:, :59].sum() == 0
    room = Box(0, 0, 360, 640)
    assert motion_window(energy, 4, room, 32) == Box(108, 196, 144, 144)  # 0.4 of the height, around (180, 268)
    assert motion_window(energy * 0, 4, room, 32) == middle_square(room)
    assert motion_window(energy, 4, Box(0, 0, 360, 200), 32) == middle_square(Box(0, 0, 360, 200))  # nothing in there
    everywhere = np.ones((90, 160))
    assert motion_window(everywhere, 4, room, 32) == Box(0, 140, 360, 360)  # a wide picture is cut at the sides
    upright = motion_window(np.ones((160, 90)), 4, Box(0, 0, 640, 360), 32)
    assert upright == Box(0, -140, 640, 640)  # an upright one is not


def test_a_window_beyond_the_picture_stands_still_there() -> None:
    pictures = [texture(40, 20, seed) for seed in (1, 2)]
    window = Window(Box(0, -10, 40, 40), Box(0, 0, 40, 20), 40)
    one, two = (window.of(picture) for picture in pictures)
    assert (one[:, 10:30] == pictures[0]).all() and (two[:, 10:30] == pictures[1]).all()
    assert (one[:, :10] == pictures[0][:, :1]).all() and (two[:, :10] == one[:, :10]).all()


def cut_five(lost: frozenset[int] = frozenset(), step: int = 1) -> CutTake:
    """A square goes on by 4 pixels in each of five frames, ten a second."""
    pictures = [texture(64, 64, 1) for _ in range(5)]
    for number, picture in enumerate(pictures):
        left = 10 + 4 * number
        picture[10:20, left : left + 10] = 255 - picture[10:20, left : left + 10]
    room = Box(0, 0, 64, 64)
    frames = [Frame(picture, number / 10) for number, picture in enumerate(pictures)]
    return cut_take(Take(0, 0, 5, (None,) * 5, lost, room, room), iter(frames), 10.0, step, 1, 64)


def pairs_of(found: CutTake) -> list[tuple[int, int]]:
    """The numbers of the frames that begin and end each pair."""
    numbers = (found.times * 10).round().astype(int)
    return list(zip(numbers[found.first].tolist(), numbers[found.second].tolist(), strict=True))


def test_pairs_whose_camera_is_unknown_are_dropped() -> None:
    known, unknown = cut_five(), cut_five(frozenset({2}))
    assert pairs_of(known) == [(0, 1), (1, 2), (2, 3), (3, 4)] and known.dropped == {}
    assert pairs_of(unknown) == [(0, 1), (3, 4)] and unknown.dropped == {"camera": 2}


def test_the_frames_of_a_pair_are_a_step_apart() -> None:
    assert pairs_of(cut_five(step=2)) == [(0, 2), (1, 3), (2, 4)]
    assert pairs_of(cut_five(step=3)) == [(0, 3), (1, 4)]


def test_faults() -> None:
    picture = texture(64, 64, 1)
    noisy = np.clip(picture.astype(int) + np.random.default_rng(0).integers(-4, 5, picture.shape), 0, 255)
    assert fault(picture, picture) == "still" and fault(picture, noisy.astype(np.uint8)) == "still"
    edge = picture.copy()
    edge[30] = np.clip(edge[30] + 9.0, 0, 255)  # as codecs do
    assert fault(picture, edge) == "still"
    here = picture.copy()
    here[10:20, 10:20] = 255 - here[10:20, 10:20]
    assert fault(picture, here) is None
    assert fault(picture, np.minimum(here + 5.0, 255).astype(np.uint8)) == "light"
    assert fault(picture, texture(64, 64, 2)[::-1]) in ("light", "everything")
    assert fault(picture, picture[:, ::-1].copy()) == "everything"
