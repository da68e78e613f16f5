"""Every kind of picture against an expectation of its own."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.pictures import DEEP, GREY, RGB, RGBA, png, read_bytes, rows, same, saved
from visual_dynamics.errors import UserError
from visual_dynamics.images import (
    Box,
    crop_from_square,
    fit_to_square,
    pad_to_square,
    read_image,
    read_picture,
    resized,
    shrink,
)

RNG = np.random.default_rng(1)


def over(color: np.ndarray, alpha: np.ndarray, background: tuple[int, int, int]) -> np.ndarray:
    share = alpha[..., None].astype(float) / 255
    return np.floor(color * share + np.array(background) * (1 - share) + 0.5 + 1e-9).astype(np.uint8)


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(values, np.uint8)[..., None], 3, axis=2)


def test_paths_images_and_arrays_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(RGB, "PNG"))
    for source in (path, str(path), Image.open(path), RGB, Image.fromarray(RGB)):
        same(read_image(source), RGB)
    copy = read_image(RGB)
    copy[:] = 0  # writable, and not the caller's memory
    same(read_image(RGB[::-1]), RGB[::-1])
    assert RGB.any()


def test_arrays() -> None:
    same(read_image(GREY), grey(GREY))
    same(read_image(GREY[..., None]), grey(GREY))
    same(read_image(RGBA, (10, 200, 90)), over(RGBA[..., :3], RGBA[..., 3], (10, 200, 90)))
    for bad in (RGB / 255, RGB.astype(np.int64), GREY > 3, RGB[..., :2], RGB[None], GREY[0], RGB[:0], RGB[:1, :1]):
        with pytest.raises(UserError, match=r"^cannot read the array: .*$"):
            read_image(bad)
    with pytest.raises(UserError, match="cannot read a list"):
        read_image([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("background", [(255, 255, 255), (0, 0, 0), (12, 130, 250)])
def test_transparency(background: tuple[int, int, int]) -> None:
    expected = over(RGBA[..., :3], RGBA[..., 3], background)
    for form in ("PNG", "TIFF"):
        same(read_bytes(saved(RGBA, form), background=background), expected)
    webp = saved(RGBA, "WEBP", lossless=True, exact=True)
    same(read_bytes(webp, background=background), expected)
    grey_alpha = Image.frombytes("LA", (7, 5), np.ascontiguousarray(RGBA[..., 2:]).tobytes())
    same(
        read_bytes(saved(grey_alpha, "PNG"), background=background), over(grey(RGBA[..., 2]), RGBA[..., 3], background)
    )
    premultiplied = Image.fromarray(RGBA).convert("RGBa")
    seen = RGBA[..., 3] > 128  # where little is seen, eight bits of premultiplied colour say little
    same(read_image(premultiplied, background)[seen], expected[seen], tolerance=2)


def test_palettes() -> None:
    palette = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
    image = Image.fromarray(GREY)
    image.putpalette(palette.tobytes())
    colors = palette[GREY]
    for form in ("PNG", "GIF", "BMP", "TIFF"):
        same(read_bytes(saved(image, form)), colors)
    clear = colors.copy()
    clear[GREY[2, 3] == GREY] = (9, 8, 7)
    for form in ("PNG", "GIF"):
        same(read_bytes(saved(image, form, transparency=int(GREY[2, 3])), background=(9, 8, 7)), clear)
    alphas = RNG.integers(0, 256, 256, dtype=np.uint8)
    data = saved(image, "PNG", transparency=alphas.tobytes())
    same(read_bytes(data, background=(9, 8, 7)), over(colors, alphas[GREY], (9, 8, 7)))


def test_grey_and_other_color_modes() -> None:
    same(read_bytes(saved(GREY, "PNG")), grey(GREY))
    bits = GREY > 127
    for form in ("PNG", "TIFF", "PPM"):
        same(read_bytes(saved(Image.fromarray(bits), form)), grey(bits * 255))
    key = np.where((RGB[1, 1] == RGB).all(-1, keepdims=True), np.uint8(77), RGB)  # one colour named as see-through
    same(read_bytes(saved(RGB, "PNG", transparency=tuple(RGB[1, 1])), background=(77, 77, 77)), key)
    inks = RNG.integers(0, 256, (16, 16, 4), dtype=np.uint8)
    left = 255 - inks.astype(float)
    same(
        read_bytes(saved(Image.frombytes("CMYK", (16, 16), inks.tobytes()), "TIFF")),
        left[..., :3] * left[..., 3:] / 255,
        tolerance=1,
    )
    flat = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    same(read_bytes(saved(flat, "JPEG", quality=95)), np.full((16, 16, 3), (255, 0, 0)), tolerance=4)
    same(read_image(Image.fromarray(RGB).convert("YCbCr")), RGB, tolerance=3)
    same(read_image(Image.fromarray(RGB).convert("HSV")), RGB, tolerance=8)
    with pytest.raises(UserError, match=r"^cannot read the picture: its colours are in mode LAB"):
        read_image(Image.new("LAB", (4, 4)))


def test_sixteen_bits_keep_their_range() -> None:
    expected = grey(np.round(DEEP / 257))
    same(read_bytes(saved(DEEP, "PNG")), expected)
    same(read_bytes(saved(DEEP, "TIFF")), expected)
    same(read_image(Image.frombytes("I;16B", (7, 5), DEEP.astype(">u2").tobytes())), expected)
    same(read_image(Image.fromarray(DEEP.astype(np.int32))), expected)
    same(read_bytes(b"P5 7 5 65535\n" + DEEP.astype(">u2").tobytes()), expected)
    dark = np.full((4, 4), 200, ">u2")  # at most 255, and still sixteen bits
    same(read_bytes(b"P5 4 4 65535\n" + dark.tobytes()), np.ones((4, 4, 3)))
    same(read_bytes(png(4, 4, 16, 0, [(b"IDAT", rows(dark))])), np.ones((4, 4, 3)))
    named = [(b"tRNS", struct.pack(">H", int(DEEP[2, 2]))), (b"IDAT", rows(DEEP.astype(">u2")))]
    clear = np.where(DEEP[..., None] == DEEP[2, 2], np.uint8(31), expected)
    same(read_bytes(png(7, 5, 16, 0, named), background=(31, 31, 31)), clear)
    color = RNG.integers(0, 65_536, (5, 7, 3)).astype(">u2")
    same(read_bytes(png(7, 5, 16, 2, [(b"IDAT", rows(color))])), np.round(color / 257), tolerance=1)


def test_numbers_of_32_bits() -> None:
    same(read_image(Image.fromarray(GREY.astype(np.int32))), grey(GREY))
    wide = DEEP.astype(np.int32) * 32_768
    same(read_image(Image.fromarray(wide)), grey(np.round(wide / (2**31 - 1) * 255)))
    for white in (1.0, 255.0, 65_535.0):
        values = (GREY / 255 * white).astype(np.float32)
        same(read_bytes(saved(values, "TIFF")), grey(GREY), tolerance=0)
    bad = [np.full((3, 3), value, np.float32) for value in (np.nan, np.inf, 1e9)] + [np.full((3, 3), -5, np.int32)]
    for values in bad:
        with pytest.raises(UserError, match=r"^cannot read the picture: .*values.*$"):
            read_image(Image.fromarray(values))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_rotation_notes_are_followed(form: str) -> None:
    upright = np.repeat(np.repeat(RNG.integers(0, 256, (2, 3, 1), dtype=np.uint8), 16, 0), 16, 1).repeat(3, 2)
    stored = {  # how the camera held the picture, from the EXIF table
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1], 5: upright.swapaxes(0, 1),
        6: np.rot90(upright, 1), 7: np.rot90(upright, 2).swapaxes(0, 1), 8: np.rot90(upright, -1),
    }  # fmt: skip
    for orientation, pixels in stored.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        options = {"lossless": True} if form == "WEBP" else {"quality": 95} if form == "JPEG" else {}
        data = saved(np.ascontiguousarray(pixels), form, exif=exif, **options)
        same(read_bytes(data), upright, tolerance=4 if form == "JPEG" else 0)
    damaged = saved(RGB, "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\xff\x01\x12")
    same(read_bytes(damaged), RGB)


def test_animations_give_their_first_frame() -> None:
    frames = [Image.new("RGB", (6, 4), color) for color in ((200, 0, 0), (0, 200, 0), (0, 0, 200))]
    for form, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})):
        data = saved(frames[0], form, save_all=True, append_images=frames[1:], **options)
        same(read_bytes(data), np.full((4, 6, 3), (200, 0, 0)))
        opened = Image.open(io.BytesIO(data))
        opened.seek(1)
        same(read_image(opened), np.full((4, 6, 3), (0, 200, 0)))


# --- pictures of any size in the network's square ---


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


@pytest.mark.parametrize(
    ("height", "width", "box"),
    [
        (20, 9, Box(0, 17, 64, 29)),  # 28.8 columns
        (300, 100, Box(0, 21, 64, 21)),  # 21.3
        (3, 128, Box(31, 0, 2, 64)),  # 1.5 rows: half up
    ],
)
def test_sides_are_rounded_to_the_nearest_pixel(height: int, width: int, box: Box) -> None:
    assert fit_to_square(np.zeros((height, width, 3), np.uint8), 64)[1] == box


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
