"""Which pixels of a picture of Shapes belong to each shape, from the picture alone.

These pictures have a background with all channels at least 0.7, and three flat objects: a circle, an upright square and
a triangle with its apex down, as high as wide. Each object has another dominant channel (at least 0.7) and two weak
ones (at most 0.3). Objects cover each other and are cut by the frame. N: images.
"""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

WEAK = 0.32  # a weak channel is below this (0.3 and a little for rounding)
STRONG = 0.68  # a dominant channel is above this
LEAST = 0.02  # coverage below this is rounding
MARGIN = 6.0  # nats by which an object's kind must beat the next best reading of the picture

_SPREAD = math.radians(6)  # of the outline's measured direction, around the true one
_STRAY = 0.1  # share of an outline with any direction: corners, crossings
_SIDE = math.atan(0.5)  # the slanted sides of a triangle as high as wide face this far below the horizontal
_SQUARE = (0.0, math.pi / 2, math.pi, -math.pi / 2)  # where the sides face: radians from right towards down
_TRIANGLE = (-math.pi / 2, _SIDE, math.pi - _SIDE)
_SMOOTH = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
_SLOPE = (-1 / 8, -2 / 8, 0.0, 2 / 8, 1 / 8)


def segment_shapes(frames: Tensor, *, chunk: int = 32) -> Tensor:
    """Visible coverage of circle, square and triangle: float (N, 3, H, W) in [0, 1] of frames uint8 or float in [0, 1].

    A pixel of a soft edge is divided as its colours are mixed. An object gets an empty mask if it is hidden, or if the
    seen outlines do not favour its kind by MARGIN nats.
    """
    if frames.ndim != 4 or frames.shape[1] != 3:
        raise ValueError(f"frames are (N, 3, H, W), not {tuple(frames.shape)}")
    parts = []
    for part in frames.split(chunk):
        values = part.float() / 255 if part.dtype == torch.uint8 else part.float()
        cover = _channel_coverage(values)
        parts.append(_sort_by_kind(cover, _kind_scores(cover)))
    return torch.cat(parts) if parts else frames.new_zeros(frames.shape, dtype=torch.float32)


def _channel_coverage(frames: Tensor) -> Tensor:
    """Coverage (N, 3, H, W) by the objects whose dominant channels are red, green and blue."""
    pixels = frames.flatten(2)  # (N, 3, HW)
    background = pixels.median(2).values  # (N, 3): it covers more than half the picture
    colours, there = [], []
    for channel in range(3):
        weak = pixels[:, [c for c in range(3) if c != channel]].amax(1)
        core = (pixels[:, channel] > STRONG) & (weak < WEAK)  # (N, HW)
        colour = torch.where(core[:, None], pixels, torch.nan).nanmedian(2).values  # (N, 3)
        guess = torch.where(torch.arange(3, device=frames.device) == channel, background, 0.15)  # for a hidden object
        colours.append(torch.where(colour.isnan(), guess, colour))
        there.append(core.any(1))
    axes = torch.stack(colours, 2) - background[:, :, None]  # (N, 3 colours, 3 objects)
    cover = torch.linalg.solve(axes, pixels - background[:, :, None])  # (N, 3 objects, HW)
    cover = torch.where(torch.stack(there, 1)[:, :, None] & (cover > LEAST), cover, 0.0)
    return (cover / cover.sum(1, keepdim=True).clamp_min(1)).view_as(frames)


def _kind_scores(cover: Tensor) -> Tensor:
    """Log-likelihoods (N, object, kind) of the directions in which the objects' outlines face."""
    right, down = -_filter(cover, _SMOOTH, _SLOPE), -_filter(cover, _SLOPE, _SMOOTH)  # (N, 3, H-4, W-4)
    others = cover.sum(1, keepdim=True) - cover
    others = F.max_pool2d(F.max_pool2d(others, (5, 1), 1), (1, 5), 1)  # within two pixels
    length = (right.square() + down.square()).sqrt() * (others <= LEAST)  # outline against the background only
    degree = (torch.atan2(down, right) / math.pi * 180).round().long() % 360
    outline = length.new_zeros(*length.shape[:2], 360)  # pixels of outline by the direction in which they face
    outline.scatter_add_(2, degree.flatten(2), length.flatten(2))
    return outline @ _log_densities().to(cover.device)


def _filter(maps: Tensor, rows: tuple[float, ...], columns: tuple[float, ...]) -> Tensor:
    """(..., H, W) -> (..., H-4, W-4), weighted by `rows` along y and `columns` along x."""
    height, width = maps.shape[-2] - 4, maps.shape[-1] - 4
    tall = torch.zeros_like(maps[..., :height, :])
    for k, tap in enumerate(rows):
        tall.add_(maps[..., k : k + height, :], alpha=tap)
    both = torch.zeros_like(tall[..., :width])
    for k, tap in enumerate(columns):
        both.add_(tall[..., k : k + width], alpha=tap)
    return both


def _log_densities() -> Tensor:
    """(360, 3): how likely a pixel of outline of a circle, a square, a triangle faces each degree."""
    angle = torch.arange(360) / 180 * math.pi
    uniform = 1 / (2 * math.pi)
    densities = [torch.full((360,), uniform)]
    for facing in (_SQUARE, _TRIANGLE):
        away = torch.remainder(angle[:, None] - torch.tensor(facing) + math.pi, 2 * math.pi) - math.pi
        bumps = torch.exp(-0.5 * (away / _SPREAD).square()) / (_SPREAD * math.sqrt(2 * math.pi))  # (360, sides)
        # By four for the triangle too: an edge that faces up favours neither it nor the square.
        sides = bumps.sum(1) / 4
        densities.append((1 - _STRAY) * sides + _STRAY * uniform)
    return torch.stack(densities, 1).log()


def _sort_by_kind(cover: Tensor, scores: Tensor) -> Tensor:
    """The masks in the order circle, square, triangle; empty where another reading is within MARGIN."""
    readings = torch.tensor(list(itertools.permutations(range(3))), device=cover.device)  # (6, 3): object of each kind
    totals = scores[:, readings, torch.arange(3, device=cover.device)].sum(2)  # (N, 6)
    best = totals.argmax(1)
    chosen = readings[best]  # (N, 3)
    differs = readings[None] != chosen[:, None]  # (N, 6, kind)
    rival = torch.where(differs, totals[:, :, None], -torch.inf).amax(1)  # (N, 3)
    certain = totals.gather(1, best[:, None]) - rival >= MARGIN
    picked = cover.gather(1, chosen[:, :, None, None].expand_as(cover))
    return picked * certain[:, :, None, None]
