"""Drawn clips for `prepare videos`: a textured square that moves before a textured wall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.footage.clips import encode, texture
from visual_dynamics.data.shards import CHECKED, file_digest, read_manifest
from visual_dynamics.images import Pixels


def moving_square(
    count: int, seed: int = 0, height: int = 96, width: int = 128, left: float = 20, speed: float = 2.0, side: int = 24
) -> list[Pixels]:
    """Frames uint8 (height, width, 3): a square that goes to the right, and back from the edge, at rows 36 to 60."""
    ground, front = texture(height, width, seed), 255 - texture(side, side, seed + 100) // 3
    frames = []
    for number in range(count):
        frame = ground.copy()
        way = width - side - 8
        x = round(left + speed * number) % (2 * way)
        x = min(x, 2 * way - x) + 4
        frame[36 : 36 + side, x : x + side] = front
        frames.append(frame)
    return frames


def film(path: Path, count: int = 13, seed: int = 0, **options: float) -> Path:
    """A clip of 10 frames a second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return encode(path, moving_square(count, seed, **options), rate=10)  # type: ignore[arg-type]


def two_shots(path: Path) -> Path:
    frames = moving_square(8, 1) + [np.ascontiguousarray(255 - frame) for frame in moving_square(9, 2)]
    return encode(path, frames, rate=10)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, but for locks and the note of shards that were checked, which holds times."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock")
    paths = (path for path in paths if path.name != CHECKED)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def list_anew(shard: Path) -> None:
    """The manifest lists this file as it is now."""
    manifest = shard.parents[1] / "manifest.json"
    content = json.loads(manifest.read_text())
    for entry in (entry for file in content["files"] for entry in file["shards"]):
        if entry["file"].endswith(shard.name):
            entry["sha256"] = file_digest(shard)
    manifest.write_text(json.dumps(content))


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    return {file["file"]: file for file in read_manifest(folder)["files"]}
