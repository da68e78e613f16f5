"""A step of many small kernels as one launch: a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch

WARM_UP = 3  # plain calls before the capture: libraries set themselves up, memory is reserved


class CapturedStep:
    """Calls a function. On CUDA, after a few plain calls, as a CUDA graph: the same kernels in the same order.

    The function must read and write tensors that stay where they are, ask the device for no value, and change nothing
    else. What differs from call to call is written into those tensors before. If the capture fails, calls stay plain.
    """

    def __init__(self, step: Callable[[], object], device: torch.device) -> None:
        self.step, self.device = step, device
        self.capturable = device.type == "cuda"
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self.capturable and self.graph is None and self.calls >= WARM_UP:
            self._capture()
        self.calls += 1
        if self.graph is None:
            self.step()
        else:
            self.graph.replay()

    def _capture(self) -> None:
        """Record what the function launches; nothing runs."""
        with torch.cuda.device(self.device):
            before = torch.cuda.current_stream()
            graph = torch.cuda.CUDAGraph()
            try:  # other threads may use the device meanwhile
                with torch.cuda.graph(graph, stream=torch.cuda.Stream(), capture_error_mode="thread_local"):
                    self.step()
                self.graph = graph
            except Exception:  # of whatever kind: a plain call does the same
                self.capturable = False
                torch.cuda.set_stream(before)  # a failed capture leaves its own stream behind
