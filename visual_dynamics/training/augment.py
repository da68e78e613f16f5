"""What a run does at random: the order of its pairs, the noise of z, and augmentations of the pairs.

All are pure functions of seed and step: a resumed run, or many processes, do the same as one run. An augmentation has
a draw for a global batch, and an apply for any part of that batch. `config.AUGMENTATIONS` has the help texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from visual_dynamics.data.pairs import Pair, mix, without_waiting
from visual_dynamics.training.config import AUGMENTATIONS, TrainingConfig

Draw = Callable[[Generator, int, float], Tensor]  # generator, pairs B, amount -> (B, ...)
TRIES = 6  # characters that are drawn for a pair whose motion is shown on another one, until one has that motion
Apply = Callable[[Pair, Tensor, int], Pair]  # pairs, what was drawn for them, the side that their frames get


class ShuffledOrder:
    """An endless walk over the data: each epoch a new permutation, no remainder dropped."""

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
    """N(0, I) for the z of one global batch, (batch, latent)."""
    generator = torch.Generator(device).manual_seed(mix(seed, step) ^ 0x5EED)
    return torch.randn(batch, latent, generator=generator, device=device)


def draw_windows(generator: Generator, batch: int, zoom: float) -> Tensor:
    """(side, left, top) of a window in shares of the frame, (B, 3): the whole frame for half of the pairs."""
    half, large, *place = torch.rand(4, batch, generator=generator)
    side = torch.where(half < 0.5, 1.0, zoom**-large)
    return torch.stack([side, *(share * (1 - side) for share in place)], 1)


def zoomed(pair: Pair, windows: Tensor, size: int) -> Pair:
    """Window b of pair b as size x size pixels."""
    side, left, top = (without_waiting(values, pair.frame.device) for values in windows.unbind(1))
    nothing = torch.zeros_like(side)
    across, down = 2 * left + side - 1, 2 * top + side - 1  # the window's middle, the frame being [-1, 1]
    maps = torch.stack([side, nothing, across, nothing, side, down], 1).view(-1, 2, 3)
    return sampled(pair, maps, size, "border")


def sampled(pair: Pair, maps: Tensor, size: int, outside: str) -> Pair:
    """Frames of size x size pixels: place p of pair b shows what lies at maps[b] (p, 1); the frame is [-1, 1]."""
    grid = F.affine_grid(maps, [len(maps), 3, size, size], align_corners=False)
    frames = (F.grid_sample(frame, grid, padding_mode=outside, align_corners=False) for frame in pair)
    return Pair(*(frame.contiguous(memory_format=torch.channels_last) for frame in frames))


def whole_frames(pair: Pair, size: int) -> Pair:
    """Pairs that are stored larger, for zooming, at the network's size."""
    return zoomed(pair, torch.tensor([[1.0, 0.0, 0.0]]).expand(len(pair.frame), 3), size)


def draw_mirrored(generator: Generator, batch: int, _: float) -> Tensor:
    return torch.rand(2, batch, generator=generator)[0] < 0.5


def draw_reversed(generator: Generator, batch: int, _: float) -> Tensor:
    return torch.rand(2, batch, generator=generator)[1] < 0.5


def mirrored(pair: Pair, chosen: Tensor, _: int) -> Pair:
    chosen = without_waiting(chosen, pair.frame.device)[:, None, None, None]
    return Pair(*(torch.where(chosen, frame.flip(3), frame) for frame in pair))


def reversed_in_time(pair: Pair, chosen: Tensor, _: int) -> Pair:
    chosen = without_waiting(chosen, pair.frame.device)[:, None, None, None]
    first, second = pair
    return Pair(torch.where(chosen, second, first), torch.where(chosen, first, second))


def draw_shifts(generator: Generator, batch: int, pixels: float) -> Tensor:
    """The same (dy, dx) for both frames of a pair, int64 (B, 2, 2)."""
    reach = int(pixels)
    return torch.randint(-reach, reach + 1, (batch, 1, 2), generator=generator).expand(-1, 2, -1)


def draw_jitters(generator: Generator, batch: int, pixels: float) -> Tensor:
    """A (dy, dx) for each frame of a pair, int64 (B, 2, 2)."""
    reach = int(pixels)
    torch.randint(2, (batch, 2), generator=generator)  # those of `draw_shifts` come first
    return torch.randint(-reach, reach + 1, (2, batch, 2), generator=generator).transpose(0, 1)


