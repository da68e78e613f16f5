"""The command line: `visual-dynamics VERB ...`. Heavy modules are imported by the verb that needs them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    ImageArgument,
    ModelOption,
    OutOption,
    OverwriteOption,
    ScaleOption,
    SeedOption,
    busy,
    counted,
    find_device,
    progress_bar,
)
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.api import Model

NAME = "visual-dynamics"
app = typer.Typer(
    name=NAME,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Source(StrEnum):
    posteriors = "posteriors"
    learned = "learned"
    prior = "prior"


class Clip(StrEnum):
    gif = "gif"
    webp = "webp"
    apng = "apng"
    mp4 = "mp4"


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


MAX_FUTURES, MAX_STEPS, MAX_DIMENSIONS = 1_000, 1_000, 100  # that people may look at; the Python API draws more

ClipOption = Annotated[list[Clip], typer.Option("--clip", help="Kind of animation to write; may be repeated.")]
SourceOption = Annotated[
    Source | None,
    typer.Option(
        help="Where z comes from: training posteriors, a mixture of Gaussians that was fitted to them, or N(0, I).",
        show_default="posteriors where the model holds them",
    ),
]
FullSizeOption = Annotated[
    bool,
    typer.Option("--full-size", help="Results as large as IMAGE: its own pixels, moved; --scale does not apply."),
]
MODEL, CLIPS = "shapes", [Clip.gif]


@app.command()
def sample(
    image: ImageArgument,
    model: ModelOption = MODEL,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=MAX_FUTURES, help="Number of futures.")] = 8,
    seed: SeedOption = 0,
    source: SourceOption = None,
    out: OutOption = OUT / "sample",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    full_size: FullSizeOption = False,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Sample plausible next frames of an image."""
    from visual_dynamics.cli.full_size import write_futures
    from visual_dynamics.cli.output import ResultFolder, check_area

    kinds = [kind.value for kind in clip]
    with ResultFolder(out, overwrite) as folder:
        loaded = _load(model, device)
        if full_size and not loaded.keeps_size(image):
            write_futures(folder, loaded, image, count, seed, source.value if source else None, kinds)
        else:
            check_area(count + 1, loaded.size, scale)
            with busy(f"sampling {counted(count, 'future')}"):
                still, frames = (
                    loaded.picture(image),
                    loaded.sample(image, count, seed, source.value if source else None),
                )
                folder.write_picture("input.png", loaded.with_alpha(still[None], image)[0])
                folder.write_pictures("future", loaded.with_alpha(frames, image))
                labels = ["input", *(f"future {k}" for k in range(count))]
                folder.write_grid("futures.png", [still, *frames], labels, scale)
                folder.write_wall("futures", still, frames, scale, kinds)
    typer.echo(f"{counted(count, 'future')} of {image} in {out}: see futures.png")


@app.command()
def analogy(
    before: Annotated[Path, typer.Argument(help="A frame of the motion to carry over.")],
    after: Annotated[Path, typer.Argument(help="The next frame of it.")],
    image: ImageArgument,
    model: ModelOption = MODEL,
    out: OutOption = OUT / "analogy",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Carry the motion between two frames over to another image."""
    from visual_dynamics.cli.output import ResultFolder

    with ResultFolder(out, overwrite) as folder, busy("carrying the motion over"):
        loaded = _load(model, device)
        moved = loaded.apply(image, loaded.encode(before, after))
        still = loaded.picture(image)
        folder.write_picture("result.png", loaded.with_alpha(moved[None], image)[0])
        reference = [loaded.picture(before), loaded.picture(after)]
        folder.write_grid("analogy.png", [*reference, still, moved], ["before", "after", "input", "result"], scale)
        folder.write_clips("analogy", [still, moved], scale, [kind.value for kind in clip], fps=2)
    typer.echo(f"the motion from {before} to {after} on {image} in {out}: see analogy.png")


@app.command()
def extrapolate(
    image: ImageArgument,
    model: ModelOption = MODEL,
    steps: Annotated[int, typer.Option(min=1, max=MAX_STEPS, help="Frames to add.")] = 8,
    seed: SeedOption = 0,
    source: SourceOption = None,
    out: OutOption = OUT / "extrapolate",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    full_size: FullSizeOption = False,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Make a clip from one image by repeating a sampled motion."""
    from visual_dynamics.cli.full_size import write_clip
    from visual_dynamics.cli.output import ResultFolder, check_area

    kinds = [kind.value for kind in clip]
    with ResultFolder(out, overwrite) as folder:
        loaded = _load(model, device)
        if full_size and not loaded.keeps_size(image):
            write_clip(folder, loaded, image, steps, seed, source.value if source else None, kinds)
        else:
            check_area(steps + 1, loaded.size, scale)
            with busy(f"making {counted(steps, 'step')}"):
                frames = loaded.extrapolate(image, steps, seed, source.value if source else None)
                folder.write_pictures("frame", loaded.with_alpha(frames, image))
                folder.write_grid("clip.png", list(frames), [f"step {k}" for k in range(steps + 1)], scale)
                folder.write_clips("clip", frames, scale, kinds, fps=6)
    typer.echo(f"{counted(steps, 'step')} from {image} in {out}: see clip.png")


@app.command()
def traverse(
    image: ImageArgument,
    model: ModelOption = MODEL,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=MAX_DIMENSIONS, help="Number of dimensions.")] = 5,
    out: OutOption = OUT / "traverse",
    clip: ClipOption = CLIPS,
    scale: ScaleOption = 3,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Vary the dimensions of z that carry motion, each alone, the strongest first."""
    from visual_dynamics.cli.output import ResultFolder, check_area

    with ResultFolder(out, overwrite) as folder, busy("varying z"):
        loaded = _load(model, device)
        found = loaded.traverse(image, count)
        values = found[0].values
        check_area(len(found) * len(values), loaded.size, scale)
        folder.write_picture("input.png", loaded.picture(image))
        for place, strip in enumerate(found, 1):
            stem = f"dimension_{place:02d}_z{strip.dimension}"
            folder.write_grid(f"{stem}.png", strip.frames, [f"{value:g}" for value in values], scale, len(values))
            there_and_back = [*strip.frames, *strip.frames[-2:0:-1]]
            folder.write_clips(stem, there_and_back, scale, [kind.value for kind in clip], fps=8)
    strongest = ", ".join(f"{strip.dimension} ({strip.nats:.1f} nats)" for strip in found)
    typer.echo(f"{counted(len(found), 'dimension')} of z on {image} in {out}, the strongest first: {strongest}")


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
        page = make_demo(_load(model, device), seed, folder)
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
    from visual_dynamics.catalogue import find_weights, shipped_models
    from visual_dynamics.weights import load_weights

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
    loaded = _load(model, "auto" if carry_over else "cpu")
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


def _load(model: str, device: str) -> Model:
    from visual_dynamics.api import load

    return load(model, device)


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
