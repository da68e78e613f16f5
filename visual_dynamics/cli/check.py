"""The verb `check`. Heavy modules are imported when it runs."""

from __future__ import annotations

import json
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visual_dynamics.cli.options import OverwriteOption, ScaleOption, counted, progress_bar
from visual_dynamics.cli.pictures import ResultFolder
from visual_dynamics.cli.results import Result, note
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.sprites.critic import Finding

SHEET_HELP = (
    "An Aseprite file or JSON, a folder of frames, an animated GIF, WebP or PNG, a picture with --cell, "
    "or a universal sheet, folder or ZIP of the LPC generator."
)
LOOP_HELP = "Every animation is a cycle, or none.  [default: those named walk, run, climb, idle, ...]"
PALETTE_HELP = "The only colours allowed: a picture that has them, or a .gpl or .hex file."
WITHOUT_HELP = "Leave a check out; may be repeated."
OUT_HELP = "Folder for report.json and contact.png, on which frames with a fault are marked."


class Check(StrEnum):
    anchor = "anchor"
    feet = "feet"
    seam = "seam"
    order = "order"
    still = "still"
    palette = "palette"
    alpha = "alpha"


def check(
    sheet: Annotated[Path, typer.Argument(metavar="SHEET", help=SHEET_HELP)],
    cell: Annotated[str | None, typer.Option(help="Width and height of a picture's cells: 64x64.")] = None,
    rows: Annotated[bool, typer.Option("--rows/--no-rows", help="Each row of cells is an animation.")] = True,
    loop: Annotated[bool | None, typer.Option("--loop/--no-loop", help=LOOP_HELP, show_default=False)] = None,
    palette: Annotated[Path | None, typer.Option(help=PALETTE_HELP)] = None,
    without: Annotated[list[Check] | None, typer.Option("--without", help=WITHOUT_HELP)] = None,
    out: Annotated[Path | None, typer.Option("--out", help=OUT_HELP)] = None,
    scale: ScaleOption = 2,
    overwrite: OverwriteOption = False,
) -> Result:
    """Look for faults in a sprite sheet. Exit code 1: there are some; 0: none; 2: it cannot be read.

    Faults are frames that stand elsewhere than their neighbours, feet that slide, cycles that do not close, frames that
    have changed places, animations that hardly move, stray colours, half-transparent dirt.
    """
    from visual_dynamics.data.sheets import read_cell
    from visual_dynamics.sprites.contact import draw_contact
    from visual_dynamics.sprites.critic import CHECKS, criticise
    from visual_dynamics.sprites.named_sheets import read_named
    from visual_dynamics.sprites.palette_files import read_palette

    if not sheet.exists():
        raise UserError(f"cannot read {sheet}: there is no such file")
    with ResultFolder(out, overwrite) if out else nullcontext() as folder, progress_bar("animations") as progress:
        read, remarks = read_named(sheet, read_cell(cell) if cell else None, rows)
        checks = [name for name in CHECKS if name not in (without or ())]
        criticism = criticise(read, checks, loop, read_palette(palette) if palette else None, progress)
        report = {"sheet": str(sheet), "frames": len(read.frames), "checks": checks} | criticism.as_json()
        if folder:
            folder.write("report.json", f"{json.dumps(report, indent=1)}\n".encode())
            folder.write_picture("contact.png", draw_contact(read, criticism, scale))
    for remark in remarks:
        note(f"note: {remark}")
    found = counted(len(criticism.findings), "fault") if criticism.findings else "nothing wrong"
    frames, animations = counted(len(read.frames), "frame"), counted(len(criticism.animations), "animation")
    summary = f"{sheet}, {frames} in {animations}: {found}" + (f"; see {out / 'contact.png'}" if out else "")
    values = report | (folder.values() | {"see": "contact.png"} if folder else {})
    return Result("\n".join([*map(_in_words, criticism.findings), summary]), values, int(bool(criticism.findings)))


def _in_words(finding: Finding) -> str:
    frames = ", ".join(map(str, finding.frames[:8])) + (", ..." if len(finding.frames) > 8 else "")
    where = f"frame{'s' if len(finding.frames) > 1 else ''} {frames}"
    name = "".join(letter if letter.isprintable() else "?" for letter in finding.animation)
    return f"{finding.check}: {f'{name}, ' if name else ''}{where}: {finding.words}"
