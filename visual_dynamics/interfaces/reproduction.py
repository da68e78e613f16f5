"""Running an experiment from the command line: progress, JSON, figures."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.experiments.shapes_table import Options
from visual_dynamics.files import check_folder, write_atomically


def run_experiment(name: str, options: Options, folder: Path, device: torch.device) -> str:
    """Compute, save NAME.json in the folder, draw beside it; returns the tables as Markdown."""
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    if options.samples is not None and options.samples < 1:
        raise UserError(f"samples must be positive, not {options.samples}")
    experiment = EXPERIMENTS[name]
    check_folder(folder)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, int] = {}

        def tell(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=1.0)
            bar.update(tasks[what], completed=share)  # type: ignore[arg-type]

        result = experiment.compute(options, device, tell)
    write_atomically(folder / f"{name}.json", json.dumps(result).encode() + b"\n")
    return experiment.draw(result, folder)
