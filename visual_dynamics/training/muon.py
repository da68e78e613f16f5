"""The optimizer: Muon for matrices and convolutions, Adam for the rest.

Adam scales each number of a gradient on its own. Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in
neural networks") takes the momentum of a whole weight matrix and makes it orthogonal: every direction in which the
layer can change, strong or faint, moves by the same amount. What the faint directions of this network hold - half
pixels of motion - is learned in far fewer steps.

On CUDA a step is one graph of kernels (`captured.py`): gradients are copied to a place that stays, and numbers that
change from step to step, such as the learning rate, live on the device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from visual_dynamics.training.captured import Captured

MOMENTUM = 0.95
ADAM = (0.9, 0.999)
EPSILON = 1e-8
NEWTON_SCHULZ = ((3.4445, -4.7750, 2.0315),) * 5  # a x + b x^3 + c x^5 five times takes (0, 1] close to 1

State = dict[str, Tensor]  # of one parameter


class Muon(torch.optim.Optimizer):
    """Decoupled weight decay for all; the learning rate is one, and set by the caller before each step."""

    static: bool | None = None
    _places: tuple[int, ...] = ()  # in memory, of the parameters that `_parts` are made for

    def __init__(
        self,
        network: nn.Module,
        learning_rate: float,
        weight_decay: float,
        adam_only: Iterable[str],
        static: bool | None = None,
    ) -> None:
        """`adam_only`: parameters that stay with Adam though they are matrices, the output layer for one. `static`:
        work as a CUDA graph needs it, with all that changes in tensors; by default, on CUDA."""
        named, apart = dict(network.named_parameters()), set(adam_only)
        is_matrix = {name: value.ndim > 1 and name not in apart for name, value in named.items()}
        groups = [
            {"params": [value for name, value in named.items() if is_matrix[name] == matrix], "matrix": matrix}
            for matrix in (True, False)
        ]
        super().__init__(groups, {"lr": learning_rate, "weight_decay": weight_decay})
        self.static = static

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        moving = [[value for value in group["params"] if value.grad is not None] for group in self.param_groups]
        places = tuple(value.data_ptr() for values in moving for value in values)
        if not places:
            return
        if places != self._places:  # the first step, or not the parameters of the last one
            self._parts = [part for pair in zip(self.param_groups, moving, strict=True) for part in self._made(*pair)]
            self._move = Captured(self._move_all, self._parts[0].values[0].device)
            self._places = places
        for part in self._parts:
            part.begin()
        self._move()

    def _move_all(self) -> None:
        for part in self._parts:
            part.move()

    def _made(self, group: dict[str, Any], moving: list[Tensor]) -> list[Part]:
        by_count: dict[int, list[Tensor]] = defaultdict(list)  # one count, unless a parameter once had no gradient
        for value in moving:
            by_count[int(self.state[value].get("step", 0))].append(value)  # 0 for all of Muon's
        parts: list[Part] = []
        for count, values in by_count.items():
            static = values[0].is_cuda if self.static is None else self.static
            states = [self.state[value] for value in values]
            made = Matrices if group["matrix"] else partial(Vectors, count)
            parts.append(made(group, values, states, static))
        return parts

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._places = ()  # groups and moments are others now


class Part:
    """Parameters that move alike. Their gradients and moments stay at one place in memory."""

    def __init__(self, group: dict[str, Any], values: list[Tensor], gradients: list[Tensor], static: bool) -> None:
        self.group, self.values, self.gradients, self.static = group, values, gradients, static
        self.numbers: dict[str, float | Tensor] = {}

    def begin(self) -> None:
        """Take over what changes from step to step."""
        copy_all(self.gradients, [value.grad for value in self.values if value.grad is not None])
        rate = self.group["lr"]
        self.set("rate", rate)
        self.set("kept", 1 - rate * self.group["weight_decay"])

    def set(self, name: str, number: float) -> None:
        """A number of this step: a plain one, or on the device."""
        if not self.static:
            self.numbers[name] = number
        elif isinstance(held := self.numbers.get(name), Tensor):
            held.fill_(number)
        else:
            self.numbers[name] = torch.full((), number, device=self.values[0].device)

    def move(self) -> None:
        rate = self.numbers["rate"]
        torch._foreach_mul_(self.values, self.numbers["kept"])
        updates = self.updates()
        if isinstance(rate, Tensor):
            torch._foreach_mul_(updates, rate)
            torch._foreach_sub_(self.values, updates)
        else:
            torch._foreach_add_(self.values, updates, alpha=-rate)

    def updates(self) -> list[Tensor]:
        """What is subtracted at a learning rate of 1. May be written over the gradients."""
        raise NotImplementedError


class Matrices(Part):
    """Muon's. Those that go through the iteration together lie in one tensor, where they are static."""

    def __init__(self, group: dict[str, Any], values: list[Tensor], states: list[State], static: bool) -> None:
        self.stacks, gradients = stacks_like(values) if static else ([], [torch.zeros_like(value) for value in values])
        super().__init__(group, values, gradients, static)
        self.momenta = [moment("momentum", *pair) for pair in zip(states, values, strict=True)]

    def updates(self) -> list[Tensor]:
        torch._foreach_lerp_(self.momenta, self.gradients, 1 - MOMENTUM)
        torch._foreach_lerp_(self.gradients, self.momenta, MOMENTUM)  # Nesterov's
        if not self.static:
            return self._of_equal_shapes(self.gradients)
        for stack in self.stacks:
            stack.copy_(orthogonalise(stack))
        torch._foreach_mul_(self.stacks, [size(stack) for stack in self.stacks])
        return self.gradients

    @staticmethod
    def _of_equal_shapes(gradients: list[Tensor]) -> list[Tensor]:
        updates = list(gradients)
        by_shape: dict[torch.Size, list[int]] = defaultdict(list)
        for index, gradient in enumerate(gradients):
            by_shape[gradient.shape].append(index)
        for shape, indices in by_shape.items():
            matrices = torch.stack([gradients[index] for index in indices]).flatten(2)  # (n, outputs, inputs * taps)
            scaled = orthogonalise(matrices) * size(matrices)
            for index, update in zip(indices, scaled, strict=True):
                updates[index] = update.view(shape)
        return updates


