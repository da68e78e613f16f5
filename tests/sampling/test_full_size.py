"""Full size: what moves is as sharp as in the picture, what stays keeps its bytes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.images import Box, Pixels, fit_to_square
from visual_dynamics.sampling import full_size
from visual_dynamics.sampling.full_size import FullSize, _taken, then
from visual_dynamics.sampling.motion_layers import Field

GROUND = np.random.default_rng(0).integers(150, 200, (320, 512, 1)).repeat(3, 2).astype(np.uint8)
SKIN = np.random.default_rng(1).integers(0, 60, (96, 96, 3)).astype(np.uint8)


def scene(x: int, y: int = 100) -> Pixels:
    """512 x 320 pixels: a dark square of 96 on a light ground, both with a grain that a small copy does not show."""
    picture = GROUND.copy()
    picture[y : y + 96, x : x + 96] = SKIN
    return picture


def prepared(picture: Pixels, size: int = 64) -> tuple[Tensor, Box]:
    square, box = fit_to_square(picture, size)
    return torch.from_numpy(square).permute(2, 0, 1).float() / 255, box


def squared(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    return float(np.square(first / 255 - second / 255).sum())


def test_a_future_is_the_picture_moved() -> None:
    picture, truth = scene(200), scene(228)  # 3.5 pixels of the model
    future = FullSize(picture, *prepared(picture)).future(prepared(truth)[0])
    assert future.shape == picture.shape and future.dtype == np.uint8
    assert squared(future, truth) < 0.15 * squared(picture, truth)
    moved = future[104:192, 232:320]
    assert moved.std() > 0.7 * SKIN.std(), "the grain is still there"
    still = np.ones(picture.shape[:2], bool)
    still[80:216, 170:350] = False
    np.testing.assert_array_equal(future[still], picture[still])


def test_nothing_moves() -> None:
    picture = scene(200)
    frame, box = prepared(picture)
    np.testing.assert_array_equal(FullSize(picture, frame, box).future(frame), picture)
    noise = 2 / 255 * torch.randn(frame.shape, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(FullSize(picture, frame, box).future((frame + noise).clamp(0, 1)), picture)


def test_a_clip_stays_sharp() -> None:
    picture = scene(100)
    frames = [prepared(scene(100 + 20 * step))[0] for step in range(6)]
    clip = list(FullSize(picture, *prepared(picture)).clip(frames))
    assert len(clip) == 6
    np.testing.assert_array_equal(clip[0], picture)
    for step, frame in enumerate(clip):
        truth = scene(100 + 20 * step)
        assert squared(frame, truth) <= 0.3 * squared(picture, truth), step
        np.testing.assert_array_equal(frame[240:], picture[240:])
    assert clip[-1][104:192, 204:292].std() > 0.7 * SKIN.std()


def test_strips_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    picture, following = scene(200), prepared(scene(217, 110))[0]
    large = FullSize(picture, *prepared(picture))
    whole = large.future(following)
    monkeypatch.setattr(full_size, "STRIP", 5000)
    np.testing.assert_array_equal(large.future(following), whole)


@pytest.mark.parametrize(("height", "width"), [(2, 2), (20, 30), (64, 64), (301, 77), (5, 700)])
def test_pictures_of_any_size(height: int, width: int) -> None:
    picture = np.random.default_rng(2).integers(0, 256, (height, width, 3)).astype(np.uint8)
    frame, box = prepared(picture)
    future = FullSize(picture, frame, box).future(frame.roll(3, 2))
    assert future.shape == picture.shape


def test_made_up_parts_are_those_of_the_frame() -> None:
    picture = np.full((256, 256, 3), 200, np.uint8)
    frame, box = prepared(picture)
    following = frame.clone()
    following[:, 20:40, 20:40] = torch.tensor([0.1, 0.5, 0.9])[:, None, None]
    future = FullSize(picture, frame, box).future(following)
    assert np.abs(future[96:144, 96:144].astype(int) - np.round(255 * np.array([0.1, 0.5, 0.9]))).max() <= 1
    assert (future[:64] == 200).all() and (future[180:] == 200).all()


def test_what_comes_out_wrong_is_taken_from_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = scene(200)
    frame, box = prepared(picture)
    nothing = Field(torch.zeros(2, 320, 512), torch.zeros(320, 512), 8)
    monkeypatch.setattr(full_size, "explain", lambda *_: nothing)
    future = FullSize(picture, frame, box).future(prepared(scene(264))[0])
    assert future[104:192, 212:252].mean() > 150 and future[104:192, 312:350].mean() < 60
    np.testing.assert_array_equal(future[220:], picture[220:])


def test_light_and_shadow_follow_the_frame() -> None:
    ground = np.linspace(120, 220, 512)[None, :, None].repeat(320, 0).repeat(3, 2).astype(np.uint8)
    picture, truth = ground.copy(), ground.copy()
    picture[100:196, 150:246], truth[100:196, 198:294] = SKIN, SKIN
    future = FullSize(picture, *prepared(picture)).future(prepared(truth)[0])
    revealed = future[108:188, 156:190].astype(int) - truth[108:188, 156:190]
    assert np.abs(revealed).mean() < 3  # the wall it was taken from is 9 darker or lighter


def test_ways_add_up() -> None:
    nothing = torch.zeros(32, 40)
    first = Field(torch.ones(2, 32, 40), nothing, 4)
    first.source[:, :, 20:] = torch.tensor([5.0, -2])[:, None, None]  # a seam
    second = Field(torch.full((2, 32, 40), 0.55), nothing, 4)
    both = then(first, second)
    found = both.source.flatten(1).T.unique(dim=0)
    torch.testing.assert_close(found, torch.tensor([[1.55, 1.55], [5.55, -1.45]]))
    hidden = Field(torch.zeros(2, 32, 40), nothing.clone(), 4)
    hidden.made_up[10] = 1
    assert then(hidden, second).made_up[8].max() > 0.5 and not then(first, second).made_up.any()


def test_whole_pixels_are_taken_as_they_are() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (6, 7, 3)).astype(np.uint8)
    y, x = np.meshgrid(np.arange(-2.0, 9), np.arange(-3.0, 8), indexing="ij")
    mirror = np.pad(picture, ((2, 3), (3, 1), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(_taken(picture, y.ravel(), x.ravel()), mirror.reshape(-1, 3))
    ramp = np.arange(0, 200, 20, dtype=np.uint8)[None, :, None].repeat(4, 0).repeat(3, 2)
    np.testing.assert_array_equal(_taken(ramp, np.full(1, 1.5), np.full(1, 4.25)), [[85, 85, 85]])
