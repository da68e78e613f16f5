"""The pairs a run trains on, and the order in which it sees them."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.folders import read_pairs
from visual_dynamics.data.pairs import AnyPairs, Between, IndexedPairs, Pair, Pairs, mix_pairs, without_waiting
from visual_dynamics.data.shard_files import holds_footage
from visual_dynamics.data.shards import ShardedPairs, free_memory, open_pairs
from visual_dynamics.data.sheet_pairs import (
    COMPOSED_LAYOUT,
    holds_composed_characters,
    read_sheets_at,
    sheet_pairs,
)
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.errors import UserError
from visual_dynamics.training.config import TrainingConfig

OWN_SHARE = 0.25  # of a mixture, at least: a run is about its own data
SOME = 1_024  # frames that drawn figures may wear
GENERATED = ("shapes", "shapes-texture", "figures")  # drawn from a seed


def training_pairs(config: TrainingConfig, device: torch.device | str = "cpu") -> AnyPairs | ShardedPairs:
    """What a run trains on, at the network's size, or larger where it is to be zoomed into; `device` may draw it.

    Of a folder of pairs those that its train.txt lists; all of them where it has no lists. Prepared footage stays in
    its files where it would not fit into memory.
    """
    if config.also:
        if config.stream:
            raise UserError("data that are streamed cannot be mixed with others")
        alone = replace(config, also=None, also_pairs=None)
        own = _loaded(training_pairs(alone, device))
        other = replace(alone, data=config.also, pairs=config.also_pairs)
        if config.also == "figures":  # they wear what the run's own pictures show
            more: AnyPairs = _generated_pairs(other, _count(other), "train", config.stored_size, device, _some(own))
        else:
            more = _loaded(training_pairs(other, device))
        return mix_pairs(own, more, OWN_SHARE)
    data, size = Path(config.data), config.stored_size
    if config.stream and not holds_footage(data):
        raise UserError(f"{config.data} cannot be streamed, only what visual-dynamics prepare videos has made")
    if config.data in GENERATED:
        return _generated_pairs(config, _count(config), "train", size, device)
    if not data.exists():
        raise UserError(
            f"no data {config.data!r}: give {' or '.join(map(repr, GENERATED))}, "
            "a folder or zip of N_im1 / N_im2 pairs, of prepared videos, or of sprites"
        )
    if holds_footage(data):
        return _footage_pairs(config)
    if sprites.holds_characters(data):
        return _first(_sprite_pairs(config, sprite_split(config.split).train, size), config.pairs)
    if layout := sheet_layout(config):
        train, _ = split_sheets(read_sheets_at(data, layout))
        return _first(sheet_pairs(train, _between(config), size, config.network.background), config.pairs)
    listed = has_list(data, "train")
    if not listed and has_list(data, "test"):
        raise UserError(f"{data} has a test.txt but no train.txt, which would list the pairs to train on")
    return read_pairs(data, split="train" if listed else None, size=size, limit=config.pairs)


def held_out_pairs(config: TrainingConfig, count: int = 256) -> AnyPairs | None:
    """Pairs to look at while training; None where a folder names no test pairs."""
    data, size = Path(config.data), config.network.size
    if config.data in GENERATED:
        return _generated_pairs(config, count, "test", size)
    if holds_footage(data):
        footage = open_pairs(data, "held-out")
        if footage is None:
            return None
        return Pairs(*footage.resized(size).read(spread(len(footage), count, config.seed)))
    if sprites.holds_characters(data):
        pairs = _sprite_pairs(config, sprite_split(config.split).test, size)
        return pairs.subset(spread(len(pairs), count, config.seed))
    if layout := sheet_layout(config):
        _, test = split_sheets(read_sheets_at(data, layout))
        if not test:
            return None
        pairs = sheet_pairs(test, _between(config), size, config.network.background)
        return pairs.subset(spread(len(pairs), count, config.seed))
    if not has_list(data, "test"):
        return None
    return read_pairs(data, split="test", size=size, limit=count)


def _footage_pairs(config: TrainingConfig) -> IndexedPairs | ShardedPairs:
    """Prepared footage, in memory if it takes up at most half of what is free, shared by the processes of a machine."""
    pairs = open_pairs(Path(config.data), "train")
    assert pairs is not None  # of this split there are always some
    pairs = pairs.resized(config.stored_size)
    if config.pairs is not None:
        pairs = pairs.subset(torch.arange(min(config.pairs, len(pairs))))
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return pairs if config.stream or pairs.nbytes > free_memory() // (2 * beside) else pairs.in_memory()


def _count(config: TrainingConfig) -> int:
    """Pairs of a kind that is drawn."""
    return config.pairs or shapes.TRAIN_PAIRS


def _some(pairs: AnyPairs) -> Tensor:
    """Frames of these pairs, uint8 (M, 3, S, S)."""
    frames = pairs.batch(spread(len(pairs), SOME, seed=0)).frame
    return (255 * frames).round().to(torch.uint8)


def _loaded(pairs: AnyPairs | ShardedPairs) -> AnyPairs:
    return pairs.in_memory() if isinstance(pairs, ShardedPairs) else pairs


def _first(pairs: IndexedPairs, count: int | None) -> IndexedPairs:
    return pairs if count is None else pairs.subset(torch.arange(min(count, len(pairs))))


def sprite_split(name: str) -> sprites.Split:
    return sprites.paper_split() if name == "paper" else sprites.reed_split()


def _sprite_pairs(config: TrainingConfig, numbers: NDArray[np.int64], size: int) -> IndexedPairs:
    characters = sprites.read_characters(Path(config.data), numbers)
    # A smaller network sees sprites made smaller, never cut.
    return sprites.sprite_pairs(characters, _between(config), size=max(64, size)).resized(size)


def sheet_layout(config: TrainingConfig) -> str | None:
    """How the data are to be cut into frames; None where they are no sprite sheets."""
    return config.sheets or (COMPOSED_LAYOUT if holds_composed_characters(Path(config.data)) else None)


def split_sheets(sheets: list[Sheet]) -> tuple[list[Sheet], list[Sheet]]:
    """Of ten sheets and more, every twentieth is held out: by character, as neighbouring frames of one are alike."""
    held_out = sheets[10::20] if len(sheets) > 10 else []
    return [sheet for place, sheet in enumerate(sheets) if not held_out or place % 20 != 10], held_out


def _between(config: TrainingConfig) -> Between:
    return cast(Between, config.between)  # one of BETWEEN, as the configuration has checked


def _generated_pairs(
    config: TrainingConfig,
    count: int,
    split: shapes.Split,
    size: int,
    device: torch.device | str = "cpu",
    pictures: Tensor | None = None,  # real ones, for figures
) -> Pairs:
    if config.data == "figures":
        return figure_pairs(count, config.seed, split, size, device, pictures)
    rendering = cast(shapes.Rendering, config.rendering)  # one of RENDERINGS, as the configuration has checked
    return shapes.shapes_pairs(count, config.seed, split, rendering, size, textured=config.data == "shapes-texture")


def spread(total: int, count: int, seed: int) -> Tensor:
    """`count` of `total` places at random, int64: neighbours in a data set are often alike."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(mix(seed, total)))[:count]


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
    orders = without_waiting(orders, pair.frame.device)[:, :, None, None].expand_as(pair.frame)
    return Pair(*(frame.gather(1, orders).contiguous(memory_format=torch.channels_last) for frame in pair))


