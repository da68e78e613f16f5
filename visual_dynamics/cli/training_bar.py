"""Training with a progress bar; where nobody watches, with a line for every record of the log."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.loop import train
from visual_dynamics.training.run import read_config


def train_with_bar(config: TrainingConfig | None, folder: Path, device: torch.device, compiled: bool | None) -> None:
    """Train or (config None) resume; the first process tells the configuration and how it goes, on stderr."""
    processes = Processes.start(device.type)
    try:
        if device.type == "cuda":
            device = torch.device("cuda", processes.local_rank if device.index is None else device.index)
            torch.cuda.set_device(device)
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.benchmark = True
        console = Console(stderr=True, quiet=not processes.is_first, soft_wrap=True, highlight=False)
        compiled = device.type == "cuda" if compiled is None else compiled
        # Many processes would hear of it at different steps; there the last checkpoint has to do.
        with _interruption(console) if processes.count == 1 else nullcontext(lambda: False) as interrupted:
            path = _train(config, folder, device, processes, compiled, console, interrupted)
    finally:
        processes.stop()
    if interrupted():
        console.print(f"stopped; go on with: visual-dynamics train {folder} --resume", markup=False)
        raise KeyboardInterrupt
    console.print(f"weights in {path}", markup=False)


@contextmanager
def _interruption(console: Console) -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C or SIGTERM into a question the loop can ask between steps; a second one stops at once."""
    heard: list[int] = []

    def listen(number: int, _: object) -> None:
        heard.append(number)
        console.print("stopping after this step, with a checkpoint")
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {number: signal.signal(number, listen) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(heard)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _train(
    config: TrainingConfig | None,
    folder: Path,
    device: torch.device,
    processes: Processes,
    compiled: bool,
    console: Console,
    interrupted: Callable[[], bool],
) -> Path:
    name, terms = TextColumn("{task.description}"), TextColumn("{task.fields[terms]}")
    columns = (name, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), terms)
    # A transient bar leaves nothing behind: an error is one line, and comes alone where training has not begun.
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("preparing", total=1.0, terms="")
        begun = False

        def report(progress: float, record: dict[str, float]) -> None:
            nonlocal begun
            if not begun:
                console.print_json(json.dumps((config or read_config(folder)).to_dict()))
                begun = True
            numbers = f"loss {record['loss']:.1f}  kl {record['kl']:.1f}  error {record['squared_error']:.2f}"
            numbers += f"  {record['pairs_per_second']:.0f} pairs/s"
            bar.update(task, completed=progress, description=f"step {record['step']:.0f}", terms=numbers)
            if not console.is_terminal:
                console.print(f"step {record['step']:.0f}  {100 * progress:.0f}%  {numbers}")

        return train(config, folder, device, processes, compiled, report, interrupted)
