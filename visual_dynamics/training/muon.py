"""The optimizer: Muon for matrices and convolutions, Adam for the rest.

Adam scales each number of a gradient on its own. Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in
neural networks") takes the momentum of a whole weight matrix and makes it orthogonal: every direction in which the
layer can change, strong or faint, moves by the same amount. What the faint directions of this network hold - half
pixels of motion - is learned in far fewer steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ADAM = (0.9, 0.999)
EPSILON = 1e-8
NEWTON_SCHULZ = ((3.4445, -4.7750, 2.0315),) * 5  # a x + b x^3 + c x^5 five times takes (0, 1] close to 1


class Muon(torch.optim.Optimizer):
    """Decoupled weight decay for all; the learning rate is one, and set by the caller before each step."""

    def __init__(self, network: nn.Module, learning_rate: float, weight_decay: float, adam_only: Iterable[str]) -> None:
        """`adam_only`: parameters that stay with Adam though they are matrices, the output layer for one."""
        named, apart = dict(network.named_parameters()), set(adam_only)
        is_matrix = {name: value.ndim > 1 and name not in apart for name, value in named.items()}
        groups = [
            {"params": [value for name, value in named.items() if is_matrix[name] == matrix], "matrix": matrix}
            for matrix in (True, False)
        ]
        super().__init__(groups, {"lr": learning_rate, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate = group["lr"]
            moving = [value for value in group["params"] if value.grad is not None]
            if not moving:
                continue
            gradients = [value.grad for value in moving]
            torch._foreach_mul_(moving, 1 - rate * group["weight_decay"])
            updates = (self._orthogonal if group["matrix"] else self._adam)(moving, gradients)
            torch._foreach_add_(moving, updates, alpha=-rate)

    def _orthogonal(self, moving: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        by_shape: dict[torch.Size, list[int]] = defaultdict(list)  # equal shapes go through the iteration together
        updates: list[Tensor] = []
        for index, (value, gradient) in enumerate(zip(moving, gradients, strict=True)):
            momentum = self.state[value].setdefault("momentum", torch.zeros_like(value))
            momentum.lerp_(gradient, 1 - MOMENTUM)
            updates.append(gradient.lerp(momentum, MOMENTUM))  # Nesterov's
            by_shape[value.shape].append(index)
        for shape, indices in by_shape.items():
            matrices = torch.stack([updates[index] for index in indices]).flatten(2)  # (n, outputs, inputs * taps)
            scaled = orthogonalise(matrices) * max(matrices.shape[1:]) ** 0.5  # numbers of about 1, as Adam's are
            for index, update in zip(indices, scaled, strict=True):
                updates[index] = update.view(shape)
        return updates

    def _adam(self, moving: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        for value in moving:
            if not self.state[value]:
                zeros = torch.zeros_like(value)
                self.state[value] |= {"step": torch.zeros(()), "mean": zeros, "square": zeros.clone()}
        steps, means, squares = ([self.state[value][name] for value in moving] for name in ("step", "mean", "square"))
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(means, gradients, 1 - ADAM[0])
        torch._foreach_mul_(squares, ADAM[1])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - ADAM[1])
        counts = [int(step) for step in steps]
        deviations = torch._foreach_div(squares, [1 - ADAM[1] ** count for count in counts])
        torch._foreach_sqrt_(deviations)
        torch._foreach_add_(deviations, EPSILON)
        updates = torch._foreach_div(means, [1 - ADAM[0] ** count for count in counts])
        torch._foreach_div_(updates, deviations)
        return list(updates)


def orthogonalise(matrices: Tensor) -> Tensor:
    """The nearest matrices with all singular values about 1 (0.7 to 1.2), (n, rows, columns): U V^T of U S V^T."""
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x.to(torch.bfloat16) if x.is_cuda else x.float()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for a, b, c in NEWTON_SCHULZ:
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x if wide else x.mT).to(matrices.dtype)
