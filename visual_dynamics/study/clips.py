"""The pictures of a study: an input's frame and a next frame side by side, at the size that is asked about.

Letters in shape comments: S the model's size, s the size of a clip, in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.media import encode_png
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.palette import snap_to_palette
from visual_dynamics.study.plan import CONTROL, REAL, TORN, Shown

if TYPE_CHECKING:
    from visual_dynamics.baselines.sampler import FutureSampler

TILES = 4  # a side, of a torn picture


@dataclass(frozen=True)
class ClipMaker:
    """Draws the clips of a study; the same seed, the same pictures."""

    pairs: Pairs  # inputs with their true next frames, (N, 3, S, S)
    methods: Mapping[str, FutureSampler]
    snapped: bool  # synthetic frames take the colours of their input, as pixel art is written
    seed: int

    def clips_of(self, number: int, shown: Sequence[Shown]) -> dict[Shown, bytes]:
        """PNG files of the clips of one input: each method is asked once for all of its samples."""
        futures = {method: self._next_frames(number, method, shown) for method in {clip.method for clip in shown}}
        frame, _ = self.pairs[number]
        return {clip: strip(frame, futures[clip.method][clip.sample], clip.size) for clip in shown}

    def _next_frames(self, number: int, method: str, shown: Sequence[Shown]) -> dict[int, Tensor]:
        """Sample -> uint8 (3, S, S)."""
        frame, real = self.pairs[number]
        if method in (REAL, CONTROL):
            return {0: real}
        if method == TORN:
            return {0: torn(real, self.seed + number)}
        samples = sorted({clip.sample for clip in shown if clip.method == method})
        seeds = [sample_seeds(self.seed, 1, number * 1_000 + sample)[0] for sample in samples]
        made = self.methods[method].sample(frame.float() / 255, seeds).cpu()
        pixels = (made.clamp(0, 1) * 255).round().to(torch.uint8)  # (n, 3, S, S)
        if self.snapped:
            palette = np.unique(frame.flatten(1).T.numpy(), axis=0)  # (P, 3)
            pixels = torch.from_numpy(snap_to_palette(pixels.movedim(1, 3).numpy(), palette)).movedim(3, 1)
        return dict(zip(samples, pixels, strict=True))


def strip(frame: Tensor, next_frame: Tensor, size: int) -> bytes:
    """uint8 (3, S, S) twice -> PNG of (s, 2s): averaged down, next to each other."""
    both = torch.stack([frame, next_frame])
    both = both if both.shape[-1] == size else resize_frames(both, size)
    return encode_png(np.ascontiguousarray(torch.cat([both[0], both[1]], 2).permute(1, 2, 0).numpy()))


def torn(frame: Tensor, seed: int) -> Tensor:
    """A frame (3, S, S) cut into tiles, none of which stays in its place."""
    side = frame.shape[-1] // TILES
    circle = torch.randperm(TILES**2, generator=torch.Generator().manual_seed(seed))
    source = torch.empty_like(circle)
    source[circle] = circle.roll(1)  # each place gets the tile of the one before it in a random circle of them all
    tiles = frame[:, : side * TILES, : side * TILES].unfold(1, side, side).unfold(2, side, side)  # (3, t, t, s, s)
    shuffled = tiles.flatten(1, 2)[:, source].view_as(tiles)
    result = frame.clone()
    result[:, : side * TILES, : side * TILES] = shuffled.permute(0, 1, 3, 2, 4).reshape(3, side * TILES, side * TILES)
    return result
