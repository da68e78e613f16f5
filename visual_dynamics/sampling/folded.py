"""A network in the form in which a CPU encodes fastest."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import nn
from torch.nn.utils import fuse_conv_bn_eval

from visual_dynamics.model.layers import ConvBlock
from visual_dynamics.model.network import VisualDynamics


def folded(network: VisualDynamics) -> VisualDynamics:
    """A copy for evaluation that gives the same numbers, but for rounding. On one core of an AMD EPYC it encodes an
    image in 33 ms in place of 70, a pair in 16 in place of 24.

    1. Batch norm is a scale and a shift of each channel: the convolution before it takes both in.
    2. All channels of a pixel lie together in memory: so the CPU's max pooling is 15 times as fast.
    """
    found = copy.deepcopy(network).eval()
    for block in found.modules():
        if isinstance(block, ConvBlock):
            conv, norm = cast(nn.Conv2d, block[0]), cast(nn.BatchNorm2d, block[1])
            block[0], block[1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    found.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return found
