"""What an experiment is, and how one or all of them are run.

An experiment makes a table or figure of the paper in two steps. `compute` measures: it gives numbers, saved as
NAME.json, and pictures, saved as PNG files beside it. `draw` makes plots and tables from the numbers alone.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import Progress as ProgressBar

from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_atomically, write_together
from visual_dynamics.model_files import find_weights
from visual_dynamics.provenance import provenance
from visual_dynamics.reporting.drawing import footer
from visual_dynamics.weights import load_weights

SIZE = 64  # pixels: the frames of the paper's tables
MINUTE = 60.0  # seconds between two lines of progress where no bar can be drawn
SMALL = "**Small setting: a quick look with few samples, not a result to quote.**"
DIGESTS = {  # option that names a model -> the key of its weights' digest in the JSON
    "model": "weights",
    "guide": "guide_weights",
    "poses_model": "poses_weights",
    "autoencoder": "autoencoder_weights",
    "integer_model": "integer_weights",
}
FLAGS = (
    "samples",
    "seed",
    "small",
    "model",
    "sprites",
    "lpc",
    "pairs",
    "footage",
)  # --NAME; others are --set NAME=VALUE
SINGLE_ONLY = ("model", "samples")  # options with another meaning in each experiment: not for all at once

Progress = Callable[[str, float], None]  # name of a step, and the share of it that is done


@dataclass(frozen=True)
class ExperimentOptions:
    """Options of every experiment. Each adds its models and data: `model`, `sprites`, `pairs`, ..."""

    samples: int | None = None  # images, pairs, rows or futures; None: the full number
    seed: int = 0
    small: bool = False  # a quick look: a minute or two on two CPU cores


@dataclass(frozen=True)
class Measured:
    """What `compute` gives."""

    numbers: dict[str, Any]  # for the JSON
    pictures: Mapping[str, bytes] = field(default_factory=dict)  # file name -> its bytes


class Headline(NamedTuple):
    """The one line of a result for the overview."""

    measure: str
    paper: str
    ours: str
    floor: str  # or another number to compare with


@dataclass(frozen=True)
class Experiment:
    name: str
    summary: str
    about: str  # a docstring: what the paper shows and says, command, cost, protocol
    options: type
    compute: Callable[[Any, torch.device, Progress], Measured]
    draw: Callable[[dict[str, Any], Path], str]  # plots into the folder; returns Markdown
    headline: Callable[[dict[str, Any]], Headline] | None = None
    frame_size: int | None = SIZE  # that its models must have; None: any
    newest: tuple[str, ...] = ()  # the way to a field that the present code writes and older results lack

    def is_older(self, result: dict[str, Any]) -> bool:
        """Whether a result was measured before the protocol became what the docstring says."""
        found: Any = result
        for key in self.newest:
            if not isinstance(found, dict) or key not in found:
                return True
            found = found[key]
        return False


Experiments = Mapping[str, Experiment]  # by name


def run_experiment(
    experiments: Experiments, name: str, given: Mapping[str, Any], folder: Path, device: torch.device
) -> str:
    """Compute and draw one experiment into the folder: NAME.json, NAME.md and figures. Returns the Markdown.

    `given`: options by name; None stands for the experiment's default.
    """
    if name not in experiments:
        raise UserError(f"no experiment {name!r}; there are {', '.join(experiments)}")
    experiment = experiments[name]
    options = read_options(experiment, given)
    result_file = folder / f"{name}.json"
    if options.small and _holds_full_result(result_file):
        raise UserError(f"{folder} holds a full result of {name}: give another folder with --out for a small one")
    _check_paths(options, folder)
    models = _check_models(experiment, options)
    started = time.monotonic()
    with _shown_progress(name) as progress:
        measured = experiment.compute(options, device, progress)
    origin = {"seed": options.seed, **models, "seconds": round(time.monotonic() - started, 1), **provenance(device)}
    result = {"experiment": name} | without_nan(measured.numbers) | origin | ({"small": True} if options.small else {})
    text = json.dumps(result, allow_nan=False, separators=(",", ":"))
    write_together(folder, {result_file.name: text.encode() + b"\n", **measured.pictures})
    parts = [SMALL] if options.small else []
    parts += [experiment.draw(json.loads(text), folder).strip(), footer(result)]
    markdown = "\n\n".join(parts) + "\n"
    write_atomically(folder / f"{name}.md", markdown.encode())
    return markdown


def run_all(
    experiments: Experiments,
    given: Mapping[str, Any],
    folder: Path,
    device: torch.device,
    say: Callable[[str], object],
) -> bool:
    """Run every experiment with those of the given options that it has. A failure does not stop the others.

    Returns False if one broke; missing data or a missing model does not count as that.
    """
    for option in SINGLE_ONLY:
        if given.get(option) is not None:
            raise UserError(f"reproduce all has no option --{option}: give it to one experiment")
    for place in ("sprites", "lpc", "pairs", "footage"):
        if given.get(place) is not None and not given[place].exists():
            raise UserError(f"no such folder or zip: {given[place]}")
    check_folder(folder)
    whole = True
    for number, (name, experiment) in enumerate(experiments.items(), 1):
        say(f"[{number}/{len(experiments)}] {name}: {experiment.summary}")
        known = {option.name for option in fields(experiment.options)}
        started = time.monotonic()
        try:
            run_experiment(experiments, name, {k: v for k, v in given.items() if k in known}, folder, device)
            say(f"    done in {time.monotonic() - started:.0f} s")
        except UserError as error:
            say(f"    not made: {_one_line(error)}")
        except Exception as error:
            say(f"    failed: {_one_line(error) or 'no reason given'} ({type(error).__name__})")
            whole = False
    return whole


def read_options(experiment: Experiment, given: Mapping[str, Any]) -> Any:
    """The options of an experiment; a UserError names one that it does not have."""
    chosen = {option: value for option, value in given.items() if value is not None}
    known = [option.name for option in fields(experiment.options)]
    if foreign := [option for option in chosen if option not in known]:
        written = [as_written(option) for option in (foreign[0], *known)]
        raise UserError(f"reproduce {experiment.name} has no option {written[0]}; it has {', '.join(written[1:])}")
    if "sprites_model" in chosen and "sprites" not in chosen:
        raise UserError(f"{as_written('sprites_model')} needs --sprites, the folder of the sprites to measure it on")
    options = experiment.options(**chosen)
    if options.samples is not None and options.samples < 1:
        raise UserError(f"samples must be positive, not {options.samples}")
    return options


def as_written(option: str) -> str:
    """An option as the command line takes it: "--seed", "--set runs=FOLDER"."""
    values = {"runs": "FOLDER", "layers": "FOLDER", "seeds": "MODELS", "characters": "SPLIT"}
    values |= {"split": "PART", "judges": "PAIRS,JUDGES,STEPS"}
    return f"--{option}" if option in FLAGS else f"--set {option}={values.get(option, 'MODEL')}"


def listed_models(names: str | None) -> list[str]:
    """The models of an option that takes several, between commas."""
    return [name.strip() for name in names.split(",") if name.strip()] if names else []


def sprites_folder(options: Any) -> Path:
    """The folder of Reed's characters, for experiments that need one."""
    if options.sprites is None:
        raise UserError("this is measured on Reed's sprites: give their folder with --sprites")
    return Path(options.sprites)


