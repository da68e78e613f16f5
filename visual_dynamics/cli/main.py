"""The command line: `visual-dynamics VERB ...`, and its short verbs: demo, compact, familiarize, push.

Heavy modules are imported by the verb that needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from visual_dynamics.cli import animate as animate_command
from visual_dynamics.cli import check as check_command
from visual_dynamics.cli import complete as complete_command
from visual_dynamics.cli import export as export_command
from visual_dynamics.cli import mcp as mcp_command
from visual_dynamics.cli import models as models_command
from visual_dynamics.cli import prepare as prepare_command
from visual_dynamics.cli import prior as prior_command
from visual_dynamics.cli import reproduce as reproduce_command
from visual_dynamics.cli import serve
from visual_dynamics.cli import study as study_command
from visual_dynamics.cli import train as train_command
from visual_dynamics.cli.options import (
    OUT,
    Machine,
    ModelOption,
    OutOption,
    OverwriteOption,
    SeedOption,
    busy,
    load_model,
)
from visual_dynamics.cli.pictures import MODEL, ResultFolder, analogy, extrapolate, sample, traverse
from visual_dynamics.cli.results import Output, Result, show, show_error
from visual_dynamics.errors import UserError

NAME = "visual-dynamics"


def _finish(result: Result | None, **_: object) -> int:
    return show(result) if result else 0


app = typer.Typer(name=NAME, result_callback=_finish, pretty_exceptions_enable=False, rich_markup_mode=None)


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
    as_json: Annotated[
        bool, typer.Option("--json", help="For every verb, before or after it: print one JSON object.")
    ] = False,
) -> None:
    """From one image, many plausible next frames."""
    Machine.device, Output.as_json = device, as_json


for verb in (sample, analogy, extrapolate, traverse):
    app.command()(verb)


@app.command()
def demo(
    model: ModelOption = MODEL,
    seed: SeedOption = 0,
    out: OutOption = OUT / "demo",
    overwrite: OverwriteOption = False,
) -> Result:
    """Make a page with futures, reconstructions, analogies and clips of images that are drawn for it."""
    with ResultFolder(out, overwrite) as folder:
        loaded = load_model(model)
        from visual_dynamics.cli.demo import make_demo

        page = make_demo(loaded, seed, folder)
    return Result(f"open {page} in a browser", folder.values() | {"see": page.name})


app.command()(animate_command.animate)
app.command()(check_command.check)
app.command("complete")(complete_command.complete_character)
app.add_typer(prepare_command.app, name="prepare")
app.command(cls=train_command.GroupedCommand)(train_command.train)
app.command()(reproduce_command.reproduce)
app.command()(reproduce_command.report)
app.add_typer(study_command.study_app, name="study")
app.command()(serve.studio)
app.command()(export_command.export)
app.command()(export_command.export_page)


app.command()(models_command.models)
app.command()(mcp_command.mcp)


@app.command()
def compact(
    model: Annotated[str, typer.Argument(help="A shipped model, the weights of a run, or owner/name@main on the Hub.")],
    file: Annotated[Path, typer.Argument(help="The copy to write, a .safetensors file.")],
    eight_bits: Annotated[
        bool, typer.Option("--eight-bits/--float16", help="One byte for most weights, or two.")
    ] = True,
    motion_encoder: Annotated[
        bool, typer.Option(help="Keep what reads the motion of a pair; sampling does without it.")
    ] = True,
    learned_prior: Annotated[
        bool, typer.Option("--learned-prior", help="A fitted mixture of Gaussians in place of training posteriors.")
    ] = False,
) -> Result:
    """Write a lighter copy of a model, to share it."""
    if file.suffix != ".safetensors":
        raise UserError(f"a model is a .safetensors file, and {file} would not be one")
    if file.exists():
        raise UserError(f"{file} exists already: remove it, or give another file")
    load_model(model, "cpu").save_copy(file, eight_bits, motion_encoder, learned_prior)
    size = file.stat().st_size
    return Result(f"{file}: {size / 1e6:.1f} MB", {"file": file, "bytes": size})


@app.command()
def familiarize(
    file: Annotated[Path, typer.Argument(help="The .safetensors file of a model that is trained already.")],
    data: Annotated[str | None, typer.Option(help="Where its training data lie now.  [default: as it says]")] = None,
) -> Result:
    """Store in a model's file what its training pictures look like, so that verbs warn of others.

    Training does this by itself. Nothing else in the file changes.
    """
    from visual_dynamics.model_files import read_header

    read_header(file)
    from visual_dynamics.training.familiar import familiarize as measure

    with busy("looking at training pictures"):
        found = measure(file, data)
    distance, colours, even = found.limits.tolist()
    words = (
        f"{file}: limits of a familiar picture are distance {distance:.0f}, {colours:.0f} pixels of new colours, "
        f"and {100 * even:.0f} % of pixels like their neighbour"
    )
    return Result(words, {"file": file, "distance": distance, "colours": colours, "even": even})


app.command()(prior_command.prior)


@app.command()
def push(
    file: Annotated[Path, typer.Argument(help="A .safetensors file; FILE.md beside it becomes the model card.")],
    hub_id: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; made if it is missing.")],
) -> Result:
    """Upload a model to the Hugging Face Hub, as the account that `huggingface-cli login` has stored."""
    from visual_dynamics import model_files

    with busy("uploading"):
        address = model_files.push(file, hub_id)
    return Result(address, {"address": address})


# Newer versions of typer carry a click of their own: its classes are reached through one that typer shows.
UsageMistake: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
INTERRUPTED = 130  # as shells count a process that Ctrl-C ended
EXTRAS = {  # package that is imported where it is used -> the extra that installs it
    "cv2": "video",
    "scipy": "video",
    "h5py": "sprites",
    "fastapi": "studio",
    "uvicorn": "studio",
    "mcp": "mcp",
    "onnx": "onnx",
    "onnxscript": "onnx",
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. An error in what was given is one line on stderr, and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    Output.as_json = "--json" in arguments  # mistakes in the arguments themselves, too
    Output.notes.clear()
    try:
        for_program, for_verb = divided(arguments)
        result = app([*for_program, *current_names(for_verb)] or ["--help"], prog_name=NAME, standalone_mode=False)
        code = result if isinstance(result, int) else 0
        message = "interrupted" if code == INTERRUPTED else ""
    except (UserError, OSError) as error:
        message, code = str(error), 2
    except (KeyboardInterrupt, typer.Abort):
        message, code = "interrupted", INTERRUPTED
    except MemoryError:
        message, code = "there is not enough memory for this", 2
    except Exception as error:
        message, code = _mistake(error), 2
        if not message:
            raise
    if message:
        show_error(message)
    sys.exit(code)


def divided(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the program, --device and --json, which may stand anywhere before --; and all other arguments."""
    for_program: list[str] = []
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            others += [word, *words]
        elif word == "--device":
            name = next(words, None)
            if name is None:
                raise UserError("--device needs a name: cpu, cuda, cuda:1, ... or auto")
            for_program += [word, name]
        else:
            (for_program if word == "--json" or word.startswith("--device=") else others).append(word)
    return for_program, others


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


