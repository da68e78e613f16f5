"""The one contract of the data: pairs of neighbouring frames.

Frames are stored as 8-bit colours, channels first, and handed to the network as floats in [0, 1]. The network owns
everything after that: value ranges, the image pyramid, the scaling of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Pair(NamedTuple):
    """A batch of pairs; floats in [0, 1]."""

    frame: Tensor  # (B, 3, H, W)
    next_frame: Tensor  # (B, 3, H, W)

    @property
    def difference(self) -> Tensor:
        """v = J - I, the Eulerian motion that the network predicts; in [-1, 1]."""
        return self.next_frame - self.frame


@dataclass(frozen=True)
class Pairs:
    """A data set of N pairs held in memory, on any device."""

    frames: Tensor  # uint8 (N, 3, H, W)
    next_frames: Tensor  # uint8 (N, 3, H, W)

    def __post_init__(self) -> None:
        if self.frames.shape != self.next_frames.shape:
            raise ValueError(
                f"frames {tuple(self.frames.shape)} and next frames {tuple(self.next_frames.shape)} differ"
            )
        if self.frames.dtype != torch.uint8 or self.next_frames.dtype != torch.uint8:
            raise ValueError("frames are stored as uint8")
        if self.frames.ndim != 4 or self.frames.shape[1] != 3:
            raise ValueError(f"frames are (N, 3, H, W), not {tuple(self.frames.shape)}")

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames."""
        return self.frames.shape[2], self.frames.shape[3]

    def batch(self, indices: Tensor) -> Pair:
        """The chosen pairs as floats, on the device where the data set lives."""
        indices = indices.to(self.frames.device)
        return Pair(self.frames[indices].float() / 255, self.next_frames[indices].float() / 255)

    def subset(self, indices: Tensor) -> Pairs:
        return Pairs(self.frames[indices], self.next_frames[indices])

    def to(self, device: torch.device | str) -> Pairs:
        return Pairs(self.frames.to(device), self.next_frames.to(device))

    def resized(self, size: int) -> Pairs:
        """The same pairs at size x size pixels (see `resize_frames`)."""
        if self.size == (size, size):
            return self
        return Pairs(resize_frames(self.frames, size), resize_frames(self.next_frames, size))


def resize_frames(frames: Tensor, size: int, chunk: int = 1024) -> Tensor:
    """uint8 (N, 3, H, W) -> uint8 (N, 3, size, size): averaged when made smaller, bilinear when enlarged."""

    def resize(part: Tensor) -> Tensor:
        values = part.float()
        if size < min(part.shape[-2:]):
            values = F.interpolate(values, size=(size, size), mode="area")
        else:
            values = F.interpolate(values, size=(size, size), mode="bilinear", align_corners=False)
        return values.round_().clamp_(0, 255).to(torch.uint8)

    return torch.cat([resize(part) for part in frames.split(chunk)])
