"""One safetensors file a model: weights, configuration, training posteriors. Loading it runs no code.

The header's metadata holds three JSON texts: `format` (name and version), `network` (the NetworkConfig) and `training`
(how it was made). Tensors named `network.*` are the weights, each in float16, or in whole numbers of one byte, which
`steps.*` scale. `posteriors.*` are the stored q(z | v, I); `prior.*` a mixture fitted to them. A file has one of these,
or both. `conditional.*` is p(z | image), which may be added later (see sampling/conditional_prior.py). The file may
lack the motion encoder, half of the weights: sampling does not need it. `familiar.*` says what its training pictures
look like (see sampling/familiarity.py). It may be added later: the digest of a model leaves it out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from visual_dynamics.files import write_atomically
from visual_dynamics.model.motion_encoder import NoMotionEncoder, Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.model_files import (
    CONDITIONAL,
    FAMILIAR,
    FORMAT,
    MOTION_ENCODER,
    VERSION,
    digest_of,
    read_header,
    whole_model,
    with_group,
)
from visual_dynamics.sampling.conditional_prior import ConditionalPrior
from visual_dynamics.sampling.familiarity import Familiarity
from visual_dynamics.sampling.latents import LearnedPrior, TrainingPosteriors
from visual_dynamics.tensors import of_eight_bits, to_eight_bits

MAX_BYTES = 14_000_000  # of a shipped model
LEAST_POSTERIORS = 250_000  # bytes that training posteriors get, should the network leave them less
HEADER_BYTES = 30_000  # of a file, at most
MOTION_DECODER = "network.motion_decoder."  # it paints the pixels: rounding shows where nothing moves


@dataclass(frozen=True)
class Weights:
    """A loaded model file."""

    network: VisualDynamics  # float32, evaluation mode
    posteriors: TrainingPosteriors  # none where the file has a learned prior in their place
    prior: LearnedPrior | None
    training: dict[str, Any]
    digest: str  # SHA-256 of the file without `familiar.*`, hexadecimal
    familiarity: Familiarity | None = None
    conditional: ConditionalPrior | None = None

    @property
    def encodes_motion(self) -> bool:
        return not isinstance(self.network.motion_encoder, NoMotionEncoder)


# --- writing ---


def weights_bytes(
    network: VisualDynamics,
    posterior: Posterior,
    training: dict[str, Any],
    max_bytes: int = MAX_BYTES,
    familiarity: Familiarity | None = None,
) -> bytes:
    """The light, shareable file: float16 weights, and as many training posteriors as fit into `max_bytes`.

    A network that is larger by itself makes a larger file: there is always room for some posteriors.
    """
    tensors, metadata = _contents(network, training)
    bare = with_familiarity(save(tensors, metadata), familiarity)
    left = max_bytes - len(bare) - 1024  # the header grows by four entries
    stored = TrainingPosteriors.compress(posterior, max(left, LEAST_POSTERIORS))
    return with_familiarity(save(tensors | _named("posteriors", stored), metadata), familiarity)


def with_familiarity(data: bytes, familiarity: Familiarity | None) -> bytes:
    """The bytes of a model's file with another `familiar.*`, or none; nothing else in them changes."""
    tensors = {name: value.contiguous().numpy() for name, value in vars(familiarity).items()} if familiarity else {}
    return with_group(data, FAMILIAR, tensors)


def save_copy(
    path: Path,
    weights: Weights,
    eight_bits: bool = False,
    motion_encoder: bool = True,
    prior: LearnedPrior | None = None,
) -> None:
    """Write a lighter copy of a model; the three ways can be combined.

    1. eight_bits: one byte for most weights, but not for the motion decoder's: two thirds of the size.
    2. motion_encoder=False: half of the weights; the copy samples, but cannot read the motion of a pair.
    3. prior: a learned prior in place of the training posteriors.
    """
    tensors, metadata = _contents(weights.network, weights.training)
    if not motion_encoder:
        tensors = {name: value for name, value in tensors.items() if not name.startswith(MOTION_ENCODER)}
    if weights.conditional:
        tensors |= _under(CONDITIONAL, weights.conditional.tensors())
    if eight_bits:
        tensors = _in_eight_bits(tensors)
    if prior is None and len(weights.posteriors):
        tensors |= _named("posteriors", weights.posteriors)
    prior = prior or weights.prior
    if prior:
        tensors |= _named("prior", prior)
    write_atomically(path, with_familiarity(save(tensors, metadata), weights.familiarity))


