"""The pairs a run trains on, and the order in which it sees them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.pairs import Pair, Pairs, mix, mix_pairs, spread, without_waiting
from visual_dynamics.data.sources import DataSpec, open_data
from visual_dynamics.errors import UserError
from visual_dynamics.training.config import TrainingConfig

OWN_SHARE = 0.25  # of a mixture, at least: a run is about its own data
WORN_FRAMES = 1_024  # frames of a run's own data that drawn figures may wear


def data_spec(config: TrainingConfig, size: int) -> DataSpec:
    return DataSpec(
        data=config.data,
        size=size,
        seed=config.seed,
        rendering=config.rendering,
        between=config.between,
        characters=config.split,
        sheets=config.sheets,
        background=config.network.background,
    )


def training_pairs(config: TrainingConfig, device: torch.device | str = "cpu") -> Pairs:
    """What a run trains on, at the size it is stored; with `also`, other data are mixed in. `device` may draw it."""
    spec = data_spec(config, config.stored_size)
    if config.also and config.stream:
        raise UserError("data that are streamed cannot be mixed with others")
    own = open_data(spec, "train", config.pairs, device, config.stream)
    if not config.also:
        return own
    wear = None
    if config.also == "figures":  # they wear what the run's own pictures show
        wear = (255 * own.batch(spread(len(own), WORN_FRAMES, seed=0)).frame).round().to(torch.uint8)
    more = open_data(replace(spec, data=config.also), "train", config.also_pairs, device, wear=wear)
    return mix_pairs(own, more, OWN_SHARE)


def held_out_pairs(config: TrainingConfig, count: int = 256) -> Pairs | None:
    """Pairs to look at while training; None where the data have no held-out pairs."""
    return open_data(data_spec(config, config.network.size), "held-out", count)


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
