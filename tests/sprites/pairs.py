"""What stands for a predictor in tests reads pairs one by one."""

import torch
from torch import Tensor

from visual_dynamics.model.motion_encoder import Posterior


class ReadsPairs:
    """`encode` of one pair, or of n, by `code` of each."""

    def code(self, before: Tensor, after: Tensor) -> list[float]:
        raise NotImplementedError

    def encode(self, before: Tensor, after: Tensor) -> Posterior:
        if before.ndim == 4:
            mean = torch.tensor([self.code(*pair) for pair in zip(before, after, strict=True)])
        else:
            mean = torch.tensor(self.code(before, after))
        return Posterior(mean, torch.zeros_like(mean))