def shifted(pair: Pair, offsets: Tensor, _: int, black: bool = False) -> Pair:
    """Frame f of pair b moved by offsets[b, f] = (dy, dx) whole pixels; borders are repeated, or black comes in."""
    frames = []
    for frame, by in zip(pair, without_waiting(offsets, pair.frame.device).unbind(1), strict=True):
        for axis, moved in zip((2, 3), by.unbind(1), strict=True):
            length = frame.shape[axis]
            shape = [len(frame), 1, 1, 1]
            shape[axis] = length
            source = (torch.arange(length, device=frame.device) - moved[:, None]).view(shape)
            inside = source.clamp(0, length - 1)
            frame = frame.gather(axis, inside.expand_as(frame))
            frame = frame * (source == inside) if black else frame
        frames.append(frame.contiguous(memory_format=torch.channels_last))
    return Pair(*frames)


def draw_displacements(generator: Generator, batch: int, pixels: float) -> Tensor:
    """(growth, dy, dx), each up to `pixels`, (B, 3): half of the pairs keep their size and move by whole pixels."""
    reach = int(pixels)
    moves = torch.randint(-reach, reach + 1, (batch, 2), generator=generator)
    growth, half = torch.rand(2, batch, 1, generator=generator)
    return torch.cat([torch.where(half < 0.5, 0.0, (2 * growth - 1) * pixels), moves], 1)


def displaced(pair: Pair, drawn: Tensor, size: int) -> Pair:
    """Both frames of pair b grown by drawn[b, 0] pixels a side about their middle, then moved by (dy, dx).

    What comes in from outside is the mirrored picture: a constant or a repeated edge would show how far it was moved.
    """
    growth, dy, dx = (2 * without_waiting(values, pair.frame.device) / size for values in drawn.unbind(1))
    side = 1 / (1 + growth / 2)  # of the window that is seen, the frame being [-1, 1]
    nothing = torch.zeros_like(side)
    maps = torch.stack([side, nothing, -side * dx, nothing, side, -side * dy], 1).view(-1, 2, 3)
    return sampled(pair, maps, size, "reflection")


def draw_places(generator: Generator, batch: int, _: float) -> Tensor:
    """Where among all places, down and right, each pair goes, and its view: shares in [0, 1), (B, 4)."""
    return torch.rand(batch, 4, generator=generator)


def placed(pair: Pair, shares: Tensor, size: int) -> Pair:
    """Pair b moved to place shares[b] of those at which all that is not black in either frame stays inside."""
    seen = torch.maximum(*pair).amax(1) > 0  # (B, H, W)
    offsets = []
    for across, share in zip((2, 1), without_waiting(shares, seen.device).unbind(1), strict=True):
        line = seen.any(across).float()  # (B, length)
        before, after = line.argmax(1), line.flip(1).argmax(1)  # black rows or columns on both sides; (B,) each
        offsets.append((share * (before + after + 1)).long() - before)
    return shifted(pair, torch.stack(offsets, 1)[:, None].expand(-1, 2, -1), size, black=True)


def draw_colours(generator: Generator, batch: int, _: float) -> Tensor:
    """A map of colours c -> m (c, 1) for each pair, (B, 3, 4); a quarter of them leaves colours as they are.

    Hues turn about the grey axis by 0.3 radians (one deviation), saturation changes by up to a factor of 2, contrast by
    up to 1.5, each colour's brightness by up to 0.15.
    """
    axis = torch.full((3, 3), 1 / 3)  # projects on grey
    aside = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / 3**0.5  # turns by a right angle about it
    hue = 0.3 * torch.randn(batch, 1, 1, generator=generator)
    saturation, contrast = 2 * torch.rand(2, batch, 1, 1, generator=generator) - 1  # exponents
    turn = 2**saturation * (hue.cos() * (torch.eye(3) - axis) + hue.sin() * aside) + axis
    turn = 1.5**contrast * turn
    middle = 0.5 + 0.3 * torch.rand(batch, 3, 1, generator=generator) - 0.15
    maps = torch.cat([turn, middle - 0.5 * turn.sum(2, keepdim=True)], 2)
    unchanged = torch.rand(batch, 1, 1, generator=generator) < 0.25
    return torch.where(unchanged, torch.eye(3, 4), maps)


def colour_jittered(pair: Pair, maps: Tensor, _: int) -> Pair:
    """Both frames of pair b with colours c -> maps[b] (c, 1), cut to [0, 1]."""
    maps = without_waiting(maps, pair.frame.device)
    turn, added = maps[:, :, :3], maps[:, :, 3, None, None]  # (B, 3, 3), (B, 3, 1, 1)
    frames = (torch.einsum("bij,bjhw->bihw", turn, frame).add(added).clamp(0, 1) for frame in pair)
    return Pair(*(frame.contiguous(memory_format=torch.channels_last) for frame in frames))


