"""One safetensors file a model: weights, configuration, training posteriors. Loading it runs no code.

The header's metadata holds three JSON texts: `format` (name and version), `network` (the NetworkConfig) and `training`
(how it was made). Tensors named `network.*` are the weights, each in float16, or in whole numbers of one byte, which
`steps.*` scale. `posteriors.*` are the stored q(z | v, I); `prior.*` a mixture fitted to them. A file has one of these,
or both. It may lack the motion encoder, half of the weights: sampling does not need it. `familiar.*` says what its
training pictures look like (see sampling/familiarity.py). It may be added later: the digest of a model leaves it out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.model.motion_encoder import NoMotionEncoder, Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.sampling.familiarity import Familiarity
from visual_dynamics.sampling.latents import LearnedPrior, TrainingPosteriors
from visual_dynamics.tensors import of_eight_bits, to_eight_bits, with_group

FORMAT = "visual-dynamics"
VERSION = 2
READABLE = (1, 2)  # version 1 knows float16 only
MAX_BYTES = 14_000_000  # of a shipped model
LEAST_POSTERIORS = 250_000  # bytes that training posteriors get, should the network leave them less
MOTION_ENCODER = "network.motion_encoder."  # how the names of its tensors begin
MOTION_DECODER = "network.motion_decoder."  # it paints the pixels: rounding shows where nothing moves
FAMILIAR = "familiar"  # the group of tensors
SHIPPED = Path(__file__).parent / "models"
HUB_FILE, HUB_CARD = "model.safetensors", "README.md"  # names in a Hub repository
HUB_ID = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?")  # owner/name or owner/name@revision


@dataclass(frozen=True)
class Weights:
    """A loaded model file."""

    network: VisualDynamics  # float32, evaluation mode
    posteriors: TrainingPosteriors  # none where the file has a learned prior in their place
    prior: LearnedPrior | None
    training: dict[str, Any]
    digest: str  # SHA-256 of the file without `familiar.*`, hexadecimal
    familiarity: Familiarity | None = None

    @property
    def encodes_motion(self) -> bool:
        return not isinstance(self.network.motion_encoder, NoMotionEncoder)


# --- finding and sharing ---


def shipped_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))


def find_weights(name: str | Path) -> Path:
    """The file of a model, by shipped name, path or Hub id (`owner/name`, `owner/name@revision`)."""
    if str(name) in shipped_models():
        return SHIPPED / f"{name}.safetensors"
    path = Path(name)
    try:
        if path.is_file():
            return path
        if path.is_dir():
            inside = next((file for file in sorted(path.glob("*.safetensors")) if file.stem != "state"), None)
            hint = f": give {inside}" if inside else ""
            raise UserError(f"{path} is a folder; a model is a .safetensors file{hint}")
        is_path = path.suffix == ".safetensors" or (len(path.parts) > 1 and path.parent.is_dir())
    except OSError as error:  # a name too long for a file, say
        raise UserError(f"no model {str(name)[:80]!r}: {error.strerror or error}") from error
    if is_path:
        raise UserError(f"no model {str(name)!r}: there is no such file")
    if found := HUB_ID.fullmatch(str(name)):
        return _fetch(*found.groups())
    names = ", ".join(shipped_models()) or "none"
    raise UserError(f"no model {str(name)!r}: shipped models are {names}; a path or a Hub id (owner/name) works too")


def push(path: Path, hub_id: str) -> str:
    """Upload a weights file to the Hugging Face Hub, with its card (the .md file beside it) if there is one.

    Returns the address of its page.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    load_weights(path)  # an error if it is no model
    found = HUB_ID.fullmatch(hub_id)
    if not found or found[2]:
        raise UserError(f"{hub_id!r} is not a Hub id: give owner/name")
    files = {HUB_FILE: path, HUB_CARD: path.with_suffix(".md")}
    operations = [CommitOperationAdd(name, str(file)) for name, file in files.items() if file.is_file()]
    with _hub_errors(f"cannot upload {path} to {hub_id!r} on the Hugging Face Hub"):
        api = HfApi()
        api.create_repo(hub_id, exist_ok=True)
        api.create_commit(hub_id, operations, commit_message=f"Upload {path.name}")
    return f"https://huggingface.co/{hub_id}"