def with_conditional_prior(path: Path, conditional: ConditionalPrior, training: dict[str, Any]) -> bytes:
    """A model's file with p(z | image), and how it was trained. Stored posteriors make room for it."""
    header = read_header(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        known = {name: file.get_tensor(name) for name in header.shapes if not name.startswith(f"{CONDITIONAL}.")}
    known |= _under(CONDITIONAL, {name: value.contiguous() for name, value in conditional.tensors().items()})
    too_large = sum(value.nbytes for value in known.values()) + HEADER_BYTES - MAX_BYTES
    if too_large > 0 and "posteriors.mean" in known:
        count, active = known["posteriors.mean"].shape
        rows = max(count - -(-too_large // (2 * active)), min(count, LEAST_POSTERIORS // (2 * active)))
        known |= {name: known[name][:rows].clone() for name in ("posteriors.mean", "posteriors.log_variance")}
    metadata |= {"training": json.dumps(header.training | {"conditional": training})}
    familiar = {name: known.pop(name) for name in list(known) if name.startswith(f"{FAMILIAR}.")}
    arrays = {name.removeprefix(f"{FAMILIAR}."): value.numpy() for name, value in familiar.items()}
    return with_group(save(known, metadata), FAMILIAR, arrays)


def _in_eight_bits(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Float16 weights as whole numbers from -127 to 127, and for each block the step between two numbers.

    The motion decoder keeps float16: rounded, it flickers pixels where nothing moves.
    """
    result = dict(tensors)
    for name, value in tensors.items():
        if value.dtype == torch.float16 and not name.startswith(MOTION_DECODER):
            result[name], result["steps." + name.removeprefix("network.")] = to_eight_bits(value)
    return result


def _state(tensors: dict[str, Tensor], group: str) -> dict[str, Tensor]:
    """Weights and statistics named `group.*` in float32, whichever way they were stored."""
    state = {}
    for name, value in tensors.items():
        if name.startswith(f"{group}."):
            short, step = name.removeprefix(f"{group}."), "steps." + name.removeprefix("network.")
            state[short] = number = of_eight_bits(value, tensors[step]) if value.dtype == torch.int8 else value.float()
            if not torch.isfinite(number).all() or (short.endswith("running_var") and (number < 0).any()):
                raise ValueError(f"{name} holds impossible numbers: its bytes were changed")
    return state


def _contents(network: VisualDynamics, training: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file, but for where z comes from."""
    tensors = {f"network.{name}": _light(value) for name, value in network.state_dict().items() if _is_shipped(name)}
    metadata = {
        "format": json.dumps({"name": FORMAT, "version": VERSION}),
        "network": json.dumps(network.config.to_dict()),
        "training": json.dumps(training),
    }
    return tensors, metadata


def _named(group: str, stored: TrainingPosteriors | LearnedPrior) -> dict[str, Tensor]:
    return _under(group, {name: value for name, value in vars(stored).items() if name != "latent"})


def _under(group: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{group}.{name}": value.contiguous() for name, value in tensors.items()}


def _is_shipped(name: str) -> bool:
    return not name.endswith("num_batches_tracked")


def _light(value: Tensor) -> Tensor:
    # Running statistics of one dimension stay float32: they are small, and variances may leave float16's range.
    half = value.dtype == torch.float32 and value.ndim > 1
    return value.detach().to("cpu", torch.float16 if half else value.dtype).contiguous()


# --- reading ---


def load_weights(path: Path) -> Weights:
    """Read a model file. Anything else (truncated, damaged, foreign, of another version) is a UserError of one line."""
    header = read_header(path)
    with whole_model(path):
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in header.shapes}
        with torch.device("meta"):
            network = VisualDynamics(header.config)
        if not header.encodes_motion:
            network.motion_encoder = NoMotionEncoder()  # type: ignore[assignment]
        state = _state(tensors, "network")
        state |= {name: torch.zeros((), dtype=torch.int64) for name in network.state_dict() if not _is_shipped(name)}
        network.load_state_dict(state, strict=True, assign=True)
        stored, prior = _latents(tensors, header.config.latent)
        familiarity = _familiarity(tensors, header.config)
        conditional = _conditional(tensors, header.config)
    digest = digest_of(path.read_bytes())
    return Weights(
        network.requires_grad_(False).eval(), stored, prior, header.training, digest, familiarity, conditional
    )


def _latents(tensors: dict[str, Tensor], latent: int) -> tuple[TrainingPosteriors, LearnedPrior | None]:
    """Training posteriors and learned prior, or one of them."""
    groups = {name.split(".")[0] for name in tensors}
    if not groups & {"posteriors", "prior"}:
        raise ValueError("it has neither training posteriors nor a learned prior")
    stored, prior = TrainingPosteriors.none(latent), None
    if "posteriors" in groups:
        names = ("dimensions", "mean", "log_variance", "scales")
        stored = TrainingPosteriors(**{name: tensors[f"posteriors.{name}"] for name in names}, latent=latent)
        stored.check()
    if "prior" in groups:
        names = ("dimensions", "weight", "mean", "factor")
        prior = LearnedPrior(**{name: tensors[f"prior.{name}"] for name in names}, latent=latent)
        prior.check()
    return stored, prior


def _conditional(tensors: dict[str, Tensor], config: NetworkConfig) -> ConditionalPrior | None:
    """p(z | image); None where it was not trained."""
    if f"{CONDITIONAL}.codes" not in tensors:
        return None
    named = {name: tensors[f"{CONDITIONAL}.{name}"] for name in ("dimensions", "codes", "segments")}
    return ConditionalPrior.of(named, _state(tensors, f"{CONDITIONAL}.velocity"), config.latent, config.kernel_channels)


def _familiarity(tensors: dict[str, Tensor], config: NetworkConfig) -> Familiarity | None:
    """What the training pictures look like; None in files of earlier versions."""
    if not any(name.startswith(f"{FAMILIAR}.") for name in tensors):
        return None
    names = ("mean", "factor", "limits", "colours")
    found = Familiarity(**{name: tensors[f"{FAMILIAR}.{name}"] for name in names})
    found.check(config.maps)
    return found
