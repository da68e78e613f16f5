"""The pairs a run trains on, and the order in which it sees them."""

from __future__ import annotations

import zipfile
from functools import lru_cache
from itertools import permutations
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from visual_dynamics.data import shapes
from visual_dynamics.data.folders import read_pairs
from visual_dynamics.data.pair import Pair, Pairs
from visual_dynamics.errors import UserError


def training_pairs(data: str, count: int, size: int, seed: int) -> Pairs:
    """The generated world by its name, or a folder or zip of pairs, at size x size pixels.

    Of a folder those that its train.txt lists; all of them where it has no lists.
    """
    if data == "shapes":
        return shapes.shapes_pairs(count, seed, "train", size=size)
    if not Path(data).exists():
        raise UserError(f"no data {data!r}: give 'shapes', or a folder or zip of N_im1 / N_im2 pairs")
    listed = has_list(Path(data), "train")
    if not listed and has_list(Path(data), "test"):
        raise UserError(f"{data} has a test.txt but no train.txt, which would list the pairs to train on")
    return read_pairs(Path(data), split="train" if listed else None, size=size, limit=count)


def held_out_pairs(data: str, size: int, seed: int, count: int = 256) -> Pairs | None:
    """Pairs to look at while training; None where a folder names no test pairs."""
    if data == "shapes":
        return shapes.shapes_pairs(count, seed, "test", size=size)
    if not has_list(Path(data), "test"):
        return None
    return read_pairs(Path(data), split="test", size=size, limit=count)


def has_list(path: Path, split: str) -> bool:
    """Whether a folder or zip of pairs holds SPLIT.txt."""
    if path.is_dir():
        return (path / f"{split}.txt").is_file()
    try:
        with zipfile.ZipFile(path) as archive:
            names = [PurePosixPath(name) for name in archive.namelist() if not name.startswith("__MACOSX")]
    except Exception:  # zipfile raises whatever a broken file makes it stumble over; the reader will tell
        return False
    return any(name.name == f"{split}.txt" for name in names)


class ShuffledOrder:
    """An endless walk over the data: each epoch a new permutation, no remainder dropped.

    A pure function of seed and step, so that resuming needs no state and any number of processes sees the same order.
    """

    def __init__(self, count: int, batch: int, seed: int) -> None:
        self.count, self.batch, self.seed = count, batch, seed
        self._permutation = lru_cache(maxsize=2)(self._make_permutation)

    def _make_permutation(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(mix(self.seed, epoch))
        return torch.randperm(self.count, generator=generator)

    def indices(self, step: int) -> Tensor:
        """Indices of the pairs of one global batch, int64 (batch,)."""
        position = torch.arange(step * self.batch, (step + 1) * self.batch)
        epoch, place = position // self.count, position % self.count
        return torch.cat([self._permutation(int(e))[place[epoch == e]] for e in epoch.unique()])


def step_noise(step: int, batch: int, latent: int, seed: int, device: torch.device) -> Tensor:
    """N(0, I) for the z of one global batch, (batch, latent): a pure function of seed and step."""
    generator = torch.Generator(device).manual_seed(mix(seed, step) ^ 0x5EED)
    return torch.randn(batch, latent, generator=generator, device=device)


def recoloured(pair: Pair, numbers: Tensor) -> Pair:
    """Both frames of pair b with their channels in order number numbers[b] of the six, int64 (B,)."""
    orders = torch.tensor(list(permutations(range(3))))[numbers]  # (B, 3)
    orders = orders.to(pair.frame.device)[:, :, None, None].expand_as(pair.frame)
    return Pair(*(frame.gather(1, orders).contiguous(memory_format=torch.channels_last) for frame in pair))


def step_colours(step: int, batch: int, seed: int) -> Tensor:
    """Two orders of colours for each pair of one global batch, int64 (2, batch): a function of seed and step."""
    generator = torch.Generator().manual_seed(mix(seed, step) ^ 0xC01045)
    return torch.randint(6, (2, batch), generator=generator)


def mix(seed: int, number: int) -> int:
    """One well-spread 63-bit seed from two numbers (the finaliser of SplitMix64)."""
    x = (seed * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return (x ^ (x >> 31)) >> 1
