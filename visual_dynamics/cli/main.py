"""The command line: `visual-dynamics VERB ...`. Heavy modules are imported by the verb that needs them."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from visual_dynamics.cli import animate as animate_command
from visual_dynamics.cli import prepare as prepare_command
from visual_dynamics.cli import reproduce as reproduce_command
from visual_dynamics.cli import serve, share
from visual_dynamics.cli import train as train_command
from visual_dynamics.cli.old_names import current_names
from visual_dynamics.cli.options import (
    OUT,
    Machine,
    ModelOption,
    OutOption,
    OverwriteOption,
    SeedOption,
    load_model,
)
from visual_dynamics.cli.pictures import MODEL, analogy, extrapolate, sample, traverse
from visual_dynamics.errors import UserError

NAME = "visual-dynamics"
app = typer.Typer(
    name=NAME,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{NAME} {version(NAME)}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="For every verb, before or after it: cpu, cuda, cuda:1, ... or auto.")
    ] = None,
) -> None:
    """From one image, many plausible next frames."""
    Machine.device = device


for verb in (sample, analogy, extrapolate, traverse):
    app.command()(verb)


@app.command()
def demo(
    model: ModelOption = MODEL,
    seed: SeedOption = 0,
    out: OutOption = OUT / "demo",
    overwrite: OverwriteOption = False,
) -> None:
    """Make a page with futures, reconstructions, analogies and clips of images that are drawn for it."""
    from visual_dynamics.cli.demo import make_demo
    from visual_dynamics.cli.output import ResultFolder

    with ResultFolder(out, overwrite) as folder:
        page = make_demo(load_model(model), seed, folder)
    typer.echo(f"open {page} in a browser")


app.command()(animate_command.animate)
app.add_typer(prepare_command.app, name="prepare")
app.command(cls=train_command.GroupedCommand)(train_command.train)
app.command()(reproduce_command.reproduce)
app.command()(reproduce_command.report)
app.add_typer(serve.study_app, name="study")
app.command()(serve.studio)


app.command()(share.models)
app.command()(share.compact)
app.command()(share.push)


# Newer versions of typer carry a click of their own: its classes are reached through one that typer shows.
UsageMistake: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
INTERRUPTED = 130  # as shells count a process that Ctrl-C ended
EXTRAS = {  # package that is imported where it is used -> the extra that installs it
    "cv2": "video",
    "scipy": "video",
    "h5py": "sprites",
    "fastapi": "studio",
    "uvicorn": "studio",
    "python_multipart": "studio",
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. An error in what was given is one line on stderr, and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        result = app(device_first(current_names(arguments)) or ["--help"], prog_name=NAME, standalone_mode=False)
        code = result if isinstance(result, int) else 0
        message = "interrupted" if code == INTERRUPTED else ""
    except UserError as error:
        message, code = str(error), 2
    except (KeyboardInterrupt, typer.Abort):
        message, code = "interrupted", INTERRUPTED
    except OSError as error:
        message, code = str(error), 2
    except MemoryError:
        message, code = "there is not enough memory for this", 2
    except Exception as error:
        message, code = _mistake(error), 2
        if not message:
            raise
    if message:
        typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)


def device_first(arguments: list[str]) -> list[str]:
    """The arguments with --device, an option of all verbs, in front of the verb."""
    chosen: list[str] = []
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--device":
            name = next(words, None)
            if name is None:
                raise UserError("--device needs a name: cpu, cuda, cuda:1, ... or auto")
            chosen += [word, name]
        else:
            (chosen if word.startswith("--device=") else others).append(word)
    return chosen + others


def _mistake(error: Exception) -> str:
    """The message for an error that a library found in what was given; "" where the fault is the program's."""
    if isinstance(error, UsageMistake):
        words = str(error.format_message()).replace("Value error, ", "").rstrip(".")
        where = getattr(getattr(error, "ctx", None), "command_path", NAME)
        return f"{words}; see {where} --help"
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        return f"this needs {error.name}: pip install 'visual-dynamics[{extra}]'"
    if type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error):
        return "there is not enough memory for this"
    return ""
