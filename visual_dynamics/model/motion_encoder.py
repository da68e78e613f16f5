"""(a) The motion encoder: the recognition model q(z | v, I) of Eq. 4, used in training and for analogies."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visual_dynamics.errors import UserError
from visual_dynamics.model.layers import ConvBlock, conv, conv_blocks, latent_scale
from visual_dynamics.model.presets import NetworkConfig

LOG_VARIANCE = (-20.0, 20.0)  # of each dimension of z


class Posterior(NamedTuple):
    """The Gaussian q(z | v, I) = N(z; mean, exp(log_variance)) with independent dimensions."""

    mean: Tensor  # (B, latent)
    log_variance: Tensor  # (B, latent)

    def sample(self, noise: Tensor) -> Tensor:
        """z = mean + deviation * noise, with noise ~ N(0, I) of the same shape: the reparametrisation trick."""
        return self.mean + torch.exp(0.5 * self.log_variance) * noise


class MotionEncoder(nn.Module):
    """Frame and difference at 128x128, six 5x5 convolutions, to mean and log-variance of z."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.motion_size, self.scaled = config.motion_size, config.latent_scale
        *hidden, last = config.motion_layers
        self.blocks = conv_blocks(6, tuple(hidden), config.kernel_size)
        channels = hidden[-1].channels
        self.last: nn.Module
        self.to_latent: nn.Module
        if config.latent == config.natural_latent:
            # The last layer stands alone. No ReLU: mean and log-variance take either sign. No batch norm: its one scale
            # a channel would hold back 25 dimensions of z that must each be free to fall back to the prior. Small at
            # first: training starts near the prior.
            self.last = conv(channels, last.channels, config.kernel_size, gain=0.2)
            self.to_latent = nn.Identity()
        else:
            self.last = ConvBlock(channels, last, config.kernel_size)
            self.to_latent = nn.Linear(2 * config.natural_latent, 2 * config.latent)  # either sign here, too

    def forward(self, frame: Tensor, difference: Tensor) -> Posterior:
        # frame in [-1, 1], difference scaled by the preset; both (B, 3, S, S)
        x = torch.cat([frame, difference], dim=1)  # (B, 6, S, S)
        x = F.interpolate(x, size=self.motion_size, mode="bilinear", align_corners=False)  # (B, 6, 128, 128)
        x = self.last(self.blocks(x))  # (B, 256, 5, 5)
        # float32 from here on: exponents and sums over thousands of dimensions
        mean, log_variance = self.to_latent(x.flatten(1)).float().chunk(2, dim=1)  # (B, latent) each
        return Posterior(mean * latent_scale(mean) if self.scaled else mean, bounded(log_variance))


class NoMotionEncoder(nn.Module):
    """In place of the motion encoder where a file has none."""

    def forward(self, *inputs: Tensor) -> Posterior:
        raise UserError("this model comes without its motion encoder: it samples, but cannot read the motion of a pair")


def bounded(log_variance: Tensor) -> Tensor:
    """Log-variances cut to what exp() can bear, with the gradient of the uncut ones.

    A plain clamp has no gradient outside its bounds: a dimension that is once below them never comes back, and a z
    without noise carries any amount of motion past the KL term.
    """
    return log_variance + (log_variance.clamp(*LOG_VARIANCE) - log_variance).detach()
