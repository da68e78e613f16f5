"""Sprites with alpha as files for game tools: a sheet with Aseprite's JSON, and clips as GIF, WebP or APNG.

Letters in shape comments: T frames, H, W height and width of a frame in pixels, P colours; arrays are uint8 RGBA.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import GifImagePlugin, Image

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically, write_together
from visual_dynamics.images import LIMITS_TOLD, MAX_PIXELS, MAX_SIDE, Pixels
from visual_dynamics.media import GIF_SHORTEST, animated, saved
from visual_dynamics.provenance import package_version

CLIP_SUFFIXES = (".gif", ".webp", ".png", ".apng")
GIF_OPAQUE = 128  # alpha from which a pixel is there: GIF knows no half-transparent ones
GIF_COLORS = 255  # of a frame, beside the transparent one
TAG_COLOR = "#000000ff"  # Aseprite's own for a new tag

SheetForm = Literal["array", "hash"]


def write_sheet(path: str | Path, sheet: Sheet, form: SheetForm = "array", names: str = "{title} {frame}.png") -> None:
    """NAME.png and NAME.json, for a path NAME with or without one of these suffixes; both are written or neither."""
    path = Path(path)
    title = path.stem if path.suffix.lower() in (".png", ".json") else path.name
    write_together(path.parent, sheet_files(title, sheet, form, names))


def sheet_files(
    title: str, sheet: Sheet, form: SheetForm = "array", names: str = "{title} {frame}.png"
) -> dict[str, bytes]:
    """File name -> content of a sheet and its JSON, as `aseprite --format json-array (json-hash) --list-tags` has them.

    `names` are the names of the frames in the JSON; Phaser, for one, wants "{frame}". Frames are neither trimmed nor
    merged. Where the tags follow one another from the first frame to the last, each begins a new row of the sheet.
    """
    count, height, width, _ = sheet.frames.shape
    rows = _rows(sheet)
    columns = max(len(row) for row in rows)
    if max(columns * width, len(rows) * height) > MAX_SIDE or columns * width * len(rows) * height > MAX_PIXELS:
        size = f"{columns * width} x {len(rows) * height} pixels"
        raise UserError(f"a sheet of {count:,} frames, {size}, is too large ({LIMITS_TOLD})")
    picture = np.zeros((len(rows) * height, columns * width, 4), np.uint8)
    places = {frame: (row, column) for row, frames in enumerate(rows) for column, frame in enumerate(frames)}
    entries: dict[str, dict[str, Any]] = {}
    for frame, (row, column) in places.items():
        x, y = column * width, row * height
        picture[y : y + height, x : x + width] = sheet.frames[frame]
        entries[names.replace("{title}", title).replace("{frame}", str(frame))] = {
            "frame": {"x": x, "y": y, "w": width, "h": height},
            "rotated": False,
            "trimmed": False,
            "spriteSourceSize": {"x": 0, "y": 0, "w": width, "h": height},
            "sourceSize": {"w": width, "h": height},
            "duration": int(sheet.durations[frame]),
        }
    if len(entries) < count:
        raise UserError(f"the frames of a sheet need different names: put {{frame}} into {names!r}")
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
    listed = entries if form == "hash" else [{"filename": name, **entry} for name, entry in entries.items()]
    text = json.dumps({"frames": listed, "meta": meta}, indent=1) + "\n"
    return {f"{title}.png": saved(Image.fromarray(picture), "PNG"), f"{title}.json": text.encode()}


def _rows(sheet: Sheet) -> list[list[int]]:
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


def write_sprite_clip(path: str | Path, sheet: Sheet, tag: Tag | None = None, loop: bool = True) -> None:
    """The animation as a file: GIF, WebP or APNG (.png, .apng), by the path's suffix."""
    path = Path(path)
    write_atomically(path, encode_sprite_clip(sheet, path.suffix, tag, loop))


def encode_sprite_clip(sheet: Sheet, suffix: str, tag: Tag | None = None, loop: bool = True) -> bytes:
    """All frames, or those of a tag in its direction, once round; `loop`: for ever, or once.

    WebP and APNG keep alpha and visible colours exactly. In a GIF a pixel is there from half alpha on, frames last
    whole hundredths of a second, at least 2, and more than 255 colours become 255. WebP and APNG may store equal
    neighbouring frames as one frame shown longer.
    """
    suffix = suffix.lower()
    if suffix not in CLIP_SUFFIXES:
        known = ", ".join(CLIP_SUFFIXES)
        raise UserError(f"cannot write a sprite as {suffix or 'a file without a suffix'}: choose one of {known}")
    order = list(range(len(sheet.frames))) if tag is None else tag.order
    frames, durations = sheet.frames[order], sheet.durations[order]
    if suffix == ".gif":
        return _gif(frames, durations, loop)
    clean = np.where(frames[..., 3:] > 0, frames, np.uint8(0))  # what nobody sees need not be stored
    images = [Image.fromarray(frame) for frame in clean]
    count = 0 if loop else 1
    if suffix == ".webp":
        return _with_alpha_flag(animated(images, "WEBP", durations.tolist(), loop=count, lossless=True, exact=True))
    return animated(images, "PNG", durations.tolist(), loop=count)


def _with_alpha_flag(webp: bytes) -> bytes:
    """An animated WebP whose header says that there is alpha.

    The writer crops frames and says so only if what is left has alpha: a solid box would move over black.
    """
    flags, alpha = 20, 0x10  # a byte of the VP8X chunk, with which an animation begins; a bit of it
    if webp[12:16] != b"VP8X":
        return webp
    return webp[:flags] + bytes([webp[flags] | alpha]) + webp[flags + 1 :]


def _gif(frames: Pixels, durations: npt.NDArray[np.int64], loop: bool) -> bytes:
    """Frame after frame, each whole and with its own palette.

    Pillow's writer of clips takes opaque black for transparent, and stumbles over a frame without a visible pixel.
    """
    ends = np.rint(np.cumsum(durations) / 10).astype(int)  # hundredths of a second: rounding errors never add up
    hundredths = np.maximum(np.diff(ends, prepend=0), GIF_SHORTEST)
    _, height, width, _ = frames.shape
    parts = [b"GIF89a", struct.pack("<HHBBB", width, height, 0x70, 0, 0)]  # 8 bits a channel, no palette for all
    if loop:
        parts.append(b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")  # 0 rounds: for ever
    for frame, time in zip(_with_few_colors(frames), hundredths, strict=True):
        # Disposal 2 clears a frame before the next one is drawn; else it would show through its transparent pixels.
        options = {"transparency": 0, "disposal": 2, "duration": 10 * int(time), "include_color_table": 1}
        parts.extend(GifImagePlugin.getdata(_with_palette(frame), (0, 0), **options))
    return b"".join([*parts, b";"])


def _with_few_colors(frames: Pixels) -> Pixels:
    """(T, H, W, 4) -> the same, or where a frame has too many colours all frames in 255, so that nothing flickers."""
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
