"""Whole characters: clips by animation and side, and how they stand in the sheets of the LPC generator.

T frames, H, W their height and width in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from visual_dynamics.images import Pixels
from visual_dynamics.sprites.generator import ANIMATIONS, CELL, views_of

Key = tuple[str, str]  # animation, view
Clips = Mapping[Key, Pixels]  # of (T, H, W, 4), uint8, colours not multiplied by alpha

COLUMNS = 13  # cells side by side in a universal sheet
ROWS = dict(zip(ANIMATIONS, accumulate((views for _, views in ANIMATIONS.values()), initial=0), strict=False))
ALL_ROWS = sum(views for _, views in ANIMATIONS.values())  # 54; cells of other sizes may follow


@dataclass(frozen=True, eq=False)
class Character:
    """What is known of a character. `credits`: animation -> who made it; "" -> who made all of it."""

    name: str
    clips: Clips
    written: Callable[[Clips], dict[str, bytes]] = lambda made: {}  # clips that it lacks -> files of its own layout
    files: Mapping[str, bytes] = field(default_factory=dict)  # that stay as they are
    unread: frozenset[str] = frozenset()  # animations that it has, but in a form that cannot be used
    credits: Mapping[str, str] = field(default_factory=dict)
    body: str = ""  # one of BODY_TYPES, where it says so itself
    remarks: tuple[str, ...] = ()  # what was not read, and why

    @property
    def animations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(animation for animation, _ in self.clips))

    def credits_for(self, animations: Collection[str]) -> str:
        """Each line once."""
        texts = [text for name, text in self.credits.items() if not name or name in animations]
        return "\n".join(dict.fromkeys(line for text in texts for line in text.splitlines()))


def cut_sheet(animation: str, picture: Pixels) -> dict[Key, Pixels]:
    """The cells of a sheet, or of the rows of a universal one that belong to the animation."""
    frames, views = ANIMATIONS[animation]
    cells = picture[: CELL * views, : CELL * frames].reshape(views, CELL, frames, CELL, 4).swapaxes(1, 2)
    return {(animation, view): np.ascontiguousarray(row) for view, row in zip(views_of(animation), cells, strict=True)}


def lay_sheet(animation: str, clips: Clips, width: int) -> Pixels:
    """`cut_sheet` undone; rows of views that there are no clips of stay empty."""
    views = views_of(animation)
    sheet = np.zeros((len(views), CELL, width, 4), np.uint8)
    for row, view in zip(sheet, views, strict=True):
        if (animation, view) in clips:
            strip = np.concatenate(list(clips[animation, view]), axis=1)
            row[:, : strip.shape[1]] = strip
    return sheet.reshape(-1, width, 4)
