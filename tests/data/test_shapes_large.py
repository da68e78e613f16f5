"""Large Shapes: averaged down they are the Shapes world."""

import numpy as np

from visual_dynamics.data.shapes import draw_large, draw_scenes, images
from visual_dynamics.images import fit_to_square


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
