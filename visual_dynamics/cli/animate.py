"""The verb `animate` of the command line. Heavy modules are imported when it runs."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visual_dynamics.cli.options import (
    DeviceOption,
    ModelOption,
    OutOption,
    OverwriteOption,
    ScaleOption,
    counted,
)
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.sprites.align import Alignment


class SpriteClip(StrEnum):
    gif = "gif"
    webp = "webp"
    apng = "apng"


class Way(StrEnum):
    chained = "chained"
    direct = "direct"


CLIPS = list(SpriteClip)
REFERENCE_HELP = "An Aseprite JSON, a folder of frames, an animated GIF, WebP or PNG, or a picture with --cell."
TARGET_HELP = "One frame of another character, or a sheet with one for each tag."
TAG_HELP = "The animation to make; else the one that holds --pose, or all that the target has frames for."
POSE_HELP = "Frame of the reference whose pose the target has, from 0 in its tag, or in the sheet if no tag was chosen."
METHOD_HELP = "All frames directly from the target, or each chained to the one before it."
GUIDE_HELP = (
    "The model of what comes next, which shows direct the way, or none.  [default: sprites with --model sprites-poses]"
)
NO_GUIDE = "none"
ALIGN_HELP = (
    "Move, or enlarge by a whole factor, sprites that the model does not know as they stand; results move back."
)
LOOP_HELP = "The animation is a cycle, its first frame follows the last; for chained, or with a guide."


def animate(
    reference: Annotated[Path, typer.Argument(metavar="REFERENCE", help=REFERENCE_HELP)],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help=TARGET_HELP)],
    model: ModelOption = "sprites-poses",
    cell: Annotated[str | None, typer.Option(help="Width and height of a picture's cells: 64x64.")] = None,
    rows: Annotated[bool, typer.Option("--rows/--no-rows", help="Each row of cells is a tag: 'row 0', ...")] = True,
    tag: Annotated[str | None, typer.Option(help=TAG_HELP)] = None,
    pose: Annotated[int | None, typer.Option(min=0, help=POSE_HELP)] = None,
    method: Annotated[Way, typer.Option(help=METHOD_HELP)] = Way.direct,
    guide: Annotated[str | None, typer.Option(help=GUIDE_HELP, show_default=False)] = None,
    loop: Annotated[bool, typer.Option("--loop", help=LOOP_HELP)] = False,
    snap: Annotated[bool, typer.Option("--snap/--no-snap", help="Keep to the colours of the target.")] = True,
    align: Annotated[bool, typer.Option("--align/--no-align", help=ALIGN_HELP)] = True,
    out: OutOption = Path("out/animate"),
    clip: Annotated[list[SpriteClip], typer.Option("--clip", help="Kind of clip to write; may be repeated.")] = CLIPS,
    scale: ScaleOption = 3,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Animate a sprite: carry the motions of a character over to another one.

    Pixels of the result are there or not: those of half alpha and more become opaque, fainter ones transparent.
    """
    from rich.console import Console

    from visual_dynamics.api import load
    from visual_dynamics.cli.output import ResultFolder
    from visual_dynamics.data.sheets import read_cell, read_sheet
    from visual_dynamics.media import check_area
    from visual_dynamics.sprites.animate import (
        GUIDES,
        Options,
        animate_files,
        check_model,
        check_size,
        find_clips,
        is_picture,
        read_target,
        write_animation,
    )

    guide = guide or (GUIDES.get(model) if method is Way.direct else None)
    guide = None if guide == NO_GUIDE else guide
    if guide and method is Way.chained:
        raise UserError("--guide is for --method direct: chained frames follow each other without one")
    if loop and method is Way.direct and not guide:
        raise UserError("--loop needs --guide or --method chained: direct alone makes every frame from the target")
    console = Console(stderr=True)
    with (
        ResultFolder(out, overwrite) as folder,
        console.status("animating ...") if console.is_terminal else nullcontext(),
    ):
        size = read_cell(cell) if cell else None
        for path in (reference, target):
            if not path.exists():
                raise UserError(f"cannot read {path}: there is no such file")
        moving = read_sheet(reference, size, rows)
        still = read_target(target, size, moving, rows)
        options = Options(tag, pose, method.value, loop, snap, align=align)
        predictor = load(model, device).predictor
        check_model(predictor, model)
        leading = load(guide, device).predictor if guide else None
        if guide and leading:
            check_model(leading, guide)
        check_size(moving, still, predictor.size, whole=size is None and is_picture(target))
        count = sum(part.last - part.first + 1 for part in find_clips(moving, still, options))  # errors come first
        check_area(2 * count, max(moving.frames.shape[1:3] + still.frames.shape[1:3]), scale)
        animation = animate_files(predictor, moving, still, options, leading)
        write_animation(folder, animation, [kind.value for kind in clip], scale)
    for words in _told(animation.alignment) if animation.alignment else ():
        typer.echo(words, err=True)
    typer.echo(f"{counted(count, 'frame')} of {target} in {out}: see comparison.png")


def _told(alignment: Alignment) -> list[str]:
    """A line on what was moved, one of warning, both or neither."""
    lines = []
    if not alignment.as_given:
        first, second = (_in_words(shift) for shift in (alignment.reference_shift, alignment.target_shift))
        parts = [f"moved {first}"] if first == second else [f"reference moved {first}", f"target {second}"]
        if alignment.reference.factor > 1:
            parts.insert(0, f"enlarged {alignment.reference.factor} times")
        lines.append(f"sprites aligned for the model, results are brought back: {', '.join(parts)}")
    if alignment.unlike:
        error = f"its error on the reference's own motions is {alignment.error:.0f}, usual are 3 to 10"
        lines.append(f"warning: the model has not learned from sprites like these ({error}): take results as drafts")
    return lines


def _in_words(shift: tuple[int, int]) -> str:
    ways = zip(shift, (("up", "down"), ("left", "right")), strict=True)
    return " and ".join(f"{abs(way)} px {names[way > 0]}" for way, names in ways if way) or "0 px"
