"""Where a number comes from: the commit, the versions and the device that made it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

HASH = re.compile("[0-9a-f]{7,40}")
MODIFIED = "-modified"  # behind a commit whose files were changed


def provenance(device: torch.device) -> dict[str, str]:
    """Facts to store beside every result."""
    import torch

    return {
        "commit": commit(),
        "version": package_version(),
        "device": device_name(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit of the source tree, marked where files differ from it. VISUAL_DYNAMICS_COMMIT has the first word, if
    it is one: a name such as HEAD means something else tomorrow."""
    given = os.environ.get("VISUAL_DYNAMICS_COMMIT", "")
    if HASH.fullmatch(given.removesuffix(MODIFIED)):
        return given
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return "unknown"
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + (MODIFIED if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def short_commit(commit: str) -> str:
    """The first 12 characters of a commit, and the mark of changed files where it has one."""
    return commit.removesuffix(MODIFIED)[:12] + (MODIFIED if commit.endswith(MODIFIED) else "")


def package_version() -> str:
    try:
        return version("visual-dynamics")
    except PackageNotFoundError:
        return "unknown"


def device_name(device: torch.device) -> str:
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()} CPU, {torch.get_num_threads()} threads"


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, timeout=10, check=True)
    return done.stdout.decode("utf-8", "replace").strip()
