"""The command line: `visual-dynamics VERB ...`. Heavy modules are imported by the verb that needs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from visual_dynamics.cli import animate as animate_command
from visual_dynamics.cli import prepare as prepare_command
from visual_dynamics.cli import reproduce as reproduce_command
from visual_dynamics.cli import studio as studio_command
from visual_dynamics.cli import study as study_command
from visual_dynamics.cli import train as train_command
from visual_dynamics.cli.options import (
    OUT,
    DeviceOption,
    ModelOption,
    OutOption,
    OverwriteOption,
    SeedOption,
    find_device,
    load_model,
    progress_bar,
)
from visual_dynamics.cli.pictures import MODEL, analogy, extrapolate, sample, traverse
from visual_dynamics.errors import UserError

NAME = "visual-dynamics"
app = typer.Typer(
    name=NAME,
    add_completion=False,
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
) -> None:
    """From one image, many plausible next frames."""


for verb in (sample, analogy, extrapolate, traverse):
    app.command()(verb)


@app.command()
def demo(
    model: ModelOption = MODEL,
    seed: SeedOption = 0,
    out: OutOption = OUT / "demo",
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Make a page with futures, reconstructions, analogies and clips of images that are drawn for it."""
    from visual_dynamics.cli.demo import make_demo
    from visual_dynamics.cli.output import ResultFolder

    with ResultFolder(out, overwrite) as folder:
        page = make_demo(load_model(model, device), seed, folder)
    typer.echo(f"open {page} in a browser")


app.command()(animate_command.animate)
app.add_typer(prepare_command.app, name="prepare")
app.command()(train_command.train)
app.command()(reproduce_command.reproduce)
app.command()(reproduce_command.report)
app.add_typer(study_command.app, name="study")
app.command()(studio_command.studio)


@app.command()
def models() -> None:
    """List the models that come with the package."""
    from visual_dynamics.weights import find_weights, load_weights, shipped_models

    for name in shipped_models():
        path = find_weights(name)
        weights = load_weights(path)
        config = weights.network.config
        size = f"{config.size}x{config.size}"
        latents = f"{len(weights.posteriors):,} posteriors" if len(weights.posteriors) else "learned prior"
        typer.echo(
            f"{name:15} {size:8} z {config.latent:5,}  {latents}  "
            f"{path.stat().st_size / 1e6:.1f} MB  sha256 {weights.digest[:12]}"
        )


@app.command()
def compact(
    model: Annotated[str, typer.Argument(help="A shipped model, the weights of a run, or a Hugging Face Hub id.")],
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
    carry_over: Annotated[
        Path | None, typer.Option(help="Prepared footage: keep its motions that move what moves in other scenes, too.")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write a lighter copy of a model, to share it."""
    if file.suffix != ".safetensors":
        raise UserError(f"a model is a .safetensors file, and {file} would not be one")
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists already; --overwrite replaces it")
    loaded = load_model(model, "auto" if carry_over else "cpu")
    if carry_over:
        from visual_dynamics.api import Model
        from visual_dynamics.footage.carry_over import with_codes_that_carry_over

        with progress_bar("images tried") as progress:
            loaded = Model(with_codes_that_carry_over(loaded, carry_over, progress=progress))
    loaded.save_copy(file, eight_bits, motion_encoder, learned_prior)
    typer.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


@app.command()
def bench(
    out: OutOption = OUT / "bench",
    device: DeviceOption = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats and sizes.")] = False,
) -> None:
    """Measure speed: futures of one image, the cross convolution, training."""
    import json

    from visual_dynamics.experiments import speed
    from visual_dynamics.files import check_folder, write_atomically

    chosen = find_device(device)
    check_folder(out)
    result = speed.compute(speed.plan_for(chosen, quick), chosen, lambda what: typer.echo(f"{what} ...", err=True))
    write_atomically(out / "speed.json", json.dumps(result, indent=1).encode() + b"\n")
    typer.echo(speed.table(result))


# Newer versions of typer carry a click of their own: its classes are reached through one that typer shows.
UsageMistake: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
INTERRUPTED = 130  # as shells count a process that Ctrl-C ended


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a mistake of the user's is one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        result = app(arguments or ["--help"], prog_name=NAME, standalone_mode=False)
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


def _mistake(error: Exception) -> str:
    """What to tell people of an error that a library found in what they gave; nothing where the fault is ours."""
    if isinstance(error, UsageMistake):
        words = str(error.format_message()).replace("Value error, ", "").rstrip(".")
        where = getattr(getattr(error, "ctx", None), "command_path", NAME)
        return f"{words}; see {where} --help"
    if type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error):
        return "there is not enough memory for this"
    return ""