def lit(pair: Pair, lights: Tensor) -> Pair:
    """Both frames of pair b with colours c -> lights[b] (c, 1), (B, 3, 4), cut to [0, 1]."""
    lights = without_waiting(lights, pair.frame.device)
    turn, added = lights[:, :, :3], lights[:, :, 3, None, None]  # (B, 3, 3), (B, 3, 1, 1)
    frames = (torch.einsum("bij,bjhw->bihw", turn, frame).add(added).clamp(0, 1) for frame in pair)
    return Pair(*(frame.contiguous(memory_format=torch.channels_last) for frame in frames))


def step_lights(step: int, batch: int, seed: int) -> Tensor:
    """A light for each pair of one global batch, for `lit`, (batch, 3, 4); a quarter of them leaves it as it is.

    Hues turn about the grey axis by 0.3 radians (one deviation), saturation changes by up to a factor of 2, contrast by
    up to 1.5, each colour's brightness by up to 0.15.
    """
    generator = torch.Generator().manual_seed(mix(seed, step) ^ 0x116)
    axis = torch.full((3, 3), 1 / 3)  # projects on grey
    aside = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / 3**0.5  # turns by a right angle about it
    hue = 0.3 * torch.randn(batch, 1, 1, generator=generator)
    saturation, contrast = 2 * torch.rand(2, batch, 1, 1, generator=generator) - 1  # exponents
    turn = 2**saturation * (hue.cos() * (torch.eye(3) - axis) + hue.sin() * aside) + axis
    turn = 1.5**contrast * turn
    middle = 0.5 + 0.3 * torch.rand(batch, 3, 1, generator=generator) - 0.15
    lights = torch.cat([turn, middle - 0.5 * turn.sum(2, keepdim=True)], 2)
    unchanged = torch.rand(batch, 1, 1, generator=generator) < 0.25
    return torch.where(unchanged, torch.eye(3, 4), lights)


