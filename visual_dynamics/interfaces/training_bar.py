"""Training with a progress bar."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.loop import train
from visual_dynamics.training.run import read_config


def train_with_bar(config: TrainingConfig | None, folder: Path, device: torch.device, compiled: bool | None) -> None:
    """Train or (config None) resume; the first process prints the configuration and shows the bar."""
    processes = Processes.start(device.type)
    if device.type == "cuda":
        device = torch.device("cuda", processes.local_rank if device.index is None else device.index)
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    console = Console(stderr=True, quiet=not processes.is_first)
    console.print_json(json.dumps((config or read_config(folder)).to_dict()))
    columns = (TextColumn("step {task.fields[step]}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[terms]}"), console=console) as bar:
        task = bar.add_task("train", total=1.0, step=0, terms="")

        def report(progress: float, record: dict[str, float]) -> None:
            terms = f"loss {record['loss']:.1f}  kl {record['kl']:.1f}  error {record['squared_error']:.2f}"
            terms += f"  {record['pairs_per_second']:.0f} pairs/s"
            bar.update(task, completed=progress, step=int(record["step"]), terms=terms)

        try:
            path = train(
                config,
                folder,
                device,
                processes,
                compiled=device.type == "cuda" if compiled is None else compiled,
                report=report,
            )
        finally:
            processes.stop()
    console.print(f"weights in {path}")
