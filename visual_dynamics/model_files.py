"""Model files: where they are, what their headers say, what names them.

Without torch, which takes seconds to import.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from visual_dynamics.errors import UserError
from visual_dynamics.files import parse_json
from visual_dynamics.model.presets import PRESETS, NetworkConfig

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "visual-dynamics"
VERSION = 2
READABLE = (1, 2)  # version 1 knows float16 only
MOTION_ENCODER = "network.motion_encoder."  # how the names of its tensors begin
FAMILIAR, CONDITIONAL = "familiar", "conditional"  # groups of tensors
SHIPPED = Path(__file__).parent / "models"
HUB_FILE, HUB_CARD = "model.safetensors", "README.md"  # names in a Hub repository
HUB_ID = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?")  # owner/name@revision; without one, to push
TYPES = {"float32": "F32", "uint8": "U8"}
METADATA = "__metadata__"
MAX_HEADER, MAX_FILE_BYTES = 2**20, 2**29  # shipped models have 20 kB and 14 MB


# --- finding ---


def shipped_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))


def find_weights(name: str | Path) -> Path:
    """The file of a model, by shipped name, path or Hub id.

    A Hub id names its revision, `owner/name@main`: without one it looks like a path, and a mistyped path is no request.
    """
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
    except OSError as error:  # a name too long for a file, say
        raise UserError(f"no model {str(name)[:80]!r}: {error.strerror or error}") from error
    found = HUB_ID.fullmatch(str(name))
    if found and found[2] and path.suffix != ".safetensors":
        return _fetch(found[1], found[2])
    if len(path.parts) > 1 or path.suffix == ".safetensors":
        on_the_hub = f" (if it is on the Hugging Face Hub: {name}@main)" if found and not found[2] else ""
        raise UserError(f"no model {str(name)!r}: there is no such file{on_the_hub}")
    names = ", ".join(shipped_models()) or "none"
    raise UserError(
        f"no model {str(name)!r}: shipped models are {names}; a path or a Hub id (owner/name@main) works too"
    )


# --- sharing ---


def push(path: Path, hub_id: str) -> str:
    """Upload a weights file to the Hugging Face Hub, with its card (the .md file beside it) if there is one.

    Returns the address of its page.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    read_header(path)  # an error if it is no model
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


def _fetch(hub_id: str, revision: str) -> Path:
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


# --- headers ---


@dataclass(frozen=True)
class Header:
    """What a model file says of itself before its tensors are read."""

    config: NetworkConfig
    training: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]  # of the tensors

    @property
    def posteriors(self) -> int:
        """Number of training posteriors in the file; 0 where it has a learned prior only."""
        return self.shapes.get("posteriors.mean", (0,))[0]

    @property
    def knows_images(self) -> bool:
        """Whether it has p(z | image)."""
        return f"{CONDITIONAL}.codes" in self.shapes

    @property
    def encodes_motion(self) -> bool:
        return any(name.startswith(MOTION_ENCODER) for name in self.shapes)

    @property
    def preset(self) -> NetworkConfig | None:
        """The network that was trained, where its training names one."""
        config = self.training.get("config", {})
        return PRESETS.get(str(config.get("preset"))) if isinstance(config, dict) else None

    @property
    def knows_neighbours(self) -> bool:
        """Whether it was trained on neighbouring frames: then each frame is made from the one before it."""
        config = self.training.get("config", {})
        return isinstance(config, dict) and config.get("between") in ("neighbours", "mostly")


def read_header(path: Path) -> Header:
    """What is no model file (truncated, foreign, of another version) is a UserError of one line."""
    try:
        with path.open("rb") as stream:
            length, size = int.from_bytes(stream.read(8), "little"), stream.seek(0, 2)
        if size > MAX_FILE_BYTES or MAX_HEADER < length <= size:
            raise UserError(f"{path} is no model: the file or its header is too large")
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise UserError(f"{path} is not a complete safetensors file: {' '.join(str(error).split())}") from error
    _check_format(path, metadata)
    with whole_model(path):
        config = NetworkConfig.from_dict(parse_json(metadata["network"]))
        header = Header(config, dict(parse_json(metadata["training"])), shapes)
        if (preset := header.preset) and preset.size != config.size:
            raise ValueError(f"it was trained on frames of {preset.size} pixels, and now says {config.size}")
        return header


@contextmanager
def whole_model(path: Path) -> Iterator[None]:
    """What goes wrong inside, where the parts of a model are taken from its file, becomes a UserError of one line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        reason = lines[:2][-1].strip()[:200]  # PyTorch gives the reason in its second line
        raise UserError(f"{path} does not hold a whole visual-dynamics model: {reason}") from error


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    try:
        header = parse_json(metadata["format"])
        name, version = header["name"], header["version"]
    except (KeyError, TypeError, ValueError):
        name, version = "", 0
    if name != FORMAT:
        raise UserError(f"{path} is a safetensors file, but not a visual-dynamics model")
    if version not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise UserError(f"{path} has format version {version!r}; this program reads versions {known}")


# --- bytes ---


def digest_of(data: bytes) -> str:
    """What names a model: SHA-256 of its file, hexadecimal, without what it holds of its training pictures."""
    return hashlib.sha256(with_group(data, FAMILIAR, {})).hexdigest()


def with_group(data: bytes, group: str, tensors: Mapping[str, NDArray[np.generic]]) -> bytes:
    """The file with these tensors, named `group.*`, in place of those that it has; with none of them where none are.

    They come first. Each of them, but the last, takes a multiple of 8 bytes: others stay aligned.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    entries: dict[str, Any] = json.loads(data[8:start])
    kept = {name: entry for name, entry in entries.items() if not name.startswith(f"{group}.")}
    if not tensors and len(kept) == len(entries):
        return data
    header: dict[str, Any] = {METADATA: kept.pop(METADATA)} if METADATA in kept else {}
    parts: list[bytes] = []
    for name, value in tensors.items():
        header[f"{group}.{name}"] = {"dtype": TYPES[value.dtype.name], "shape": list(value.shape)}
        parts.append(value.tobytes())
    for name, entry in kept.items():
        header[name] = entry
        first, last = entry["data_offsets"]
        parts.append(data[start + first : start + last])
    end = 0
    for name, part in zip((name for name in header if name != METADATA), parts, strict=True):
        header[name]["data_offsets"] = [end, end + len(part)]
        end += len(part)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
