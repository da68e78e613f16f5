"""Pictures of any size in the network's square."""

import numpy as np
import pytest
from PIL import Image

from tests.pictures import same
from visual_dynamics.images import (
    Box,
    crop_from_square,
    fit_to_square,
    pad_to_square,
    read_picture,
    resized,
    shrink,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("height", "width"), [(64, 64), (37, 64), (100, 300), (301, 77), (20, 9), (2, 500), (512, 256)]
)
def test_fit_to_square_keeps_the_aspect_ratio(height: int, width: int) -> None:
    cv2 = pytest.importorskip("cv2")
    image = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
    square, box = fit_to_square(image, 64)
    assert square.shape == (64, 64, 3)
    assert max(box.height, box.width) == 64
    assert abs(box.height - height * 64 / max(height, width)) <= 0.5 or box.height == 1
    (inside,) = crop_from_square(square[None], box)
    assert inside.shape == (box.height, box.width, 3)
    if max(height, width) > 64:
        same(inside, cv2.resize(image, (box.width, box.height), interpolation=cv2.INTER_AREA), tolerance=1)
    elif max(height, width) < 64:
        same(inside, cv2.resize(image, (box.width, box.height), interpolation=cv2.INTER_LINEAR), tolerance=2)
    else:
        same(inside, image)
    same(square[: box.top], np.broadcast_to(square[box.top], (box.top, 64, 3)))  # the edge is repeated
    same(square[:, box.left + box.width :], square[:, [box.left + box.width - 1]].repeat(64 - box.left - box.width, 1))


def test_whole_factors_are_plain_means() -> None:
    image = RNG.integers(0, 256, (192, 192, 3), dtype=np.uint8)
    square, box = fit_to_square(image, 64)
    assert box == Box(0, 0, 64, 64)
    same(square, np.array(Image.fromarray(image).resize((64, 64), Image.Resampling.BOX)), tolerance=1)
    means = image.reshape(64, 3, 64, 3, 3).astype(float).mean((1, 3))
    same(square, np.floor(means + 0.5))


@pytest.mark.parametrize("shape", [(60, 60, 3), (64, 64, 4), (31, 48, 3), (1, 64, 4)], ids=str)
def test_padding_changes_no_pixel(shape: tuple[int, int, int]) -> None:
    image = RNG.integers(1, 256, shape, dtype=np.uint8)
    square, box = pad_to_square(image, 64)
    assert square.shape == (64, 64, shape[2]) and np.count_nonzero(square) == image.size
    assert box == Box((64 - shape[0]) // 2, (64 - shape[1]) // 2, *shape[:2])
    same(crop_from_square(square[None], box)[0], image)


def test_one_decoding_gives_colours_and_alpha() -> None:
    image = RNG.integers(0, 256, (9, 7, 4), dtype=np.uint8)
    picture = read_picture(image)
    assert picture.alpha is not None
    same(picture.rgba, image)
    same(picture.alpha, image[..., 3])
    opaque = read_picture(image[..., :3])
    assert opaque.alpha is None and (opaque.rgba[..., 3] == 255).all()


def test_pictures_shrink_by_averages_and_never_grow() -> None:
    image = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)
    assert shrink(image, 8) is image and shrink(image, 100) is image
    np.testing.assert_array_equal(shrink(image, 4), np.floor(image.reshape(2, 2, 4, 2, 3).mean((1, 3)) + 0.5))
    np.testing.assert_array_equal(resized(image, 2, 4), shrink(image, 4))
    assert resized(image, 4, 8) is image and resized(image, 2, 16).shape == (2, 16, 3)
    assert shrink(np.zeros((2, 900, 3), np.uint8), 30).shape == (1, 30, 3)
