"""Sheets of the LPC generator as sheets whose tags are its animations: a folder or ZIP of them, or a universal one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from visual_dynamics.data.aseprite import USUAL_DURATION, Tag
from visual_dynamics.data.sheets import Sheet, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, open_image
from visual_dynamics.sprites.character_files import CLASSIC_ROWS, EXPORTED, read_character
from visual_dynamics.sprites.characters import COLUMNS
from visual_dynamics.sprites.generator import ANIMATIONS, CELL

NAMES = frozenset(ANIMATIONS) | frozenset(EXPORTED.values())  # of the generator's files


def read_named(path: Path, cell: tuple[int, int] | None, rows_are_animations: bool) -> tuple[Sheet, tuple[str, ...]]:
    """Any sheet, as `read_sheet` has it, or one of the generator; and what of it was not read, a line each."""
    if cell is not None or not _is_of_generator(path):
        return read_sheet(path, cell, rows_are_animations), ()
    character = read_character(path)
    clips = [(f"{animation} {view}", frames) for (animation, view), frames in character.clips.items()]
    return sheet_of(clips), character.remarks


def sheet_of(animations: Sequence[tuple[str, Pixels]]) -> Sheet:
    """Animations by name, one after the other; without those in which nothing is visible."""
    there = [(name, frames) for name, frames in animations if frames[..., 3].any()]
    ends = np.cumsum([0, *(len(frames) for _, frames in there)]).tolist()
    tags = tuple(Tag(name, first, end - 1) for (name, _), first, end in zip(there, ends, ends[1:], strict=False))
    return Sheet(np.concatenate([frames for _, frames in there]), np.full(ends[-1], USUAL_DURATION), tags)


def _is_of_generator(path: Path) -> bool:
    if path.is_dir():
        return (path / "standard").is_dir() or any((path / f"{name}.png").is_file() for name in NAMES)
    if path.suffix.lower() != ".png":
        return path.suffix.lower() == ".zip"
    try:
        with open_image(path, formats=["PNG"]) as image:  # reads the header only
            width, height = image.size
            return width == COLUMNS * CELL and height >= CLASSIC_ROWS * CELL and height % CELL == 0
    except UserError:
        return False  # the error is raised when it is read whole
