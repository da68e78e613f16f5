"""Prepared pairs for training: read into memory where they fit, or left in their files and read as they are asked for.

Both give the same floats. A batch is asked for by indices, whatever the order, so that shuffling, sharing among
processes and resuming are those of any other data. What was read once stays in the operating system's cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from visual_dynamics.data.pairs import IndexedPairs, Pair, resize_frames
from visual_dynamics.data.shard_files import Shard, split_shards
from visual_dynamics.errors import UserError


@dataclass(frozen=True)
class ShardedPairs:
    """A data set of N pairs in files; the contract of Pairs, but for the device: it stays where it is."""

    shards: tuple[Shard, ...]
    shard: npt.NDArray[np.int64]  # (N,): which file a pair is in
    first: npt.NDArray[np.int64]  # (N,): where in it the frame lies
    second: npt.NDArray[np.int64]  # (N,): and where the next frame
    side: int  # pixels of the frames that are handed out

    def __len__(self) -> int:
        return len(self.first)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames."""
        return self.side, self.side

    @property
    def nbytes(self) -> int:
        """What all frames would take in memory."""
        return 3 * self.side**2 * sum(len(shard.frames) for shard in self.shards)

    def read(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The chosen pairs as they are stored: frames and next frames, uint8 (B, 3, H, W) each."""
        chosen = indices.cpu().numpy()
        both = []
        for places in (self.first[chosen], self.second[chosen]):
            stored = self.shards[0].frames.shape[1:] if self.shards else (3, self.side, self.side)
            frames = np.empty((len(chosen), *stored), np.uint8)
            for row, (which, place) in enumerate(zip(self.shard[chosen], places, strict=True)):
                frames[row] = self.shards[which].frames[place]
            both.append(_brought_to(torch.from_numpy(frames), self.side))
        return both[0], both[1]

    def batch(self, indices: Tensor) -> Pair:
        """The chosen pairs as floats."""
        return Pair(*(frames.float() / 255 for frames in self.read(indices)))

    def subset(self, indices: Tensor) -> ShardedPairs:
        """The chosen pairs, in the same files."""
        chosen = indices.cpu().numpy()
        used, shard = np.unique(self.shard[chosen], return_inverse=True)
        shards = tuple(self.shards[which] for which in used)
        return replace(self, shards=shards, shard=shard, first=self.first[chosen], second=self.second[chosen])

    def to(self, device: torch.device | str) -> ShardedPairs:
        return self

    def resized(self, size: int) -> ShardedPairs:
        """The same pairs at size x size pixels, made so whenever they are read (see `resize_frames`)."""
        return replace(self, side=size)

    def in_memory(self) -> IndexedPairs:
        """The same pairs, all their frames read."""
        counts = [len(shard.frames) for shard in self.shards]
        store = torch.empty(sum(counts), 3, self.side, self.side, dtype=torch.uint8)
        starts = np.cumsum([0, *counts])
        for shard, start in zip(self.shards, starts, strict=False):
            for part in range(0, len(shard.frames), 1024):
                frames = torch.from_numpy(np.array(shard.frames[part : part + 1024]))
                store[start + part :][: len(frames)] = _brought_to(frames, self.side)
        moved = starts[self.shard]
        return IndexedPairs(store, torch.from_numpy(moved + self.first), torch.from_numpy(moved + self.second))


def open_pairs(folder: Path, split: str) -> ShardedPairs | None:
    """The pairs of one split ("train" or "held-out") of a folder that `prepare videos` made; None where it has none."""
    shards = split_shards(folder, split)
    if not shards:
        if split == "train":
            raise UserError(f"{folder} has no pairs to train on")
        return None
    which = np.repeat(np.arange(len(shards)), [len(shard.first) for shard in shards])
    first, second = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("first", "second"))
    return ShardedPairs(tuple(shards), which, first, second, shards[0].frames.shape[2])


def free_memory() -> int:
    """Bytes that a process may fill now: what the system says is available, or half of all where it says nothing."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return 4 * 2**30


def _brought_to(frames: Tensor, size: int) -> Tensor:
    return frames if frames.shape[-1] == size else resize_frames(frames, size)
