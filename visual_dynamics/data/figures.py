"""Drawn people: figures of round limbs before painted walls, one pose and the next. No film is needed for them.

A few films show a network a few rooms and a few coats; what it learns there it does not know again elsewhere. Here no
two pairs share a room, a coat or a body, and what is left to learn is how people move: bodies as wholes, limbs about
their joints.

A picture, painted from back to front, lengths in shares of the frame's side: a wall of soft clouds of colour and some
boxes; balls; one to four figures of different heights. A figure has a trunk, a head and four limbs of two parts each,
in colours of their own with a little pattern. From one frame to the next everything may move a little: a figure as a
whole, its trunk, each of its limbs about its joint; any of them may as well stand still. Walls never move.

Given real pictures, half of the pairs have one of them for a wall, and half wear pieces of them: what drawings lack is
the grain of real things.

data/posed.py draws the same world with people in recorded poses.

Numbers of a pair depend on the seed, its place and the pictures alone. Letters: N pairs, P parts of a picture, S side
in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.pairs import Pairs

FIGURES, BALLS = 4, 2  # at most, in a picture
LIMBS = 4  # two arms, two legs
PARTS = 2 + 2 * LIMBS  # of a figure: trunk, head, both halves of each limb
CHUNK = 256  # pairs that are drawn together
SHOWN = (1.0, 0.5, 0.35, 0.25)  # shares of the pictures that show a first figure, a second, ...
THICK = (0.075, 0.065, *(0.035, 0.028) * 2, *(0.045, 0.036) * 2)  # radius of the parts in heights, as NAMES has them
BOXES = 6  # on a wall
CLOUDS = (3, 9, 27, 81)  # numbers a side of the random fields that make a wall
STREAMS = {"train": 0, "test": 1, "validation": 500_000}  # train ends before: at 64 million pairs


class Parts(NamedTuple):
    """P round-ended bars of N pictures, from back to front."""

    ends: Tensor  # (N, P, 2, 2): x, y of both ends, in sides of the frame
    radius: Tensor  # (N, P); 0: not there
    wears: Tensor  # int64 (N, P): which of the P clothes; of one figure or ball: of its own


Figure = Callable[[torch.Generator, int], tuple[Parts, Parts]]  # by its number, CHUNK times; before and after


class Clothes(NamedTuple):
    """What P parts of N pictures wear. Waves of light and dark, or a piece of a real picture."""

    colours: Tensor  # (N, P, 3)
    pattern: Tensor  # (N, P): strength of the waves
    waves: Tensor  # (N, P, 2): radians a side, along and across the part
    real: Tensor  # bool (N,): wears pieces of pictures
    which: Tensor  # int64 (N, P): the picture ...
    where: Tensor  # (N, P, 2): ... and the place in it, x, y in [0, 1]


def figure_pairs(
    count: int,
    seed: int,
    split: str = "train",
    size: int = 64,
    device: torch.device | str = "cpu",
    pictures: Tensor | None = None,
    figure: Figure | None = None,
) -> Pairs:
    """`count` pairs, on the CPU; pair i is the same for every count above i. `device`: where they are painted.

    pictures: uint8 (M, 3, S, S), real ones to paint with. figure: draws other people than this file does.
    """
    frames, next_frames = (torch.empty(count, 3, size, size, dtype=torch.uint8) for _ in range(2))
    pictures = None if pictures is None else pictures.to(device)
    for chunk, start in enumerate(range(0, count, CHUNK)):
        random = torch.Generator().manual_seed(seed * 1_000_003 + 2 * chunk + STREAMS[split])
        drawn = _draw(random, size, torch.device(device), pictures, min(CHUNK, count - start), figure)
        for stored, frame in zip((frames, next_frames), drawn, strict=True):
            stored[start : start + CHUNK] = frame
    return Pairs.of(frames, next_frames)


def _draw(
    random: torch.Generator,
    size: int,
    device: torch.device,
    pictures: Tensor | None,
    count: int,
    figure: Figure | None,
) -> list[Tensor]:
    """The first of CHUNK frames and next frames, uint8 (count, 3, S, S). Random numbers come from the CPU."""
    wall = _walls(random, size, device, count)
    before, after = _parts(random, figure or _figure)
    clothes = _worn(_clothes(random, 0 if pictures is None else len(pictures)), before.wears)
    clothes = Clothes(*(values.to(device) for values in clothes))
    if pictures is not None:
        wall = _real_walls(random, wall, pictures)
    clothes = Clothes(*(values[:count] for values in clothes))
    frames = []
    for parts in (before, after):
        parts = Parts(*(values[:count] for values in parts))
        picture = wall.clone()
        for part in range(parts.radius.shape[1]):
            there = parts.radius[:, part].nonzero()[:, 0]  # (n,): pictures that have it
            ends, radius, there = (x.to(device) for x in (parts.ends[there, part], parts.radius[there, part], there))
            cover, along, across = _bar(ends, radius, size)  # (n, S, S) each
            paint = _paint(Clothes(*(values[there] for values in clothes)), part, along, across, pictures)
            picture[there] = picture[there].lerp(paint, cover[:, None])
        frames.append((255 * picture.clamp(0, 1)).round().to(torch.uint8).cpu())
    return frames


def _paint(clothes: Clothes, part: int, along: Tensor, across: Tensor, pictures: Tensor | None) -> Tensor:
    """What a part shows at its places along and across, (n, S, S) each: (n, 3, S, S)."""
    wave = along * clothes.waves[:, part, 0, None, None] + across * clothes.waves[:, part, 1, None, None]
    strength = clothes.pattern[:, part, None, None]
    paint = clothes.colours[:, part, :, None, None] + (strength * wave.sin())[:, None]
    if pictures is None:
        return paint
    side = pictures.shape[-1]
    x, y = (
        (side * (place + clothes.where[:, part, axis, None, None])).floor().long() % side
        for axis, place in enumerate((along, across))
    )
    piece = pictures[clothes.which[:, part, None, None], :, y, x].movedim(-1, 1).float() / 255
    return torch.where(clothes.real[:, None, None, None], piece, paint)


def _clothes(random: torch.Generator, pictures: int) -> Clothes:
    colours = _colours(random)
    shape = colours.shape[:2]
    pattern = 0.15 * torch.rand(shape, generator=random)
    waves = 60 * torch.rand(*shape, 2, generator=random)
    if not pictures:
        zeros = torch.zeros(shape, dtype=torch.long)
        return Clothes(colours, pattern, waves, torch.zeros(CHUNK, dtype=torch.bool), zeros, torch.zeros(*shape, 2))
    real = torch.rand(CHUNK, generator=random) < 0.5
    which = torch.randint(pictures, shape, generator=random)
    return Clothes(colours, pattern, waves, real, which, torch.rand(*shape, 2, generator=random))


def _worn(clothes: Clothes, wears: Tensor) -> Clothes:
    """The clothes in the order of the parts that wear them."""
    rows = torch.arange(len(wears))[:, None]
    return Clothes(*(values[rows, wears] if values.ndim > 1 else values for values in clothes))


def _real_walls(random: torch.Generator, walls: Tensor, pictures: Tensor) -> Tensor:
    """Half of the walls become a window of a picture, whole or enlarged up to twice, half of these mirrored."""
    there, mirrored = (torch.rand(CHUNK, generator=random) < 0.5 for _ in range(2))
    side = 2 ** -torch.rand(CHUNK, generator=random)
    across, down = ((2 * torch.rand(CHUNK, generator=random) - 1) * (1 - side) for _ in range(2))
    zeros = torch.zeros(CHUNK)
    turned = torch.where(mirrored, -side, side)
    maps = torch.stack([turned, zeros, across, zeros, side, down], 1).view(-1, 2, 3)[: len(walls)].to(walls.device)
    which = torch.randint(len(pictures), (CHUNK,), generator=random)[: len(walls)].to(walls.device)
    grid = F.affine_grid(maps, list(walls.shape), align_corners=False)
    windows = F.grid_sample(pictures[which].float() / 255, grid, padding_mode="border", align_corners=False)
    return torch.where(there[: len(walls)].to(walls.device)[:, None, None, None], windows, walls)


def _colours(random: torch.Generator) -> Tensor:
    """(CHUNK, P, 3) in [0, 1], in the order of the parts: both arms and both legs of a figure are alike."""
    saturation = torch.rand(CHUNK, 1, 1, generator=random)  # clothes, skin and walls rarely are

    def muted(*shape: int) -> Tensor:
        colours = torch.rand(CHUNK, *shape, 3, generator=random)
        return colours.mean(-1, keepdim=True).lerp(colours, saturation)

    ball, other = muted(1), muted(1)
    figures = []
    for _ in range(FIGURES):
        skin, shirt, trousers = muted(3).unbind(1)
        sleeves, legs = (torch.rand(CHUNK, 1, generator=random) < 0.5 for _ in range(2))
        fore, shin = torch.where(sleeves, shirt, skin), torch.where(legs, trousers, skin)
        whole = torch.stack([shirt, skin, *(shirt, fore) * 2, *(trousers, shin) * 2], 1)  # as NAMES has them
        shade = 0.05 * torch.randn(CHUNK, PARTS, 1, generator=random)
        figures.append((whole + shade)[:, list(ORDER)])
    return torch.cat([ball, *figures, other], 1)


def _walls(random: torch.Generator, size: int, device: torch.device, count: int) -> Tensor:
    """(count, 3, S, S) in [0, 1]: clouds of all sizes, and boxes with hard edges."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(CHUNK, *shape, generator=random)[:count].to(device)

    def muted(colours: Tensor) -> Tensor:
        return colours.mean(1, keepdim=True).lerp(colours, saturation)

    saturation = 0.6 * uniform(1, 1, 1)
    wall = muted(uniform(3, 1, 1)).expand(-1, -1, size, size).clone()
    for number, cells in enumerate(CLOUDS):
        cloud = muted(torch.randn(CHUNK, 3, cells, cells, generator=random)[:count].to(device))
        strength = 0.3 / 1.6**number * uniform(1, 1, 1)
        wall += strength * F.interpolate(cloud, size=size, mode="bicubic", align_corners=False)
    place = (torch.arange(size, device=device) + 0.5) / size
    for _ in range(BOXES):
        low, side, there = 1.2 * uniform(2) - 0.2, 0.5 * uniform(2), uniform(1, 1, 1) < 0.5
        inside = (place > low[:, :, None]) & (place < (low + side)[:, :, None])  # (count, 2, S): in x and in y
        box = inside[:, None, 0, None, :] & inside[:, None, 1, :, None] & there  # (count, 1, S, S)
        wall += box * muted(uniform(3, 1, 1) - 0.5)
    return wall.clamp(0, 1)


