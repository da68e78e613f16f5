"""Files that are either the old one or the new one, never half of each."""

import os
import tempfile
from pathlib import Path

from visual_dynamics.errors import UserError


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step; on any failure (a full disk, say) the previous file stays as it was."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; nothing was changed") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
