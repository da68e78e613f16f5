"""Many plausible next frames of one image (the paper's main result)."""

from torch import Tensor

from visual_dynamics.sampling.latents import LatentSource, sample_seeds
from visual_dynamics.sampling.predictor import Predictor


def futures(predictor: Predictor, frame: Tensor, source: LatentSource, count: int, seed: int, first: int = 0) -> Tensor:
    """Samples first, first + 1, ... of the futures of a frame (3, S, S): floats (count, 3, S, S)."""
    return predictor.decode(predictor.encode_image(frame), source.draw(sample_seeds(seed, count, first)))
