"""(d) The cross convolutional layer: both its inputs, maps and kernels, come from the example itself.

    out[b, c, y, x] = sum over i, j of kernels[b, c, i, j] * maps[b, c, y + i - r, x + j - r],   r = side // 2

Maps are zero outside. A kernel that is one at (i, j) and zero elsewhere moves its map by (r - i) rows and (r - j)
columns. Both gradients come from autograd: every form below is made of differentiable operations.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_convolution(maps: Tensor, kernels: Tensor) -> Tensor:
    """(B or 1, C, H, W) with (B, C, side, side) -> (B, C, H, W); one image's maps may meet many kernels."""
    if torch.compiler.is_compiling():
        return by_shifts(maps, kernels)  # fuses into one pass, and exports with any batch size
    return by_groups(maps, kernels)


def by_groups(maps: Tensor, kernels: Tensor) -> Tensor:
    """One grouped convolution: the fastest form without a compiler."""
    batch, channels, side, _ = kernels.shape
    height, width = maps.shape[-2:]
    if maps.shape[0] == 1:  # C groups with B kernels each: the maps are read, never copied
        weight = kernels.transpose(0, 1).reshape(channels * batch, 1, side, side)
        out = F.conv2d(maps, weight, padding=side // 2, groups=channels)
        return out.view(channels, batch, height, width).transpose(0, 1)
    weight = kernels.reshape(batch * channels, 1, side, side)
    out = F.conv2d(maps.reshape(1, batch * channels, height, width), weight, padding=side // 2, groups=batch * channels)
    return out.view(batch, channels, height, width)


def by_shifts(maps: Tensor, kernels: Tensor) -> Tensor:
    """The sum of the formula above, written out; side^2 shifted copies that a compiler fuses."""
    side = kernels.shape[-1]
    height, width = maps.shape[-2:]
    padded = F.pad(maps, [side // 2] * 4)
    out = torch.zeros_like(kernels[:, :, :1, :1] * maps)
    for i in range(side):
        for j in range(side):
            out = out + kernels[:, :, i, j, None, None] * padded[:, :, i : i + height, j : j + width]
    return out
