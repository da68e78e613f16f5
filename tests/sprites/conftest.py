"""A reference sheet and a picture of another character, as arrays and as files, for the tests of `animate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.files import write_together
from visual_dynamics.sprites.files import sheet_files
from visual_dynamics.weights import Weights, weights_bytes

UP, LEFT, DOWN = Tag("walk/up", 0, 3), Tag("walk left", 4, 6, "pingpong"), Tag("fall", 7, 8)
RED, BLUE = (220, 40, 60), (60, 90, 230)


def hero(count: int = 9, color: tuple[int, int, int] = RED, height: int = 14, width: int = 12) -> np.ndarray:
    """Frames that all differ: uint8 (count, height, width, 4)."""
    frames = np.zeros((count, height, width, 4), np.uint8)
    for t, frame in enumerate(frames):
        frame[height - 3 - t :, 2:9] = (*color, 255)
        frame[-2:, 2:9] = (*color[::-1], 255)
    return frames


def sheet(frames: np.ndarray, *tags: Tag) -> Sheet:
    return Sheet(frames, 10 * np.arange(3, len(frames) + 3), tags)


def write_sheet(path: Path, sheet: Sheet) -> None:
    """NAME.png and NAME.json, for a path NAME with or without one of these suffixes."""
    title = path.stem if path.suffix in (".png", ".json") else path.name
    write_together(path.parent, sheet_files(title, sheet))


REFERENCE = sheet(hero(), UP, LEFT, DOWN)
PICTURE = sheet(hero(1, BLUE))


@pytest.fixture
def black_weights_file(tmp_path: Path, tiny_weights: Weights) -> Path:
    """A tiny model as for sprites: what is transparent is black."""
    tiny_weights.network.config = replace(tiny_weights.network.config, background=0.0)
    path = tmp_path / "models" / "black.safetensors"
    path.write_bytes(weights_bytes(tiny_weights.network, tiny_weights.posteriors.posterior(torch.arange(40)), {}))
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reference as JSON and as rows of cells, and a picture of another character."""
    monkeypatch.chdir(tmp_path)
    write_sheet(tmp_path / "hero.json", REFERENCE)
    Image.fromarray(PICTURE.frames[0]).save("other.png")
    return tmp_path
