"""Running an experiment from the command line: progress, JSON, figures."""

from __future__ import annotations

import json
import math
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from visual_dynamics.catalogue import find_weights
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, Experiment
from visual_dynamics.files import check_folder, write_atomically
from visual_dynamics.reporting.report import SMALL
from visual_dynamics.weights import load_weights

SIZE = 64  # pixels: the frames of the paper's tables
MINUTE = 60.0  # seconds from a line on how it goes to the next, where no bar can be drawn
ANY_SIZE = ("futures", "latents", "traversal", "video")  # at the model's own size


def run_experiment(name: str, given: dict[str, Any], folder: Path, device: torch.device) -> str:
    """Compute, save NAME.json in the folder, draw beside it; returns the tables as Markdown.

    `given`: options by name, None where the experiment's own default holds.
    """
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    chosen = {option: value for option, value in given.items() if value is not None}
    known = [field.name for field in fields(experiment.Options)]
    if foreign := [option for option in chosen if option not in known]:
        written = [f"--{option.replace('_', '-')}" for option in (foreign[0], *known)]  # as on the command line
        raise UserError(f"reproduce {name} has no option {written[0]}; it has {', '.join(written[1:])}")
    if "sprites_model" in chosen and "sprites" not in chosen:
        raise UserError("--sprites-model needs --sprites, the folder of the sprites to measure it on")
    options = experiment.Options(**chosen)
    small = bool(chosen.get("small"))
    if small and _holds_full_result(folder / f"{name}.json"):
        raise UserError(f"{folder} holds a full result of {name}: give another folder with --out for a small one")
    _check(experiment, options, folder, None if name in ANY_SIZE else SIZE)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, int] = {}
        last = time.monotonic()

        def tell(what: str, share: float) -> None:
            nonlocal last
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=1.0)
            bar.update(tasks[what], completed=share)  # type: ignore[arg-type]
            if not console.is_terminal and time.monotonic() - last >= MINUTE:
                console.print(f"{name}: {what} {100 * share:.0f}%", highlight=False, markup=False)
                last = time.monotonic()

        result = experiment.compute(options, device, tell)
    if small:
        result["small"] = True
    text = json.dumps(without_nan(result), allow_nan=False, separators=(",", ":"))  # thousands of numbers: no blanks
    write_atomically(folder / f"{name}.json", text.encode() + b"\n")
    text = experiment.draw(result, folder)
    if small:
        text = f"{SMALL}\n\n{text}"
        write_atomically(folder / f"{name}.md", text.encode())
    return text


def _holds_full_result(path: Path) -> bool:
    try:
        return not json.loads(path.read_bytes()).get("small")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError):  # whatever it is, it is not ours to replace
        return True


def without_nan(value: Any) -> Any:
    """JSON knows no NaN (the correlation of what never moves, say): null stands for it."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check(experiment: Experiment, options: Any, folder: Path, wanted: int | None) -> None:
    """Tell a mistake now, not after minutes of measuring. `wanted`: the frame size the models must have, if any."""
    check_folder(folder)
    if runs := getattr(options, "runs", None):
        check_folder(runs)
    if options.samples is not None and options.samples < 1:
        raise UserError(f"samples must be positive, not {options.samples}")
    for place in ("pairs", "sprites", "footage"):
        path = getattr(options, place, None)
        if path is not None and not path.exists():
            raise UserError(f"no such folder or zip: {path}")
    asked = ["model", "guide", "autoencoder", "integer_model"]
    asked += ["sprites_model"] if getattr(options, "sprites", None) else []
    for name in filter(None, (getattr(options, option, None) for option in asked)):  # some have to be given
        size = load_weights(find_weights(name)).network.config.size
        if wanted is not None and size != wanted:
            raise UserError(f"{name} makes frames of {size} pixels; this is measured on {wanted}")
