"""A camera with known shake is measured; a still one is left alone.

Scenes are sums of waves, evaluated where the known camera looks: nothing is interpolated, so the truth is exact.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.footage.clips import SHARED, encode
from visual_dynamics.footage.camera import (
    IDENTITY,
    CameraMotion,
    Matrix,
    camera_motion,
    common_box,
    fit_similarity,
    inverted,
    warp,
)
from visual_dynamics.footage.reading import Video
from visual_dynamics.images import Box, Pixels

HEIGHT, WIDTH = 160, 216
Floats = npt.NDArray[np.float64]


def waves(x: Floats, y: Floats, seed: int) -> Floats:
    """A texture at any point of the plane; mean 0, deviation about 1."""
    generator = np.random.default_rng(seed)
    total = np.zeros(x.shape)
    for _ in range(16):
        length, angle = generator.uniform(7, 50), generator.uniform(0, 2 * np.pi)
        total += np.cos(2 * np.pi / length * (np.cos(angle) * x + np.sin(angle) * y) + generator.uniform(0, 7))
    return total / 8**0.5


def camera(dx: float, dy: float, degrees: float = 0.0, zoom: float = 1.0) -> Matrix:
    """Frame -> scene: turned and zoomed around the middle of the frame, then shifted."""
    angle = np.deg2rad(degrees)
    turn = zoom * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])
    return np.hstack([turn, (middle - turn @ middle + [dx, dy])[:, None]])


def shoot(view: Matrix, number: int, contrast: float = 40.0, radius: float = 30.0, seed: int = 0) -> Pixels:
    """What a camera sees: a background, and a disc with a texture of its own that crosses the scene and sways."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float64)
    (a, b, c), (d, e, f) = view
    x, y = a * x + b * y + c, d * x + e * y + f
    left, top = 50 + 4.0 * number, 80 + 8 * np.sin(number / 3)
    disc = (x - left) ** 2 + (y - top) ** 2 < radius**2
    light = 128 + np.where(disc, 45 * waves(x - left, y - top, seed + 1), contrast * waves(x, y, seed))
    return np.clip(light[..., None] * [1.0, 0.9, 0.8] + 0.5, 0, 255).astype(np.uint8)


def shaken(count: int, seed: int) -> list[Matrix]:
    """Up to 8 pixels, 2 degrees and 2 per cent; the extremes are in it. The first camera is the plain one."""
    generator = np.random.default_rng(seed)
    views = [camera(0, 0)]
    extremes = [(8, 8, 2, 1.02), (-8, 8, -2, 0.98), (8, -8, 2, 0.98)]
    for number in range(count - 1):
        move = extremes[number] if number < len(extremes) else None
        dx, dy, degrees, zoom = move or (
            *generator.uniform(-8, 8, 2),
            generator.uniform(-2, 2),
            generator.uniform(0.98, 1.02),
        )
        views.append(camera(dx, dy, degrees, zoom))
    return views


def left_over(views: list[Matrix], transforms: list[Matrix | None]) -> Floats:
    """(T,) pixels, root mean square: how far the background is, after warping, from where the first frame has it."""
    y, x = np.mgrid[: HEIGHT - 1 : 9j, : WIDTH - 1 : 9j]
    points = np.stack([x.ravel(), y.ravel(), np.ones(81)])  # of a warped frame
    rms = []
    for view, transform in zip(views, transforms, strict=True):
        source = inverted(IDENTITY if transform is None else transform) @ points
        apart = view @ np.vstack([source, np.ones(81)]) - views[0] @ points  # in the scene
        rms.append(float(np.sqrt((apart**2).sum(0).mean())))
    return np.array(rms)


def total(rms: Floats) -> float:
    return float(np.sqrt((rms**2).mean()))


@pytest.mark.parametrize("seed", [0, 1])
def test_known_shake_is_taken_out(seed: int) -> None:
    views = shaken(14, seed)
    frames = [shoot(view, number, seed=10 * seed) for number, view in enumerate(views)]
    motion = camera_motion(frames)
    assert not motion.still and motion.references == (0,) and motion.lost == ()
    before, after = left_over(views, [None] * 14), left_over(views, list(motion.transforms))
    assert total(before) > 5
    assert after.max() < 0.1  # 0.3 is asked for
    box = common_box(motion.transforms, (HEIGHT, WIDTH))
    assert box.height > HEIGHT - 34 and box.width > WIDTH - 34
    rows, columns = slice(box.top, box.top + box.height), slice(box.left, box.left + box.width)
    steady = [warp(frame, move)[rows, columns] for frame, move in zip(frames, motion.transforms, strict=True)]
    for frame in steady[1:]:  # the pictures agree as well, but for the disc
        assert np.median(np.abs(frame.astype(float) - steady[0])) <= 2


