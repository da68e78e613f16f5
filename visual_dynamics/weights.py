"""One safetensors file a model: weights, configuration, training posteriors. Loading it runs no code.

The header's metadata holds three JSON texts: `format` (name and version), `network` (the NetworkConfig) and `training`
(how it was made). Tensors named `network.*` are the weights, each in float16, or in whole numbers of one byte, which
`steps.*` scale; `posteriors.*` the stored q(z | v, I); `prior.*` a mixture that was fitted to them. One of the last two
may be missing; so may the motion encoder, half of the weights, which sampling does not ask.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.objective import kl_per_dimension

FORMAT = "visual-dynamics"
VERSION = 2
READABLE = (1, 2)  # version 1 knows float16 only
BLOCK = 32  # weights of eight bits that share a step
SMALLEST_STEP = 2.0**-24  # of float16
MAX_BYTES = 14_000_000  # of a shipped model
LEAST_POSTERIORS = 250_000  # bytes that training posteriors get, should the network leave them less
PRIOR_BYTES = 1_000_000  # of a learned prior, at most
MOTION_ENCODER = "network.motion_encoder."  # how the names of its tensors begin
MOTION_DECODER = "network.motion_decoder."  # it paints the pixels: what is rounded here is seen where nothing moves
ACTIVE_NATS = 0.01  # a dimension of z is stored where its posterior tells this much on average


@dataclass(frozen=True)
class StoredPosteriors:
    """q(z | v, I) of N training pairs, one byte a number, for the dimensions that carry motion.

    Elsewhere the posterior is the prior N(0, 1), and nothing needs to be stored. Byte b of dimension k stands for
    low[k] + step[k] * b.
    """

    dimensions: Tensor  # int32 (A,), the stored dimensions of z
    mean: Tensor  # uint8 (N, A)
    log_variance: Tensor  # uint8 (N, A)
    scales: Tensor  # float32 (4, A): low and step of the mean, low and step of the log-variance
    latent: int

    def __len__(self) -> int:
        return len(self.mean)

    def posterior(self, rows: Tensor) -> Posterior:
        """Posteriors of chosen training pairs over all of z: mean and log-variance, float32 (n, latent)."""
        mean, log_variance = torch.zeros(2, len(rows), self.latent)
        places = self.dimensions.long()
        mean[:, places] = self.scales[0] + self.scales[1] * self.mean[rows]
        log_variance[:, places] = self.scales[2] + self.scales[3] * self.log_variance[rows]
        return Posterior(mean, log_variance)

    @staticmethod
    def none(latent: int) -> StoredPosteriors:
        """What a file without posteriors holds."""
        nothing = torch.zeros(0, 0, dtype=torch.uint8)
        return StoredPosteriors(torch.zeros(0, dtype=torch.int32), nothing, nothing, torch.zeros(4, 0), latent)

    @staticmethod
    def compress(posterior: Posterior, max_bytes: int) -> StoredPosteriors:
        """Keep the informative dimensions of as many posteriors as fit; rows are taken in order."""
        informative = kl_per_dimension(posterior).mean(0) > ACTIVE_NATS
        places = informative.nonzero().flatten()
        room = (max_bytes - 20 * len(places)) // max(1, 2 * len(places))  # after scales and dimensions, two bytes each
        rows = min(len(posterior.mean), max(1, room))
        mean, mean_scale = _to_bytes(posterior.mean[:rows, places].float())
        log_variance, log_variance_scale = _to_bytes(posterior.log_variance[:rows, places].float())
        return StoredPosteriors(
            dimensions=places.to(torch.int32).cpu(),
            mean=mean,
            log_variance=log_variance,
            scales=torch.cat([mean_scale, log_variance_scale]),
            latent=posterior.mean.shape[1],
        )


def _to_bytes(values: Tensor) -> tuple[Tensor, Tensor]:
    """float (N, A) -> bytes (N, A) and float32 (2, A): lowest value and step of each column."""
    low = values.amin(0)
    step = ((values.amax(0) - low) / 255).clamp_min(1e-8)
    return ((values - low) / step).round().to(torch.uint8).cpu(), torch.stack([low, step]).float().cpu()


@dataclass(frozen=True)
class StoredPrior:
    """A mixture of K Gaussians in the dimensions that carry motion; elsewhere the prior N(0, 1)."""

    dimensions: Tensor  # int32 (A,), the dimensions of z
    weight: Tensor  # float32 (K,), sums to 1
    mean: Tensor  # float32 (K, A)
    factor: Tensor  # float32 (K, A, A), lower triangular: covariance = factor factor^T
    latent: int


@dataclass(frozen=True)
class Weights:
    """A loaded model file."""

    network: VisualDynamics  # float32, evaluation mode
    posteriors: StoredPosteriors  # none where the file has a learned prior in their place
    prior: StoredPrior | None
    training: dict[str, Any]
    digest: str  # SHA-256 of the file, hexadecimal

    @property
    def encodes_motion(self) -> bool:
        return not isinstance(self.network.motion_encoder, NoMotionEncoder)


class NoMotionEncoder(nn.Module):
    """In place of the motion encoder where a file has none."""

    def forward(self, *inputs: Tensor) -> Posterior:
        raise UserError("this model comes without its motion encoder: it samples, but cannot read the motion of a pair")


def save_weights(
    path: Path, network: VisualDynamics, posterior: Posterior, training: dict[str, Any], max_bytes: int = MAX_BYTES
) -> None:
    """Write the light, shareable file: float16 weights, and as many training posteriors as fit into `max_bytes`.

    A network that is larger by itself makes a larger file: there is always room for some posteriors.
    """
    tensors, metadata = _contents(network, training)
    left = max_bytes - len(save(tensors, metadata)) - 1024  # the header grows by four entries
    stored = StoredPosteriors.compress(posterior, max(left, LEAST_POSTERIORS))
    write_atomically(path, save(tensors | _named("posteriors", stored), metadata))


def save_copy(
    path: Path,
    weights: Weights,
    eight_bits: bool = False,
    motion_encoder: bool = True,
    prior: StoredPrior | None = None,
) -> None:
    """Write a lighter copy of a model: three ways, each alone or with the others.

    `eight_bits` stores a weight in one byte, but for those of the motion decoder: six tenths of the size.
    Without the motion encoder half is left, too, all that sampling needs. A prior takes the place of the training
    posteriors.
    """
    tensors, metadata = _contents(weights.network, weights.training)
    if not motion_encoder:
        tensors = {name: value for name, value in tensors.items() if not name.startswith(MOTION_ENCODER)}
    if eight_bits:
        tensors = _in_eight_bits(tensors)
    if prior is None and len(weights.posteriors):
        tensors |= _named("posteriors", weights.posteriors)
    prior = prior or weights.prior
    if prior:
        tensors |= _named("prior", prior)
    write_atomically(path, save(tensors, metadata))


def _in_eight_bits(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Float16 weights as whole numbers from -127 to 127 and, for each block of them, the step between two numbers; but
    for those of the motion decoder."""
    result = dict(tensors)
    for name, value in tensors.items():
        if value.dtype == torch.float16 and not name.startswith(MOTION_DECODER):
            blocks = _in_blocks(value.float())
            step = (blocks.abs().amax(1, keepdim=True) / 127).half().clamp_min(SMALLEST_STEP)
            numbers = (blocks / step).round().clamp(-127, 127).to(torch.int8)
            result[name] = numbers.flatten()[: value.numel()].view(value.shape)
            result["steps." + name.removeprefix("network.")] = step.flatten()
    return result


