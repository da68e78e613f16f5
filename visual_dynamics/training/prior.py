"""Training of p(z | image), after the network: a rectified flow on codes of training pairs.

The network stays as it is. Its pairs are augmented as in its own training: it reads the code from the motion encoder's
view of a pair, and the image from the frame that the decoder moves. Each pair is encoded once; every step draws
another code of its posterior.

Letters in shape comments: N examples, A dimensions of z that carry motion, C numbers of the pooled segments, B batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pair, Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.objective import kl_per_dimension
from visual_dynamics.provenance import provenance
from visual_dynamics.sampling.conditional_prior import BLOCKS, WIDTH, ConditionalPrior, Velocity, pooled
from visual_dynamics.sampling.latents import ACTIVE_NATS
from visual_dynamics.training.augment import ShuffledOrder, augment
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.familiar import config_of
from visual_dynamics.training.trainer import training_pairs
from visual_dynamics.weights import load_weights, with_conditional_prior

READ = 64  # pairs at a time
DROPPED = 0.1  # share of examples without their image
HELD_OUT = 0.05  # share of the examples, at most MOST_HELD_OUT
MOST_HELD_OUT = 2_000
AVERAGED = 0.999  # of the weights that are kept, at each step
LEAST_EXAMPLES = 32

Progress = Callable[[float, str], object]  # share that is done, and of what


@dataclass(frozen=True)
class PriorConfig:
    """A training of p(z | image)."""

    examples: int = 100_000  # pairs that are encoded, at most as many as there are
    steps: int = 20_000
    batch: int = 1_024
    learning_rate: float = 1e-3  # of AdamW; it falls along a cosine
    seed: int = 0
    width: int = WIDTH
    blocks: int = BLOCKS


class Examples(NamedTuple):
    """Codes and images of training pairs, on one device."""

    posterior: Posterior  # (N, latent)
    segments: Tensor  # float16 (N, C)


@torch.no_grad()
def encoded(
    network: VisualDynamics, config: TrainingConfig, pairs: Pairs, count: int, device: torch.device, progress: Progress
) -> Examples:
    """Pairs in the order of training, augmented, as the network sees them."""
    batches, segments, read_so = [], [], replace(config, batch=READ)
    order = ShuffledOrder(len(pairs), READ, config.seed)
    for step in range(-(-count // READ)):
        stored = pairs.read(order.indices(step))
        pair = Pair(*(frames.to(device).float() / 255 for frames in stored))
        pair, view = augment(pair, read_so, step, slice(0, READ))
        batches.append(network.encode_motion(view.frame, view.difference))
        segments.append(pooled(network.encode_image(pair.frame)).half())
        progress(min(1.0, (step + 1) * READ / count), "encoding pairs")
    mean, log_variance = (torch.cat(parts)[:count] for parts in zip(*batches, strict=True))
    if config.autoencoder:
        log_variance = torch.full_like(log_variance, -20.0)
    return Examples(Posterior(mean, log_variance), torch.cat(segments)[:count])


class Standardised(NamedTuple):
    """What the flow learns from: codes and pooled segments with mean 0 and deviation 1."""

    dimensions: Tensor  # int64 (A,)
    mean: Tensor  # (N, A), of the posteriors
    deviation: Tensor  # (N, A)
    images: Tensor  # float16 (N, C)
    codes: Tensor  # (2, A): mean and deviation that were taken out
    segments: Tensor  # (2, C)


def standardised(examples: Examples) -> Standardised:
    mean, log_variance = examples.posterior
    places = (kl_per_dimension(examples.posterior).mean(0) > ACTIVE_NATS).nonzero().flatten()
    if not len(places):
        raise UserError("no dimension of z carries motion in this model: there is nothing to learn")
    mean, deviation = mean[:, places], (0.5 * log_variance[:, places]).exp()
    centre, spread = mean.mean(0), (mean.var(0) + deviation.square().mean(0)).sqrt()
    numbers = examples.segments.float()
    middle, width = numbers.mean(0), numbers.std(0).clamp_min(1e-3)
    return Standardised(
        places,
        (mean - centre) / spread,
        deviation / spread,
        ((numbers - middle) / width).half(),
        torch.stack([centre, spread]),
        torch.stack([middle, width]),
    )


def flow_error(velocity: Velocity, z: Tensor, images: Tensor, shown: Tensor, generator: torch.Generator) -> Tensor:
    """Squared error of the velocity between noise and codes z (B, A), a mean over B and A.

    shown: bool (B, 1), which examples come with their image (B, C).
    """
    t = torch.rand(len(z), 1, generator=generator, device=z.device)
    noise = torch.randn(z.shape, generator=generator, device=z.device)
    known = torch.where(shown, velocity.image(images), velocity.nothing)
    return (velocity(noise.lerp(z, t), t, known) - (z - noise)).square().mean()


def trained(data: Standardised, config: PriorConfig, progress: Progress) -> tuple[Velocity, dict[str, float]]:
    """The averaged weights of the last steps; and errors on held-out examples, with and without their image."""
    device = data.mean.device
    held_out = min(MOST_HELD_OUT, max(1, int(HELD_OUT * len(data.mean))))
    known = len(data.mean) - held_out
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        velocity = Velocity(data.mean.shape[1], data.images.shape[1], config.width, config.blocks).to(device)
    average = copy.deepcopy(velocity)
    generator = torch.Generator(device).manual_seed(config.seed)
    optimizer = torch.optim.AdamW(velocity.parameters(), config.learning_rate, betas=(0.9, 0.99), weight_decay=0.01)
    for step in range(config.steps):
        rows = torch.randint(known, (config.batch,), generator=generator, device=device)
        shown = torch.rand(config.batch, 1, generator=generator, device=device) >= DROPPED
        error = flow_error(velocity, _codes(data, rows, generator), data.images[rows].float(), shown, generator)
        optimizer.param_groups[0]["lr"] = config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / config.steps))
        optimizer.zero_grad(set_to_none=True)
        error.backward()
        optimizer.step()
        with torch.no_grad():
            share = min(AVERAGED, (step + 1) / (step + 10))
            torch._foreach_lerp_(list(average.parameters()), list(velocity.parameters()), 1 - share)
        if step % 100 == 0 or step == config.steps - 1:
            if not math.isfinite(value := float(error.detach())):
                raise UserError(f"the error of the flow is not finite at step {step}: nothing is stored")
            progress((step + 1) / config.steps, f"error {value:.3f}")
    return average.requires_grad_(False).eval(), _held_out_errors(average, data, known)


@torch.inference_mode()
def _held_out_errors(velocity: Velocity, data: Standardised, known: int) -> dict[str, float]:
    """The same noise for both."""
    rows, found = torch.arange(known, len(data.mean), device=data.mean.device).repeat(4), {}
    for name, with_image in (("image", True), ("no_image", False)):
        generator = torch.Generator(rows.device).manual_seed(0)
        shown = torch.full((len(rows), 1), with_image, device=rows.device)
        z = _codes(data, rows, generator)
        found[name] = float(flow_error(velocity, z, data.images[rows].float(), shown, generator))
    return found


def _codes(data: Standardised, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Codes drawn from the posteriors of examples: (B, A)."""
    noise = torch.randn(len(rows), data.mean.shape[1], generator=generator, device=rows.device)
    return data.mean[rows] + data.deviation[rows] * noise


