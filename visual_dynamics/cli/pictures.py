"""Verbs that make pictures of an image: sample, analogy, extrapolate, traverse. And the folder that pictures go to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visual_dynamics.cli.options import (
    OUT,
    ForceOption,
    ImageArgument,
    ModelOption,
    OutOption,
    OverwriteOption,
    ScaleOption,
    SeedOption,
    busy,
    counted,
    load_model_for,
    progress_bar,
    track,
)
from visual_dynamics.cli.results import Result, note
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_together

if TYPE_CHECKING:
    from visual_dynamics.api import AnySource, Frames, Model, PokeLike
    from visual_dynamics.sampling.canvas import Canvas
    from visual_dynamics.sampling.poke import PokedCodes

MAX_FUTURES, MAX_STEPS, MAX_DIMENSIONS = 1_000, 1_000, 100  # the Python API makes more
OVERVIEW_SIDE = 480  # pixels of the longer side in grids and walls at full size
CLIP_SIDE = 1920  # and in clips: few players play more
GRID_COLUMNS, WALL_COLUMNS = 5, 4  # at least; many pictures make a square
GREY = (222, 222, 222)  # between pictures, which are often white


class LatentChoice(StrEnum):
    conditional = "conditional"
    posteriors = "posteriors"
    learned = "learned"
    prior = "prior"


class ClipKind(StrEnum):
    gif = "gif"
    webp = "webp"
    apng = "apng"
    mp4 = "mp4"


ClipOption = Annotated[list[ClipKind], typer.Option("--clip", help="Kind of animation to write; may be repeated.")]
SourceOption = Annotated[
    LatentChoice | None,
    typer.Option(
        "--source",
        "--latents",
        help="Where z comes from: p(z | image), training posteriors, a mixture fitted to them, or N(0, I).",
        show_default="the first that the model holds",
    ),
]
GuidanceOption = Annotated[
    float | None,
    typer.Option(help="Of p(z | image): 0 looks at no image, 1 is as learned, more exaggerates the image."),
]
FullSizeOption = Annotated[
    bool,
    typer.Option("--full-size", help="Results as large as IMAGE: its own pixels, moved; --scale does not apply."),
]
CODES, MAX_CODES = 2_000, 100_000  # CODES: as in sampling/poke.py, which imports torch
CodesOption = Annotated[int, typer.Option(min=1, max=MAX_CODES, help="Codes that --poke chooses from.")]
PokeOption = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y:DX,DY", help="Only futures in which what is at X, Y goes by DX, DY: pixels of IMAGE, y down."
    ),
]
MODEL, CLIPS = "shapes", [ClipKind.gif]


def sample(
    image: ImageArgument,
    model: ModelOption = MODEL,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=MAX_FUTURES, help="Number of futures.")] = 8,
    seed: SeedOption = 0,
    source: SourceOption = None,
    guidance: GuidanceOption = None,
    out: OutOption = OUT / "sample",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    full_size: FullSizeOption = False,
    poke: PokeOption = None,
    codes: CodesOption = CODES,
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
) -> Result:
    """Sample plausible next frames of an image."""
    from visual_dynamics.images import shrink

    wanted = parse_poke(poke) if poke else None
    if guidance is not None and source not in (None, LatentChoice.conditional):
        raise UserError(f"--guidance is for --source conditional, not {source}")
    with ResultFolder(out, overwrite) as folder:
        loaded, (canvas,) = load_model_for(model, [image], force)
        side, scale = shown_size(canvas, count + 1, scale, full_size, OVERVIEW_SIDE)
        still, small = canvas.still(full_size), []
        folder.write_picture("input.png", canvas.with_alpha(still))
        latents: AnySource | None = source.value if source else None
        if guidance is not None:
            latents = loaded.guided(guidance)
        if wanted:
            latents = poked(loaded, canvas, wanted, seed, latents, codes)
        futures = loaded.each_sample(canvas, count, seed, latents, full_size)
        for number, future in enumerate(track(futures, count, f"sampling {counted(count, 'future')}")):
            folder.write_picture(f"future_{number:03d}.png", canvas.with_alpha(future))
            small.append(shrink(future, side))
        still = shrink(still, side)
        folder.write_grid("futures.png", [still, *small], ["input", *(f"future {k}" for k in range(count))], scale)
        folder.write_wall("futures", still, small, scale, clip)
    return folder.result(f"{counted(count, 'future')} of {image} in", "futures.png", seed=seed)


def parse_poke(text: str) -> PokeLike:
    """ "30,40:0,5" -> ((30.0, 40.0), (0.0, 5.0))."""
    try:
        (x, y), (dx, dy) = (map(float, part.split(",")) for part in text.split(":"))
    except ValueError:
        raise UserError(f"a poke is x,y:dx,dy, such as 30,40:0,5; not {text}") from None
    return (x, y), (dx, dy)


def poked(model: Model, canvas: Canvas, poke: PokeLike, seed: int, source: AnySource | None, codes: int) -> PokedCodes:
    """The codes that fit a poke, with a progress bar, and a line on how many they are."""
    with progress_bar("trying codes") as progress:
        found = model.poke(canvas, poke, seed, source, codes, progress)
    kernel = f"a kernel of {found.width:g} px of the model's frame"
    note(f"poked: {found.effective:.0f} of {codes:,} codes fit, with {kernel}")
    return found


def analogy(
    before: Annotated[Path, typer.Argument(help="A frame of the motion to carry over.")],
    after: Annotated[Path, typer.Argument(help="The next frame of it.")],
    image: ImageArgument,
    model: ModelOption = MODEL,
    out: OutOption = OUT / "analogy",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
) -> Result:
    """Carry the motion between two frames over to another image."""
    with ResultFolder(out, overwrite) as folder, busy("carrying the motion over"):
        loaded, (first, second, canvas) = load_model_for(model, [before, after, image], force)
        moved = loaded.apply(canvas, loaded.encode(first, second))
        folder.write_picture("result.png", canvas.with_alpha(moved))
        pictures = [first.still(), second.still(), canvas.still(), moved]
        folder.write_grid("analogy.png", pictures, ["before", "after", "input", "result"], scale)
        folder.write_clips("analogy", [canvas.still(), moved], scale, clip, fps=2)
    return folder.result(f"the motion from {before} to {after} on {image} in", "analogy.png")


def extrapolate(
    image: ImageArgument,
    model: ModelOption = MODEL,
    steps: Annotated[int, typer.Option(min=1, max=MAX_STEPS, help="Frames to add.")] = 8,
    seed: SeedOption = 0,
    source: SourceOption = None,
    out: OutOption = OUT / "extrapolate",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    full_size: FullSizeOption = False,
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
) -> Result:
    """Make a clip from one image by repeating a sampled motion."""
    from visual_dynamics.images import shrink

    with ResultFolder(out, overwrite) as folder:
        loaded, (canvas,) = load_model_for(model, [image], force)
        side, scale = shown_size(canvas, steps + 1, scale, full_size, CLIP_SIDE)
        frames = []
        made = loaded.each_step(canvas, steps, seed, source.value if source else None, full_size)
        for number, frame in enumerate(track(made, steps + 1, f"making {counted(steps, 'step')}")):
            folder.write_picture(f"frame_{number:03d}.png", canvas.with_alpha(frame))
            frames.append(shrink(frame, side))
        side, scale = shown_size(canvas, steps + 1, scale, full_size, OVERVIEW_SIDE)
        small = [shrink(frame, side) for frame in frames]
        folder.write_grid("clip.png", small, [f"step {k}" for k in range(steps + 1)], scale)
        folder.write_clips("clip", frames, scale, clip, fps=6)
    return folder.result(f"{counted(steps, 'step')} from {image} in", "clip.png", seed=seed)


def traverse(
    image: ImageArgument,
    model: ModelOption = MODEL,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=MAX_DIMENSIONS, help="Number of dimensions.")] = 5,
    out: OutOption = OUT / "traverse",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
) -> Result:
    """Vary the dimensions of z that carry motion, each alone, the strongest first."""
    from visual_dynamics.media import check_area

    with ResultFolder(out, overwrite) as folder, busy("varying z"):
        loaded, (canvas,) = load_model_for(model, [image], force)
        found = loaded.traverse(canvas, count)
        values = found[0].values
        check_area(len(found) * len(values), loaded.size, scale)
        folder.write_picture("input.png", canvas.still())
        for place, strip in enumerate(found, 1):
            stem = f"dimension_{place:02d}_z{strip.dimension}"
            folder.write_grid(f"{stem}.png", strip.frames, [f"{value:g}" for value in values], scale, len(values))
            folder.write_clips(stem, [*strip.frames, *strip.frames[-2:0:-1]], scale, clip, fps=8)  # there and back
    strongest = ", ".join(f"{strip.dimension} ({strip.nats:.1f} nats)" for strip in found)
    words = f"{counted(len(found), 'dimension')} of z on {image} in {out}, the strongest first: {strongest}"
    dimensions = [{"dimension": strip.dimension, "nats": strip.nats} for strip in found]
    return Result(words, folder.values() | {"dimensions": dimensions})


def shown_size(canvas: Canvas, count: int, scale: int, full_size: bool, longest: int) -> tuple[int, int]:
    """The longer side at most, and the enlargement, of `count` results in an overview.

    Results at full size are averaged down; others are shown as they are, enlarged.
    """
    from visual_dynamics.media import MAX_AREA, check_area

    if full_size and not canvas.unscaled:
        return min(longest, math.isqrt(MAX_AREA // count)), 1
    side = canvas.frame.shape[-1]
    check_area(count, side, scale)
    return side, scale


class ResultFolder:
    """Collects files, and writes them at the end of a `with` block: all of them, or after an error none.

    A folder that holds other files needs `overwrite`.
    """

    def __init__(self, path: Path, overwrite: bool) -> None:
        check_folder(path)
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise UserError(f"{path} is not empty: give --overwrite, or another folder with --out")
        self.path = path
        self._files: dict[str, bytes] = {}

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            write_together(self.path, self._files)

    def values(self) -> dict[str, Any]:
        """For programs: the folder, and the files in it."""
        return {"folder": self.path, "files": list(self._files)}

    def result(self, words: str, first: str, **values: Any) -> Result:
        """Words on what is in the folder, and the file to look at first."""
        return Result(f"{words} {self.path}: see {first}", self.values() | {"see": first} | values)

    def write(self, name: str, data: bytes) -> None:
        self._files[name] = data

    def write_picture(self, name: str, picture: Frames) -> None:
        from visual_dynamics.media import encode_png

        self.write(name, encode_png(picture))

    def write_grid(
        self,
        name: str,
        pictures: Sequence[Frames] | Frames,
        labels: Sequence[str],
        scale: int,
        columns: int | None = None,
    ) -> None:
        from visual_dynamics.media import check_area, picture_grid

        check_area(len(pictures), max(pictures[0].shape[:2]), scale)
        columns = columns or _columns(len(pictures), GRID_COLUMNS)
        self.write_picture(name, picture_grid(pictures, columns, scale, background=GREY, labels=labels))

    def write_clips(
        self, stem: str, frames: Sequence[Frames] | Frames, scale: int, kinds: Sequence[str], fps: float
    ) -> None:
        """One clip (T, H, W, 3) in each of the kinds."""
        import numpy as np

        from visual_dynamics.media import encode_animation, enlarge

        for kind in dict.fromkeys(kinds):
            self.write(f"{stem}.{kind}", encode_animation(enlarge(np.stack(list(frames)), scale), fps, f".{kind}"))

    def write_wall(
        self, stem: str, still: Frames, futures: Sequence[Frames] | Frames, scale: int, kinds: Sequence[str]
    ) -> None:
        """A clip of futures side by side, each in turn with the frame that all of them start from."""
        from visual_dynamics.media import picture_grid

        columns = _columns(len(futures), WALL_COLUMNS)
        before, after = (
            picture_grid(pictures, columns, scale, background=GREY) for pictures in ([still] * len(futures), futures)
        )
        self.write_clips(stem, [before, after], 1, kinds, fps=2)


def _columns(count: int, least: int) -> int:
    return min(count, max(least, math.ceil(math.sqrt(count))))