def lpc_checkout(options: Any) -> Path:
    """The checkout of the LPC generator, for experiments that compose characters of it."""
    if options.lpc is None:
        raise UserError("this is measured on characters of the LPC generator: give a checkout of it with --lpc")
    return Path(options.lpc)


def without_nan(value: Any) -> Any:
    """Replace NaN and infinity by None: JSON has neither."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_paths(options: Any, folder: Path) -> None:
    """Report a wrong path now, not after minutes of measuring."""
    check_folder(folder)
    if runs := getattr(options, "runs", None):
        check_folder(runs)
    for place in ("pairs", "sprites", "lpc", "footage", "layers"):
        path = getattr(options, place, None)
        if path is not None and not path.exists():
            raise UserError(f"no such folder or zip: {path}")


def _check_models(experiment: Experiment, options: Any) -> dict[str, str | list[str]]:
    """Names and weights' digests of the models, for the JSON; a UserError if one is missing or has the wrong size."""
    found: dict[str, str | list[str]] = {}

    def digest(name: str) -> str:
        weights = load_weights(find_weights(name))
        size = weights.network.config.size
        if experiment.frame_size not in (None, size):
            raise UserError(f"{name} makes frames of {size} pixels; this is measured on {experiment.frame_size}")
        return weights.digest

    for option in (*DIGESTS, *(["sprites_model"] if getattr(options, "sprites", None) else [])):
        if name := getattr(options, option, None):
            known = digest(name)
            if option in DIGESTS:
                found |= {option: Path(name).name, DIGESTS[option]: known}
    if further := listed_models(getattr(options, "seeds", None)):
        names = ["/".join(Path(name).parts[-2:]) for name in further]  # a run's folder and its file
        found |= {"seeds": names, "seeds_weights": [digest(name) for name in further]}
        if len({*found["seeds_weights"], found["weights"]}) <= len(further):
            raise UserError("seeds names a model twice, or the model itself: their mean would count it twice")
    return found


@contextmanager
def _shown_progress(name: str) -> Iterator[Progress]:
    """A bar for each step; a line a minute where stderr is no terminal."""
    console = Console(stderr=True)
    with ProgressBar(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}
        last = time.monotonic()

        def progress(step: str, share: float) -> None:
            nonlocal last
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=1.0)
            bar.update(tasks[step], completed=share)
            if not console.is_terminal and time.monotonic() - last >= MINUTE:
                console.print(f"{name}: {step} {100 * share:.0f}%", highlight=False, markup=False)
                last = time.monotonic()

        yield progress


def _holds_full_result(path: Path) -> bool:
    try:
        return not json.loads(path.read_bytes()).get("small")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError):  # a file of another kind: keep it
        return True


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
