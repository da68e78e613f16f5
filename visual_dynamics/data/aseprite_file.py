"""Aseprite's own files (.aseprite, .ase), read into frames and written, after its published file format.

Reading flattens the visible layers and keeps durations and tags. Writing makes one layer of RGBA frames. Not read:
tilemaps, and blend modes that mix colours of one pixel with each other (hue, saturation, ...).

Letters in shape comments: T frames, H, W height and width in pixels.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.data.aseprite import DIRECTIONS, USUAL_DURATION, Tag
from visual_dynamics.errors import UserError
from visual_dynamics.images import MAX_PIXELS, MAX_SIDE, Pixels

SUFFIXES = (".aseprite", ".ase")
FILE, FRAME = 0xA5E0, 0xF1FA  # magic numbers
LAYER, CEL, TAGS, PALETTE, OLD_PALETTE, PROFILE = 0x2004, 0x2005, 0x2018, 0x2019, 0x0004, 0x2007
VISIBLE, REFERENCE = 1, 64  # flags of a layer
GROUP = 1  # type of a layer
RAW, LINKED, COMPRESSED = 0, 1, 2  # types of a cel
DEPTHS = {32: 4, 16: 2, 8: 1}  # bits -> bytes of a pixel: RGBA, grey and alpha, row of the palette
HEADER, FRAME_HEADER, CHUNK_HEADER = 128, 16, 6  # bytes
MAX_BYTES, MAX_LAYERS, MAX_FRAMES = 2**28, 4_096, 4_096

Floats = NDArray[np.float32]

Blend = Callable[[Floats, Floats], Floats]
BLEND: dict[int, tuple[str, Blend]] = {  # of backdrop b and source s, in [0, 1]
    0: ("normal", lambda b, s: s),
    1: ("multiply", lambda b, s: b * s),
    2: ("screen", lambda b, s: b + s - b * s),
    4: ("darken", np.minimum),
    5: ("lighten", np.maximum),
    10: ("difference", lambda b, s: np.abs(b - s)),
    16: ("addition", lambda b, s: np.minimum(b + s, 1)),
    17: ("subtract", lambda b, s: np.maximum(b - s, 0)),
}


class Animation(NamedTuple):
    """What a file holds."""

    frames: Pixels  # (T, H, W, 4), colours not multiplied by alpha
    durations: list[int]  # milliseconds
    tags: tuple[Tag, ...]


class _Layer(NamedTuple):
    name: str
    shown: bool
    is_group: bool
    level: int  # depth in the groups
    blend: int
    opacity: int


class _Cel(NamedTuple):
    layer: int
    x: int
    y: int
    opacity: int
    z: int  # moves it up or down among the layers of its frame
    pixels: Pixels  # (h, w, 4)


@dataclass
class _Content:
    """What was found while reading."""

    width: int
    height: int
    depth: int
    max_pixels: int  # of all frames
    layers: list[_Layer] = field(default_factory=list)
    cels: list[dict[int, _Cel]] = field(default_factory=list)  # by layer, for each frame
    palette: Pixels = field(default_factory=lambda: np.zeros((256, 4), np.uint8))
    tags: list[Tag] = field(default_factory=list)
    pixels: int = 0  # of all cels
    laid: int = 0  # the same, linked cels as often as they are linked, which takes few bytes


class _BrokenError(Exception):
    """What is wrong with a file, in words that follow its name."""


def read_aseprite_file(path: Path) -> Animation:
    try:
        with path.open("rb") as file:
            return parse_aseprite_file(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def parse_aseprite_file(data: bytes, name: str, max_pixels: int = MAX_PIXELS, max_side: int = MAX_SIDE) -> Animation:
    """`read_aseprite_file` for a file in memory, called `name`. max_pixels: of all frames; max_side: of one."""
    try:
        return _parse(data, max_pixels, max_side)
    except _BrokenError as error:
        raise UserError(f"cannot read {name} as an Aseprite file: {error}") from error
    except (struct.error, LookupError, ValueError, zlib.error) as error:
        raise UserError(f"cannot read {name} as an Aseprite file: it is damaged or cut off") from error


def _parse(data: bytes, max_pixels: int, max_side: int) -> Animation:
    if len(data) > MAX_BYTES:
        raise _BrokenError(f"it is too large (at most {MAX_BYTES:,} bytes)")
    magic, count, width, height, depth, flags = struct.unpack_from("<HHHHHI", data, 4)
    if magic != FILE:
        raise _BrokenError("it is none")
    if depth not in DEPTHS:
        raise _BrokenError(f"its pixels have {depth} bits")
    if not (0 < count <= MAX_FRAMES and min(width, height) > 0 and max(width, height) <= max_side):
        raise _BrokenError(f"it has {count:,} frames of {width} x {height} pixels (at most {max_side:,} a side)")
    if count * width * height > max_pixels:
        raise _BrokenError(f"its frames are too large together (at most {max_pixels // 10**6} million pixels)")
    content = _Content(width, height, depth, max_pixels)
    durations = []
    place = HEADER
    for number in range(count):
        size, magic, old_chunks, duration, chunks = struct.unpack_from("<IHHHxxI", data, place)
        if magic != FRAME or size < FRAME_HEADER:
            raise _BrokenError(f"frame {number} is damaged")
        durations.append(duration or USUAL_DURATION)
        content.cels.append({})
        for kind, chunk in _chunks(data, place + FRAME_HEADER, chunks or old_chunks):
            _read_chunk(content, number, kind, chunk, data[28], bool(flags & 1))
        place += size
    frames = np.stack([_flatten(content, number) for number in range(count)])
    return Animation(frames, durations, tuple(tag for tag in content.tags if tag.last < count))


def _chunks(data: bytes, place: int, count: int) -> Iterator[tuple[int, bytes]]:
    for _ in range(count):
        size, kind = struct.unpack_from("<IH", data, place)
        if size < CHUNK_HEADER or place + size > len(data):
            raise _BrokenError("it is damaged or cut off")
        yield kind, data[place + CHUNK_HEADER : place + size]
        place += size


def _read_chunk(
    content: _Content, number: int, kind: int, chunk: bytes, transparent: int, layers_have_opacity: bool
) -> None:
    if kind == LAYER:
        flags, form, level, _, _, blend, opacity = struct.unpack_from("<HHHHHHB", chunk)
        if form > GROUP or len(content.layers) >= MAX_LAYERS:
            raise _BrokenError("it has tilemaps, which are not read" if form > GROUP else "it has too many layers")
        shown = bool(flags & VISIBLE) and not flags & REFERENCE
        opacity = opacity if layers_have_opacity else 255
        content.layers.append(_Layer(_text(chunk, 16)[0], shown, form == GROUP, level, blend, opacity))
    elif kind == CEL:
        cel = _read_cel(content, chunk, transparent)
        content.cels[number][cel.layer] = cel
        content.laid += cel.pixels.size // 4
        if content.laid > 8 * content.max_pixels:
            raise _BrokenError("its layers are too large together")
    elif kind == TAGS:
        place = 10
        for _ in range(struct.unpack_from("<H", chunk)[0]):
            first, last, direction = struct.unpack_from("<HHB", chunk, place)
            name, place = _text(chunk, place + 17)
            content.tags.append(Tag(name, first, last, DIRECTIONS[direction]))
    elif kind == PALETTE:
        first, last = struct.unpack_from("<II", chunk, 4)
        place = 20
        for row in range(first, min(last, 255) + 1):
            named, *colour = struct.unpack_from("<H4B", chunk, place)
            content.palette[row] = colour
            place = _text(chunk, place + 6)[1] if named & 1 else place + 6
    elif kind == OLD_PALETTE and not content.palette.any():  # files have the newer form, too, if they are not old
        place, row = 2, 0
        for _ in range(struct.unpack_from("<H", chunk)[0]):
            skipped, colours = chunk[place], chunk[place + 1] or 256
            row += skipped
            values = np.frombuffer(chunk, np.uint8, 3 * colours, place + 2).reshape(-1, 3)
            content.palette[row : row + colours] = np.insert(values, 3, 255, axis=1)[: 256 - row]
            row, place = row + colours, place + 2 + 3 * colours


def _read_cel(content: _Content, chunk: bytes, transparent: int) -> _Cel:
    layer, x, y, opacity, form, z = struct.unpack_from("<HhhBHh", chunk)
    if layer >= len(content.layers):
        raise _BrokenError(f"it has no layer {layer}")
    if form == LINKED:
        return content.cels[struct.unpack_from("<H", chunk, 16)[0]][layer]._replace(opacity=opacity, z=z)
    if form not in (RAW, COMPRESSED):
        raise _BrokenError("it has tilemaps, which are not read")
    width, height = struct.unpack_from("<HH", chunk, 16)
    size = width * height * DEPTHS[content.depth]
    content.pixels += width * height
    if content.pixels > 2 * content.max_pixels:
        raise _BrokenError("its layers are too large together")
    data = chunk[20:] if form == RAW else zlib.decompressobj().decompress(chunk[20:], size)
    values = np.frombuffer(data, np.uint8, size).reshape(height, width, -1)
    if content.depth == 32:
        pixels = values
    elif content.depth == 16:
        pixels = values[..., [0, 0, 0, 1]]
    else:
        palette = content.palette.copy()
        palette[transparent] = 0
        pixels = palette[values[..., 0]]
    return _Cel(layer, x, y, opacity, z, pixels)


def _text(chunk: bytes, place: int) -> tuple[str, int]:
    """A text and the place after it."""
    (length,) = struct.unpack_from("<H", chunk, place)
    end = place + 2 + length
    return chunk[place + 2 : end].decode("utf-8"), end


def _flatten(content: _Content, number: int) -> Pixels:
    """The visible layers of a frame over each other: (H, W, 4)."""
    hidden = _hidden(content.layers)
    canvas = np.zeros((content.height, content.width, 4), np.uint8)
    for cel in sorted(content.cels[number].values(), key=lambda cel: (cel.layer + cel.z, cel.z)):
        layer = content.layers[cel.layer]
        if hidden[cel.layer]:
            continue
        if layer.blend not in BLEND:
            known = ", ".join(name for name, _ in BLEND.values())
            raise _BrokenError(f"layer {layer.name[:80]!r} has a blend mode that is not read ({known} are)")
        height, width = cel.pixels.shape[:2]
        top, left = max(cel.y, 0), max(cel.x, 0)
        inside = canvas[top : max(cel.y + height, 0), left : max(cel.x + width, 0)]
        source = cel.pixels[top - cel.y :, left - cel.x :][: inside.shape[0], : inside.shape[1]]
        inside[:] = _over(inside, source, layer.opacity * cel.opacity / 255**2, BLEND[layer.blend][1])
    return canvas


def _hidden(layers: list[_Layer]) -> list[bool]:
    """Whether a layer, or a group that it is in, is not shown."""
    hidden: list[bool] = []
    above: list[bool] = []  # of the groups that the layer is in
    for layer in layers:
        del above[layer.level :]
        hidden.append(not layer.shown or any(above))
        if layer.is_group:
            above.append(hidden[-1])
    return hidden


def _over(below: Pixels, above: Pixels, opacity: float, blend: Blend) -> Pixels:
    """Pixels (h, w, 4) over others, as the W3C's compositing has it; opaque ones stay as they are."""
    b, s = (pixels.astype(np.float32) / np.float32(255) for pixels in (below, above))
    b_alpha, s_alpha = b[..., 3:], s[..., 3:] * opacity
    mixed = (1 - b_alpha) * s[..., :3] + b_alpha * blend(b[..., :3], s[..., :3])
    alpha = s_alpha + b_alpha * (1 - s_alpha)
    colour = (s_alpha * mixed + (1 - s_alpha) * b_alpha * b[..., :3]) / np.maximum(alpha, 1e-6)
    return np.rint(255 * np.concatenate([np.where(alpha > 0, colour, 0), alpha], -1)).astype(np.uint8)


