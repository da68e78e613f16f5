"""The least that can be done: say that nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class Copy:
    """Every next frame is the frame itself."""

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        return frame.repeat(len(seeds), 1, 1, 1)
