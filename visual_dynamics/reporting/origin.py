"""What every result says of where it comes from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Protocol

import torch

from visual_dynamics.api import Model
from visual_dynamics.provenance import provenance


class Asked(Protocol):
    """The options that every experiment on a model has."""

    @property
    def model(self) -> str: ...

    @property
    def seed(self) -> int: ...


def origin(options: Asked, model: Model, started: float, device: torch.device) -> dict[str, Any]:
    """Seed, model and weights, time taken since `started` (of `time.monotonic`), commit, versions and device."""
    return {
        "seed": options.seed,
        "model": Path(options.model).name,
        "weights": model.weights.digest,
        "seconds": round(time.monotonic() - started, 1),
    } | provenance(device)
