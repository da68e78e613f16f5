"""Weights in one byte each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 32  # weights of eight bits that share a step
SMALLEST_STEP = 2.0**-24  # of float16


def to_eight_bits(value: Tensor) -> tuple[Tensor, Tensor]:
    """Float16 weights as whole numbers from -127 to 127, and for each block the step between two numbers."""
    blocks = _in_blocks(value.float())
    step = (blocks.abs().amax(1, keepdim=True) / 127).half().clamp_min(SMALLEST_STEP)
    numbers = (blocks / step).round().clamp(-127, 127).to(torch.int8)
    return numbers.flatten()[: value.numel()].view(value.shape), step.flatten()


def of_eight_bits(value: Tensor, step: Tensor) -> Tensor:
    blocks = _in_blocks(value.float())
    if step.shape != (len(blocks),) or not torch.isfinite(step).all():
        raise ValueError("the steps of its weights are malformed")
    return (blocks * step[:, None].float()).flatten()[: value.numel()].view(value.shape)


def _in_blocks(value: Tensor) -> Tensor:
    """Any shape -> (blocks, BLOCK), in the order of memory; zeros fill the last block."""
    flat = value.flatten()
    return F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
