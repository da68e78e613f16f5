"""The plan for a clip: its pace and pieces, a wandering camera; cuts are found where clips are joined, nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.footage.clips import SHARED, encode, texture
from visual_dynamics.footage.camera import CameraMotion, camera_motion, moved, rescaled
from visual_dynamics.footage.plan import _apart, _sketch, cut_clip, find_cuts, pace, pieces, plan_clip, rebased
from visual_dynamics.footage.reading import Video
from visual_dynamics.images import Pixels

HEIGHT, WIDTH = 90, 160


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


def test_some_frames_show_that_a_camera_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# --- shots ---


def scene(seed: int, count: int, speed: float = 2.0, size: int = 30) -> list[Pixels]:
    """A texture that passes by at `speed` pixels a frame, with a square of another texture that moves across it."""
    whole = texture(HEIGHT, WIDTH + round(abs(speed) * count) + 1, seed)
    thing = texture(size, size, seed + 1000)
    frames = []
    for number in range(count):
        left = round(speed * number) if speed >= 0 else round(-speed * (count - number))
        frame = whole[:, left : left + WIDTH].copy()
        x = (5 * number) % (WIDTH - size)
        frame[20 : 20 + size, x : x + size] = thing
        frames.append(frame)
    return frames


@pytest.mark.parametrize("seed", range(6))
def test_joined_scenes_are_parted_exactly(seed: int) -> None:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(4, 25, 6)
    speeds = generator.uniform(-6, 6, 6)
    parts = [
        scene(10 * seed + place, int(length), speed)
        for place, (length, speed) in enumerate(zip(lengths, speeds, strict=True))
    ]
    frames = [frame for part in parts for frame in part]
    assert find_cuts(frames) == np.cumsum(lengths)[:-1].tolist()


@pytest.mark.parametrize("speed", [0.0, 0.3, 3.0, 12.0, 25.0])
def test_a_moving_scene_and_a_pan_have_no_cut(speed: float) -> None:
    assert find_cuts(scene(3, 30, speed, size=45)) == []


def test_noise_shake_and_slow_light_are_no_cuts() -> None:
    generator = np.random.default_rng(5)
    whole = texture(HEIGHT + 20, WIDTH + 20, 8)
    frames = []
    for number in range(40):
        y, x = generator.integers(0, 21, 2)
        light = 1 - 0.3 * np.sin(number / 6)
        noisy = light * whole[y : y + HEIGHT, x : x + WIDTH] + generator.normal(0, 12, (HEIGHT, WIDTH, 3))
        frames.append(np.clip(noisy, 0, 255).astype(np.uint8))
    assert find_cuts(frames) == []


@pytest.mark.parametrize("lasting", [1, 2])
def test_a_flash_is_no_cut_and_hides_none(lasting: int) -> None:
    frames = scene(1, 20) + scene(2, 20)
    for place in range(9, 9 + lasting):
        frames[place] = np.clip(frames[place] * 0.3 + 180, 0, 255).astype(np.uint8)
    assert find_cuts(frames) == [20]


def test_two_cuts_side_by_side_are_both_found() -> None:
    assert find_cuts(scene(1, 12) + scene(2, 2) + scene(3, 12)) == [12, 14]


def test_frames_shown_twice_do_not_hide_or_make_cuts() -> None:
    frames = [frame for frame in scene(1, 15, 8) + scene(2, 15, 8) for _ in range(2)]
    assert find_cuts(frames) == [30]


def test_frames_are_looked_at_one_by_one() -> None:
    alive = 0

    class Counted(np.ndarray):  # type: ignore[type-arg]
        def __del__(self) -> None:
            nonlocal alive
            alive -= self.base is None

    def frames() -> Iterator[Pixels]:
        nonlocal alive
        for _ in range(30):
            frame = Counted((HEIGHT, WIDTH, 3), np.uint8)
            frame[:] = 90
            alive += 1
            assert alive <= 2
            yield frame
            del frame

    assert find_cuts(frames()) == []


@pytest.mark.parametrize("count", [0, 1, 2])
def test_short_clips(count: int) -> None:
    assert find_cuts([texture(20, 30, seed) for seed in range(count)]) == list(range(1, count))


def test_tiny_pictures() -> None:
    assert find_cuts([np.full((1, 1, 3), level, np.uint8) for level in (9, 9, 9, 200, 200, 200)]) == [3]


def test_distance_by_hand() -> None:
    """Flat pictures of 50 and 80: 30 grey levels apart for their pixels, and 30 for their levels."""
    flat = [_sketch(np.full((64, 96, 3), level, np.uint8)) for level in (50, 80)]
    assert _apart(*flat) == pytest.approx(60, rel=1e-4)
    assert _apart(flat[0], flat[0]) == 0
    picture = texture(64, 96, 0)
    tiny = _sketch(picture).tiny  # blocks of 3 x 3 pixels
    assert tiny.shape == (21, 32, 3)
    assert tiny[4, 7] == pytest.approx(picture[12:15, 21:24].mean((0, 1)), rel=1e-4)


@pytest.mark.skipif(not SHARED.exists(), reason="the real clips are not here")
def test_real_clips_joined() -> None:
    names = ("sam2_03_blocks.mp4", "sports2d_demo.mp4", "sam2_01_dog.mp4", "sam2_05_default_juggle.mp4")
    frames = []
    for name in names:
        for _, frame in zip(range(25), Video(SHARED / name), strict=False):
            assert frame.pixels.shape == (360, 640, 3)
            frames.append(frame.pixels[::2, ::2])
    assert find_cuts(frames) == [25, 50, 75]
