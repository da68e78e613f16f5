"""visual-dynamics prepare: data in other forms become what `train` reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from visual_dynamics.cli.options import OverwriteOption, counted, need, progress_bar
from visual_dynamics.cli.results import Result, note
from visual_dynamics.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Turn data into what train reads.")

CROP_HELP = (
    "motion (a square around what moves), centre, labels (around PennAction's boxes), or X,Y,W,H.  "
    "[default: motion, or labels for PennAction]"
)
SPLIT_HELP = "In place of --held-out: a table with the columns scene and split (train, held-out or test)."
OutOption = Annotated[Path, typer.Option(help="Folder for the result.")]


@app.command()
def lpc(
    layers: Annotated[Path, typer.Argument(help="A checkout of the LPC generator, or a folder of 13 x 21 sheets.")],
    out: OutOption,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Number of characters.")] = 672,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other characters.")] = 0,
    items: Annotated[str, typer.Option(help="Of a checkout: all, train or held-out (see docs/data.md).")] = "all",
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; as many as cores.")] = None,
    overwrite: OverwriteOption = False,
) -> Result:
    """Compose characters from Liberated Pixel Cup layers: their frames, a table of what they wear, and the credits."""
    import os

    from visual_dynamics.sprites.cast import is_checkout

    if is_checkout(layers):
        return _cast(layers, out, count, seed, items, workers or os.cpu_count() or 1, overwrite)
    if items != "all":
        raise UserError("--items is for a checkout of the LPC generator, which has items")
    from visual_dynamics.sprites.lpc import compose, holds_characters, write_characters

    _check_out(out, overwrite, holds_characters)
    with progress_bar("characters") as progress:
        made = compose(layers, count, seed, report=note, progress=progress)
        written = write_characters(out, made, layers)
    words = f"{counted(written, 'character')} in {out}; CREDITS.txt goes with every picture of them"
    return Result(words, {"folder": out, "characters": written})


def _cast(checkout: Path, out: Path, count: int, seed: int, items: str, workers: int, overwrite: bool) -> Result:
    from visual_dynamics.data.packed import holds_packed
    from visual_dynamics.sprites.cast import CREDITS, write_cast
    from visual_dynamics.sprites.outfits import ITEMS

    if items not in ITEMS:
        raise UserError(f"no items {items!r}; there are {', '.join(ITEMS)}")
    _check_out(out, overwrite, holds_packed)
    with progress_bar("characters") as progress:
        cast = write_cast(checkout, out, count, seed, items, workers, progress)
    for remark in cast.remarks:
        note(remark)
    if cast.uncredited:
        note(f"{counted(len(cast.uncredited), 'sheet')} without a line in {CREDITS}: {cast.uncredited[0]} ...")
    words = f"{counted(cast.written, 'character')} in {out}; {CREDITS} goes with every picture of them"
    return Result(words, {"folder": out, "characters": cast.written})


@app.command()
def poses(
    takes: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of BVH files of the CMU database.")],
    out: Annotated[Path, typer.Option(help="The pose file to write: NAME.npz.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file.")] = False,
) -> Result:
    """Read recorded motions (BVH) into one file of poses, which figures are drawn with: see docs/data.md."""
    from visual_dynamics.data.bvh import read_folder
    from visual_dynamics.data.poses import SUFFIX, write_poses
    from visual_dynamics.files import check_folder

    if out.suffix.lower() != SUFFIX:
        raise UserError(f"a pose file is named NAME{SUFFIX}, not {out.name}")
    if out.exists() and not overwrite:
        raise UserError(f"{out} is there already: give --overwrite, or another name with --out")
    check_folder(out.parent)
    with progress_bar("takes") as progress:
        found = read_folder(takes, progress)
    for path, reason in found.skipped.items():
        note(f"skipped: {path}: {reason}")
    size = write_poses(out, found.sequences)
    count = sum(len(sequence) for _, sequence in found.sequences)
    names = {take for take, _ in found.sequences}
    words = (
        f"{count:,} poses of {counted(len(names), 'take')} in {out} ({size / 1e6:.1f} MB)\n"
        "the database is free to use and to pass on, not to resell: name mocap.cs.cmu.edu (docs/data.md)"
    )
    return Result(words, {"file": out, "poses": count, "takes": len(names), "bytes": size})


@app.command()
def sprites(
    published: Annotated[Path, typer.Argument(help="Folder of sprites_0.mat ... sprites_671.mat (Reed et al.).")],
    out: OutOption,
    overwrite: OverwriteOption = False,
) -> Result:
    """Pack the published sprites (670 files, minutes to read) into four small files that are read in seconds."""
    from visual_dynamics.data.reed import holds_packed_characters, pack_characters, read_characters

    _check_out(out, overwrite, holds_packed_characters)
    with progress_bar("files") as progress:
        characters = read_characters(published, progress=progress)
        pack_characters(characters, out)
    words = f"{counted(len(characters), 'character')} in {out}"
    return Result(words, {"folder": out, "characters": len(characters)})


@app.command()
def videos(
    clips: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of clips; manifest.csv may name their scenes.")],
    out: OutOption,
    rate: Annotated[float, typer.Option(help="Frames a second: a pair is 1/RATE seconds apart.")] = 10.0,
    size: Annotated[int, typer.Option(help="Pixels a side of the frames to store.")] = 128,
    crop: Annotated[str | None, typer.Option(help=CROP_HELP, show_default=False)] = None,
    held_out: Annotated[float, typer.Option(help="Share of the pairs to hold out, by whole scenes.")] = 0.1,
    split: Annotated[Path | None, typer.Option(help=SPLIT_HELP)] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; as many as cores.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew in a folder that is not empty.")] = False,
) -> Result:
    """Cut clips into pairs: shots, a steady camera, a square crop; still and broken pairs are dropped.

    PennAction, as published (folders frames and labels), keeps its boxes and its split.

    Interrupted, even killed, and started again, it does only what is missing.
    """
    import os

    need("video", "cv2", "scipy")
    from visual_dynamics.footage.clips import Settings, holds_pennaction
    from visual_dynamics.footage.prepare import prepare_videos

    crop = crop or ("labels" if holds_pennaction(clips) else "motion")
    settings = Settings(rate, size, crop, held_out)
    with progress_bar("clips") as progress:
        summary = prepare_videos(clips, out, settings, workers or os.cpu_count() or 1, overwrite, progress, split)
    return Result("\n".join(_report(summary, out)), {"folder": out} | summary)


def _report(summary: dict[str, Any], out: Path) -> list[str]:
    """A summary of clips in a few lines."""
    kept, sides = summary["kept"], summary["splits"]
    dropped = ", ".join(f"{count} {reason}" for reason, count in summary["dropped_pairs"].items()) or "none"
    words = {"train": "to train on", "held-out": "held out", "test": "to report on"}
    parts = (
        f"{words[name]}: {side['pairs']} of {counted(len(side['scenes']), 'scene')}"
        for name, side in sides.items()
        if side["clips"] or name != "test"
    )
    lines = [
        f"{counted(kept['pairs'], 'pair')} of {counted(kept['clips'], 'clip')} in {out} ({kept['bytes'] / 1e6:.1f} MB)",
        "; ".join(parts),
        f"pairs dropped: {dropped}",
    ]
    lines += [f"not used: {name}: {reason}" for name, reason in summary["unusable_clips"].items()]
    lines += [f"used up to a break: {name}: {reason}" for name, reason in summary["broken_clips"].items()]
    return [*lines, f"look at {out / 'contact.png'}; all this is in {out / 'summary.json'}"]


def _check_out(folder: Path, overwrite: bool, is_own: Callable[[Path], bool]) -> None:
    """Raise UserError where results would mix with files of others; an earlier result is replaced."""
    from visual_dynamics.files import check_folder

    check_folder(folder)
    if not overwrite and folder.is_dir() and any(folder.iterdir()) and not is_own(folder):
        hint = "give --overwrite (to go on after an interruption, too), or another folder with --out"
        raise UserError(f"{folder} is not empty, and holds no earlier result: {hint}")
