"""Running an experiment from the command line: progress, JSON, figures."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from visual_dynamics.catalogue import find_weights
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.experiments.shapes_table import SIZE, Options
from visual_dynamics.files import check_folder, write_atomically
from visual_dynamics.weights import load_weights


def run_experiment(name: str, options: Options, folder: Path, device: torch.device) -> str:
    """Compute, save NAME.json in the folder, draw beside it; returns the tables as Markdown."""
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    if options.samples is not None and options.samples < 1:
        raise UserError(f"samples must be positive, not {options.samples}")
    experiment = EXPERIMENTS[name]
    _check(options, folder)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, int] = {}

        def tell(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=1.0)
            bar.update(tasks[what], completed=share)  # type: ignore[arg-type]

        result = experiment.compute(options, device, tell)
    write_atomically(folder / f"{name}.json", json.dumps(result).encode() + b"\n")
    return experiment.draw(result, folder)


def _check(options: Options, folder: Path) -> None:
    """Tell a mistake now, not after minutes of measuring."""
    check_folder(folder)
    if options.pairs is not None and not options.pairs.exists():
        raise UserError(f"no such folder or zip: {options.pairs}")
    for name in (options.model, options.autoencoder):
        size = SIZE if name is None else load_weights(find_weights(name)).network.config.size
        if size != SIZE:
            raise UserError(f"{name} makes frames of {size} pixels; this is measured on {SIZE}")