def draw_orders(generator: Generator, batch: int, _: float) -> Tensor:
    """Two of the six orders of channels for each pair, int64 (B, 2): the decoder's and the motion encoder's."""
    return torch.randint(6, (2, batch), generator=generator).T


@lru_cache
def channel_orders(device: torch.device) -> Tensor:
    """The six of them, int64 (6, 3)."""
    return without_waiting(torch.tensor(list(permutations(range(3)))), device)


def permuted(pair: Pair, numbers: Tensor) -> Pair:
    """Both frames of pair b with their channels in order number numbers[b] of the six, int64 (B,)."""
    device = pair.frame.device
    orders = channel_orders(device)[without_waiting(numbers, device)]  # (B, 3)
    orders = orders[:, :, None, None].expand_as(pair.frame)
    return Pair(*(frame.gather(1, orders).contiguous(memory_format=torch.channels_last) for frame in pair))


@dataclass(frozen=True)
class Augmentation:
    """What is drawn, and what becomes of the pair; `view`: of the motion encoder's view of it, None for the same."""

    salt: int  # sets its random numbers apart from those of others
    draw: Draw
    pair: Apply
    view: Apply | None = None


LIST = {  # in this order: those that change both alike come first
    "zoom": Augmentation(0x200_0ED, draw_windows, zoomed),
    "mirror": Augmentation(0x7042ED, draw_mirrored, mirrored),
    "reverse": Augmentation(0x7042ED, draw_reversed, reversed_in_time),
    "shift": Augmentation(0x0FF5E7, draw_shifts, shifted),
    "place": Augmentation(
        0x91ACE,
        draw_places,
        lambda pair, shares, size: placed(pair, shares[:, :2], size),
        lambda pair, shares, size: placed(pair, shares[:, 2:], size),
    ),
    "colour-jitter": Augmentation(0x116, draw_colours, colour_jittered),
    "permute-channels": Augmentation(
        0xC01045,
        draw_orders,
        lambda pair, orders, size: permuted(pair, orders[:, 0]),
        lambda pair, orders, size: permuted(pair, orders[:, 1]),
    ),
    "jitter": Augmentation(0x0FF5E7, draw_jitters, lambda pair, offsets, size: pair, shifted),
    "displace": Augmentation(0xD15B1ACE, draw_displacements, lambda pair, drawn, size: pair, displaced),
}


def draw(name: str, amount: float, step: int, batch: int, seed: int) -> Tensor:
    """What one augmentation does to each pair of a global batch, (batch, ...)."""
    generator = torch.Generator().manual_seed(mix(seed, step) ^ LIST[name].salt)
    return LIST[name].draw(generator, batch, amount)


def draw_all(config: TrainingConfig, step: int, part: slice) -> dict[str, Tensor]:
    """What the augmentations of a run do to `part` of the global batch of a step."""
    drawn, chosen = {}, config.augmentations
    for name in LIST:
        if amount := chosen.get(name):
            if AUGMENTATIONS[name][0] == "pixels":  # of the network's frames
                amount *= config.network.picture_size // config.network.size
            drawn[name] = draw(name, amount, step, config.batch, config.seed)[part]
    return drawn


def draw_others(config: TrainingConfig, step: int, part: slice) -> Tensor:
    """Which other characters `part` of a global batch is shown with: shares in [0, 1), (B, TRIES)."""
    generator = torch.Generator().manual_seed(mix(config.seed, step) ^ 0x07E125)
    return torch.rand(config.batch, TRIES, generator=generator)[part]


def apply_all(pair: Pair, drawn: Mapping[str, Tensor], size: int, view: Pair | None = None) -> tuple[Pair, Pair]:
    """The pairs, and the same motion as the motion encoder sees it; `view`: of other characters."""
    view = pair if view is None else view
    for name, values in drawn.items():
        augmentation = LIST[name]
        if augmentation.view is None:  # of both alike
            moved = augmentation.pair(pair, values, size)
            pair, view = moved, moved if view is pair else augmentation.pair(view, values, size)
        else:
            pair, view = augmentation.pair(pair, values, size), augmentation.view(view, values, size)
    return pair, view


def augment(pair: Pair, config: TrainingConfig, step: int, part: slice) -> tuple[Pair, Pair]:
    """`part` of the global batch of a step: the pairs, and the same motion as the motion encoder sees it."""
    return apply_all(pair, draw_all(config, step, part), config.network.picture_size)
