"""What a studio may be told when it starts, and the bounds it keeps."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """Bounds on what anybody may ask for."""

    upload_bytes: int = 10_000_000
    upload_pixels: int = 16_000_000  # decoded
    full_size_pixels: int = 8_000_000  # of all pictures of an answer at the size of the picture
    json_bytes: int = 2_000_000
    image_bytes: int = 256_000_000  # of all pictures that are kept in memory together
    line_length: int = 32  # pieces of work that wait, of all clients
    line_per_client: int = 8
    requests_per_second: float = 25.0  # of one address, lasting; a slider asks ten times a second
    burst: int = 100  # requests of one address at once


@dataclass(frozen=True)
class Settings:
    """One studio."""

    store: Path  # folder of the files that are kept
    host: str = "127.0.0.1"
    port: int = 8200
    token: str | None = None  # that everybody has to show; needed where others reach the machine
    allowed_hosts: tuple[str, ...] = ()  # further names under which the page may be reached
    models: tuple[str, ...] = ()  # files or Hub ids beside the shipped ones
    device: str = "cpu"
    study: Path | None = None  # folder of a study with people, to be asked under /study/
    limits: Limits = field(default_factory=Limits)

    @property
    def database(self) -> Path:
        return self.store / "studio.sqlite"


def data_folder() -> Path:
    """Where the system wants programs to keep a user's data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "visual-dynamics"
