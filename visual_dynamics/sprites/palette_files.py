"""Palettes as artists keep them: GIMP's .gpl, .hex lists, and pictures, whose visible colours count."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, read_picture
from visual_dynamics.sampling.palette import palette_of

MAX_BYTES = 2**20
_GPL_LINE = re.compile(r"\s*(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})(?:\s.*)?")
_HEX_LINE = re.compile(r"#?([0-9a-fA-F]{6})")


def read_palette(path: Path) -> Pixels:
    """The colours of a file, sorted: (P, 3)."""
    if path.suffix.lower() not in (".gpl", ".hex"):
        return palette_of(read_picture(path).rgba[None])
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    lines = [line.strip() for line in text.splitlines()]
    if path.suffix.lower() == ".gpl":
        found = [[int(part) for part in match.groups()] for line in lines if (match := _GPL_LINE.fullmatch(line))]
    else:
        found = [list(bytes.fromhex(match[1])) for line in lines if (match := _HEX_LINE.fullmatch(line))]
    if not found or max(map(max, found)) > 255:
        raise UserError(f"cannot read {path} as a palette: it holds no colours, or some above 255")
    return np.unique(np.array(found, np.uint8), axis=0)
