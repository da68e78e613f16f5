"""A clip from one image: the same motion code applied to its own results, again and again."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from visual_dynamics.sampling.predictor import Predictor


def extrapolate(
    predictor: Predictor,
    frame: Tensor,
    motion: Tensor,
    steps: int,
    between: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """A frame (3, S, S) and the `steps` frames that follow when z (latent,) repeats: (steps + 1, 3, S, S).

    `between` may change each frame (3, S, S) before it is kept and the next one is made from it.
    """
    return torch.stack(list(extrapolation(predictor, frame, motion, steps, between)))


def extrapolation(
    predictor: Predictor,
    frame: Tensor,
    motion: Tensor,
    steps: int,
    between: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[Tensor]:
    """`extrapolate`, a frame (3, S, S) at a time."""
    now = frame.to(predictor.device, torch.float32)
    yield now
    for _ in range(steps):
        following = predictor.decode(predictor.encode_image(now), motion[None])[0]
        now = between(following).to(now) if between else following
        yield now
