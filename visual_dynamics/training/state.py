"""The resumable state of a run: everything that decides the next step, in one safetensors file."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically


def save_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, step: int, seconds: float) -> None:
    """Weights and batch statistics in full precision, the optimizer's moments, the step and the time spent."""
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
    light = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path, save(light, {"progress": json.dumps({"step": step, "seconds": seconds})}))


def load_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Continue where `save_state` left off: fills network and optimizer, returns step and seconds."""
    try:
        with safe_open(path, "pt") as file:
            progress = json.loads((file.metadata() or {})["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
        network.load_state_dict(_below("network.", tensors))
        saved = optimizer.state_dict()
        saved["state"] = {}
        for name, value in _below("optimizer.", tensors).items():
            index, moment = name.split(".", 1)
            saved["state"].setdefault(int(index), {})[moment] = value
        optimizer.load_state_dict(saved)
        return int(progress["step"]), float(progress["seconds"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot resume from {path}: {str(error).splitlines()[0]}") from error


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
