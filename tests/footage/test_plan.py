"""The plan for a clip: its pace and pieces, a wandering camera, windows around what moves; scenes that are held out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.footage.clips import encode, texture
from visual_dynamics.footage.camera import CameraMotion, camera_motion, moved, rescaled
from visual_dynamics.footage.clips import find_clips
from visual_dynamics.footage.cut import Window, common, fault, middle_square, motion_energy, motion_window, read_crop
from visual_dynamics.footage.plan import cut_clip, pace, pieces, plan_clip, rebased
from visual_dynamics.footage.prepare import held_out_scenes
from visual_dynamics.footage.reading import Video
from visual_dynamics.images import Box, Pixels


@pytest.mark.parametrize(
    ("stated", "asked", "rate", "step"),
    [
        (30.0, 10, 30, 3),
        (29.97, 10, 30, 3),
        (25.0, 10, 20, 2),
        (24.0, 10, 20, 2),
        (60.0, 10, 30, 3),  # every frame of 60 would add little
        (10.0, 10, 10, 1),
        (9.99, 10, 10, 1),
        (5.0, 10, 5, 1),  # as it is
        (30.0, 30, 30, 1),
    ],
)
def test_pace(stated: float, asked: float, rate: float, step: int) -> None:
    assert pace(stated, asked) == (rate, step)


def test_pieces_are_alike_and_leave_nothing_out() -> None:
    assert pieces(5, 5, 10) == []
    assert pieces(5, 15, 10) == [(5, 15)]
    assert pieces(5, 16, 10) == [(5, 10), (10, 16)]
    assert pieces(0, 100, 30) == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_transforms_for_other_sizes_and_other_first_frames() -> None:
    angle = 0.1
    turn = np.array([[np.cos(angle), -np.sin(angle), 3.0], [np.sin(angle), np.cos(angle), -2.0]])
    point = np.array([[10.0, 20.0]])
    larger = rescaled(turn, 4)
    assert larger is not None and np.allclose(moved(4 * point + 1.5, larger), 4 * moved(point, turn) + 1.5)
    assert rescaled(None, 4) is None
    first, second = rebased((turn, rescaled(turn, 2)))
    assert first is not None and second is not None
    assert np.allclose(first, np.eye(2, 3))
    assert np.allclose(moved(moved(point, second), turn), moved(point, rescaled(turn, 2)))  # type: ignore[arg-type]
    assert rebased((None, None)) == (None, None)


def test_a_camera_that_pans_is_taken_in_parts(tmp_path: Path) -> None:
    """In each of them all frames share half of the picture and are seen from where the first one was."""
    wide = texture(96, 400, seed=3)
    frames = []
    for number in range(60):
        frame = wide[:, 4 * number : 4 * number + 128].copy()
        frame[40:56, 50 + number % 7 : 66 + number % 7] = (255, 40, 40)
        frames.append(frame)
    plan = plan_clip(Video(encode(tmp_path / "pan.mp4", frames, rate=10)), 10, 32, "centre")
    assert plan.shots == 1 and len(plan.takes) >= 4
    assert [take.start for take in plan.takes[1:]] == [take.stop for take in plan.takes[:-1]]
    assert plan.takes[0].start == 0 and plan.takes[-1].stop == 60
    for take in plan.takes:
        assert take.room.height * take.room.width >= 96 * 128 / 2 and take.crop is not None
        for number, transform in enumerate(take.transforms):
            assert transform is not None and np.abs(transform - [[1, 0, 4 * number], [0, 1, 0]]).max() < 0.5
    parts = list(cut_clip(plan, 32))
    assert sum(len(part.first) for part in parts) == 60 - len(plan.takes)


def test_some_frames_tell_that_a_camera_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(frames: Iterable[Pixels]) -> CameraMotion:
        kept = list(frames)
        seen.append(len(kept))
        return camera_motion(kept)

    monkeypatch.setattr("visual_dynamics.footage.plan.camera_motion", counted)
    monkeypatch.setattr("visual_dynamics.footage.plan.PROBED", 10)
    wide = texture(96, 160, seed=3)
    generator = np.random.default_rng(0)
    shaken = [wide[:, x : x + 128] for x in (16, *generator.integers(10, 22, 39))]
    other = [255 - wide[:, 16:144]] * 40
    plan = plan_clip(Video(encode(tmp_path / "a.mp4", shaken + other, rate=10)), 10, 32, "centre")
    assert seen == [10, 10, 40]  # the shaken shot is measured again
    assert [(take.start, take.stop, take.still) for take in plan.takes] == [(0, 40, False), (40, 80, True)]
    assert all(transform is not None for transform in plan.takes[0].transforms)


def test_crops_are_read() -> None:
    assert read_crop("centre") == "centre" and read_crop("10,20,30,40") == Box(20, 10, 40, 30)
    assert middle_square(Box(2, 4, 10, 20)) == Box(2, 9, 10, 10)
    assert common(Box(0, 0, 10, 10), Box(5, 6, 10, 10)) == Box(5, 6, 5, 4)
    assert common(Box(0, 0, 2, 2), Box(5, 5, 2, 2)).height < 0


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


def test_which_scenes_are_held_out() -> None:
    many = {f"scene {number}": 10 for number in range(40)}
    chosen = held_out_scenes(many, 0.1)
    assert len(chosen) == 4 and held_out_scenes(dict(reversed(many.items())), 0.1) == chosen
    assert held_out_scenes(many, 0) == set()
    assert held_out_scenes({"one": 100}, 0.5) == set()
    assert held_out_scenes({"large": 100, "small": 90}, 0.1) == {"small"}
    assert len(held_out_scenes({"a": 1, "b": 1}, 0.9)) == 1


def test_scenes_and_licences_of_a_table(tmp_path: Path) -> None:
    for name in ("a.MP4", "b.mov", "c.webm", "d.txt", "e.mkv"):
        (tmp_path / name).touch()
    rows = ["file,source,scene,license", "a.MP4,here,,MIT", "b.mov,here,,", "c.webm,here,mine,CC0"]
    (tmp_path / "manifest.csv").write_text("\n".join(rows))
    found = {source.name: source for source in find_clips(tmp_path)}
    assert list(found) == ["a.MP4", "b.mov", "c.webm", "e.mkv"]
    assert [found[name].scene for name in found] == ["here", "here", "mine", "e.mkv"]
    assert [found[name].licence for name in found] == ["MIT", "", "CC0", ""]
    assert len({source.key for source in found.values()}) == 4
