"""The verb `complete`. Heavy modules are imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.animate import sprite_model
from visual_dynamics.cli.options import (
    ModelOption,
    OutOption,
    OverwriteOption,
    ScaleOption,
    counted,
    load_model,
    progress_bar,
)
from visual_dynamics.cli.pictures import ResultFolder
from visual_dynamics.cli.results import Result, note
from visual_dynamics.errors import UserError

CHARACTER_HELP = (
    "A folder or ZIP export with a sheet for each animation (walk.png, ...), a universal sheet, an Aseprite file or "
    "JSON; or one layer of a character."
)
ANIMATIONS_HELP = "What to draw: run,jump.  [default: all that it lacks and a reference has]"
REFERENCE_HELP = "Another character that has them, in any of these forms; may be repeated.  [default: shipped bodies]"
BODY_HELP = "The body type of the shipped reference: male, female, ...  [default: the one most like the character]"
LAYER_HELP = "It is only a layer, a hat say: drawn on a body, and taken off again.  [default: found out]"
FORCE_HELP = "Draw even where known frames come out as badly as standing still."


def complete_character(
    path: Annotated[Path, typer.Argument(metavar="CHARACTER", help=CHARACTER_HELP)],
    animations: Annotated[str, typer.Option(help=ANIMATIONS_HELP, show_default=False)] = "",
    reference: Annotated[list[Path] | None, typer.Option("--reference", help=REFERENCE_HELP)] = None,
    body: Annotated[str, typer.Option(help=BODY_HELP, show_default=False)] = "",
    layer: Annotated[bool | None, typer.Option("--layer/--whole", help=LAYER_HELP, show_default=False)] = None,
    model: ModelOption = "sprites-lpc-poses",
    out: OutOption = Path("out/complete"),
    scale: ScaleOption = 2,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
    overwrite: OverwriteOption = False,
) -> Result:
    """Draw the animations that a character lacks, as drafts, after another character that has them.

    What it has is copied as it is. drafts.png shows the new frames with a doubt each; doubtful ones have a red border.
    """
    from visual_dynamics.sprites.character_files import read_character
    from visual_dynamics.sprites.missing import described, plan

    with ResultFolder(out, overwrite) as folder:
        if path.is_dir() and out.resolve() == path.resolve():
            raise UserError("results do not go into the folder of the character: choose another one with --out")
        if sprite_model(model).knows_neighbours:
            raise UserError(f"{model} knows neighbouring frames only: choose one of poses, such as sprites-lpc-poses")
        character = read_character(path)
        given = [read_character(each) for each in reference or ()]
        for each in (character, *given):
            for remark in each.remarks:
                note(f"{each.name}: {remark}")
        from visual_dynamics.sprites.bodies import shipped_bodies

        asked = [name.strip() for name in animations.split(",") if name.strip()]
        parts = plan(character, given or shipped_bodies(), asked, body, layer)
        for words in described(parts):
            note(words)
        from visual_dynamics.sprites.complete import complete
        from visual_dynamics.sprites.completion_files import completion_files, marked

        predictor = load_model(model).predictor if any(part.steps for part in parts) else None
        with progress_bar("frames") as progress:
            checks, drafts = complete(predictor, parts, force, note, progress)
        for name, data in completion_files(character, parts, checks, drafts, model, scale).items():
            folder.write(name, data)
    count, doubtful = sum(map(len, drafts.clips.values())), marked(drafts.doubts)
    words = f"{counted(count, 'frame')} of {path} in {out}, {len(doubtful)} of them marked: see drafts.png"
    return Result(words, folder.values() | {"see": "drafts.png", "frames": count, "marked": doubtful})