def _in_blocks(value: Tensor) -> Tensor:
    """Any shape -> (blocks, BLOCK), in the order of memory; zeros fill the last block."""
    flat = value.flatten()
    return F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)


def _network_state(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The network's weights and statistics in float32, whichever way they were stored."""
    state = {}
    for name, value in tensors.items():
        if name.startswith("network."):
            short = name.removeprefix("network.")
            state[short] = (
                _of_eight_bits(value, tensors[f"steps.{short}"]) if value.dtype == torch.int8 else value.float()
            )
    return state


def _of_eight_bits(value: Tensor, step: Tensor) -> Tensor:
    blocks = _in_blocks(value.float())
    if step.shape != (len(blocks),) or not torch.isfinite(step).all():
        raise ValueError("the steps of its weights are malformed")
    return (blocks * step[:, None].float()).flatten()[: value.numel()].view(value.shape)


def _contents(network: VisualDynamics, training: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file, but for where z comes from."""
    tensors = {f"network.{name}": _light(value) for name, value in network.state_dict().items() if _is_shipped(name)}
    metadata = {
        "format": json.dumps({"name": FORMAT, "version": VERSION}),
        "network": json.dumps(network.config.to_dict()),
        "training": json.dumps(training),
    }
    return tensors, metadata


def _named(group: str, stored: StoredPosteriors | StoredPrior) -> dict[str, Tensor]:
    return {f"{group}.{name}": value.contiguous() for name, value in vars(stored).items() if name != "latent"}


def _is_shipped(name: str) -> bool:
    return not name.endswith("num_batches_tracked")


def _light(value: Tensor) -> Tensor:
    # Running statistics of one dimension stay float32: they are small, and variances may leave float16's range.
    half = value.dtype == torch.float32 and value.ndim > 1
    return value.detach().to("cpu", torch.float16 if half else value.dtype).contiguous()


def load_weights(path: Path) -> Weights:
    """Read a model file. Anything else - truncated, foreign, of another version - is a UserError in one line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a complete safetensors file: {error}") from error
    _check_format(path, metadata)
    try:
        config = NetworkConfig.from_dict(json.loads(metadata["network"]))
        with torch.device("meta"):
            network = VisualDynamics(config)
        if not any(name.startswith(MOTION_ENCODER) for name in tensors):
            network.motion_encoder = NoMotionEncoder()  # type: ignore[assignment]
        state = _network_state(tensors)
        state |= {name: torch.zeros((), dtype=torch.int64) for name in network.state_dict() if not _is_shipped(name)}
        network.load_state_dict(state, strict=True, assign=True)
        stored, prior = _latents(tensors, config.latent)
        training = json.loads(metadata["training"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path} does not hold a whole visual-dynamics model: {reason}") from error
    return Weights(network.requires_grad_(False).eval(), stored, prior, training, hashlib.sha256(data).hexdigest())


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    try:
        header = json.loads(metadata["format"])
        name, version = header["name"], header["version"]
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is a safetensors file, but not a visual-dynamics model") from None
    if name != FORMAT:
        raise UserError(f"{path} is a safetensors file, but not a visual-dynamics model")
    if version not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise UserError(f"{path} has format version {version}; this program reads versions {known}")


def _latents(tensors: dict[str, Tensor], latent: int) -> tuple[StoredPosteriors, StoredPrior | None]:
    """Training posteriors and learned prior, or one of them."""
    groups = {name.split(".")[0] for name in tensors}
    if not groups & {"posteriors", "prior"}:
        raise ValueError("it has neither training posteriors nor a learned prior")
    stored, prior = StoredPosteriors.none(latent), None
    if "posteriors" in groups:
        names = ("dimensions", "mean", "log_variance", "scales")
        stored = StoredPosteriors(**{name: tensors[f"posteriors.{name}"] for name in names}, latent=latent)
        _check_posteriors(stored)
    if "prior" in groups:
        names = ("dimensions", "weight", "mean", "factor")
        prior = StoredPrior(**{name: tensors[f"prior.{name}"] for name in names}, latent=latent)
        _check_prior(prior)
    return stored, prior


def _check_prior(stored: StoredPrior) -> None:
    count, active = stored.mean.shape
    parts = (stored.weight, stored.mean, stored.factor)
    whole = (
        stored.weight.shape == (count,)
        and stored.factor.shape == (count, active, active)
        and stored.dimensions.shape == (active,)
        and all(part.dtype == torch.float32 and bool(torch.isfinite(part).all()) for part in parts)
        and bool((stored.weight >= 0).all())
        and abs(float(stored.weight.sum()) - 1) < 1e-3
    )
    places = stored.dimensions.numpy()
    if not whole or np.any(places < 0) or np.any(places >= stored.latent):
        raise ValueError("its learned prior is malformed")


def _check_posteriors(stored: StoredPosteriors) -> None:
    count, active = stored.mean.shape
    whole = (
        stored.log_variance.shape == (count, active)
        and stored.scales.shape == (4, active)
        and stored.dimensions.shape == (active,)
        and stored.mean.dtype == stored.log_variance.dtype == torch.uint8
        and bool(torch.isfinite(stored.scales).all())
    )
    places = stored.dimensions.numpy()
    if not whole or count == 0 or np.any(places < 0) or np.any(places >= stored.latent):
        raise ValueError("its training posteriors are malformed")
