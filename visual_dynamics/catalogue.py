"""Finding a model: by a shipped name, by a path, or by a Hugging Face Hub id."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from visual_dynamics.errors import UserError

SHIPPED = Path(__file__).parent / "models"
HUB_FILE = "model.safetensors"  # the name of the weights file in a Hub repository
HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")  # owner/name


def shipped_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))


def find_weights(name: str | Path) -> Path:
    """The weights file that a name stands for; a Hub id is fetched into the Hub's own cache."""
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
    if path.suffix != ".safetensors" and HUB_ID.fullmatch(str(name)):
        return _fetch(str(name))
    names = ", ".join(shipped_models()) or "none"
    raise UserError(f"no model {str(name)!r}: shipped models are {names}; a path or a Hub id (owner/name) works too")


def _fetch(hub_id: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries are not worth a line each
    try:
        return Path(hf_hub_download(hub_id, HUB_FILE))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"cannot fetch {HUB_FILE} of {hub_id!r} from the Hugging Face Hub: {reason}") from error
