"""Pictures of Shapes: which pixels belong to each shape, and how the shapes move in true and in sampled futures.

These pictures have a background with all channels at least 0.7, and three flat objects: a circle, an upright square and
a triangle with its apex down, as high as wide. Each object has another dominant channel (at least 0.7) and two weak
ones (at most 0.3). Objects cover each other and are cut by the frame.

Letters in shape comments: N images, n futures of each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.baselines import FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.motion_distribution import measure_displacement
from visual_dynamics.sampling.latents import sample_seeds

SIZE = 64
GROUP = 1000  # futures measured together

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


# --- motions in futures ---


@dataclass(frozen=True)
class ShapeImages:
    """Images to predict from, with the visible masks of their objects."""

    frames: Tensor  # float (N, 3, 64, 64)
    masks: Tensor  # float (N, 3, 64, 64): circle, square, triangle

    def __len__(self) -> int:
        return len(self.frames)


def generated_images(
    count: int, rendering: shapes.Rendering, seed: int, device: torch.device
) -> tuple[shapes.Scenes, ShapeImages]:
    """Test scenes, and their images before the motion."""
    scenes = shapes.draw_scenes(count, seed, "test")
    frames = shapes.images(scenes, rendering=rendering, size=SIZE)
    masks = shapes.masks(scenes, rendering=rendering, size=SIZE).visible
    return scenes, ShapeImages(frames.to(device).float() / 255, masks.to(device))


def true_motions(
    scenes: shapes.Scenes,
    rendering: shapes.Rendering,
    images: ShapeImages,
    each: int,
    seed: int,
    progress: Callable[[float], object],
) -> Tensor:
    """Displacements in n true futures of each image, (N * n, 3, 2): new motions, drawn by the world's law."""
    parts = []
    for number in range(each):
        other = scenes.with_new_motions(seed * 10_000 + number)
        next_frames = shapes.images(other, moved=True, rendering=rendering, size=SIZE, device=images.frames.device)
        parts.append(measure_displacement(images.frames, images.masks, next_frames.to(images.frames) / 255))
        progress((number + 1) / each)
    return torch.cat(parts).cpu()


def sampled_motions(
    sampler: FutureSampler, images: ShapeImages, each: int, seed: int, progress: Callable[[float], object]
) -> Tensor:
    """Displacements in n sampled futures of each image, (N * n, 3, 2)."""
    parts = []
    for chosen in torch.arange(len(images)).split(max(1, GROUP // each)):
        futures = [sampler.sample(images.frames[i], sample_seeds(seed * 10_000 + i, each)) for i in chosen.tolist()]
        repeat = chosen.to(images.frames.device).repeat_interleave(each)
        next_frames = torch.cat(futures).to(images.frames)
        parts.append(measure_displacement(images.frames[repeat], images.masks[repeat], next_frames))
        progress((int(chosen[-1]) + 1) / len(images))
    return torch.cat(parts).cpu()


class Enlarged:
    """The futures of a network with smaller frames, at the size of the frames that it is given."""

    def __init__(self, sampler: FutureSampler, size: int) -> None:
        self.sampler, self.size = sampler, size

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        small = F.interpolate(frame[None], size=self.size, mode="area")[0]
        side = frame.shape[-1]
        return F.interpolate(self.sampler.sample(small, seeds), size=side, mode="bilinear", align_corners=False)


# --- masks from the picture alone ---


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
