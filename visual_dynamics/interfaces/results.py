"""A folder of results: pictures, grids and clips that people can look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from visual_dynamics.api import Frames
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.interfaces.media import enlarge, picture_grid, write_animation, write_png


class ResultFolder:
    """Refuses to mix its files with others'; makes the folder when the first file is written."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file; results need a folder")
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise UserError(f"{path} is not empty: give --overwrite, or another folder with --out")
        self.path = path

    def write_text(self, name: str, text: str) -> Path:
        write_atomically(self.path / name, text.encode())
        return self.path / name

    def write_picture(self, name: str, picture: Frames) -> None:
        write_png(self.path / name, picture)

    def write_pictures(self, stem: str, pictures: Sequence[Frames] | Frames) -> None:
        for number, picture in enumerate(pictures):
            self.write_picture(f"{stem}_{number:03d}.png", picture)

    def write_grid(self, name: str, pictures: Sequence[Frames], labels: Sequence[str], scale: int) -> None:
        self.write_picture(name, picture_grid(pictures, columns=5, scale=scale, labels=labels))

    def write_clips(
        self, stem: str, frames: Sequence[Frames] | Frames, scale: int, kinds: Sequence[str], fps: float
    ) -> None:
        """One clip (T, H, W, 3) in each of the kinds."""
        for kind in kinds:
            write_animation(self.path / f"{stem}.{kind}", enlarge(np.stack(list(frames)), scale), fps)

    def write_wall(self, stem: str, still: Frames, futures: Frames, scale: int, kinds: Sequence[str]) -> None:
        """A wall of futures that all start from the same frame and move in step."""
        columns = min(4, len(futures))
        before = picture_grid([still] * len(futures), columns, scale)
        self.write_clips(stem, [before, picture_grid(list(futures), columns, scale)], 1, kinds, fps=2)
