"""(e) The motion decoder: moved segments of all scales become the difference image."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visual_dynamics.model.layers import conv
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.model.warping import LAYERS


class MotionDecoder(nn.Module):
    """Every scale enlarged to 64x64, one 9x9 and two 1x1 convolutions, 128, 128 and 3 channels."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        first, second = config.decoder_channels
        self.maps = config.maps
        self.wide = conv(config.kernel_channels, first, config.decoder_kernel_size, bias=False)
        self.normalise = nn.Sequential(nn.BatchNorm2d(first), nn.ReLU(inplace=True))
        self.hidden = nn.Sequential(conv(first, second, 1, bias=False), nn.BatchNorm2d(second), nn.ReLU(inplace=True))
        # Regresses the difference: no batch norm, no ReLU. Small at first: training starts near "nothing moves".
        self.last = conv(second, sum(LAYERS) if config.warp else 3, 1, gain=0.1)

    def forward(self, moved: tuple[Tensor, ...]) -> Tensor:
        # moved: (B, 32, 64, 64), (B, 32, 32, 32), (B, 32, 16, 16), (B, 32, 8, 8)
        weights = self.wide.weight.split(self.maps, dim=1)  # four of (128, 32, 9, 9)
        parts = [
            enlarged_convolution(maps, weight, factor=2**level)
            for level, (maps, weight) in enumerate(zip(moved, weights, strict=True))
        ]
        x = self.normalise(sum(parts[1:], parts[0]))  # (B, 128, 64, 64)
        return self.last(self.hidden(x))  # (B, 3, 64, 64), with `warp` (B, 6, 64, 64)


def enlarged_convolution(maps: Tensor, weight: Tensor, factor: int) -> Tensor:
    """conv2d(maps enlarged `factor` times by repetition, weight, "same"), computed at the small size.

    An enlarged pixel repeats its source, so the kernel's taps that fall on one source pixel can be summed beforehand.
    Which taps those are depends on the output pixel's phase within its block of factor x factor: one small kernel per
    phase, all of them one convolution, the phases put in place by pixel_shuffle. For the paper's four scales this
    takes 124 products a pixel and channel instead of 324, and gives the same numbers.
    """
    if factor == 1:
        return F.conv2d(maps, weight, padding=weight.shape[-1] // 2)
    taps = phase_taps(weight.shape[-1], factor).to(weight)  # (P, U, T)
    small = torch.einsum("put,qvs,octs->opqcuv", taps, taps, weight)
    small = small.flatten(0, 2)  # (O * P * Q, C, U, V)
    return F.pixel_shuffle(F.conv2d(maps, small, padding=small.shape[-1] // 2), factor)


def phase_taps(kernel_size: int, factor: int) -> Tensor:
    """0/1 tensor (phase, source offset, tap): tap t of phase p falls on the source pixel at that offset."""
    radius = kernel_size // 2
    reach = -(-radius // factor)  # source pixels on either side that any phase can touch
    phase = torch.arange(factor)[:, None, None]
    offset = torch.arange(-reach, reach + 1)[None, :, None]
    tap = torch.arange(kernel_size)[None, None, :]
    return (torch.div(phase + tap - radius, factor, rounding_mode="floor") == offset).float()
