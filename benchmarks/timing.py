"""Repeated times, and what is kept of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch

Result = TypeVar("Result")


@dataclass
class Times:
    """Seconds of one thing's repeats."""

    seconds: list[float] = field(default_factory=list)

    def add(self, work: Callable[[], Result], device: torch.device) -> Result:
        """Run the work, to its end on the device, and note how long it took."""
        synchronise(device)
        started = time.perf_counter()
        result = work()
        synchronise(device)
        self.seconds.append(time.perf_counter() - started)
        return result

    @property
    def shortest(self) -> float:
        return min(self.seconds)

    def summary(self) -> dict[str, float]:
        return {"shortest": self.shortest, "median": statistics.median(self.seconds)}


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(times: dict[str, Times]) -> dict[str, float]:
    return {name: 1000 * each.shortest for name, each in times.items()}


def ratios(times: dict[str, Times]) -> dict[str, float]:
    """To the fastest form."""
    best = min(each.shortest for each in times.values())
    return {name: each.shortest / best for name, each in times.items()}
