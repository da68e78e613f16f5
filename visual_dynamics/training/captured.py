"""Many small kernels as one launch: a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import torch
from torch import Tensor

WARM_UP = 3  # plain calls before the capture: libraries set themselves up, memory is reserved
Result = TypeVar("Result")


class Captured(Generic[Result]):
    """A function of tensors. On CUDA, after a few plain calls, it is a CUDA graph: the same kernels in the same order.

    Its arguments are copied to one place. Its result lies at one place: the next call overwrites it. The function must
    ask the device for no value, and do the same each time; what else it reads or writes stays where it is. If the
    capture fails, calls stay plain.
    """

    def __init__(self, function: Callable[..., Result], device: torch.device) -> None:
        self.function, self.device = function, device
        self.capturable = device.type == "cuda"
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.arguments: list[Tensor] | None = None

    def __call__(self, *arguments: Tensor) -> Result:
        if self.device.type != "cuda":
            return self.function(*arguments)
        kept = self._kept(arguments)
        if self.capturable and self.graph is None and self.calls >= WARM_UP:
            self._capture(kept)
        self.calls += 1
        if self.graph is None:
            return self.function(*kept)
        self.graph.replay()
        return self.result

    def _kept(self, arguments: tuple[Tensor, ...]) -> list[Tensor]:
        """The arguments on the device, in the memory of the first call's. Nothing waits for the device."""
        sources = [value.contiguous().pin_memory() if value.device.type == "cpu" else value for value in arguments]
        if self.arguments is None:
            self.arguments = [torch.empty_like(value, device=self.device) for value in sources]
        for held, value in zip(self.arguments, sources, strict=True):
            if held.shape != value.shape or held.dtype != value.dtype:
                raise ValueError(
                    f"captured for {tuple(held.shape)}, {held.dtype}, not {tuple(value.shape)}, {value.dtype}"
                )
            held.copy_(value, non_blocking=True)
        return self.arguments

    def _capture(self, arguments: list[Tensor]) -> None:
        """Record what the function launches; nothing runs."""
        with torch.cuda.device(self.device):
            before = Before()
            graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
            try:  # other threads may use the device meanwhile
                with torch.cuda.graph(graph, pool, torch.cuda.Stream(), capture_error_mode="thread_local"):
                    self.result = self.function(*arguments)
                self.graph = graph
            except Exception:  # of whatever kind: a plain call does the same
                self.capturable = False
                self.failed = graph  # kept: the allocator may still ask it
                before.restore(pool)


class Before:
    """The state of a device before a capture. PyTorch does not bring it back where a capture fails."""

    def __init__(self) -> None:
        self.stream = torch.cuda.current_stream()
        self.generator = torch.cuda.default_generators[torch.cuda.current_device()]
        self.random = self.generator.get_state()

    def restore(self, pool: tuple[int, int]) -> None:
        """`pool`: of the memory that the capture was to take."""
        torch.cuda.set_stream(self.stream)
        device = torch.cuda.current_device()
        with suppress(Exception):  # what the capture had got to is not known
            fresh = torch.Generator(torch.device("cuda", device))
            fresh.set_state(self.random)
            self.generator.graphsafe_set_state(fresh)
        with suppress(Exception):  # an error where the capture itself did it
            torch._C._cuda_endAllocateToPool(device, pool)
            torch._C._cuda_releasePool(device, pool)
