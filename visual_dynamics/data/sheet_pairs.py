"""Sprite sheets become pairs: anyone's characters as training data, and composed ones beside Reed's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.data.pairs import Between, Pairs, clip_moves
from visual_dynamics.data.sheets import (
    PICTURE_SUFFIXES,
    Sheet,
    is_animation,
    read_aseprite,
    read_cell,
    read_grid,
    read_sheet,
)
from visual_dynamics.errors import UserError
from visual_dynamics.sprites.lpc import CELL
from visual_dynamics.sprites.lpc_sheets import TABLE

COMPOSED_LAYOUT = f"{CELL}x{CELL}"
LAYOUTS = "a size of cells such as 64x64, 'aseprite' or 'frames'"


def holds_composed_characters(path: Path) -> bool:
    """Whether a folder was made by `visual-dynamics prepare lpc`."""
    return (path / TABLE).is_file()


def read_sheets_at(path: Path, layout: str) -> list[Sheet]:
    """The sheets of a file, or of all files in a folder in the order of their names; each is taken for one character.

    layout: the size of cells (every row is an animation), "aseprite" (JSON files, tags are animations), or "frames"
    (a folder of frames, or an animated picture, is one animation; a folder of such, many).
    """
    if not path.exists():
        raise UserError(f"no sprite sheets at {path}")
    if layout == "frames":
        return [read_sheet(each) for each in _animations(path)]
    cell = None if layout == "aseprite" else read_cell(layout)
    suffix = ".json" if cell is None else ".png"
    files = [path] if path.is_file() else sorted(f for f in path.iterdir() if f.suffix.lower() == suffix)
    if not files:
        raise UserError(f"no sprite sheets in {path}: it has no {suffix} files; the layout is {LAYOUTS}")
    return [read_aseprite(f) if cell is None else read_grid(f, cell, rows_are_animations=True) for f in files]


def _animations(path: Path) -> list[Path]:
    """The folders in a folder, or else its pictures if all of them are animated; or the path itself."""
    inside = sorted(path.iterdir()) if path.is_dir() else []
    pictures = [entry for entry in inside if entry.suffix.lower() in (*PICTURE_SUFFIXES, ".apng")]
    folders = [entry for entry in inside if entry.is_dir()]
    return folders or (pictures if all(map(is_animation, pictures)) else []) or [path]


def sheet_pairs(sheets: Sequence[Sheet], between: Between, size: int, background: float) -> Pairs:
    """Pairs of frames within each tag (all frames of a sheet without tags), in the middle of size x size pixels.

    Alpha shows `background`, a grey level in [0, 1]. Pixel art is never scaled: a frame larger than size is an error.
    """
    stores: list[Tensor] = []
    places: list[tuple[int, int]] = []
    count = 0
    for sheet in sheets:
        _, height, width, _ = sheet.frames.shape
        if max(height, width) > size:
            raise UserError(f"frames of {width} x {height} pixels do not fit into the model's {size} x {size}")
        clips = [range(tag.first, tag.last + 1) for tag in sheet.tags] or [range(len(sheet.frames))]
        for clip in clips:
            places += [(count + first, count + second) for first, second in clip_moves(clip, between)]
        stores.append(over_grey(sheet.frames, size, background))
        count += len(sheet.frames)
    if not places:
        raise UserError("the sprite sheets have no two frames of one animation")
    first, second = torch.tensor(places, dtype=torch.int64).unbind(1)
    return Pairs(torch.cat(stores), first, second)


def over_grey(frames: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], size: int, background: float) -> Tensor:
    """RGBA (T, H, W, 4) in the middle of a grey square: uint8 (T, 3, size, size)."""
    count, height, width, _ = frames.shape
    alpha = frames[..., 3:].astype(np.float32) / 255
    level = round(255 * background)
    mixed = np.rint(frames[..., :3] * alpha + level * (1 - alpha)).astype(np.uint8)
    room = np.full((count, size, size, 3), level, np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    room[:, top : top + height, left : left + width] = mixed
    return torch.from_numpy(room).permute(0, 3, 1, 2).contiguous()