# --- options of the first release that have another name now: they work for one more release, with a note ---


def _by_set(*names: str) -> dict[str, str]:
    return {f"--{name.replace('_', '-')}": f"--set {name}={{}}" for name in names}


RENAMED = {  # verb -> old option -> what stands for it now; {} is its value
    "train": {
        "--recolour": "--augment permute-channels",
        "--light": "--augment colour-jitter",
        "--mirror": "--augment mirror",
        "--reverse": "--augment reverse",
        "--zoom": "--augment zoom={}",
        "--shift": "--augment shift={}",
        "--jitter": "--augment jitter={}",
        "--bottleneck": "--beta {}",
        "--autoencoder": "--set autoencoder=true",
        "--stream": "--set stream=true",
        "--compile": "--set compile=true",
        "--no-compile": "--set compile=false",
        **_by_set("rendering", "split", "between", "also_pairs", "sigma", "learning_rate", "warmup", "kl_warmup"),
        **_by_set("log_every", "checkpoint_every", "seed"),
    },
    "reproduce": {"--list": ""} | _by_set("sprites_model", "guide", "autoencoder", "integer_model", "runs"),
}
GONE = {
    ("compact", "--overwrite"): "compact replaces no file: remove it, or give another one",
    ("bench",): "bench has left the package: run `make bench` in the source tree",
    ("compact", "--carry-over"): "--carry-over is now the last step of train RUN --recipe people --data FOOTAGE",
    ("animate", "--method"): "animate follows from the model how frames are made: leave --method out",
    ("animate", "--no-snap"): "animate always takes the target's colours: leave --no-snap out",
    ("animate", "--clip"): "animate always writes GIF, WebP and APNG: leave --clip out",
    ("study", "make", "--no-snap"): "sprites of a study always have their input's colours: leave --no-snap out",
    ("study", "make", "--consent"): "the text of a study is edited in its study.json: leave --consent out",
    ("study", "make", "--obvious"): "a session always has six obvious trials: leave --obvious out",
}


def current_names(arguments: Sequence[str]) -> list[str]:
    """The arguments with today's names for old ones."""
    for old, sentence in GONE.items():
        if arguments and arguments[0] == old[0] and set(old) <= {word.partition("=")[0] for word in arguments}:
            raise UserError(sentence)
    renamed = RENAMED.get(arguments[0], {}) if arguments else {}
    found: list[str] = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if (new := renamed.get(name)) is None:
            found.append(word)
            continue
        if "{}" in new:
            new = new.replace("{}", value if equals else next(rest, ""))
        typer.echo(f"note: {name} is now {new}" if new else f"note: {name} is not needed any more", err=True)
        found += new.split(" ", 1) if new else []
    return found
