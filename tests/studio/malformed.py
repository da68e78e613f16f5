"""Uploads that are no good pictures, or hardly: drawn from a seed, for tests and for benchmarks/studio_uploads.py."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

FORMS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


def uploads(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Kind and bytes, the kinds in turn."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        yield kind, KINDS[kind](draw)


def good(draw: np.random.Generator, form: str = "PNG", frames: int = 1) -> bytes:
    width, height = (int(side) for side in draw.integers(8, 80, 2))
    images = [Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8)) for _ in range(frames)]
    buffer = io.BytesIO()
    more = {"save_all": True, "append_images": images[1:], "duration": 50} if frames > 1 else {}
    images[0].save(buffer, form, **more)
    return buffer.getvalue()


def _form(draw: np.random.Generator) -> str:
    return str(draw.choice(FORMS))


def _truncated(draw: np.random.Generator) -> bytes:
    data = good(draw, _form(draw))
    return data[: int(draw.integers(1, len(data)))]


def _flipped(draw: np.random.Generator) -> bytes:
    data = bytearray(good(draw, _form(draw)))
    for place in draw.integers(0, len(data), 8):
        data[place] ^= int(draw.integers(1, 256))
    return bytes(data)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, pixels: bytes, depth: int = 1) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _bomb(draw: np.random.Generator) -> bytes:
    """Few bytes, many pixels: 10,000 to 30,000 a side, all white."""
    side = int(draw.integers(10_000, 30_000))
    row = b"\0" + b"\xff" * ((side + 7) // 8)
    return _png(side, side, zlib.compress(row * 64, 9))


def _text_bomb(draw: np.random.Generator) -> bytes:
    """A small picture with a note of 50 MB when it is unpacked."""
    note = b"Comment\0\0" + zlib.compress(b"\0" * 50_000_000, 9)
    small = _png(16, 16, zlib.compress((b"\0" + b"\xaa\xaa") * 16))
    return small[:33] + _chunk(b"zTXt", note) + small[33:]


def _huge(draw: np.random.Generator) -> bytes:
    return _png(int(draw.integers(1, 2**31)), int(draw.integers(1, 2**31)), zlib.compress(b"\0"))


def _wrong_type(draw: np.random.Generator) -> bytes:
    others = [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7\n",
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
        b"MZ" + bytes(64),
    ]
    others += [b"PK\3\4" + bytes(64), b"II*\0" + bytes(64), b"P6 9999 9999 255\n", b"<html></html>"]
    return others[int(draw.integers(len(others)))]


KINDS: dict[str, Callable[[np.random.Generator], bytes]] = {
    "truncated": _truncated,
    "flipped bytes": _flipped,
    "bomb": _bomb,
    "note of 50 MB": _text_bomb,
    "huge dimensions": _huge,
    "wrong type": _wrong_type,
    "animated": lambda draw: good(draw, str(draw.choice(["GIF", "WEBP", "PNG"])), frames=5),
    "zero bytes": lambda draw: b"",
    "noise": lambda draw: draw.bytes(int(draw.integers(1, 4_000))),
    "zeros": lambda draw: bytes(int(draw.integers(1, 4_000))),
}
