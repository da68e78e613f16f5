"""A contact sheet of a criticism: every frame with its number, those with a fault framed and named."""

from __future__ import annotations

import numpy as np

from visual_dynamics.data.sheets import Sheet
from visual_dynamics.images import Pixels
from visual_dynamics.media import check_area, enlarge, picture_grid
from visual_dynamics.sprites.critic import Criticism

COLUMNS = 13  # frames side by side, at most
PAPER, BEHIND, MARK = (235, 235, 235), (150, 150, 150), (220, 0, 140)  # BEHIND sprites dark and light outlines show
BORDER = 3  # pixels
NARROWEST = 96  # pixels of a tile: a label of a dozen letters


def draw_contact(sheet: Sheet, criticism: Criticism, scale: int) -> Pixels:
    """(H, W, 3): a row or more for each animation; frames of none come last."""
    check_area(len(sheet.frames), max(*sheet.frames.shape[1:3], -(-NARROWEST // scale)), scale)
    marked = criticism.marked()
    rows = _rows(sheet, criticism)
    columns = max(len(frames) for _, frames in rows)
    blank = np.full((1, 1, 3), PAPER, np.uint8)
    tiles: list[Pixels] = []
    labels: list[str] = []
    for name, frames in rows:
        for place, frame in enumerate(frames):
            checks = marked.get(frame, [])
            tiles.append(_tile(sheet.frames[frame], scale, bool(checks)))
            words = [name if place == 0 else "", str(frame), *checks]
            labels.append(" ".join(filter(None, words)).encode("ascii", "replace").decode())
        tiles += [blank] * (columns - len(frames))
        labels += [""] * (columns - len(frames))
    return picture_grid(tiles, columns, background=PAPER, labels=labels)


def _rows(sheet: Sheet, criticism: Criticism) -> list[tuple[str, list[int]]]:
    """Names of animations, each once, and frames of a row."""
    rest = set(range(len(sheet.frames)))
    animations = [(one.tag.name, list(range(one.tag.first, one.tag.last + 1))) for one in criticism.animations]
    rest -= {frame for _, frames in animations for frame in frames}
    animations += [("no tag", sorted(rest))] if rest else []
    return [
        (name if start == 0 else "", frames[start : start + COLUMNS])
        for name, frames in animations
        for start in range(0, len(frames), COLUMNS)
    ]


def _tile(frame: Pixels, scale: int, marked: bool) -> Pixels:
    """(H, W, 4) -> a picture on grey, enlarged, with a border."""
    alpha = frame[..., 3:].astype(np.float32) / 255
    shown = np.rint(frame[..., :3] * alpha + np.array(BEHIND) * (1 - alpha)).astype(np.uint8)
    large = enlarge(shown, scale)
    tile = np.full((large.shape[0] + 2 * BORDER, max(large.shape[1] + 2 * BORDER, NARROWEST), 3), PAPER, np.uint8)
    left = (tile.shape[1] - large.shape[1]) // 2
    if marked:
        tile[:, left - BORDER : left + large.shape[1] + BORDER] = MARK
    tile[BORDER:-BORDER, left : left + large.shape[1]] = large
    return tile
