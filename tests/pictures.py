"""Pictures as arrays and as bytes of files, for tests of how they are read."""

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

from visual_dynamics.images import WHITE, read_picture

_RNG = np.random.default_rng(0)
RGB = _RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
RGBA = _RNG.integers(0, 256, (5, 7, 4), dtype=np.uint8)
GREY = RGB[..., 0]
DEEP = _RNG.integers(0, 65_536, (5, 7)).astype(np.uint16)  # 16 bits
DEEP[0, :3] = 0, 65_535, 257 * 100


def saved(image: Image.Image | np.ndarray, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(buffer, form, **options)
    return buffer.getvalue()


def read_bytes(data: bytes, background: tuple[int, int, int] = WHITE) -> np.ndarray:
    return read_picture(data, "test.png").over(background)


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


NOISE = _RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)
VALID = {form: saved(NOISE, form) for form in ("PNG", "JPEG", "GIF", "WEBP")}