def aseprite_file(frames: Pixels, durations: list[int], tags: tuple[Tag, ...], layer: str = "Layer 1") -> bytes:
    """The bytes of a file with one layer. frames: (T, H, W, 4); durations in milliseconds."""
    count, height, width, _ = frames.shape
    parts = []
    for number, (frame, duration) in enumerate(zip(frames, durations, strict=True)):
        chunks = [_cel_chunk(frame)]
        if number == 0:
            first = [_chunk(PROFILE, struct.pack("<HHI8x", 1, 0, 0)), _palette_chunk(frames)]
            first.append(_chunk(LAYER, struct.pack("<HHHHHHB3x", VISIBLE | 2, 0, 0, 0, 0, 0, 255) + _packed(layer)))
            if tags:
                first.append(_tags_chunk(tags))
            chunks = first + chunks
        body = b"".join(chunks)
        few = min(len(chunks), 0xFFFF)
        head = struct.pack("<IHHHxxI", FRAME_HEADER + len(body), FRAME, few, duration, len(chunks))
        parts.append(head + body)
    body = b"".join(parts)
    sizes = struct.pack(
        "<IHHHHHIHIIB3xH", HEADER + len(body), FILE, count, width, height, 32, 1, USUAL_DURATION, 0, 0, 0, 0
    )
    return (sizes + struct.pack("<BBhhHH", 1, 1, 0, 0, 16, 16)).ljust(HEADER, b"\0") + body


