"""A folder of results: pictures, grids and clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from visual_dynamics.api import Frames
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_together
from visual_dynamics.media import MAX_AREA, check_area, encode_animation, encode_png, enlarge, picture_grid

GRID_COLUMNS, WALL_COLUMNS = 5, 4  # at least; many pictures make a square
GREY = (222, 222, 222)  # between pictures, which are often white


class ResultFolder:
    """Collects files, and writes them at the end of a `with` block: all of them, or after an error none.

    Refuses a folder that holds other files, unless `overwrite` is given.
    """

    def __init__(self, path: Path, overwrite: bool) -> None:
        check_folder(path)
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise UserError(f"{path} is not empty: give --overwrite, or another folder with --out")
        self.path = path
        self._files: dict[str, bytes] = {}

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            write_together(self.path, self._files)

    def write(self, name: str, data: bytes) -> None:
        self._files[name] = data

    def write_text(self, name: str, text: str) -> Path:
        self.write(name, text.encode())
        return self.path / name

    def write_picture(self, name: str, picture: Frames) -> None:
        self.write(name, encode_png(picture))

    def write_grid(
        self,
        name: str,
        pictures: Sequence[Frames] | Frames,
        labels: Sequence[str],
        scale: int,
        columns: int | None = None,
    ) -> None:
        check_area(len(pictures), max(pictures[0].shape[:2]), scale)
        columns = columns or _columns(len(pictures), GRID_COLUMNS)
        self.write_picture(name, picture_grid(pictures, columns, scale, background=GREY, labels=labels))

    def write_clips(
        self, stem: str, frames: Sequence[Frames] | Frames, scale: int, kinds: Sequence[str], fps: float
    ) -> None:
        """One clip (T, H, W, 3) in each of the kinds."""
        for kind in dict.fromkeys(kinds):
            self.write(f"{stem}.{kind}", encode_animation(enlarge(np.stack(list(frames)), scale), fps, f".{kind}"))

    def write_wall(
        self, stem: str, still: Frames, futures: Sequence[Frames] | Frames, scale: int, kinds: Sequence[str]
    ) -> None:
        """A clip of futures side by side, each in turn with the frame that all of them start from."""
        columns = _columns(len(futures), WALL_COLUMNS)
        before, after = (
            picture_grid(pictures, columns, scale, background=GREY) for pictures in ([still] * len(futures), futures)
        )
        self.write_clips(stem, [before, after], 1, kinds, fps=2)


def largest_side(count: int) -> int:
    """The longer side of `count` pictures that fit into a grid or clip."""
    return math.isqrt(MAX_AREA // count)


def _columns(count: int, least: int) -> int:
    return min(count, max(least, math.ceil(math.sqrt(count))))
