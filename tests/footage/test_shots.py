"""Cuts are found where clips are joined, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.footage.clips import SHARED, texture
from visual_dynamics.footage.plan import _apart, _sketch, find_cuts
from visual_dynamics.footage.reading import Video
from visual_dynamics.images import Pixels

HEIGHT, WIDTH = 90, 160


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
