"""A clip from one image: the same motion code applied to its own results, again and again."""

import torch
from torch import Tensor

from visual_dynamics.sampling.predictor import Predictor


def extrapolate(predictor: Predictor, frame: Tensor, motion: Tensor, steps: int) -> Tensor:
    """A frame (3, S, S) and the `steps` frames that follow when z (latent,) repeats: (steps + 1, 3, S, S)."""
    clip = [frame.to(predictor.device, torch.float32)]
    for _ in range(steps):
        predictor.set_image(clip[-1])
        clip.append(predictor.decode(motion[None])[0])
    return torch.stack(clip)