def test_shake_in_a_compressed_noisy_clip(tmp_path: Path) -> None:
    views, generator = shaken(12, 2), np.random.default_rng(0)
    noisy = [
        np.clip(shoot(view, number) + generator.normal(0, 5, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
        for number, view in enumerate(views)
    ]
    clip = Video(encode(tmp_path / "shaken.mp4", noisy))
    motion = camera_motion(frame.pixels for frame in clip)
    after = left_over(views, list(motion.transforms))
    assert after.max() < 0.3


def test_a_still_camera_is_left_alone(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    noisy = [
        np.clip(shoot(camera(0, 0), number) + generator.normal(0, 3, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
        for number in range(12)
    ]
    frames = [frame.pixels for frame in Video(encode(tmp_path / "still.mp4", noisy))]
    motion = camera_motion(frames)
    assert motion.still and motion.transforms == (None,) * 12
    assert common_box(motion.transforms, (HEIGHT, WIDTH)) == Box(0, 0, HEIGHT, WIDTH)


def test_a_large_person_before_a_bare_wall_is_not_the_camera() -> None:
    frames = [shoot(camera(0, 0), number, contrast=6, radius=60) for number in range(12)]
    assert camera_motion(frames).still


def test_a_slow_drift_is_not_still() -> None:
    views = [camera(0.12 * number, 0) for number in range(20)]
    motion = camera_motion(shoot(view, number) for number, view in enumerate(views))
    assert not motion.still
    assert left_over(views, list(motion.transforms)).max() < 0.11


def test_a_long_pan_changes_its_reference() -> None:
    views = [camera(8.0 * number, number, 0.2 * number) for number in range(26)]  # 200 of 216 pixels
    motion = camera_motion(shoot(view, number) for number, view in enumerate(views))
    after = left_over(views, list(motion.transforms))
    assert 2 <= len(motion.references) <= 6 and motion.lost == ()
    assert after.max() < 0.5


def test_a_dark_frame_takes_the_place_of_the_one_before() -> None:
    views = shaken(6, 3)
    frames = [shoot(view, number) for number, view in enumerate(views)]
    frames[3] = np.zeros_like(frames[3])
    motion = camera_motion(frames)
    assert motion.lost == (3,)
    assert motion.transforms[2] is not None and np.array_equal(motion.transforms[3], motion.transforms[2])
    assert left_over(views, list(motion.transforms))[4:].max() < 0.1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_nothing_to_follow(count: int) -> None:
    motion = camera_motion([np.full((40, 50, 3), 90, np.uint8)] * count)
    assert motion.still and len(motion.transforms) == count
    assert motion.lost == tuple(range(1, count))


def test_frames_of_two_sizes_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="frame 1 is"):
        camera_motion([np.zeros((40, 50, 3), np.uint8), np.zeros((50, 40, 3), np.uint8)])


def test_the_same_clip_gives_the_same_numbers() -> None:
    frames = [shoot(view, number) for number, view in enumerate(shaken(4, 5))]
    one, two = camera_motion(frames), camera_motion(frames)
    assert all(np.array_equal(a, b) for a, b in zip(one.transforms, two.transforms, strict=True))


def test_warp_by_whole_pixels() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    warped = warp(picture, np.array([[1.0, 0, 3], [0, 1, 2]]))
    assert (warped[2:, 3:] == picture[:-2, :-3]).all()
    assert (warped[:2, 3:] == picture[0, :-3]).all() and (warped[2:, :3] == picture[:-2, :1]).all()  # its edge, again


def test_least_squares() -> None:
    """Oracle: the linear system for (a, b, dx, dy), solved by numpy."""
    generator = np.random.default_rng(0)
    source, target = generator.normal(0, 50, (30, 2)), generator.normal(0, 50, (30, 2))
    rows = [row for x, y in source for row in ((x, -y, 1, 0), (y, x, 0, 1))]
    a, b, dx, dy = np.linalg.lstsq(np.array(rows), target.ravel(), rcond=None)[0]
    assert fit_similarity(source, target) == pytest.approx(np.array([[a, -b, dx], [b, a, dy]]))


@pytest.mark.parametrize("seed", range(12))
def test_common_box_is_the_largest(seed: int) -> None:
    """Oracle: every box of a small picture, tried against where each of its pixels comes from."""
    generator = np.random.default_rng(seed)
    height, width = 11, 15
    transforms: list[Matrix | None] = [None]
    for _ in range(3):
        angle, zoom = generator.uniform(-0.15, 0.15), generator.uniform(0.95, 1.1)
        cos, sin = zoom * np.cos(angle), zoom * np.sin(angle)
        transforms.append(np.array([[cos, -sin, generator.uniform(-2, 2)], [sin, cos, generator.uniform(-2, 2)]]))
    filled = np.ones((height, width), bool)
    for transform in transforms[1:]:
        assert transform is not None
        for y in range(height):
            for x in range(width):
                from_x, from_y = np.linalg.solve(transform[:, :2], np.array([x, y]) - transform[:, 2])
                filled[y, x] &= 0 <= from_x <= width - 1 and 0 <= from_y <= height - 1
    best = 0
    for top in range(height):
        for bottom in range(top, height):
            for left in range(width):
                for right in range(left, width):
                    if filled[top : bottom + 1, left : right + 1].all():
                        best = max(best, (bottom - top + 1) * (right - left + 1))
    box = common_box(transforms, (height, width))
    assert box.height * box.width == best
    assert filled[box.top : box.top + box.height, box.left : box.left + box.width].all()


def test_common_box_by_hand() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, -2]])  # to the right and up
    assert common_box([None, shift], (20, 30)) == Box(top=0, left=3, height=18, width=27)
    assert common_box([np.array([[1.0, 0, 99], [0, 1, 0]])], (20, 30)) == Box(0, 0, 0, 0)
    assert common_box([], (20, 30)) == Box(0, 0, 20, 30)


@pytest.mark.skipif(not SHARED.exists(), reason="the real clips are not here")
@pytest.mark.parametrize("name", ["sports2d_demo.mp4", "intel_asl_gestures_hungry.mkv", "sam2_01_dog.mp4"])
def test_real_clips_are_from_still_cameras(name: str) -> None:
    frames = [frame.pixels for _, frame in zip(range(20), Video(SHARED / name), strict=False)]
    motion: CameraMotion = camera_motion(frames)
    assert len(frames) == 20 and motion.still and motion.lost == ()