def _cel_chunk(frame: Pixels) -> bytes:
    """The part of a frame that is not empty."""
    rows, columns = (np.flatnonzero(frame[..., 3].any(axis)) for axis in (1, 0))
    top, left = (int(places[0]) if len(places) else 0 for places in (rows, columns))
    bottom, right = (int(places[-1]) + 1 if len(places) else 1 for places in (rows, columns))
    part = np.ascontiguousarray(frame[top:bottom, left:right])
    place = struct.pack("<HhhBHh5xHH", 0, left, top, 255, COMPRESSED, 0, right - left, bottom - top)
    return _chunk(CEL, place + zlib.compress(part.tobytes()))


def _palette_chunk(frames: Pixels) -> bytes:
    """The opaque colours of all frames, the 256 most frequent ones at most."""
    colours, counts = np.unique(frames[frames[..., 3] == 255], axis=0, return_counts=True)
    colours = colours[np.sort(np.argsort(-counts, kind="stable")[:256])] if len(colours) else np.zeros((1, 4), np.uint8)
    entries = b"".join(struct.pack("<H4B", 0, *colour) for colour in colours.tolist())
    return _chunk(PALETTE, struct.pack("<III8x", len(colours), 0, len(colours) - 1) + entries)


def _tags_chunk(tags: tuple[Tag, ...]) -> bytes:
    entries = [
        struct.pack("<HHBH6x3Bx", tag.first, tag.last, DIRECTIONS.index(tag.direction), 0, 0, 0, 0) + _packed(tag.name)
        for tag in tags
    ]
    return _chunk(TAGS, struct.pack("<H8x", len(tags)) + b"".join(entries))


def _chunk(kind: int, data: bytes) -> bytes:
    return struct.pack("<IH", CHUNK_HEADER + len(data), kind) + data


def _packed(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<H", len(data)) + data
