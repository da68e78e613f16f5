"""What a model does with an image: futures, analogy, extrapolation, traversal.

Frames are floats (3, S, S) in [0, 1], S the size of the model's frames; an input may have the predictor's picture_size.
Other letters in shape comments: n samples, N training pairs, T values on a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.model.image_encoder import resize
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.objective import kl_per_dimension
from visual_dynamics.sampling.latents import ACTIVE_NATS, LatentSource, TrainingPosteriors, sample_seeds
from visual_dynamics.sampling.predictor import Predictor

PART = 256  # motion codes that are drawn at a time
END, VALUES = 3.0, 9  # the path of a dimension: 9 values from -3 to 3
POSTERIORS = 2_000  # that dimensions are ranked by


# --- futures: many plausible next frames of one image, the paper's main result ---


def futures(predictor: Predictor, frame: Tensor, source: LatentSource, count: int, seed: int) -> Tensor:
    """Samples 0, 1, ... of the futures of a frame: (count, 3, S, S)."""
    return torch.stack(list(each_future(predictor, frame, source, count, seed)))


def each_future(predictor: Predictor, frame: Tensor, source: LatentSource, count: int, seed: int) -> Iterator[Tensor]:
    """`futures` one by one, for results that do not fit into memory."""
    image = predictor.encode_image(frame)
    for first in range(0, count, PART):
        z = source.draw(sample_seeds(seed, min(PART, count - first), first), image)
        for batch in predictor.decode_batches(image, z):
            yield from batch


class ModelSampler:
    """A model behind the interface of the baselines: a frame and seeds in, next frames out."""

    def __init__(self, predictor: Predictor, source: LatentSource) -> None:
        self.predictor, self.source = predictor, source

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        """One next frame for each seed: (n, 3, S, S)."""
        image = self.predictor.encode_image(frame)
        return self.predictor.decode(image, self.source.draw(seeds, image))


# --- analogy: the motion of a pair on another image ---


def analogy(predictor: Predictor, before: Tensor, after: Tensor, frame: Tensor) -> Tensor:
    """`before` is to `after` as `frame` is to the result. The motion is the mean of q(z | v, I)."""
    return apply_motion(predictor, frame, predictor.encode(before, after).mean)


def reconstruct(predictor: Predictor, frame: Tensor, next_frame: Tensor) -> Tensor:
    """The motion of a pair on its own frame: what the code keeps of the true motion."""
    return analogy(predictor, frame, next_frame, frame)


def apply_motion(predictor: Predictor, frame: Tensor, motion: Tensor) -> Tensor:
    """A frame moved by a motion code (latent,)."""
    return predictor.decode(predictor.encode_image(frame), motion[None])[0]


# --- extrapolation: one motion code, applied to its own results ---


def extrapolation(
    predictor: Predictor, frame: Tensor, motion: Tensor, steps: int, between: Callable[[Tensor], Tensor] | None = None
) -> Iterator[Tensor]:
    """The frame, and `steps` frames that follow it, each the one before moved by z (latent,).

    `between` may change each predicted frame before the next one is made from it.
    """
    now = frame.to(predictor.device, torch.float32)
    yield resize(now, predictor.size)
    for _ in range(steps):
        now = apply_motion(predictor, now, motion)
        now = between(now).to(now) if between else now
        yield now


# --- traversal: one dimension of z varies, the others stay (the paper's figure of z) ---


class Usage(NamedTuple):
    """How much each dimension of z carries, by the posteriors of many pairs."""

    nats: Tensor  # (latent,): mean KL divergence to the prior
    scale: Tensor  # (latent,): deviation of z over all pairs; about 1, that of the prior, where nothing is carried

    @property
    def active(self) -> list[int]:
        """The dimensions that carry motion, the strongest first."""
        order: list[int] = self.nats.argsort(descending=True, stable=True).tolist()
        return [dimension for dimension in order if self.nats[dimension] > ACTIVE_NATS]

    @property
    def inactive(self) -> list[int]:
        """The others, in their order."""
        return (self.nats <= ACTIVE_NATS).nonzero().flatten().tolist()


def stored_usage(stored: TrainingPosteriors) -> Usage:
    """By the training posteriors of a model. A learned prior does not say how much one dimension carries."""
    if not len(stored):
        raise UserError(
            "the model holds no training posteriors, by which dimensions of z are ranked: choose another model"
        )
    return usage(stored.posterior(torch.arange(min(POSTERIORS, len(stored)))))


def usage(posterior: Posterior) -> Usage:
    """From q(z | v, I) of many pairs, (N, latent). The variance of z is that of its means plus the mean variance."""
    variance = posterior.mean.var(0, unbiased=False) + posterior.log_variance.exp().mean(0)
    return Usage(kl_per_dimension(posterior).mean(0), variance.sqrt())


def path_values(count: int = VALUES) -> Tensor:
    """From one end to the other, in units of a dimension's deviation."""
    return torch.linspace(-END, END, count)


def path(used: Usage, dimension: int, values: Tensor) -> Tensor:
    """Steps (T, latent) in which one dimension takes the values (T,), in units of its scale; the others are 0."""
    steps = torch.zeros(len(values), len(used.scale))
    steps[:, dimension] = values * used.scale[dimension]
    return steps


def traverse(predictor: Predictor, frame: Tensor, steps: Tensor) -> Tensor:
    """A frame moved by each step (T, latent) away from the code that keeps it still: (T, 3, S, S)."""
    image = predictor.encode_image(frame)
    return predictor.decode(image, predictor.rest(image) + steps)


def moved(frames: Tensor) -> float:
    """How much pixels change from the first to the last frame of (T, 3, S, S): mean absolute difference of colours."""
    return float((frames[-1] - frames[0]).abs().mean())
