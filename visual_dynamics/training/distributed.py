"""One process or many: who this process is, and batch statistics over all of them.

Under torchrun each process trains on its share of every global batch. Gradients are averaged by
DistributedDataParallel, and batch normalisation sees the whole batch, so that many processes train as one would.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Processes:
    """This process among all of a run."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @staticmethod
    def start(device: str) -> Processes:
        """Join the group that torchrun describes in the environment, if there is one."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Processes()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        return Processes(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))

    def agree_on(self, value: float) -> float:
        """The first process's value, everywhere: clocks differ, schedules must not."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return float(box[0])

    def mean(self, value: Tensor) -> float:
        """The mean of a number over all processes."""
        if self.count > 1:
            value = value.clone()
            dist.all_reduce(value)
        return float(value) / self.count

    def wait(self) -> None:
        if self.count > 1:
            dist.barrier()

    def stop(self) -> None:
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()


class SumOverProcesses(torch.autograd.Function):
    """Adds a tensor up over all processes. A process's share counts in every process's loss: so do gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class SharedBatchNorm(nn.BatchNorm2d):
    """Batch normalisation over the batches of all processes, on any backend (torch's own needs a GPU)."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        x = input.to(self.weight.dtype)  # (B, C, H, W)
        count = x.numel() // x.shape[1] * dist.get_world_size()
        mean = SumOverProcesses.apply(x.sum((0, 2, 3))) / count  # (C,)
        centred = x - mean[:, None, None]
        variance = SumOverProcesses.apply(centred.square().sum((0, 2, 3))) / count
        with torch.no_grad():
            assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
            assert self.num_batches_tracked is not None
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
            self.num_batches_tracked.add_(1)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (centred * scale[:, None, None] + self.bias[:, None, None]).to(input.dtype)


def share_batch_norm(module: nn.Module) -> None:
    """Let every batch normalisation below `module` see the batches of all processes."""
    for child in module.modules():
        if type(child) is nn.BatchNorm2d:
            child.__class__ = SharedBatchNorm
