"""The one contract of the data: pairs of neighbouring frames.

Frames are stored as 8-bit colours, channels first, and handed to the network as floats in [0, 1]. The network owns
everything after that: value ranges, the image pyramid, the scaling of the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

Between = Literal["neighbours", "any", "mixed", "mostly"]
BETWEEN: tuple[Between, ...] = get_args(Between)
NEIGHBOURS = {"mixed": 0.5, "mostly": 0.9}  # their share among the pairs of an animation


def clip_moves(clip: Sequence[int], between: Between) -> list[tuple[int, int]]:
    """Which frames of an animation make pairs, from where to where.

    "neighbours": from each frame to the next one. "any": from each to each other one. "mixed" and "mostly": those,
    neighbours repeated so often that they are half or nine tenths of all: a short code for what comes next, longer ones
    for what else may.
    """
    following = list(pairwise(clip))
    if between == "neighbours":
        return following
    moves = list(permutations(clip, 2))
    if share := NEIGHBOURS.get(between):  # (1 + repeats) / (frames + repeats) = share
        moves += following * max(0, round((share * len(clip) - 1) / (1 - share)))
    return moves


def without_waiting(values: Tensor, device: torch.device) -> Tensor:
    """The values on a device, which need not first finish its work: a plain copy from the CPU would wait for that."""
    if device.type == "cuda" and values.device.type == "cpu":
        return values.contiguous().pin_memory().to(device, non_blocking=True)  # expanded values cannot be pinned
    return values.to(device)


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

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes + self.next_frames.nbytes

    def batch(self, indices: Tensor) -> Pair:
        """The chosen pairs as floats, on the device where the data set lives."""
        indices = without_waiting(indices, self.frames.device)
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


@dataclass(frozen=True)
class IndexedPairs:
    """A data set of N pairs that share their frames: each of M frames is held once, a pair is two places among them."""

    store: Tensor  # uint8 (M, 3, H, W)
    first: Tensor  # int64 (N,): where in the store the frame of a pair lies
    second: Tensor  # int64 (N,): and where its next frame

    def __post_init__(self) -> None:
        if self.store.dtype != torch.uint8:
            raise ValueError("frames are stored as uint8")
        if self.store.ndim != 4 or self.store.shape[1] != 3:
            raise ValueError(f"frames are (M, 3, H, W), not {tuple(self.store.shape)}")
        if self.first.shape != self.second.shape or self.first.ndim != 1:
            raise ValueError(f"places are (N,) twice, not {tuple(self.first.shape)} and {tuple(self.second.shape)}")
        for places in (self.first, self.second):
            if places.dtype != torch.int64 or ((places < 0) | (places >= len(self.store))).any():
                raise ValueError(f"places are int64 within the {len(self.store)} frames of the store")

    def __len__(self) -> int:
        return len(self.first)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames."""
        return self.store.shape[2], self.store.shape[3]

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.first.nbytes + self.second.nbytes

    def batch(self, indices: Tensor) -> Pair:
        """The chosen pairs as floats, on the device where the data set lives."""
        indices = without_waiting(indices, self.store.device)
        return Pair(*(self.store[places[indices]].float() / 255 for places in (self.first, self.second)))

    def read(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The chosen pairs as they are stored: frames and next frames, uint8 (B, 3, H, W) each."""
        return self.store[self.first[indices]], self.store[self.second[indices]]

    def subset(self, indices: Tensor) -> IndexedPairs:
        """The chosen pairs; the store stays whole, and shared."""
        return IndexedPairs(self.store, self.first[indices], self.second[indices])

    def to(self, device: torch.device | str) -> IndexedPairs:
        return IndexedPairs(self.store.to(device), self.first.to(device), self.second.to(device))

    def resized(self, size: int) -> IndexedPairs:
        """The same pairs at size x size pixels (see `resize_frames`)."""
        if self.size == (size, size):
            return self
        return IndexedPairs(resize_frames(self.store, size), self.first, self.second)


AnyPairs = Pairs | IndexedPairs


@dataclass(frozen=True)
class MixedPairs(IndexedPairs):
    """Pairs of a data set, and others that were mixed in."""

    own: int = 0  # the first so many are the data set's, each once

    def to(self, device: torch.device | str) -> MixedPairs:
        moved = super().to(device)
        return MixedPairs(moved.store, moved.first, moved.second, self.own)


def mix_pairs(own: AnyPairs, more: AnyPairs, share: float) -> MixedPairs:
    """The pairs of both sets, one after the other, own ones repeated until they make a share of the whole.

    Frames of both must have the same size.
    """
    if own.size != more.size:
        raise ValueError(f"frames of {own.size} and of {more.size} pixels cannot be mixed")
    one, two = (_indexed(pairs) for pairs in (own, more))
    times = max(1, math.ceil(share / (1 - share) * len(two) / len(one)))
    moved = len(one.store)
    return MixedPairs(
        torch.cat([one.store, two.store]),
        torch.cat([one.first.repeat(times), two.first + moved]),
        torch.cat([one.second.repeat(times), two.second + moved]),
        len(one),
    )


def _indexed(pairs: AnyPairs) -> IndexedPairs:
    if isinstance(pairs, IndexedPairs):
        return pairs
    places = torch.arange(len(pairs), device=pairs.frames.device)
    return IndexedPairs(torch.cat([pairs.frames, pairs.next_frames]), places, places + len(pairs))


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


def spread(total: int, count: int, seed: int) -> Tensor:
    """`count` of `total` places at random, int64: neighbours in a data set are often alike."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(mix(seed, total)))[:count]


def mix(seed: int, number: int) -> int:
    """One well-spread 63-bit seed from two numbers (the finaliser of SplitMix64)."""
    x = (seed * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return (x ^ (x >> 31)) >> 1