def _parts(random: torch.Generator, figure: Figure) -> tuple[Parts, Parts]:
    """Before and after the motion."""
    figures = [figure(random, number) for number in range(FIGURES)]
    balls = [_ball(random) for _ in range(BALLS)]
    both = []
    for moved in (0, 1):
        every = [ball[moved] for ball in balls[:1]] + [figure[moved] for figure in figures]
        every += [ball[moved] for ball in balls[1:]]
        starts = (0, *range(1, FIGURES * PARTS + 2, PARTS))  # a ball, the figures, a ball
        every = [part._replace(wears=part.wears + start) for part, start in zip(every, starts, strict=True)]
        both.append(Parts(*(torch.cat(values, 1) for values in zip(*every, strict=True))))
    return both[0], both[1]


def _figure(random: torch.Generator, number: int) -> tuple[Parts, Parts]:
    """A figure before and after: trunk, head, arms and legs, those of one side behind the trunk."""

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(CHUNK, *shape, generator=random)

    def sometimes(values: Tensor, share: float) -> Tensor:
        return values * (torch.rand(values.shape, generator=random) < share)

    height = 0.2 * 7 ** uniform(0, 1)  # 0.2 to 1.4 of the frame: far away, or cut by it
    build = uniform(0.7, 1.4)
    hips = torch.stack([uniform(0, 1), uniform(0.35, 0.75)], 1)
    lean = 0.25 * torch.randn(CHUNK, generator=random)  # of the trunk; angles from straight down, in radians
    limbs = torch.stack([uniform(-2.6, 2.6), uniform(-2.6, 2.6), uniform(-0.9, 0.9), uniform(-0.9, 0.9)], 1)
    bends = torch.cat([uniform(-2, 2, 2), uniform(-1.2, 0.4, 2)], 1)  # of elbows and knees

    lively = uniform(0, 1)[:, None] ** 2
    walk = sometimes(0.06 * torch.randn(CHUNK, 2, generator=random), 0.5) * lively * torch.tensor([1.0, 0.5])
    sway = sometimes(0.25 * torch.randn(CHUNK, generator=random), 0.4) * lively[:, 0]
    swing = sometimes(0.7 * torch.randn(CHUNK, LIMBS, generator=random), 0.5) * lively
    bend = sometimes(0.7 * torch.randn(CHUNK, LIMBS, generator=random), 0.5) * lively

    there = (torch.rand(CHUNK, generator=random) < SHOWN[number]).float()
    radius = torch.tensor(THICK) * (build * height * there)[:, None]  # (CHUNK, PARTS)

    def pose(walk: Tensor, sway: Tensor, swing: Tensor, bend: Tensor) -> Tensor:
        def onward(start: Tensor, angle: Tensor, length: float) -> Tensor:
            """The end of a bar from `start`, turned by an angle; its length is in heights of the figure."""
            return start + length * height[:, None] * torch.stack([angle.sin(), angle.cos()], 1)

        seat = hips + walk * height[:, None]
        up = lean + sway + math.pi
        neck = onward(seat, up, 0.3)
        bars = {"trunk": (onward(seat, up, 0.02), onward(seat, up, 0.25)), "head": (neck, onward(neck, up, 0.06))}
        for limb in range(LIMBS):
            side = 1 if limb % 2 else -1
            arm = limb < 2
            root = onward(neck if arm else seat, up + math.pi / 2, side * (0.07 if arm else 0.04))
            angle = limbs[:, limb] + swing[:, limb]
            joint = onward(root, angle, 0.16 if arm else 0.23)
            end = onward(joint, angle + bends[:, limb] + bend[:, limb], 0.15 if arm else 0.23)
            bars |= {f"upper {limb}": (root, joint), f"lower {limb}": (joint, end)}
        return torch.stack([torch.stack(bars[name], 1) for name in NAMES], 1)  # (CHUNK, PARTS, 2, 2)

    still = torch.zeros_like(swing)
    poses = (pose(torch.zeros_like(walk), torch.zeros_like(sway), still, still), pose(walk, sway, swing, bend))
    wears = torch.arange(PARTS).expand(CHUNK, -1)
    before, after = (Parts(ends[:, list(ORDER)], radius[:, list(ORDER)], wears) for ends in poses)
    return before, after


