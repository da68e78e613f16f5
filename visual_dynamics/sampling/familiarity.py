"""Whether a picture looks like those that a model learned from.

Three numbers of a frame have limits, which few pictures for validation exceed:

1. distance: squared Mahalanobis distance of its summary from the summaries of training pictures. The summary describes
   each segment of one scale of the image encoder, four numbers a segment: mean, deviation, and where in x and y it is.
2. new colours: how many pixels have a colour that no training picture shows, of 16 levels a channel.
3. evenness: which share of the pixels has just the colour of the pixel to its left.

None alone is enough. By colours a known sprite that stands elsewhere is familiar; by distance other characters of the
same artists are familiar to `sprites`, and by both of them drawings to `people`, whose pictures vary most. Letters in
shape comments: B frames, M segments of a scale, D = 4 M, S side of the frames.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from visual_dynamics.images import Box
from visual_dynamics.model.image_encoder import resize
from visual_dynamics.model.network import VisualDynamics

LEVELS = 16  # of a channel
COLOURS = LEVELS**3
EXCEED = 0.0025  # share of the pictures for validation that may exceed one of the limits
# Of a limit: just at it 1.3 % of 3,000 new scenes of Shapes gave a warning, a twentieth above it 0.7 %.
MARGIN = 1.05
FLOOR = 1e-4  # variance added to each number of a summary, as a share of the mean variance
BATCH = 64  # frames that are described together


@dataclass(frozen=True)
class Familiarity:
    """What the training pictures of a model look like to it; 66 kB for the paper's network."""

    mean: Tensor  # float32 (D,), of summaries
    factor: Tensor  # float32 (D, D), lower triangular: distance = |factor (summary - mean)|^2
    limits: Tensor  # float32 (3,): largest distance, number of new colours, and evenness of a familiar picture
    colours: Tensor  # uint8 (512,): one bit for each colour, 1 where a training picture shows it

    def strangeness(self, summaries: Tensor, frames: Tensor, box: Box | None = None) -> Tensor:
        """Above 1 where a frame (B, 3, S, S) with its summary (B, D) is unfamiliar: (B,).

        The largest share of a limit, of which there are three; a picture is unfamiliar a twentieth above one of them.

        box: where the picture lies in the frames; bars around it are even, but not the picture's.
        """
        distance, colours, even = self.limits.double()
        inside = frames if box is None else frames[..., box.top :, box.left :][..., : box.height, : box.width]
        shares = (
            self.distances(summaries) / distance.clamp_min(1e-6),
            self.new_colours(frames) / (colours + 0.5),  # whole numbers stay on their side of the limit, which may be 0
            evenness(inside) / even.clamp_min(1e-6),
        )
        return torch.stack(shares).amax(0) / MARGIN

    def distances(self, summaries: Tensor) -> Tensor:
        """float64 (B,)"""
        return ((summaries.cpu().double() - self.mean.double()) @ self.factor.double().T).square().sum(1)

    def new_colours(self, frames: Tensor) -> Tensor:
        """int64 (B,)"""
        bits = (self.colours[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        return (bits.flatten()[colour_numbers(frames)] == 0).sum(1)

    def check(self, maps: int) -> None:
        """Raise ValueError where the tensors do not fit each other, or a network with that many segments a scale."""
        count = 4 * maps
        shapes = ((count,), (count, count), (3,), (COLOURS // 8,))
        parts = (self.mean, self.factor, self.limits, self.colours)
        whole = (
            all(part.shape == shape for part, shape in zip(parts, shapes, strict=True))
            and all(part.dtype == torch.float32 and bool(torch.isfinite(part).all()) for part in parts[:3])
            and self.colours.dtype == torch.uint8
            and bool((self.limits >= 0).all())
        )
        if not whole:
            raise ValueError("what it holds of its training pictures is malformed")


def evenness(frames: Tensor) -> Tensor:
    """(B, 3, h, w) -> float64 (B,)"""
    levels = (frames.cpu() * 255).round()
    return (levels[..., 1:] == levels[..., :-1]).all(1).double().flatten(1).mean(1)


def colour_numbers(frames: Tensor) -> Tensor:
    """Which of the 4,096 colours each pixel has: floats (B, 3, S, S) in [0, 1] -> int64 (B, S * S)."""
    red, green, blue = ((frames.cpu() * 255).round().long() * LEVELS // 256).flatten(2).unbind(1)
    return (red * LEVELS + green) * LEVELS + blue


def summaries_of(maps: Tensor) -> Tensor:
    """Segments of a scale (B, M, h, w) -> (B, D)."""
    maps = maps.float()
    down, across = (torch.linspace(-1, 1, side, device=maps.device) for side in maps.shape[-2:])
    moments = maps, maps * across, maps * down[:, None]
    mean, x, y = (values.mean((2, 3)) for values in moments)
    return torch.cat([mean, maps.std((2, 3), correction=0), x, y], 1)


@torch.inference_mode()
def describe(network: VisualDynamics, frames: Tensor) -> Tensor:
    """Summaries of frames (B, 3, S, S), (B, D), on the CPU. One scale alone takes a twentieth of all of them."""
    encoder, device = network.image_encoder, next(network.parameters()).device
    tower, size = list(zip(encoder.towers, encoder.sizes, strict=True))[-2:][0]
    parts = [tower(resize(2 * part.to(device, torch.float32) - 1, size)) for part in frames.split(BATCH)]
    return torch.cat([summaries_of(part).cpu() for part in parts])


def learn(network: VisualDynamics, training: Tensor, validation: Tensor) -> Familiarity:
    """From frames of both kinds, floats (B, 3, S, S) in [0, 1]. The network is in evaluation mode."""
    known = describe(network, training).double()
    mean = known.mean(0)
    covariance = torch.cov(known.T)
    covariance += FLOOR * covariance.diagonal().mean().clamp_min(1e-12) * torch.eye(len(mean))
    colours = torch.zeros(COLOURS, dtype=torch.int64)
    colours[colour_numbers(training).unique()] = 1
    found = Familiarity(
        mean=mean.float(),
        factor=torch.linalg.inv(torch.linalg.cholesky(covariance)).float().contiguous(),
        limits=torch.zeros(3),
        colours=(colours.view(-1, 8) << torch.arange(8)).sum(1).to(torch.uint8),
    )
    numbers = (
        found.distances(describe(network, validation)),
        found.new_colours(validation).double(),
        evenness(validation),
    )
    limits = torch.stack([values.quantile(1 - EXCEED, interpolation="higher") for values in numbers])
    return replace(found, limits=limits.float())
