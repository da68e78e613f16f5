"""Arguments and options that several verbs of the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from visual_dynamics.cli.results import Output, note
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    import torch

    from visual_dynamics.api import Model
    from visual_dynamics.sampling.canvas import Canvas

Result = TypeVar("Result")
OUT = Path("out")  # where results go by default, each verb's in a folder of its name
SEED_HELP = "A whole number; the same seed gives the same pictures."

ImageArgument = Annotated[Path, typer.Argument(metavar="IMAGE", help="A picture of any size and kind.")]
ModelOption = Annotated[str, typer.Option("--model", help="A shipped name, a file, or owner/name@main on the Hub.")]
SeedOption = Annotated[int, typer.Option(min=0, max=2**63 - 1, help=SEED_HELP)]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for the results.")]
ScaleOption = Annotated[int, typer.Option(min=1, max=16, help="Enlargement of the pictures in grids and clips.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")]

ForceOption = Annotated[bool, typer.Option("--force", help="Do not warn of pictures unlike those of the training.")]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def busy(words: str) -> AbstractContextManager[object]:
    """A sign of life for people who wait at a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(f"{words} ...") if console.is_terminal else nullcontext()


@contextmanager
def progress_bar(things: str) -> Iterator[Callable[[float, int], None]]:
    """A progress bar on stderr; what it gives takes (done, total)."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(things, total=None)

        def show(done: float, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if Output.heard:
                Output.heard(things, done, total)

        yield show


def track(results: Iterator[Result], count: int, words: str) -> Iterator[Result]:
    """Results as they come, with a progress bar on stderr."""
    with progress_bar(words) as progress:
        for done, result in enumerate(results, 1):
            yield result
            progress(done, count)


class Machine:
    """What --device chose, before or after the verb."""

    device: str | None = None


def chosen_device(usual: str = "auto") -> torch.device:
    from visual_dynamics.api import find_device

    return find_device(Machine.device or usual)


def load_model(name: str, device: str | None = None) -> Model:
    """A model on a device, else the chosen one. Its header is read before torch is imported."""
    from visual_dynamics.model_files import find_weights, read_header

    path = find_weights(name)
    read_header(path)
    from visual_dynamics.api import load

    return load(path, device or Machine.device or "auto")


def load_model_for(name: str, paths: Sequence[Path], force: bool) -> tuple[Model, list[Canvas]]:
    """A model, and pictures as it sees them, which are read before torch is imported.

    Without `force`, a warning where a picture is unlike those that the model learned from.
    """
    from visual_dynamics.images import read_picture

    pictures = {path: read_picture(path) for path in dict.fromkeys(paths)}
    model = load_model(name)
    canvases = {path: model.open(picture, check=False) for path, picture in pictures.items()}
    for path, canvas in canvases.items():
        if not force and (words := model.unfamiliar(canvas)):
            note(f"warning: {path}: {words}")
    return model, [canvases[path] for path in paths]


def need(extra: str, *packages: str) -> None:
    """Raise, with the command that helps, where packages of an optional extra are not installed."""
    from importlib.util import find_spec

    if missing := [name for name in packages if find_spec(name) is None]:
        raise UserError(f"this needs {', '.join(missing)}: pip install 'visual-dynamics[{extra}]'")
