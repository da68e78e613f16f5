"""Pictures of flat boxes, for tests that measure motions."""

import torch
from torch import Tensor

GROUND, RED, GREEN, BLUE = (
    torch.tensor(c)[:, None, None] for c in ([0.9] * 3, [0.9, 0.1, 0.1], [0.1, 0.8, 0.2], [0.1, 0.1, 0.9])
)


def canvas(size: int = 32) -> Tensor:
    return GROUND.expand(3, size, size).clone()


def box(picture: Tensor, colour: Tensor, x: int, y: int, wide: int, tall: int) -> Tensor:
    picture[:, max(0, y) : y + tall, max(0, x) : x + wide] = colour
    return picture
