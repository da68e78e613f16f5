"""Files that are either the old ones or the new ones, never half of each; and JSON that others may have written."""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError

MAX_JSON = 2**26  # bytes of a file


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step; on any failure (a full disk, say) the previous file stays as it was."""
    write_together(path.parent, {path.name: data})


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write several files of a folder and folders in it, made where they are missing: all, or on any failure none."""
    made: list[Path] = []  # folders
    parts: dict[Path, Path] = {}  # path -> the temporary file that will replace it
    path, done = folder, False
    try:
        made = missing_folders(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            path = folder / name
            if path.is_dir():
                raise IsADirectoryError(0, "a folder is in its place")
            made += missing_folders(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
            parts[path] = Path(temporary)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            parts[path].chmod(0o644)
        for path, part in parts.items():
            part.replace(path)
        done = True
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot write {path}: {reason}; nothing was changed") from error
    finally:
        if not done:
            for part in parts.values():
                part.unlink(missing_ok=True)
            remove_empty([each for each in made if each.is_dir()])


def check_folder(path: Path) -> None:
    """Raise now, rather than after a long computation, if results cannot be written into a folder."""
    try:
        there = path
        while not there.exists() and there != there.parent:
            there = there.parent
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a zero byte
        raise UserError(f"cannot write into {path}: {getattr(error, 'strerror', None) or error}") from error
    if not there.is_dir():
        raise UserError(f"{there} is a file; results need a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"cannot write into {there}: permission denied")


def remove_parts(*folders: Path) -> None:
    """Remove the unfinished files of a process that was killed. The caller keeps other processes out."""
    for folder in folders:
        for part in folder.glob(".*.part"):
            part.unlink(missing_ok=True)


def read_json(path: Path, most: int = MAX_JSON) -> Any:
    """What a file of at most so many bytes holds. Raises OSError, or ValueError where it is no such JSON."""
    if not path.is_file():
        raise ValueError(why_no_file(path))
    if path.stat().st_size > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    return parse_json(path.read_bytes())


def parse_json(text: str | bytes) -> Any:
    """Raises ValueError for what is nested too deeply for Python, and for numbers that are not finite, too."""
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def why_no_file(path: Path) -> str:
    """What a path is that is not a file to read: reading a pipe or a device might never end."""
    if not path.exists():
        return "there is no such file"
    return "it is a folder" if path.is_dir() else "it is not a regular file"


def missing_folders(path: Path) -> list[Path]:
    """The folders that have to be made for `path` to exist, itself the last."""
    return [folder for folder in (*reversed(path.parents), path) if not folder.exists()]


def remove_empty(folders: list[Path]) -> None:
    """Take back folders that were made for nothing, the innermost first; one that holds something stays."""
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return