NAMES = ("trunk", "head", *(f"{half} {limb}" for limb in range(LIMBS) for half in ("upper", "lower")))
_BEHIND = (2, 3, 6, 7)  # an arm and a leg
ORDER = (*_BEHIND, 8, 9, 0, 1, 4, 5)  # from back to front


def _ball(random: torch.Generator) -> tuple[Parts, Parts]:
    """A ball, or none, before and after."""
    place = torch.rand(CHUNK, 1, 1, 2, generator=random)
    flight = 0.08 * torch.randn(CHUNK, 1, 1, 2, generator=random)
    there = torch.rand(CHUNK, 1, generator=random) < 0.25
    radius = (0.02 + 0.08 * torch.rand(CHUNK, 1, generator=random)) * there
    wears = torch.zeros(CHUNK, 1, dtype=torch.long)
    before, after = (Parts(at.expand(-1, -1, 2, -1), radius, wears) for at in (place, place + flight))
    return before, after


def _bar(ends: Tensor, radius: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """How far each pixel is covered by a bar (N, 2, 2) of a radius (N,): (N, S, S); and its places along and across."""
    pixel = (torch.arange(size, device=ends.device) + 0.5) / size
    start, line = ends[:, 0], ends[:, 1] - ends[:, 0]
    length = line.norm(dim=1)  # 0: a ball, which may point anywhere
    to_right = torch.tensor([1.0, 0.0], device=ends.device)
    unit = torch.where(length[:, None] > 0, line / length[:, None], to_right)
    x, y = pixel[None, None, :] - start[:, 0, None, None], pixel[None, :, None] - start[:, 1, None, None]
    along = x * unit[:, 0, None, None] + y * unit[:, 1, None, None]
    across = y * unit[:, 0, None, None] - x * unit[:, 1, None, None]
    beyond = along - along.clamp(min=0).minimum(length[:, None, None])
    distance = (beyond.square() + across.square()).sqrt()
    cover = (0.5 + size * (radius[:, None, None] - distance)).clamp(0, 1)
    return cover, along, across
