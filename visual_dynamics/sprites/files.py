"""Sprites with alpha as files for game tools: a sheet with Aseprite's JSON, and clips as GIF, WebP or APNG.

T frames, H, W height and width of a frame in pixels; arrays are uint8 RGBA.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import GifImagePlugin, Image

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.errors import UserError
from visual_dynamics.images import MAX_PIXELS, MAX_SIDE, SIZE_LIMITS, Pixels
from visual_dynamics.media import GIF_SHORTEST, animated, saved
from visual_dynamics.provenance import package_version

CLIP_SUFFIXES = (".gif", ".webp", ".png", ".apng")
GIF_OPAQUE = 128  # alpha from which a pixel is there: GIF has no half-transparent ones
GIF_COLORS = 255  # of a frame, beside the transparent one
TAG_COLOR = "#000000ff"  # Aseprite's own for a new tag


def sheet_files(title: str, sheet: Sheet) -> dict[str, bytes]:
    """File name -> content of a sheet and its JSON, as `aseprite --format json-array --list-tags` writes them.

    Frames are neither trimmed nor merged. If the tags follow one another from the first frame to the last, each begins
    a new row of the sheet.
    """
    count, height, width, _ = sheet.frames.shape
    rows = sheet_rows(sheet)
    columns = max(len(row) for row in rows)
    if max(columns * width, len(rows) * height) > MAX_SIDE or columns * width * len(rows) * height > MAX_PIXELS:
        size = f"{columns * width} x {len(rows) * height} pixels"
        raise UserError(f"a sheet of {count:,} frames, {size}, is too large ({SIZE_LIMITS})")
    picture = np.zeros((len(rows) * height, columns * width, 4), np.uint8)
    places = {frame: (row, column) for row, frames in enumerate(rows) for column, frame in enumerate(frames)}
    entries: list[dict[str, Any]] = []
    for frame, (row, column) in places.items():
        x, y = column * width, row * height
        picture[y : y + height, x : x + width] = sheet.frames[frame]
        entry = {
            "filename": f"{title} {frame}.png",
            "frame": {"x": x, "y": y, "w": width, "h": height},
            "rotated": False,
            "trimmed": False,
            "spriteSourceSize": {"x": 0, "y": 0, "w": width, "h": height},
            "sourceSize": {"w": width, "h": height},
            "duration": int(sheet.durations[frame]),
        }
        entries.append(entry)
    meta = {
        "app": "visual-dynamics",
        "version": package_version(),
        "image": f"{title}.png",
        "format": "RGBA8888",
        "size": {"w": columns * width, "h": len(rows) * height},
        "scale": "1",
        "frameTags": [
            {"name": tag.name, "from": tag.first, "to": tag.last, "direction": tag.direction, "color": TAG_COLOR}
            for tag in sheet.tags
        ],
    }
    text = json.dumps({"frames": entries, "meta": meta}, indent=1) + "\n"
    return {f"{title}.png": saved(Image.fromarray(picture), "PNG"), f"{title}.json": text.encode()}


def sheet_rows(sheet: Sheet) -> list[list[int]]:
    """The frames of each row of the sheet, in order: a row or more for each tag, else about a square."""
    count, width = len(sheet.frames), sheet.frames.shape[2]
    ends = [0, *(tag.last + 1 for tag in sheet.tags)]
    one_after_another = ends[-1] == count and all(tag.first == end for tag, end in zip(sheet.tags, ends, strict=False))
    if not one_after_another:
        ends = [0, count]
    longest = max(end - start for start, end in pairwise(ends))
    columns = longest if one_after_another else math.ceil(math.sqrt(count))
    columns = max(1, min(columns, MAX_SIDE // width))
    return [
        list(range(first, min(first + columns, end)))
        for start, end in pairwise(ends)
        for first in range(start, end, columns)
    ]


def encode_sprite_clip(sheet: Sheet, suffix: str, tag: Tag | None = None) -> bytes:
    """All frames, or those of a tag in its direction, as a clip that repeats for ever.

    WebP and APNG keep alpha and visible colours exactly; equal neighbouring frames may become one, shown longer. In a
    GIF a pixel is there from half alpha on, frames last whole hundredths of a second, at least 2, and more than 255
    colours become 255.
    """
    suffix = suffix.lower()
    if suffix not in CLIP_SUFFIXES:
        known = ", ".join(CLIP_SUFFIXES)
        raise UserError(f"cannot write a sprite as {suffix or 'a file without a suffix'}: choose one of {known}")
    order = list(range(len(sheet.frames))) if tag is None else tag.order
    frames, durations = sheet.frames[order], sheet.durations[order]
    if suffix == ".gif":
        return _gif(frames, durations)
    clean = np.where(frames[..., 3:] > 0, frames, np.uint8(0))  # colours that nobody sees are not stored
    images = [Image.fromarray(frame) for frame in clean]
    if suffix == ".webp":
        return _with_alpha_flag(animated(images, "WEBP", durations.tolist(), loop=0, lossless=True, exact=True))
    return animated(images, "PNG", durations.tolist(), loop=0)


def _with_alpha_flag(webp: bytes) -> bytes:
    """An animated WebP whose header says that there is alpha.

    The writer crops frames, and says so only if a cropped one has alpha: a solid box would move over black.
    """
    flags, alpha = 20, 0x10  # a byte of the VP8X chunk, with which an animation begins; a bit of it
    if webp[12:16] != b"VP8X":
        return webp
    return webp[:flags] + bytes([webp[flags] | alpha]) + webp[flags + 1 :]


def _gif(frames: Pixels, durations: npt.NDArray[np.int64]) -> bytes:
    """Frame after frame, each whole and with its own palette.

    Pillow's own writer of clips makes opaque black transparent, and fails on a frame without a visible pixel.
    """
    ends = np.rint(np.cumsum(durations) / 10).astype(int)  # hundredths of a second: rounding errors never add up
    hundredths = np.maximum(np.diff(ends, prepend=0), GIF_SHORTEST)
    _, height, width, _ = frames.shape
    parts = [b"GIF89a", struct.pack("<HHBBB", width, height, 0x70, 0, 0)]  # 8 bits a channel, no palette for all
    parts.append(b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")  # 0 rounds: for ever
    for frame, time in zip(_with_few_colors(frames), hundredths, strict=True):
        # Disposal 2 clears a frame before the next one is drawn; else it would show through its transparent pixels.
        options = {"transparency": 0, "disposal": 2, "duration": 10 * int(time), "include_color_table": 1}
        parts.extend(GifImagePlugin.getdata(_with_palette(frame), (0, 0), **options))
    return b"".join([*parts, b";"])


def _with_few_colors(frames: Pixels) -> Pixels:
    """(T, H, W, 4) -> the same; if a frame has too many colours, all frames in the same 255: none flickers."""
    visible = frames[..., 3] >= GIF_OPAQUE  # (T, H, W)
    counts = [len(np.unique(frame[there], axis=0)) for frame, there in zip(frames[..., :3], visible, strict=True)]
    if max(counts) <= GIF_COLORS:
        return frames
    pixels = Image.fromarray(frames[visible][None, :, :3])  # (1, N, 3): in one row
    pixels = pixels.quantize(GIF_COLORS, Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)
    reduced = frames.copy()
    reduced[visible, :3] = np.asarray(pixels.convert("RGB"))[0]
    return reduced


def _with_palette(frame: Pixels) -> Image.Image:
    """(H, W, 4) as a picture with a palette whose entry 0 is transparent."""
    visible = frame[..., 3] >= GIF_OPAQUE
    colors, numbers = np.unique(frame[visible][:, :3], axis=0, return_inverse=True)
    indices = np.zeros(visible.shape, np.uint8)
    indices[visible] = numbers.ravel() + 1
    image = Image.fromarray(indices)
    image.putpalette(bytes(3) + colors.tobytes())
    return image
