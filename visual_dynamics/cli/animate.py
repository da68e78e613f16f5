"""The verb `animate`. Heavy modules are imported when it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visual_dynamics.cli.options import (
    ModelOption,
    OutOption,
    OverwriteOption,
    ScaleOption,
    busy,
    counted,
    load_model,
)
from visual_dynamics.cli.pictures import GREY, ResultFolder
from visual_dynamics.cli.results import Result, note
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.images import Pixels
    from visual_dynamics.model_files import Header
    from visual_dynamics.sprites.align import Alignment
    from visual_dynamics.sprites.animation import Method
    from visual_dynamics.sprites.sheets import Animation

REFERENCE_HELP = "An Aseprite file or JSON, a folder of frames, an animated GIF, WebP or PNG, or a picture with --cell."
TARGET_HELP = "One frame of another character, or a sheet with one for each tag."
TAG_HELP = "The animation to make; else the one that holds --pose, or all that the target has frames for."
POSE_HELP = "Frame of the reference whose pose the target has, from 0 in its tag, or in the sheet without --tag."
GUIDE_HELP = "A model of neighbouring frames that helps a model of poses, or none.  [default: sprites]"
ALIGN_HELP = "Move, or enlarge by a whole factor, sprites to where the model knows them; results move back."
FORCE_HELP = "Draw even where the model has not learned from such sprites."
LOOP_HELP = "The animation is a cycle: its first frame follows the last."
ALSO_HELP = "Write the sheet for another program, too: its own file, SpriteFrames or a tile set; may be repeated."
CLIPS = ("gif", "webp", "apng")  # written of each tag
COLUMNS = 13  # frames side by side in the comparison, at most
BEHIND = (150, 150, 150)  # sprites: both light and dark outlines show


class SheetFormat(StrEnum):
    aseprite = "aseprite"
    godot = "godot"
    tiled = "tiled"


def animate(
    reference: Annotated[Path, typer.Argument(metavar="REFERENCE", help=REFERENCE_HELP)],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help=TARGET_HELP)],
    model: ModelOption = "sprites-poses",
    cell: Annotated[str | None, typer.Option(help="Width and height of a picture's cells: 64x64.")] = None,
    rows: Annotated[bool, typer.Option("--rows/--no-rows", help="Each row of cells is a tag: 'row 0', ...")] = True,
    tag: Annotated[str | None, typer.Option(help=TAG_HELP)] = None,
    pose: Annotated[int | None, typer.Option(min=0, help=POSE_HELP)] = None,
    guide: Annotated[str | None, typer.Option(help=GUIDE_HELP, show_default=False)] = None,
    loop: Annotated[bool, typer.Option("--loop", help=LOOP_HELP)] = False,
    align: Annotated[bool, typer.Option("--align/--no-align", help=ALIGN_HELP)] = True,
    also: Annotated[list[SheetFormat] | None, typer.Option("--also", help=ALSO_HELP)] = None,
    out: OutOption = Path("out/animate"),
    scale: ScaleOption = 3,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
    overwrite: OverwriteOption = False,
) -> Result:
    """Animate a sprite: carry the motions of a character over to another one.

    A target that is the reference in other colours gets exact frames. Where the model has not learned from such
    sprites, nothing is drawn without --force. Pixels of the result are there or not: those of half alpha and more
    become opaque, fainter ones transparent.
    Colours are the target's own.
    """
    from visual_dynamics.data.sheets import DESCRIBED, read_cell, read_sheet
    from visual_dynamics.media import check_area
    from visual_dynamics.sprites.matches import GUIDES, check_size, find_matches, read_target

    with ResultFolder(out, overwrite) as folder, busy("animating"):
        size = read_cell(cell) if cell else None
        for path in (reference, target):
            if not path.exists():
                raise UserError(f"cannot read {path}: there is no such file")
        moving = read_sheet(reference, size, rows)
        still = read_target(target, size, moving, rows)
        header = sprite_model(model)
        chained = header.knows_neighbours
        guide = None if guide == "none" else guide or GUIDES.get(model)
        if guide and chained:
            raise UserError(f"--guide helps a model of poses, but {model} is one of neighbouring frames")
        if guide:
            sprite_model(guide)
        if loop and not (chained or guide):
            raise UserError("--loop needs --guide: without it, every frame is made from the target alone")
        whole = size is None and not target.is_dir() and target.suffix.lower() not in DESCRIBED
        check_size(moving, still, header.config.size, whole)
        matches = find_matches(moving, still, tag, pose)
        count = sum(match.last - match.first + 1 for match in matches)
        check_area(2 * count, max(moving.frames.shape[1:3] + still.frames.shape[1:3]), scale)
        predictor, helper = load_model(model).predictor, load_model(guide).predictor if guide else None
        from visual_dynamics.sprites.sheets import animate_sheet

        method: Method = "chained" if chained else "direct"

        def before(alignment: Alignment) -> None:
            if alignment.unlike and not force:
                advice = "train one on sheets of this style (docs/sprites.md), or take drafts with --force"
                raise UserError(f"{_unlike(alignment)}: {advice}")

        animation = animate_sheet(predictor, moving, still, matches, method, loop, align, helper, before)
        write_animation(folder, animation, scale, also or ())
    for line in _report(animation):
        note(line)
    return folder.result(
        f"{counted(count, 'frame')} of {target} in", "comparison.png", frames=count, exact=animation.exact
    )


def sprite_model(name: str) -> Header:
    """The header of a model; an error if it was not trained on a black background, on which sprites are animated."""
    from visual_dynamics.model_files import find_weights, read_header
    from visual_dynamics.sprites.matches import GUIDES

    header = read_header(find_weights(name))
    if header.config.background > 0:
        fit = ", ".join(sorted({*GUIDES, *GUIDES.values()}))
        hint = f"choose {fit}, or one that was trained with --preset sprites"
        raise UserError(f"{name} was not trained on a black background, on which sprites are animated: {hint}")
    return header


def write_animation(folder: ResultFolder, animation: Animation, scale: int, also: Sequence[str] = ()) -> None:
    """sheet.png and sheet.json, clips of each tag, and comparison.png, in which pixels are enlarged."""
    from visual_dynamics.sprites.exports import exported
    from visual_dynamics.sprites.files import encode_sprite_clip, sheet_files

    sheet = animation.sheet
    files = sheet_files("sheet", sheet) | dict(exported("sheet", sheet, form) for form in also)
    for name, data in files.items():
        folder.write(name, data)
    names = file_names([tag.name for tag in sheet.tags] or [""])
    for name, tag in zip(names, sheet.tags or (None,), strict=True):
        for kind in CLIPS:
            folder.write(f"{name}.{kind}", encode_sprite_clip(sheet, f".{kind}", tag))
    folder.write_picture("comparison.png", draw_comparison(animation, scale))


def file_names(names: Sequence[str]) -> list[str]:
    """Names of tags, which may hold any character, as different names of files without a suffix."""
    found: list[str] = []
    for name in names:
        plain = stem = re.sub(r"[^\w-]+", "-", name)[:80].strip("-") or "animation"
        number = 2
        while stem.lower() in map(str.lower, found):
            stem = f"{plain}-{number}"
            number += 1
        found.append(stem)
    return found


def draw_comparison(animation: Animation, scale: int) -> Pixels:
    """(H, W, 3): for each clip a row of the reference above a row of the result, whose given frames are labelled."""
    import numpy as np

    from visual_dynamics.media import picture_grid

    result = animation.sheet
    starts = {tag.first: tag.name for tag in reversed(result.tags)}
    starts.setdefault(0, "")
    rows: list[list[int]] = []
    for frame in range(len(result.frames)):
        if frame in starts or len(rows[-1]) == COLUMNS:
            rows.append([])
        rows[-1].append(frame)
    columns = max(map(len, rows))
    blank = np.full((1, 1, 3), GREY, np.uint8)
    pictures: list[Pixels] = []
    labels: list[str] = []
    for row in rows:
        names = [f"{starts.get(frame, '')} {frame}".strip().encode("ascii", "replace").decode() for frame in row]
        results = ["given" if frame in animation.given else f"result {frame}" for frame in row]
        for sheet, words in ((animation.reference, names), (result, results)):
            frames = sheet.frames[row]
            alpha = frames[..., 3:].astype(np.float32) / 255
            shown = np.rint(frames[..., :3] * alpha + np.array(BEHIND) * (1 - alpha)).astype(np.uint8)
            pictures += [*shown, *[blank] * (columns - len(row))]
            labels += [*words, *[""] * (columns - len(row))]
    return picture_grid(pictures, columns, scale, background=GREY, labels=labels)


def _report(animation: Animation) -> list[str]:
    """Up to two lines: what was moved, and a warning; or that no model was needed."""
    if animation.exact:
        return ["the target is the reference in other colours: its frames are exact, no model drew them"]
    if (alignment := animation.alignment) is None:
        return []
    lines = []
    if not alignment.as_given:
        first, second = (_in_words(shift) for shift in (alignment.reference_shift, alignment.target_shift))
        parts = [f"moved {first}"] if first == second else [f"reference moved {first}", f"target {second}"]
        if alignment.reference.factor > 1:
            parts.insert(0, f"enlarged {alignment.reference.factor} times")
        lines.append(f"sprites aligned for the model, results are brought back: {', '.join(parts)}")
    if alignment.unlike:
        lines.append(f"warning: {_unlike(alignment)}: take results as drafts")
    return lines


def _unlike(alignment: Alignment) -> str:
    error = f"its error on the reference's own motions is {alignment.error:.0f}, usual are 3 to 10"
    return f"the model has not learned from sprites like these ({error})"


def _in_words(shift: tuple[int, int]) -> str:
    names = (("up", "down"), ("left", "right"))
    return " and ".join(f"{abs(by)} px {name[by > 0]}" for by, name in zip(shift, names, strict=True) if by) or "0 px"
