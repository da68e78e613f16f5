"""How the shapes of generated images move in many futures: in those that the world draws, and in those of a method.

Letters in shape comments: N images, n futures of each.
"""

from __future__ import annotations

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
    masks = shapes.visible_masks(scenes, rendering=rendering, size=SIZE)
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
