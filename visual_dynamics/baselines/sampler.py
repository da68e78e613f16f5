"""What every way of imagining a next frame can do, so that all are measured alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class FutureSampler(Protocol):
    """From one frame, possible next frames."""

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        """float (3, H, W) in [0, 1] -> float (n, 3, H, W), one next frame for each of the n seeds.

        The same seed gives the same picture, whatever the other seeds are.
        """
        ...