def _fetch(hub_id: str, revision: str | None) -> Path:
    """The weights file of a Hub repository, in the Hub's own cache."""
    from huggingface_hub import hf_hub_download

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs a line for each retry
    with _hub_errors(f"there is no file {hub_id}, and cannot fetch {HUB_FILE} of {hub_id!r} from the Hugging Face Hub"):
        return Path(hf_hub_download(hub_id, HUB_FILE, revision=revision))


@contextmanager
def _hub_errors(words: str) -> Iterator[None]:
    # That of its HTTP library, which differs between versions: no connection, among others.
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    try:
        yield
    except (HTTPError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{words}: {reason}") from error


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
    return with_group(data, FAMILIAR, vars(familiarity) if familiarity else {})


def digest_of(data: bytes) -> str:
    """What names a model: SHA-256 of its file, hexadecimal, without what it holds of its training pictures."""
    return hashlib.sha256(with_familiarity(data, None)).hexdigest()


def save_copy(
    path: Path,
    weights: Weights,
    eight_bits: bool = False,
    motion_encoder: bool = True,
    prior: LearnedPrior | None = None,
) -> None:
    """Write a lighter copy of a model; the three ways can be combined.

    1. eight_bits: one byte for most weights, but not for the motion decoder's: 60 % of the size.
    2. motion_encoder=False: half of the weights; the copy samples, but cannot read the motion of a pair.
    3. prior: a learned prior in place of the training posteriors.
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
    write_atomically(path, with_familiarity(save(tensors, metadata), weights.familiarity))


def _in_eight_bits(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Float16 weights as whole numbers from -127 to 127, and for each block the step between two numbers.

    The motion decoder keeps float16: rounded, it flickers pixels where nothing moves.
    """
    result = dict(tensors)
    for name, value in tensors.items():
        if value.dtype == torch.float16 and not name.startswith(MOTION_DECODER):
            result[name], result["steps." + name.removeprefix("network.")] = to_eight_bits(value)
    return result


def _network_state(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The network's weights and statistics in float32, whichever way they were stored."""
    state = {}
    for name, value in tensors.items():
        if name.startswith("network."):
            short = name.removeprefix("network.")
            eight_bits = value.dtype == torch.int8
            state[short] = number = of_eight_bits(value, tensors[f"steps.{short}"]) if eight_bits else value.float()
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
    return {f"{group}.{name}": value.contiguous() for name, value in vars(stored).items() if name != "latent"}


def _is_shipped(name: str) -> bool:
    return not name.endswith("num_batches_tracked")


def _light(value: Tensor) -> Tensor:
    # Running statistics of one dimension stay float32: they are small, and variances may leave float16's range.
    half = value.dtype == torch.float32 and value.ndim > 1
    return value.detach().to("cpu", torch.float16 if half else value.dtype).contiguous()


# --- reading ---


def load_weights(path: Path) -> Weights:
    """Read a model file. Anything else (truncated, damaged, foreign, of another version) is a UserError of one line."""
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
        familiarity = _familiarity(tensors, config)
        training = json.loads(metadata["training"])
        digest = digest_of(data)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        reason = lines[:2][-1].strip()[:200]  # PyTorch gives the reason in its second line
        raise UserError(f"{path} does not hold a whole visual-dynamics model: {reason}") from error
    return Weights(network.requires_grad_(False).eval(), stored, prior, training, digest, familiarity)


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    try:
        header = json.loads(metadata["format"])
        name, version = header["name"], header["version"]
    except (KeyError, TypeError, ValueError):
        name, version = "", 0
    if name != FORMAT:
        raise UserError(f"{path} is a safetensors file, but not a visual-dynamics model")
    if version not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise UserError(f"{path} has format version {version}; this program reads versions {known}")


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


def _familiarity(tensors: dict[str, Tensor], config: NetworkConfig) -> Familiarity | None:
    """What the training pictures look like; None in files of earlier versions."""
    if not any(name.startswith(f"{FAMILIAR}.") for name in tensors):
        return None
    names = ("mean", "factor", "limits", "colours")
    found = Familiarity(**{name: tensors[f"{FAMILIAR}.{name}"] for name in names})
    found.check(config.maps)
    return found
