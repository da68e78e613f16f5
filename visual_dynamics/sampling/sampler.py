"""A model behind the interface that the baselines share: a frame and seeds in, next frames out."""

from collections.abc import Sequence

from torch import Tensor

from visual_dynamics.sampling.latents import LatentSource
from visual_dynamics.sampling.predictor import Predictor


class ModelSampler:
    """Futures of a trained network with z from a given source."""

    def __init__(self, predictor: Predictor, source: LatentSource) -> None:
        self.predictor, self.source = predictor, source

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        """One next frame for each seed: floats in [0, 1], (n, 3, S, S)."""
        return self.predictor.decode(self.predictor.encode_image(frame), self.source.draw(seeds))
