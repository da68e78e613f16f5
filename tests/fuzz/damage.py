"""Ways to damage a file, drawn at random."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from typing import Any

ODD: list[Any] = [
    *(None, True, -1, 0, 1, 1.5, 10**9, 10**30, 1e308, float("inf"), float("nan"), "", "\n", "../x", "x" * 5000),
    *([], {}, [[]], [None] * 50, {"a": {}}, "\ud800", "0", -(2**63)),
]
NUMBERS = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\1\0\0", b"\x40\0\0\0")
Files = dict[str, bytes]  # by path


def bytes_of(draw: random.Random, data: bytes) -> bytes:
    """A few places are changed, half of the time near the beginning, where headers are; few are moved or cut off."""
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        place = draw.randrange(min(len(data), draw.choice((64, 512, len(data), len(data)))) or 1)
        length = draw.choice((1, 1, 2, 4, 50))
        flat = draw.choice((b"\0", b"\xff")) * length
        middle = draw.choice((draw.randbytes(length), flat, draw.choice(NUMBERS), data[place : place + length][::-1]))
        moved = draw.random()
        middle, skipped = (b"", length) if moved < 0.1 else (middle, 0 if moved < 0.2 else len(middle))
        data = data[:place] + middle + data[place + skipped :]
    return data[: draw.randrange(len(data) + 1)] if draw.random() < 0.1 else data


def png(draw: random.Random, data: bytes) -> bytes:
    """Half of the time checksums are made right again: else nobody looks further."""
    data = bytes_of(draw, data)
    place = 8
    while draw.random() < 0.999 and place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        end = place + 8 + length
        if end + 4 > len(data):
            break
        data = data[:end] + struct.pack(">I", zlib.crc32(data[place + 4 : end])) + data[end + 4 :]
        place = end + 4
    return data


def value_of(draw: random.Random, content: Any) -> Any:
    """One place of some JSON holds something odd, is missing, or is there in plenty."""
    if not (isinstance(content, dict | list) and content) or draw.random() < 0.1:
        return draw.choice(ODD)
    key = draw.choice(list(content) if isinstance(content, dict) else range(len(content)))
    changed = content.copy()
    if draw.random() < 0.15:
        del changed[key]
    elif isinstance(changed, list) and draw.random() < 0.05:
        changed *= 2_000
    else:
        changed[key] = value_of(draw, content[key])
    return changed


def json_of(draw: random.Random, data: bytes) -> bytes:
    way = draw.random()
    if way < 0.2:
        return bytes_of(draw, data)
    if way < 0.25:
        return draw.choice((b"[", b'{"a":', b"9")) * draw.choice((10, 100_000))
    try:
        content = json.loads(data)
    except ValueError:  # a text that is no JSON
        return bytes_of(draw, data)
    return json.dumps(value_of(draw, content)).encode("utf-8", "surrogatepass")


def safetensors(draw: random.Random, data: bytes) -> bytes:
    """Its bytes; or a value in its header, or in one of the JSON texts in there."""
    if draw.random() < 0.3:
        return bytes_of(draw, data)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    if draw.random() < 0.6:
        name = draw.choice(list(header["__metadata__"]))
        header["__metadata__"][name] = json_of(draw, header["__metadata__"][name].encode()).decode(errors="replace")
    else:
        header = value_of(draw, header)
    text = json.dumps(header).encode("utf-8", "replace")
    return len(text).to_bytes(8, "little") + text + data[start:]


def zip_of(draw: random.Random, data: bytes) -> bytes:
    """Its bytes; or an entry of it, of which the ZIP may tell a wrong size."""
    if draw.random() < 0.4:
        return bytes_of(draw, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(files))
    files[name] = draw.choice((bytes_of, lambda draw, data: bytes(10**7), lambda draw, data: data * 5_000))(
        draw, files[name]
    )
    if draw.random() < 0.3:
        files[draw.choice(("../" + name, name.upper(), "a/" + name, "x" * 300 + name))] = files[name]
    return zipped(files, draw.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)))


def zipped(files: Files, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()