class Vectors(Part):
    """Adam's; all of them have moved `count` times."""

    def __init__(
        self, count: int, group: dict[str, Any], values: list[Tensor], states: list[State], static: bool
    ) -> None:
        super().__init__(group, values, [torch.zeros_like(value) for value in values], static)
        self.means, self.squares = (
            [moment(name, *pair) for pair in zip(states, values, strict=True)] for name in ("mean", "square")
        )
        self.count, self.steps = count, torch.full((len(values),), float(count))
        for state, step in zip(states, self.steps, strict=True):
            state["step"] = step  # a view: all are counted at once

    def begin(self) -> None:
        super().begin()
        self.count += 1
        self.steps += 1
        self.set("mean", 1 - ADAM[0] ** self.count)
        self.set("square", 1 - ADAM[1] ** self.count)

    def updates(self) -> list[Tensor]:
        torch._foreach_lerp_(self.means, self.gradients, 1 - ADAM[0])
        torch._foreach_mul_(self.squares, ADAM[1])
        torch._foreach_addcmul_(self.squares, self.gradients, self.gradients, 1 - ADAM[1])
        deviations = torch._foreach_div(self.squares, self.numbers["square"])
        torch._foreach_sqrt_(deviations)
        torch._foreach_add_(deviations, EPSILON)
        updates = torch._foreach_div(self.means, self.numbers["mean"])
        torch._foreach_div_(updates, deviations)
        return list(updates)


def moment(name: str, state: State, value: Tensor) -> Tensor:
    """A moment of a parameter, in memory as the parameter is: zeros at first."""
    found = torch.zeros_like(value)
    if name in state:
        found.copy_(state[name])
    state[name] = found
    return found


def copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    """One kernel for all that lie alike in memory; a single other one would send all of them through a loop."""
    pairs = list(zip(targets, sources, strict=True))
    alike = [target.stride() == source.stride() for target, source in pairs]
    if any(alike):
        chosen = [pair for pair, same in zip(pairs, alike, strict=True) if same]
        torch._foreach_copy_([target for target, _ in chosen], [source for _, source in chosen])
    for (target, source), same in zip(pairs, alike, strict=True):
        if not same:
            target.copy_(source)


def stacks_like(values: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Zeros (n, rows, columns) for each number of columns, and a place in them for each of the matrices.

    Matrices of fewer rows than others leave zeros, which stay zeros. A place lies in memory as its value does, channels
    last for one: that is another order of columns, which does not matter.
    """
    together: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, value in enumerate(values):
        rows, columns = value.flatten(1).shape
        together[columns, rows if rows > columns else 0].append(index)
    stacks, places = [], [torch.empty(0)] * len(values)
    for (columns, _), indices in together.items():
        rows = max(len(values[index]) for index in indices)
        stack = values[indices[0]].new_zeros(len(indices), rows, columns)
        for number, index in enumerate(indices):
            value = values[index]
            by_rows = value.is_contiguous() or value.is_contiguous(memory_format=torch.channels_last)
            strides = value.stride() if by_rows else value.contiguous().stride()
            places[index] = stack.as_strided(value.shape, strides, number * rows * columns)
        stacks.append(stack)
    return stacks, places


def size(matrices: Tensor) -> float:
    """What makes numbers of orthogonal matrices about 1, as Adam's are."""
    return max(matrices.shape[1:]) ** 0.5


def orthogonalise(matrices: Tensor) -> Tensor:
    """The nearest matrices with all singular values about 1 (0.7 to 1.2), (n, rows, columns): U V^T of U S V^T.

    On CUDA in bfloat16.
    """
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x.to(torch.bfloat16) if x.is_cuda else x.float()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for a, b, c in NEWTON_SCHULZ:
        square = x @ x.mT
        if x.is_cuda:  # sums within the products: a third of the kernels
            x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
        else:
            x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.mT
