"""p(z | image): a small network that turns noise into motion codes which suit the image. Beyond the paper.

A rectified flow: the network knows the velocity of a code on the straight line from noise (t = 0) to a code of the
posterior (t = 1), given t and the image. Drawing follows the velocity. It was trained after the model, on codes of
training pairs (training/prior.py). Dimensions of z that carry no motion are N(0, 1), as everywhere.

Letters in shape comments: n samples, A dimensions of z that carry motion, C numbers of the pooled segments of an image,
E numbers of an embedding, W width of the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visual_dynamics.model.network import Features
from visual_dynamics.sampling.latents import are_dimensions, noise_of
from visual_dynamics.sampling.predictor import EncodedImage

GRID = 4  # segments are averaged over 4 x 4 parts of the image
WIDTH, BLOCKS, EMBEDDING = 512, 3, 256  # 3.0 million numbers for a z of 8, 3.1 for 128
FREQUENCIES = 32  # of t
STEPS = 10  # of Heun's method: two velocities each
TOGETHER = 16  # samples in work at a time, always as many: one seed gives one code, whatever the batch


def pooled(features: Features) -> Tensor:
    """The segments of images, averaged over GRID x GRID parts: float32 (B, C)."""
    return torch.cat([F.adaptive_avg_pool2d(maps.float(), GRID).flatten(1) for maps in features], 1)


class Block(nn.Module):
    """A residual block of two layers; what is known of t and the image scales and shifts its input (FiLM)."""

    def __init__(self, width: int, embedding: int) -> None:
        super().__init__()
        self.film = nn.Linear(embedding, 2 * width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        scale, shift = self.film(known).chunk(2, dim=-1)  # (n or 1, W) each
        y = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
        return x + self.second(F.silu(self.first(F.silu(y))))


class Velocity(nn.Module):
    """dz/dt of standardised codes (n, A), given t and what is known of the image."""

    def __init__(
        self, active: int, pooled: int, width: int = WIDTH, blocks: int = BLOCKS, embedding: int = EMBEDDING
    ) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Linear(pooled, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.nothing = nn.Parameter(torch.zeros(embedding))  # in place of an image
        self.time = nn.Linear(2 * FREQUENCIES, embedding)
        self.enter, self.leave = nn.Linear(active, width), nn.Linear(width, active)
        self.blocks = nn.ModuleList(Block(width, embedding) for _ in range(blocks))

    def forward(self, z: Tensor, t: Tensor, image: Tensor) -> Tensor:
        # z (n, A), t (n or 1, 1), image: an embedding (n or 1, E)
        phases = 2 ** torch.linspace(-1, 7, FREQUENCIES, device=t.device) * t  # (n or 1, FREQUENCIES)
        known = F.silu(image + self.time(torch.cat([phases.sin(), phases.cos()], 1)))
        x = self.enter(z)
        for block in self.blocks:
            x = block(x, known)
        return self.leave(F.silu(F.layer_norm(x, x.shape[-1:])))


@dataclass(frozen=True)
class ConditionalPrior:
    """A latent source that looks at the image. It works on the CPU, whatever the model does."""

    dimensions: Tensor  # int32 (A,), the dimensions of z that carry motion
    codes: Tensor  # float32 (2, A): mean and deviation of the codes
    segments: Tensor  # float32 (2, C): of the pooled segments
    velocity: Velocity
    latent: int
    guidance: float = 1.0  # 0: whatever the image; 1: as learned; more: further away from codes of other images

    def draw(self, seeds: Sequence[int], image: EncodedImage | None = None) -> Tensor:
        if image is None:
            raise ValueError("the conditional prior needs the encoded image")
        z, places = noise_of([np.random.default_rng(seed) for seed in seeds], self.latent), self.dimensions.long()
        with torch.inference_mode():
            shown = self.embedded(pooled(image.features).cpu())  # (1, E)
            noise = z[:, places]
            padded = F.pad(noise, (0, 0, 0, -len(noise) % TOGETHER))
            moved = [self.flowed(part.clone(), shown) for part in padded.split(TOGETHER)]
            z[:, places] = torch.cat(moved)[: len(seeds)] if moved else noise
        return z

    def embedded(self, segments: Tensor) -> Tensor:
        """Pooled segments (B, C) as the velocity takes them, (B, E)."""
        return self.velocity.image((segments - self.segments[0]) / self.segments[1])

    def flowed(self, z: Tensor, image: Tensor) -> Tensor:
        """From noise (n, A) to the dimensions of z that carry motion, by Heun's method."""
        step = 1 / STEPS
        for number in range(STEPS):
            first = self._guided(z, number * step, image)
            second = self._guided(z + step * first, (number + 1) * step, image)
            z = z + step / 2 * (first + second)
        return self.codes[0] + self.codes[1] * z

    def _guided(self, z: Tensor, time: float, image: Tensor) -> Tensor:
        t = torch.full((1, 1), time)
        if self.guidance == 1:
            return self.velocity(z, t, image)
        free = self.velocity(z, t, self.velocity.nothing[None])
        return free if self.guidance == 0 else free.lerp(self.velocity(z, t, image), self.guidance)

    # --- in a weights file ---

    def tensors(self) -> dict[str, Tensor]:
        """By name; matrices in float16."""
        found = {"dimensions": self.dimensions, "codes": self.codes, "segments": self.segments}
        for name, value in self.velocity.state_dict().items():
            found[f"velocity.{name}"] = value.detach().cpu().to(torch.float16 if value.ndim > 1 else torch.float32)
        return found

    @staticmethod
    def of(tensors: Mapping[str, Tensor], state: Mapping[str, Tensor], latent: int, maps: int) -> ConditionalPrior:
        """From the tensors of a file, and the state of its velocity in float32; `maps`: of all scales of the model.

        ValueError or RuntimeError where they do not fit each other.
        """
        dimensions, codes, segments = (tensors[name] for name in ("dimensions", "codes", "segments"))
        width, active = state["enter.weight"].shape
        blocks = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
        with torch.device("meta"):
            velocity = Velocity(active, maps * GRID**2, width, blocks, len(state["nothing"]))
        velocity.load_state_dict(state, assign=True)
        whole = (
            codes.shape == (2, active)
            and segments.shape == (2, maps * GRID**2)
            and are_dimensions(dimensions, active, latent)
            and all(bool(torch.isfinite(part).all() and (part[1] > 0).all()) for part in (codes, segments))
        )
        if not whole:
            raise ValueError("its conditional prior is malformed")
        return ConditionalPrior(dimensions, codes, segments, velocity.requires_grad_(False).eval(), latent)
