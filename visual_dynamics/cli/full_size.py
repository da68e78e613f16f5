"""The results of `sample` and `extrapolate` at the size of the picture: written one by one, with a bar to watch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from visual_dynamics.api import Frames, Model, Source
from visual_dynamics.cli.options import counted
from visual_dynamics.cli.output import MAX_PIXELS, ResultFolder
from visual_dynamics.images import shrink

OVERVIEW_SIDE = 480  # pixels of the longer side of pictures in grids and walls
CLIP_SIDE = 1920  # and in clips: more, few players play


def write_futures(
    folder: ResultFolder, model: Model, image: Path, count: int, seed: int, source: Source | None, kinds: Sequence[str]
) -> None:
    """The input and `count` futures as they are; a grid and a wall of small copies."""
    side = _side(count + 1, OVERVIEW_SIDE)
    still = model.picture(image, full_size=True)
    folder.write_picture("input.png", still)
    small = []
    with _watched(model.full_size_futures(image, count, seed, source), count, "future") as futures:
        for number, future in enumerate(futures):
            folder.write_picture(f"future_{number:03d}.png", future)
            small.append(shrink(future, side))
    still = shrink(still, side)
    folder.write_grid("futures.png", [still, *small], ["input", *(f"future {k}" for k in range(count))], 1)
    folder.write_wall("futures", still, small, 1, kinds)


def write_clip(
    folder: ResultFolder, model: Model, image: Path, steps: int, seed: int, source: Source | None, kinds: Sequence[str]
) -> None:
    """The image and the steps that follow as they are; clips, which may be smaller, and a grid of small copies."""
    clip = []
    with _watched(model.full_size_clip(image, steps, seed, source), steps + 1, "frame") as frames:
        for number, frame in enumerate(frames):
            folder.write_picture(f"frame_{number:03d}.png", frame)
            clip.append(shrink(frame, _side(steps + 1, CLIP_SIDE)))
    small = [shrink(frame, _side(steps + 1, OVERVIEW_SIDE)) for frame in clip]
    folder.write_grid("clip.png", small, [f"step {k}" for k in range(steps + 1)], 1)
    folder.write_clips("clip", clip, 1, kinds, fps=6)


def _side(count: int, longest: int) -> int:
    """The longer side of so many pictures that may be held, and looked at, together."""
    return min(longest, math.isqrt(MAX_PIXELS // count))


@contextmanager
def _watched(pictures: Iterator[Frames], count: int, noun: str) -> Iterator[Iterator[Frames]]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        yield iter(bar.track(pictures, total=count, description=f"{counted(count, noun)} at full size"))
