"""Every bad picture is an error of one line, however it is damaged and however large it claims to be."""

import os
import struct
import subprocess
import sys
import threading
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.pictures import NOISE, RGB, VALID, png, read_bytes, same, saved
from visual_dynamics import images
from visual_dynamics.errors import UserError
from visual_dynamics.images import decode, open_image, read_image


def test_bad_files_are_errors_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with pytest.raises(UserError, match=rf"^cannot read .*: .*{problem}.*$") as error:
            read_image(path)
        assert repr(name)[1:-1] in str(error.value)
        assert "\n" not in str(error.value)
    os.mkfifo(tmp_path / "pipe.png")
    for name, problem in {
        "missing.png": "there is no such file", "": "it is a folder, not a picture", "pipe.png": "not a regular file",
        "empty.png/x.png": "Not a directory", "zero\0.png": "null byte", "x" * 300: "File name too long",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=rf"^cannot read .*: .*{problem}.*$"):
            read_image(f"{tmp_path}/{name}")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # the superuser may read everything, so a mode of 0 proves nothing
    with pytest.raises(UserError, match=r"^cannot read .*text.png: permission denied$"):
        read_image(tmp_path / "text.png")


def test_scans_are_bounded_together_with_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes over all pixels: a hundred of 64 million take most of a minute."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = saved(noise, "JPEG", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    monkeypatch.setattr(images, "MAX_SCANNED", 30 * 64 * 64)
    for more, problem in (
        (0, ""),
        (15, ""),
        (60, "scans of 64 x 64 pixels are too many"),
        (200, "more than 100 scans"),
    ):
        repeated = data[:-2] + more * last + data[-2:]
        if not problem:
            assert read_image(repeated).shape == (64, 64, 3)
            continue
        with pytest.raises(UserError, match=problem):
            read_image(repeated)


def _huge_headers() -> dict[str, bytes]:
    """Small files that claim many pixels."""
    body = [(b"IDAT", zlib.compress(bytes(1000)))]
    webp = bytearray(saved(RGB, "WEBP", lossless=True))
    start = webp.index(b"VP8L") + 9
    webp[start : start + 4] = struct.pack("<I", 16_382 | 16_382 << 14)  # sides minus one, 14 bits each
    jpeg = bytearray(VALID["JPEG"])
    start = jpeg.index(b"\xff\xc0") + 5
    jpeg[start : start + 4] = struct.pack(">HH", 20_000, 20_000)
    gif = bytearray(VALID["GIF"])
    start = gif.index(b"," + bytes(4) + gif[6:10]) + 5  # the frame in its own words: larger than the screen, it counts
    gif[start : start + 4] = struct.pack("<HH", 8_001, 8_001)
    return {
        "20000.png": png(20_000, 20_000, 8, 2, body),
        "warned.png": png(10_000, 12_000, 8, 2, body),  # between Pillow's warning and its error
        "silent.png": png(8_001, 8_001, 8, 2, body),  # below Pillow's warning
        "long.png": png(16_385, 2, 8, 2, body),
        "huge.gif": VALID["GIF"][:6] + struct.pack("<HH", 20_000, 20_000) + VALID["GIF"][10:],
        "frame.gif": bytes(gif),
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


def test_huge_pictures_are_an_error_without_taking_memory(tmp_path: Path) -> None:
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


def _with_scans(count: int) -> bytes:
    """A progressive JPEG of 16 million pixels and some 60 kB, its last scan repeated."""
    whole = saved(Image.new("L", (4_000, 4_000), 128), "JPEG", progressive=True)
    start = whole.rindex(b"\xff\xda")
    return whole[:-2] + whole[start:-2] * count + b"\xff\xd9"


def test_jpegs_of_many_scans_are_an_error_at_once(tmp_path: Path) -> None:
    many = _with_scans(900)
    (tmp_path / "many.jpg").write_bytes(many)
    started = time.perf_counter()
    for source in (many, tmp_path / "many.jpg"):
        with pytest.raises(UserError, match=r"^cannot read .*: it is a progressive JPEG of more than 100 scans$"):
            read_image(source)
    assert time.perf_counter() - started < 0.5
    assert read_image(_with_scans(5)).shape == (4_000, 4_000, 3)
    noted = saved(RGB, "JPEG", comment=b"\xff\xda" * 200)  # the bytes of a marker inside a comment are none
    assert read_image(noted).shape == RGB.shape


def test_nobody_waits_for_another_picture() -> None:
    """Two threads decode at the same time: the first stays inside its picture until the second is done."""
    with open_image(VALID["PNG"]) as image:
        done: list[np.ndarray] = []
        other = threading.Thread(target=lambda: done.append(read_bytes(VALID["JPEG"])), daemon=True)
        other.start()
        other.join(timeout=20)
        assert done and decode(image).colours.shape == NOISE.shape


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
