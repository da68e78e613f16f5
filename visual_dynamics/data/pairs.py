"""The one contract of the data: pairs of neighbouring frames.

Frames are stored as 8-bit colours, channels first, and handed to the network as floats in [0, 1]. The network owns
everything after that: value ranges, the image pyramid, the scaling of the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from mmap import mmap
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.errors import UserError

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
class MappedFrames:
    """M frames in files, indexed like a tensor: only what is asked for is read, and brought to one size."""

    parts: tuple[NDArray[np.uint8], ...]  # (m, 3, S, S) each, mapped
    side: int  # pixels of the frames that are handed out

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), 3, self.side, self.side

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def to(self, device: torch.device | str) -> MappedFrames:
        """Itself: files stay where they are."""
        return self

    def __getitem__(self, places: Tensor) -> Tensor:
        """int64 (B,) -> uint8 (B, 3, side, side)"""
        starts = np.cumsum([0, *map(len, self.parts)])
        wanted = places.cpu().numpy()
        which = np.searchsorted(starts, wanted, side="right") - 1
        frames = np.empty((len(wanted), *self.parts[0].shape[1:]), np.uint8)
        for part in {*which.tolist()}:
            _check_whole(self.parts[part])
        for row, (part, place) in enumerate(zip(which, wanted - starts[which], strict=True)):
            frames[row] = self.parts[part][place]
        read = torch.from_numpy(frames)
        return read if read.shape[-1] == self.side else resize_frames(read, self.side)


def _check_whole(mapped: NDArray[np.uint8]) -> None:
    """A file that was cut off since it was mapped would end the process at once, without a word (SIGBUS)."""
    file = mapped.base if isinstance(mapped, np.memmap) else None
    if isinstance(file, mmap) and file.size() < mapped.offset + mapped.nbytes:
        raise UserError(f"{mapped.filename} was cut off while it was in use")


@dataclass(frozen=True)
class IndexedFrames:
    """M frames of one byte a pixel, a row of a palette: a third of the memory. Indexed like a tensor of colours."""

    index: Tensor  # uint8 (M, S, S)
    palettes: Tensor  # uint8 (C, 256, 3)
    owner: Tensor  # int32 (M,): the palette of each frame
    side: int  # pixels of the frames that are handed out

    def __len__(self) -> int:
        return len(self.index)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), 3, self.side, self.side

    @property
    def device(self) -> torch.device:
        return self.index.device

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.palettes.nbytes + self.owner.nbytes

    def to(self, device: torch.device | str) -> IndexedFrames:
        return replace(
            self, index=self.index.to(device), palettes=self.palettes.to(device), owner=self.owner.to(device)
        )

    def __getitem__(self, places: Tensor) -> Tensor:
        """int64 (B,) -> uint8 (B, 3, side, side)"""
        palette, index = self.palettes[self.owner[places].long()], self.index[places].flatten(1)  # (B, 256, 3), (B, SS)
        frames = palette.gather(1, index.long()[..., None].expand(-1, -1, 3))  # (B, SS, 3)
        side = self.index.shape[-1]
        frames = frames.permute(0, 2, 1).reshape(-1, 3, side, side)
        return frames if side == self.side else resize_frames(frames, self.side)


@dataclass(frozen=True)
class Cast:
    """Which frames of a store show the same moment of the same animation, drawn of different characters."""

    moment: Tensor  # int64 (M,): of each frame
    places: Tensor  # int64 (C, moments): where the store has it of each character; -1: nowhere

    def to(self, device: torch.device | str) -> Cast:
        return Cast(self.moment.to(device), self.places.to(device))

    def others(self, first: Tensor, second: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """The same moves of other characters: places in the store, int64 (B,) twice.

        draws: (B, n) in [0, 1). Of n characters the first that has both frames; if none has, the move stays as it is.
        """
        who = (draws * len(self.places)).long()  # (B, n)
        found = [self.places[who, self.moment[place][:, None]] for place in (first, second)]  # (B, n) each
        able = (found[0] >= 0) & (found[1] >= 0)
        chosen = able.float().argmax(1, keepdim=True)
        return tuple(  # type: ignore[return-value]
            torch.where(able.any(1), places.gather(1, chosen)[:, 0], own)
            for places, own in zip(found, (first, second), strict=True)
        )


@dataclass(frozen=True)
class Pairs:
    """A data set of N pairs. Each of M frames is held once, in memory, on a GPU or in files; a pair is two places."""

    store: Tensor | MappedFrames | IndexedFrames  # uint8 (M, 3, H, W)
    first: Tensor  # int64 (N,): where in the store the frame of a pair lies
    second: Tensor  # int64 (N,): and where its next frame
    own: int | None = None  # of a mixture: the first n pairs are the run's own data, each once
    cast: Cast | None = None  # of packed characters

    def __post_init__(self) -> None:
        if isinstance(self.store, Tensor) and self.store.dtype != torch.uint8:
            raise ValueError("frames are stored as uint8")
        if len(self.store.shape) != 4 or self.store.shape[1] != 3:
            raise ValueError(f"frames are (M, 3, H, W), not {tuple(self.store.shape)}")
        if self.first.shape != self.second.shape or self.first.ndim != 1:
            raise ValueError(f"places are (N,) twice, not {tuple(self.first.shape)} and {tuple(self.second.shape)}")
        for places in (self.first, self.second):
            if places.dtype != torch.int64 or ((places < 0) | (places >= len(self.store))).any():
                raise ValueError(f"places are int64 within the {len(self.store)} frames of the store")

    @classmethod
    def of(cls, frames: Tensor, next_frames: Tensor) -> Pairs:
        """Frame i and next frame i, uint8 (N, 3, H, W) each, make pair i."""
        if frames.shape != next_frames.shape:
            raise ValueError(f"frames {tuple(frames.shape)} and next frames {tuple(next_frames.shape)} differ")
        places = torch.arange(len(frames), device=frames.device)
        return cls(torch.cat([frames, next_frames]), places, places + len(frames))

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        """One pair as it is stored, uint8 (3, H, W) twice."""
        frame, next_frame = self.store[torch.stack([self.first[number], self.second[number]])]
        return frame, next_frame

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames."""
        return self.store.shape[2], self.store.shape[3]

    @property
    def mapped(self) -> bool:
        """Whether the frames are in files."""
        return isinstance(self.store, MappedFrames)

    @property
    def nbytes(self) -> int:
        """Bytes that the pairs take in memory, or would take there."""
        if not isinstance(self.store, MappedFrames):
            return self.store.nbytes + self.first.nbytes + self.second.nbytes
        return math.prod(self.store.shape[1:]) * len(self._used()) + self.first.nbytes + self.second.nbytes

    @property
    def frames(self) -> Tensor:
        """A copy of the frames of all pairs, uint8 (N, 3, H, W)."""
        return self.store[self.first]

    @property
    def next_frames(self) -> Tensor:
        """A copy of the next frames of all pairs, uint8 (N, 3, H, W)."""
        return self.store[self.second]

    def read(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Frames and next frames of the chosen pairs as they are stored, uint8 (B, 3, H, W) each."""
        indices = without_waiting(indices, self.first.device)
        return self.store[self.first[indices]], self.store[self.second[indices]]

    def read_others(self, indices: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """As `read`, but the same moves of other characters, drawn by `draws` (B, n) in [0, 1)."""
        if self.cast is None:
            raise ValueError("these pairs know no other characters")
        indices, draws = (without_waiting(values, self.first.device) for values in (indices, draws))
        first, second = self.cast.others(self.first[indices], self.second[indices], draws)
        return self.store[first], self.store[second]

    def batch(self, indices: Tensor) -> Pair:
        """The chosen pairs as floats, on the device where the frames are."""
        frames, next_frames = self.read(indices)
        return Pair(frames.float() / 255, next_frames.float() / 255)

    def subset(self, indices: Tensor) -> Pairs:
        """The chosen pairs; the store stays whole, and shared."""
        return Pairs(self.store, self.first[indices], self.second[indices], cast=self.cast)

    def to(self, device: torch.device | str) -> Pairs:
        store = self.store.to(device)
        first, second = self.first.to(store.device), self.second.to(store.device)
        return replace(self, store=store, first=first, second=second, cast=self.cast and self.cast.to(store.device))

    def resized(self, size: int) -> Pairs:
        """The same pairs at size x size pixels (see `resize_frames`); frames in files whenever they are read."""
        if self.size == (size, size):
            return self
        if isinstance(self.store, MappedFrames | IndexedFrames):
            return replace(self, store=replace(self.store, side=size))
        return replace(self, store=resize_frames(self.store, size))

    def in_memory(self) -> Pairs:
        """The same pairs with their own frames only, all of them read and in colours."""
        used = self._used()
        if isinstance(self.store, Tensor) and len(used) == len(self.store):
            return self
        store = torch.cat([self.store[part] for part in used.split(1024)])
        first, second = (torch.searchsorted(used, places) for places in (self.first, self.second))
        return replace(self, store=store, first=first, second=second, cast=None)

    def _used(self) -> Tensor:
        """Places of the frames that pairs are made of, ascending."""
        return torch.cat([self.first, self.second]).unique()


def mix_pairs(own: Pairs, more: Pairs, share: float) -> Pairs:
    """The pairs of both sets, one after the other, own ones repeated until they make a share of the whole.

    Frames of both must have the same size.
    """
    if own.size != more.size:
        raise ValueError(f"frames of {own.size} and of {more.size} pixels cannot be mixed")
    own, more = (pairs if isinstance(pairs.store, Tensor) else pairs.in_memory() for pairs in (own, more))
    assert isinstance(own.store, Tensor) and isinstance(more.store, Tensor)
    times = max(1, math.ceil(share / (1 - share) * len(more) / len(own)))
    moved = len(own.store)
    return Pairs(
        torch.cat([own.store, more.store]),
        torch.cat([own.first.repeat(times), more.first + moved]),
        torch.cat([own.second.repeat(times), more.second + moved]),
        len(own),
    )


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
