"""How shapes are drawn: textures that move with their shapes and change nothing else, and large pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visual_dynamics.data import shapes, shapes_drawing
from visual_dynamics.data.shapes import CIRCLE, SQUARE, TRIANGLE, Scenes, draw_large, draw_scenes, images
from visual_dynamics.images import fit_to_square
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.trainer import training_pairs, validation_pairs

FAR = 1000.0  # out of sight
HALF = shapes_drawing.PERIOD // 2
RENDERINGS: tuple[shapes.Rendering, ...] = ("integer", "smooth")


def alone(index: int, x: float = 64.0, y: float = 64.0, motion: tuple[float, float] = (0.0, 0.0)) -> Scenes:
    """One white object of size 36 on white: what is seen is its texture."""
    anchors, motions = np.full((1, 3, 2), FAR), np.zeros((1, 3, 2))
    anchors[0, index], motions[0, index] = (x, y), motion
    return Scenes(np.ones((1, 3)), np.ones((1, 3, 3)), anchors, np.full((1, 3), 36.0), motions)


def texture(scenes: Scenes, moved: bool, rendering: shapes.Rendering, size: int = 128) -> torch.Tensor:
    """The first channel of the first scene, int (size, size)."""
    return shapes.images(scenes, moved, rendering, size, textured=True)[0, 0].int()


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_stripes_and_checkers(rendering: shapes.Rendering) -> None:
    square = texture(alone(SQUARE), False, rendering)[64:100, 64:100]
    assert (square == square[:, :1]).all()  # a row has one colour
    assert square[:, 0].tolist() == ([255] * HALF + [round(255 * shapes_drawing.DARK)] * HALF) * 3
    triangle = texture(alone(TRIANGLE), False, rendering)[30:40, 54:74]
    assert (triangle == triangle[:1]).all()  # a column has one colour
    assert triangle[0].tolist() == [255] * 4 + [102] * HALF + [255] * HALF + [102] * 4
    circle = texture(alone(CIRCLE), False, rendering)[58:70, 58:70]
    light, dark = torch.full((HALF, HALF), 255), torch.full((HALF, HALF), 102)
    assert torch.equal(circle, torch.cat([torch.cat([light, dark], 1), torch.cat([dark, light], 1)]).int())


@settings(max_examples=20, deadline=None)
@given(
    index=st.sampled_from([CIRCLE, SQUARE]),
    x=st.floats(40, 41),
    y=st.floats(40, 41),
    motion=st.tuples(st.floats(-10, 10), st.floats(-10, 10)),
)
def test_integer_drawing_shifts_the_texture_by_whole_pixels(
    index: int, x: float, y: float, motion: tuple[float, float]
) -> None:
    scenes = alone(index, x, y, motion)
    right, down = (int(np.floor(p + d + 0.5) - np.floor(p + 0.5)) for p, d in zip((x, y), motion, strict=True))
    before, after = (texture(scenes, moved, "integer") for moved in (False, True))
    assert torch.equal(after, before.roll((down, right), (0, 1)))


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("index", [CIRCLE, SQUARE, TRIANGLE])
def test_whole_motions_shift_the_picture(index: int, rendering: shapes.Rendering) -> None:
    scenes = alone(index, 60.25, 62.75, (7.0, -5.0))
    before, after = (texture(scenes, moved, rendering) for moved in (False, True))
    assert (after - before.roll((-5, 7), (0, 1))).abs().max() <= (rendering == "smooth")  # rounding to 8 bits


def test_smooth_textures_move_between_pixels() -> None:
    scenes = alone(TRIANGLE, motion=(0.5, -0.5))
    before, after = (texture(scenes, moved, "smooth")[30:40, 54:74].double() for moved in (False, True))
    assert (after[:, 1:] - (before[:, 1:] + before[:, :-1]) / 2).abs().max() <= 1


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_nothing_else_changes(rendering: shapes.Rendering, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = shapes.shapes_pairs(40, 3, "test", rendering, 128)
    pairs = shapes.shapes_pairs(40, 3, "test", rendering, 128, textured=True)
    ground = shapes.masks(shapes.draw_scenes(40, 3, "test"), True, rendering, 128).visible.sum(1) == 0
    where = ground[:, None].expand_as(plain.next_frames)
    assert torch.equal(pairs.next_frames[where], plain.next_frames[where])
    assert (pairs.next_frames <= plain.next_frames.float() + 1).all()
    assert not torch.equal(pairs.next_frames, plain.next_frames)
    monkeypatch.setattr(shapes_drawing, "DARK", 1.0)
    same = shapes.shapes_pairs(40, 3, "test", rendering, 128, textured=True)
    assert torch.equal(same.frames, plain.frames) and torch.equal(same.next_frames, plain.next_frames)


@pytest.mark.parametrize("index", [CIRCLE, SQUARE, TRIANGLE])
def test_textures_survive_at_64(index: int) -> None:
    for phase in np.arange(0, 2, 0.25):
        seen = texture(alone(index, 64 + phase, 64 + phase), False, "smooth", 64)
        inside = shapes.masks(alone(index, 64 + phase, 64 + phase), False, "smooth", 64).visible[0, index] == 1
        assert seen[inside].float().std() > 40  # of 77 for stripes of two colours, unblurred


def test_training_on_textures() -> None:
    config = TrainingConfig(preset="tiny", data="shapes-texture", rendering="smooth", pairs=5, seed=2)
    for found, split in ((training_pairs(config), "train"), (validation_pairs(config, 5), "validation")):
        expected = shapes.shapes_pairs(5, 2, split, "smooth", 16, textured=True)  # type: ignore[arg-type]
        assert found is not None and torch.equal(found.batch(torch.arange(5)).frame, expected.frames / 255)
    plain = training_pairs(replace(config, data="shapes")).batch(torch.arange(5))
    assert torch.equal(plain.frame, shapes.shapes_pairs(5, 2, "train", "smooth", 16).frames / 255)


# --- large pictures ---


def test_small_copies_are_the_world() -> None:
    scenes = draw_scenes(6, 3, "test")
    for moved in (False, True):
        small = images(scenes, moved, "smooth", 64).permute(0, 2, 3, 1).numpy()
        for grain in (0.0, 0.05):
            large = draw_large(scenes, 512, moved, grain)
            assert large.shape == (6, 512, 512, 3) and large.dtype == np.uint8
            apart = np.abs(np.stack([fit_to_square(one, 64)[0] for one in large]).astype(int) - small)
            assert apart.mean() < (0.1 if grain == 0 else 2.5) and (grain or apart.max() <= 16)


def test_grain_moves_with_its_shape() -> None:
    scenes = draw_scenes(1, 0)
    scenes.motions[:] = [[[0, 4], [6, 0], [4, -4]]]  # whole pixels of the large picture
    before, after = (draw_large(scenes, 256, moved, 0.1)[0].astype(int) for moved in (False, True))
    left, top = (np.round(scenes.anchors[0, 1] * 2) + 8).astype(int)
    square = before[top : top + 24, left : left + 24]
    np.testing.assert_array_equal(after[top : top + 24, left + 12 : left + 36], square)
    assert square.std(axis=(0, 1)).max() > 10
