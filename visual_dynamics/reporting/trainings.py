"""Experiments whose models are trainings of their own: what is missing is trained, what is there is loaded."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from visual_dynamics.api import Model, load
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.trained_shapes import four_digits
from visual_dynamics.objective import reconstruction_weight
from visual_dynamics.reporting.base import ExperimentOptions, Progress
from visual_dynamics.training.config import TrainingConfig, command_words, read_config
from visual_dynamics.training.loop import train
from visual_dynamics.weights import load_weights

SMALL: dict[str, Any] = {"pairs": 256, "batch": 32, "steps": 40, "warmup": 5, "kl_warmup": 10, "log_every": 2}
POINTS = 80  # of a curve, at most
LAST = 0.1  # share of the steps whose mean is the final training error
FREE = ("log_every", "checkpoint_every", "start_digest", "compile")  # settings that change nothing that is learned


@dataclass(frozen=True)
class TrainingsOptions(ExperimentOptions):
    runs: Path | None = None  # the folder of the trainings; without it they are thrown away


class Trained(NamedTuple):
    config: TrainingConfig
    model: Model
    log: list[dict[str, float]]


def make_trainings(
    planned: Mapping[str, TrainingConfig], options: TrainingsOptions, device: torch.device, progress: Progress
) -> dict[str, Trained]:
    """The planned trainings by name, each from FOLDER/NAME; made or resumed where it is not finished."""
    if device.type == "cpu" and not options.runs and not options.small:
        raise UserError("the trainings take days on a CPU: give --set runs=FOLDER, which keeps them, or --small")
    with nullcontext(str(options.runs)) if options.runs else tempfile.TemporaryDirectory() as place:
        places = {name: Path(place) / name for name in planned}
        for name, config in planned.items():  # a mistake is reported before hours of training
            is_finished(places[name], config)
        for name, config in planned.items():
            make_run(places[name], config, device, partial(progress, f"train {name}"))
        return {
            name: Trained(config, load(places[name] / "weights.safetensors", str(device)), read_log(places[name]))
            for name, config in planned.items()
        }


def kl_weight(config: TrainingConfig) -> float:
    """Weight of the KL term against the squared error at the end of a training."""
    return config.beta / reconstruction_weight(config.sigma)


def training_command(folder: Path | str, config: TrainingConfig) -> str:
    """The command that makes a training: the options that differ from their defaults."""
    return shlex.join(["visual-dynamics", "train", str(folder), *command_words(config)])


def is_finished(folder: Path, config: TrainingConfig) -> bool:
    """Whether a folder holds the whole of the planned training; it must not hold another one."""
    if not (folder / "config.json").exists():
        return False
    found = read_config(folder).to_dict()
    for name, value in config.to_dict().items():
        if name not in FREE and (there := found[name]) != value:
            raise UserError(f"{folder} holds another training: its {name} is {there}, here it is {value}")
    weights = folder / "weights.safetensors"
    if not weights.exists():
        return False
    done = load_weights(weights).training
    return config.is_over(done["step"], config.progress(done["step"], done["seconds"]))


def make_run(folder: Path, config: TrainingConfig, device: torch.device, progress: Callable[[float], None]) -> None:
    """Train from the start, resume, or do nothing if it is finished."""
    if is_finished(folder, config):
        return
    begun = (folder / "config.json").exists()
    with training_settings(device) as compiled:
        train(
            None if begun else config,
            folder,
            device,
            compiled=compiled,
            progress=lambda moment: progress(moment.share),
        )


@contextmanager
def training_settings(device: torch.device) -> Iterator[bool]:
    """Settings of `visual-dynamics train`; yields whether it compiles. Afterwards those from before hold again."""
    precision, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    try:
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.benchmark = True
            torch.compiler.reset()  # each network is compiled for its own sizes, not for any
        yield device.type == "cuda"
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark


def read_log(folder: Path) -> list[dict[str, float]]:
    """The records of a log that hold the terms of the loss."""
    path = folder / "log.jsonl"
    try:
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found = [record for record in records if "squared_error" in record]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not found:
        raise UserError(f"{path} holds no losses of the training")
    return found


def describe(folder: str, config: TrainingConfig, log: list[dict[str, float]]) -> dict[str, Any]:
    """How a training went, and the command that makes it in this folder."""
    steps, seconds = int(log[-1]["step"]), log[-1]["seconds"]  # after the first step
    last = [record["squared_error"] for record in log if record["step"] > (1 - LAST) * steps]
    points = np.linspace(0, len(log) - 1, min(POINTS, len(log))).round().astype(int)  # evenly chosen, with the last
    return {
        "command": training_command(folder, config),
        "preset": config.preset,
        "bottleneck": config.beta,
        "kl_weight": four_digits(kl_weight(config)),
        "steps": steps,
        "seconds": round(seconds, 1),
        "pairs_per_second": four_digits((steps - 1) * config.batch / max(1e-9, seconds)),
        "training_error": four_digits(sum(last) / len(last)),
        "curve": {key: [four_digits(log[point][key]) for point in points] for key in ("step", "squared_error", "kl")},
    }
