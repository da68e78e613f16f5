"""The verb `study make`. Heavy modules are imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visual_dynamics.cli.options import ModelOption, SeedOption, chosen_device, counted, progress_bar
from visual_dynamics.cli.results import Result, note
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.study.folder import Recruiting, Study


class StudyKind(StrEnum):
    choice = "choice"
    realistic = "realistic"


INPUTS = 40
FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The study's folder.")]
METHOD_HELP = (
    "ours (the model), flow, copy, or another shipped model; with --real, NAME=FOLDER; may be repeated.  "
    "[default: ours and flow]"
)
REAL_HELP = "Folder of real clips or pictures, for methods of any origin: their folders have clips of the same names."
SIZE_HELP = "Side of the clips in pixels; may be repeated.  [default: the model's size; with choice half of it, too]"
DATA_HELP = "'shapes', 'shapes-texture', a folder or zip of pairs, prepared videos, a folder of sprites."
INPUTS_HELP = f"Number of pictures.  [default: {INPUTS}; with --real, fewer where there are fewer]"
RATER_ID_HELP = "Parameter of the link with which a recruiting service tells a rater's id, such as PROLIFIC_PID."
COMPLETION_HELP = "A code, or an https link, that raters get after their last answer."


def make(
    context: typer.Context,
    folder: FolderArgument,
    kind: Annotated[StudyKind, typer.Option(help="Which of two is real, or is this realistic?")] = StudyKind.choice,
    model: ModelOption = "shapes",
    data: Annotated[str, typer.Option(help=DATA_HELP)] = "shapes",
    real: Annotated[Path | None, typer.Option(help=REAL_HELP)] = None,
    method: Annotated[list[str] | None, typer.Option(help=METHOD_HELP, show_default=False)] = None,
    size: Annotated[list[int] | None, typer.Option(help=SIZE_HELP, show_default=False)] = None,
    inputs: Annotated[int | None, typer.Option(help=INPUTS_HELP, show_default=False)] = None,
    trials: Annotated[int | None, typer.Option(help="Pictures in one session.  [default: all of them]")] = None,
    samples: Annotated[
        int | None, typer.Option(help="Of each picture and method, in a realistic study.  [default: 10]")
    ] = None,
    sessions: Annotated[int, typer.Option(help="Different sessions; later raters start with the first again.")] = 24,
    fps: Annotated[
        float | None, typer.Option(help="Frames a second, with --real.  [default: 10; 2 for clips of two frames]")
    ] = None,
    rater_id: Annotated[str, typer.Option(help=RATER_ID_HELP, show_default=False)] = "",
    completion: Annotated[str, typer.Option(help=COMPLETION_HELP, show_default=False)] = "",
    seed: SeedOption = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
) -> Result:
    """Make a study from a model and a data set, or from folders of clips by any methods."""
    from visual_dynamics.study.folder import Recruiting

    options: dict[str, Any] = {"kind": kind.value, "trials": trials, "sessions": sessions, "seed": seed}
    options |= {"sizes": tuple(size or ()), "samples": samples, "inputs": inputs}
    recruiting = Recruiting(rater_id, completion)
    if real is not None:
        for name in ("model", "data"):
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                raise UserError(f"--real and --{name} make different studies: give one of them")
        study = _foreign_study(real, method or [], options, folder, overwrite, recruiting, fps)
    elif fps is not None or any("=" in name for name in method or ()):
        raise UserError("--fps and methods of the form NAME=FOLDER need --real, the folder of the real clips")
    else:
        study = _model_study(model, data, method, options, folder, overwrite, recruiting)
    lengths = max(len(session) for session in study.sessions)
    words = (
        f"{counted(len(study.clips), 'clip')} and {counted(len(study.sessions), 'session')} "
        f"of {counted(lengths, 'trial')} in {folder}: visual-dynamics study serve {folder}"
    )
    values = {"folder": folder, "clips": len(study.clips), "sessions": len(study.sessions), "trials": lengths}
    return Result(words, values)


def _model_study(
    model: str,
    data: str,
    method: list[str] | None,
    options: dict[str, Any],
    folder: Path,
    overwrite: bool,
    recruiting: Recruiting,
) -> Study:
    from visual_dynamics.study.design import REAL, Design
    from visual_dynamics.study.make import default_sizes, make_study

    realistic = options["kind"] == "realistic"
    inputs = options["inputs"] if options["inputs"] is not None else INPUTS
    options |= {
        "methods": tuple(method or ("ours", "flow")) + ((REAL,) if realistic else ()),
        "sizes": options["sizes"] or default_sizes(options["kind"], model),
        "inputs": inputs,
        "trials": options["trials"] or inputs,
        "samples": options["samples"] if options["samples"] is not None else 10 if realistic else 1,
    }
    with progress_bar("clips") as progress:
        device = str(chosen_device())
        study = make_study(Design(**options), model, data, folder, overwrite, device, progress, recruiting)
    if not study.source["held_out"]:
        note(f"{data} has no test set: the model may know these pictures")
    return study


def _foreign_study(
    real: Path,
    method: list[str],
    options: dict[str, Any],
    folder: Path,
    overwrite: bool,
    recruiting: Recruiting,
    fps: float | None,
) -> Study:
    from visual_dynamics.study import foreign
    from visual_dynamics.study.design import REAL, Design

    if options["samples"] not in (None, 1):
        raise UserError("with --real there is one clip of each name by each method: leave --samples out")
    if fps is not None and not 0.2 <= fps <= 50:
        raise UserError(f"clips play at 0.2 to 50 frames a second, not {fps:g}")
    listings = foreign.match_clips(real, foreign.read_methods(method))
    there = len(listings[REAL])
    inputs = options["inputs"] if options["inputs"] is not None else min(INPUTS, there - Design.obvious)
    if inputs < 1:
        raise UserError(
            f"{real} has {counted(there, 'clip')}: a study needs {Design.obvious} for its obvious trials, and more"
        )
    options |= {
        "methods": tuple(name for name in listings if name != REAL)
        + ((REAL,) if options["kind"] == "realistic" else ()),
        "sizes": options["sizes"] or (foreign.default_size(listings[REAL]),),
        "inputs": inputs,
        "trials": options["trials"] or inputs,
        "samples": 1,
    }
    frame_time = None if fps is None else round(1000 / fps)
    with progress_bar("clips") as progress:
        design = Design(**options)
        study = foreign.make_foreign_study(design, listings, folder, overwrite, progress, recruiting, frame_time)
    if unlike := foreign.unlike_formats(study.source["formats"]):
        note(f"{unlike}; store all clips in the same way")
    if there > design.all_inputs:
        note(f"{design.all_inputs} of {there} clips are used; --inputs takes more")
    return study
