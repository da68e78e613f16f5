"""The trainings of the sweeps: which they are, and how they come to be."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.objective import reconstruction_weight
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.training.config import TrainingConfig, command_words, read_config
from visual_dynamics.training.loop import train
from visual_dynamics.weights import load_weights

RENDERING: shapes.Rendering = "smooth"
SIZES: dict[str, dict[str, Any]]  # of z: the paper's network, and a tiny one
SMALL_SIZES: dict[str, dict[str, Any]]
SIZES, SMALL_SIZES = (
    {"z8": {"latent": 8}, "z32": {"latent": 32}}
    | {"z128": {"latent": 128, "latent_scale": True}, "z3200": {"latent": None, "latent_scale": True}},
    {f"z{size}": {"preset": "tiny", "latent": size} for size in (8, 32, 200)},
)
BETAS = (1.0, 4.0, 16.0, 64.0)  # with the largest z
BETA = 16.0  # of all sizes: one of these
STEPS, BATCH = 3_000, 64
SMALL_TRAINING: dict[str, Any] = {
    "pairs": 256,
    "batch": 32,
    "steps": 40,
    "warmup": 5,
    "kl_warmup": 10,
    "log_every": 2,
}
FREE = ("log_every", "checkpoint_every", "start_digest")  # of a training: they change nothing that is learned


@dataclass(frozen=True)
class Plan:
    """The trainings by name, and which of them belong to which sweep, in its order."""

    runs: dict[str, TrainingConfig]
    sizes: list[str]
    weights: list[str]


def make_plan(seed: int = 0, small: bool = False) -> Plan:
    common = TrainingConfig(steps=STEPS, batch=BATCH, beta=BETA, seed=seed)
    if small:
        common = replace(common, **SMALL_TRAINING)
    sizes = {name: replace(common, **size) for name, size in (SMALL_SIZES if small else SIZES).items()}
    largest = list(sizes)[-1]
    weights = {
        largest if beta == BETA else f"{largest}-kl{kl_weight(config):g}": config
        for beta in BETAS
        for config in [replace(sizes[largest], beta=beta)]
    }
    return Plan(sizes | weights, list(sizes), list(weights))


def kl_weight(config: TrainingConfig) -> float:
    """What the KL term weighs against the squared error at the end of a training."""
    return config.beta / reconstruction_weight(config.sigma)


def training_command(folder: Path | str, config: TrainingConfig) -> str:
    """The line that makes a training: what differs from the defaults of `visual-dynamics train`."""
    return shlex.join(["visual-dynamics", "train", str(folder), *command_words(config)])


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def is_finished(folder: Path, config: TrainingConfig) -> bool:
    """Whether a folder holds the whole of the planned training; it must not hold another one."""
    if not (folder / "config.json").exists():
        return False
    found = read_config(folder).to_dict()
    for name, value in config.to_dict().items():
        if name not in FREE and (there := found[name]) != value:
            raise UserError(f"{folder} holds another training: its {name} is {there}, here it is {value}")
    weights = folder / "weights.safetensors"
    return weights.exists() and load_weights(weights).training.get("step") == config.steps


def make_run(folder: Path, config: TrainingConfig, name: str, device: torch.device, tell: Tell) -> None:
    """Train from the start, or resume, or do nothing: whatever is left to do."""
    if is_finished(folder, config):
        return
    begun = (folder / "config.json").exists()
    with as_on_the_command_line(device) as compiled:
        train(
            None if begun else config,
            folder,
            device,
            compiled=compiled,
            progress=lambda moment: tell(f"train {name}", moment.share),
        )


@contextmanager
def as_on_the_command_line(device: torch.device) -> Iterator[bool]:
    """Settings of `visual-dynamics train`; yields whether it compiles. Measuring goes on with those of before."""
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
    """The lines of a log that tell the terms of the loss."""
    path = folder / "log.jsonl"
    try:
        records = [json.loads(line) for line in path.read_text().splitlines()]
        found = [record for record in records if "squared_error" in record]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not found:
        raise UserError(f"{path} tells nothing of the training")
    return found