def turned(pair: Pair, mirrored: Tensor, reversed_: Tensor) -> Pair:
    """Pair b left to right where mirrored[b], its frames exchanged where reversed_[b]; bools (B,)."""
    mirrored, reversed_ = (
        without_waiting(chosen, pair.frame.device)[:, None, None, None] for chosen in (mirrored, reversed_)
    )
    first, second = (torch.where(mirrored, frame.flip(3), frame) for frame in pair)
    return Pair(torch.where(reversed_, second, first), torch.where(reversed_, first, second))


def step_turns(step: int, batch: int, mirror: bool, reverse: bool, seed: int) -> tuple[Tensor, Tensor]:
    """Which pairs of one global batch are mirrored, and which reversed, bools (batch,) each."""
    generator = torch.Generator().manual_seed(mix(seed, step) ^ 0x7042ED)
    halves = torch.rand(2, batch, generator=generator) < 0.5
    return halves[0] & mirror, halves[1] & reverse


def zoomed(pair: Pair, windows: Tensor, size: int) -> Pair:
    """Window b = (side, left, top) of pair b, in shares of the frame, (B, 3), as size x size pixels."""
    side, left, top = (without_waiting(values, pair.frame.device) for values in windows.unbind(1))
    nothing = torch.zeros_like(side)
    across, down = 2 * left + side - 1, 2 * top + side - 1  # the window's middle, the frame being [-1, 1]
    maps = torch.stack([side, nothing, across, nothing, side, down], 1).view(-1, 2, 3)
    grid = F.affine_grid(maps, [len(side), 3, size, size], align_corners=False)
    frames = (F.grid_sample(frame, grid, padding_mode="border", align_corners=False) for frame in pair)
    return Pair(*(frame.contiguous(memory_format=torch.channels_last) for frame in frames))


def step_windows(step: int, batch: int, zoom: float, seed: int) -> Tensor:
    """Windows of the pairs of one global batch for `zoomed`, (batch, 3): enlarged by up to `zoom`, half of them not."""
    generator = torch.Generator().manual_seed(mix(seed, step) ^ 0x200_0ED)
    half, large, *place = torch.rand(4, batch, generator=generator)
    side = torch.where(half < 0.5, 1.0, zoom**-large)
    return torch.stack([side, *(share * (1 - side) for share in place)], 1)


def step_colours(step: int, batch: int, seed: int) -> Tensor:
    """Two orders of colours for each pair of one global batch, int64 (2, batch): a function of seed and step."""
    generator = torch.Generator().manual_seed(mix(seed, step) ^ 0xC01045)
    return torch.randint(6, (2, batch), generator=generator)


def displaced(pair: Pair, offsets: Tensor) -> Pair:
    """Frame f of pair b moved by offsets[f, b] = (dy, dx) whole pixels, int64 (2, B, 2); borders are repeated."""
    frames = []
    for frame, by in zip(pair, without_waiting(offsets, pair.frame.device), strict=True):
        for axis, moved in zip((2, 3), by.unbind(1), strict=True):
            length = frame.shape[axis]
            source = (torch.arange(length, device=frame.device) - moved[:, None]).clamp(0, length - 1)  # (B, length)
            shape = [len(frame), 1, 1, 1]
            shape[axis] = length
            frame = frame.gather(axis, source.view(shape).expand_as(frame))
        frames.append(frame.contiguous(memory_format=torch.channels_last))
    return Pair(*frames)


def step_offsets(step: int, batch: int, shift: int, jitter: int, seed: int) -> tuple[Tensor, Tensor]:
    """Whole pixels by which the frames of each pair of one global batch are displaced, int64 (2, batch, 2) each.

    First those of the pair itself, in [-shift, shift] and the same for both of its frames; then those that the motion
    encoder sees on top, in [-jitter, jitter] and for each frame its own.
    """
    generator = torch.Generator().manual_seed(mix(seed, step) ^ 0x0FF5E7)
    alike = torch.randint(-shift, shift + 1, (1, batch, 2), generator=generator).expand(2, -1, -1)
    return alike, torch.randint(-jitter, jitter + 1, (2, batch, 2), generator=generator)


def mix(seed: int, number: int) -> int:
    """One well-spread 63-bit seed from two numbers (the finaliser of SplitMix64)."""
    x = (seed * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return (x ^ (x >> 31)) >> 1