def train_prior(
    path: Path, config: PriorConfig, data: str | None, device: torch.device, progress: Progress
) -> dict[str, Any]:
    """Train p(z | image) for the model in a file, and store it there; `data` is where its training data lie now.

    Returns what the file says of the training. An earlier conditional prior is replaced.
    """
    weights = load_weights(path)
    trained_with = config_of(path, weights)
    if not weights.encodes_motion:
        raise UserError(f"{path} comes without its motion encoder, which reads the codes to learn from")
    trained_with = replace(trained_with, data=data or trained_with.data)
    pairs = training_pairs(trained_with, device)
    count = min(config.examples, len(pairs))
    if count < LEAST_EXAMPLES:
        raise UserError(f"{trained_with.data} has {len(pairs)} training pairs, fewer than {LEAST_EXAMPLES}")
    examples = encoded(weights.network.to(device), trained_with, pairs, count, device, progress)
    known = standardised(examples)
    velocity, errors = trained(known, config, progress)
    prior = ConditionalPrior(
        known.dimensions.to("cpu", torch.int32),
        known.codes.cpu(),
        known.segments.cpu(),
        velocity.cpu(),
        weights.network.config.latent,
    )
    said = {"config": asdict(config) | {"examples": count}, "held_out_error": errors} | provenance(device)
    write_atomically(path, with_conditional_prior(path, prior, said))
    return said
