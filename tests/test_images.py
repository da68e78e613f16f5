"""Every kind of picture against an expectation of its own, and every bad one as one line."""

import io
import os
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from visual_dynamics.errors import UserError
from visual_dynamics.images import Box, crop_from_square, decode_image, fit_to_square, read_image

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
RGBA = RNG.integers(0, 256, (5, 7, 4), dtype=np.uint8)
GREY = RGB[..., 0]
DEEP = RNG.integers(0, 65_536, (5, 7)).astype(np.uint16)  # 16 bits
DEEP[0, :3] = 0, 65_535, 257 * 100


def saved(image: Image.Image | np.ndarray, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(buffer, form, **options)
    return buffer.getvalue()


def read_bytes(data: bytes, **options: Any) -> np.ndarray:
    return decode_image(io.BytesIO(data), "test.png", **options)


def over(color: np.ndarray, alpha: np.ndarray, background: tuple[int, int, int]) -> np.ndarray:
    share = alpha[..., None].astype(float) / 255
    return np.floor(color * share + np.array(background) * (1 - share) + 0.5 + 1e-9).astype(np.uint8)


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(values, np.uint8)[..., None], 3, axis=2)


def same(image: np.ndarray, expected: np.ndarray, tolerance: int = 0) -> None:
    assert image.dtype == np.uint8
    assert image.shape == expected.shape
    assert (np.abs(image.astype(int) - expected) <= tolerance).all()


def png(width: int, height: int, depth: int, color_type: int, chunks: list[tuple[bytes, bytes]]) -> bytes:
    """A PNG from its specification, chunk by chunk."""
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n"]
    for kind, data in [(b"IHDR", header), *chunks, (b"IEND", b"")]:
        parts.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return b"".join(parts)


def rows(values: np.ndarray) -> bytes:
    return zlib.compress(b"".join(b"\0" + row.tobytes() for row in values))


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


NOISE = RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)
VALID = {form: saved(NOISE, form) for form in ("PNG", "JPEG", "GIF", "WEBP")}


def test_bad_files_are_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {
        "empty.png": (b"", "the file is empty"),
        "half.png": (VALID["PNG"][: len(VALID["PNG"]) // 2], "truncated"),
        "half.jpg": (VALID["JPEG"][: len(VALID["JPEG"]) // 2], "truncated"),
        "half.gif": (VALID["GIF"][: len(VALID["GIF"]) // 2], "truncated"),
        "noise.png": (NOISE.tobytes(), "not a readable PNG, JPEG"),
        "text.png": (b"a cat sat on the mat\n" * 50, "not a readable PNG, JPEG"),
        "post.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not a readable PNG"),
        "dot.png": (saved(RGB[:1, :1], "PNG"), "1 x 1 pixels is too small"),
        "line.png": (saved(RGB[:1], "PNG"), "7 x 1 pixels is too small"),
        "a\nb.png": (b"", "the file is empty"),
    }
    for name, (data, problem) in bad.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(UserError, match=rf"^cannot read .*: .*{problem}.*$") as told:
            read_image(path)
        assert repr(name)[1:-1] in str(told.value)
        assert "\n" not in str(told.value)
    os.mkfifo(tmp_path / "pipe.png")
    for name, problem in {
        "missing.png": "there is no such file", "": "it is a folder, not a picture", "pipe.png": "not a regular file",
        "empty.png/x.png": "Not a directory", "zero\0.png": "null byte", "x" * 300: "File name too long",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=rf"^cannot read .*: .*{problem}.*$"):
            read_image(f"{tmp_path}/{name}")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # the superuser may read everything, so a mode of 0 proves nothing
    with pytest.raises(UserError, match=r"^cannot read .*text.png: permission denied$"):
        read_image(tmp_path / "text.png")


def _huge_headers() -> dict[str, bytes]:
    """Small files that claim many pixels."""
    body = [(b"IDAT", zlib.compress(bytes(1000)))]
    webp = bytearray(saved(RGB, "WEBP", lossless=True))
    start = webp.index(b"VP8L") + 9
    webp[start : start + 4] = struct.pack("<I", 16_382 | 16_382 << 14)  # sides minus one, 14 bits each
    jpeg = bytearray(VALID["JPEG"])
    start = jpeg.index(b"\xff\xc0") + 5
    jpeg[start : start + 4] = struct.pack(">HH", 20_000, 20_000)
    return {
        "20000.png": png(20_000, 20_000, 8, 2, body),
        "warned.png": png(10_000, 12_000, 8, 2, body),  # between Pillow's warning and its error
        "silent.png": png(8_001, 8_001, 8, 2, body),  # below Pillow's warning
        "long.png": png(16_385, 2, 8, 2, body),
        "huge.gif": VALID["GIF"][:6] + struct.pack("<HH", 20_000, 20_000) + VALID["GIF"][10:],
        "huge.bmp": b"BM" + struct.pack("<IIIIiiHH", 54, 0, 54, 40, 20_000, 20_000, 1, 24) + bytes(24),
        "huge.webp": bytes(webp),
        "huge.jpg": bytes(jpeg),
    }


READ_ALL = """
import resource, sys
from visual_dynamics.errors import UserError
from visual_dynamics.images import read_image
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_image(sys.argv[1])
for path in sys.argv[2:]:
    try:
        read_image(path)
    except UserError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_huge_pictures_are_refused_without_taking_memory(tmp_path: Path) -> None:
    files = {"small.png": VALID["PNG"], **_huge_headers()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", READ_ALL, *(str(tmp_path / name) for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=True)
    *lines, growth = done.stdout.splitlines()
    assert done.stderr == ""
    assert len(lines) == len(files) - 1
    for line in lines:
        assert line.endswith("too large (at most 16,384 a side and 64 million in all)")
    assert int(growth) < 40_000  # kilobytes; the least of these pictures has 64 million pixels


def test_the_largest_side_is_read() -> None:
    same(read_bytes(saved(np.zeros((2, 16_384), np.uint8), "PNG")), np.zeros((2, 16_384, 3)))


def test_threads_leave_the_warning_filters_alone() -> None:
    filters = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [read_bytes(VALID["PNG"]) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == filters


def only_user_errors(data: bytes) -> None:
    try:
        image = read_bytes(data)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert image.dtype == np.uint8
        assert image.ndim == 3


FUZZ = settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@FUZZ
@given(st.sampled_from([b"", *(data[:12] for data in VALID.values()), b"BM", b"II*\0", b"P6 9 9 255\n"]), st.binary())
def test_random_bytes_never_crash(start: bytes, rest: bytes) -> None:
    only_user_errors(start + rest)


@FUZZ
@given(
    st.sampled_from(list(VALID)), st.floats(0, 1), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8)
)
def test_damaged_files_never_crash(form: str, kept: float, changes: list[tuple[float, int]]) -> None:
    data = bytearray(VALID[form])
    for place, value in changes:
        data[int(place**3 * (len(data) - 1))] = value  # mostly near the header
    only_user_errors(bytes(data[: max(1, int(kept**0.2 * len(data)))]))


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
