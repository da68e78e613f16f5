"""Traversal: vary one dimension of z, keep the others, and see what that dimension means (the paper's figure of z).

Letters in shape comments: N training pairs, T values on a path, S side of a frame.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.objective import kl_per_dimension
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.weights import ACTIVE_NATS, StoredPosteriors

END, VALUES = 3.0, 9  # the path of a dimension: from -END to END, in so many values
POSTERIORS = 2_000  # that dimensions are ranked by


class Usage(NamedTuple):
    """What each dimension of z is used for, by the posteriors of many pairs."""

    nats: Tensor  # (latent,): mean KL divergence to the prior, what the dimension tells of a motion
    scale: Tensor  # (latent,): deviation of z over all pairs, about 1: a dimension that tells nothing has the prior's

    @property
    def active(self) -> list[int]:
        """The dimensions that carry motion, the strongest first."""
        order: list[int] = self.nats.argsort(descending=True, stable=True).tolist()
        return [dimension for dimension in order if self.nats[dimension] > ACTIVE_NATS]

    @property
    def inactive(self) -> list[int]:
        """The others, in their order."""
        return (self.nats <= ACTIVE_NATS).nonzero().flatten().tolist()


def path_values(count: int = VALUES) -> Tensor:
    """From one end to the other, in units of a dimension's deviation."""
    return torch.linspace(-END, END, count)


def stored_usage(stored: StoredPosteriors) -> Usage:
    """By the training posteriors that a model holds; a learned prior does not tell how much one dimension says."""
    if not len(stored):
        raise UserError(
            "the model holds no training posteriors, by which dimensions of z are ranked: choose another model"
        )
    return usage(stored.posterior(torch.arange(min(POSTERIORS, len(stored)))))


def usage(posterior: Posterior) -> Usage:
    """From q(z | v, I) of many pairs, (N, latent). The variance of z is that of its means plus the mean variance."""
    variance = posterior.mean.var(0, unbiased=False) + posterior.log_variance.exp().mean(0)
    return Usage(kl_per_dimension(posterior).mean(0), variance.sqrt())


def path(used: Usage, dimension: int, values: Tensor) -> Tensor:
    """Steps (T, latent) in which one dimension takes the values (T,), in units of its scale; the others are 0."""
    steps = torch.zeros(len(values), len(used.scale))
    steps[:, dimension] = values * used.scale[dimension]
    return steps


def traverse(predictor: Predictor, frame: Tensor, steps: Tensor) -> Tensor:
    """A frame (3, S, S) moved by each step (T, latent) of a path that leads through its rest: (T, 3, S, S)."""
    image = predictor.encode_image(frame)
    return predictor.decode(image, predictor.rest(image) + steps)


def moved(frames: Tensor) -> float:
    """How much pixels change from the first to the last frame of (T, 3, S, S): mean absolute difference of colours."""
    return float((frames[-1] - frames[0]).abs().mean())
