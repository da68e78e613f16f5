"""A reference sheet and a picture of another character, as arrays and as files; and a small folder of LPC layers."""

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
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.files import sheet_files
from visual_dynamics.sprites.lpc import ANIMATIONS, ARROW, CELL, HEIGHT, WIDTH
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
    path.parent.mkdir()
    path.write_bytes(weights_bytes(tiny_weights.network, tiny_weights.posteriors.posterior(torch.arange(40)), {}))
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reference as JSON and as rows of cells, and a picture of another character."""
    monkeypatch.chdir(tmp_path)
    write_sheet(tmp_path / "hero.json", REFERENCE)
    Image.fromarray(PICTURE.frames[0]).save("other.png")
    return tmp_path


# --- LPC layers ---

REED_WINDOW = (9, 2, 60)  # top, left, size of Reed's frames: the last 5 rows are the upper edge of the cell below

BOXES = {"body": (20, 60), "eyes": (22, 24), "feet": (55, 60), "legs": (45, 58), "torso": (32, 48), "belt": (44, 46)}


def cut_frames(sheet: Pixels, top: int = 0, left: int = 0, size: int = CELL) -> Pixels:
    """(1344, 832, 4) -> (178, size, size, 4): a window of each cell that is used; transparent beyond the sheet."""
    edge = max(0, top + size - CELL), max(0, left + size - CELL)
    padded = np.pad(sheet, ((0, edge[0]), (0, edge[1]), (0, 0)))
    lengths = [frames for frames, views in ANIMATIONS.values() for _ in range(views)]
    corners = [(row * CELL + top, column * CELL + left) for row, n in enumerate(lengths) for column in range(n)]
    return np.stack([padded[y : y + size, x : x + size] for y, x in corners])


def paint(path: Path, colour: tuple[int, int, int, int], rows: tuple[int, int] = (20, 60), cells: int = 21) -> None:
    """A layer: a bar 8 pixels wide in every cell of the first n rows of cells."""
    sheet = np.zeros((21, CELL, 13, CELL, 4), np.uint8)
    sheet[:cells, rows[0] : rows[1], :, 28:36] = colour
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sheet.reshape(HEIGHT, WIDTH, 4)).save(path, compress_level=1)


def paint_all(folder: Path, names: list[str]) -> Path:
    """Layers of different colours, where BOXES has them or on the upper part of the body."""
    for number, name in enumerate(names):
        rows = BOXES.get(name.split("/")[0], (20, 40)) if "eyes" not in name else BOXES["eyes"]
        paint(folder / name, (10 + number, 200 - number, 50, 255), rows)
    return folder


@pytest.fixture(scope="session")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small folder of every kind of layer, in the layout of the real one."""
    names = [f"weapons/right hand/either/{bow}.png" for bow in ("bow", "greatbow")] + [
        ARROW,
        "weapons/both hand/spear.png",
    ]
    for sex in ("male", "female"):
        names += [f"body/{sex}/{body}.png" for body in ("light", "orc")] + [f"body/{sex}/eyes/blue.png"]
        names += [f"{slot}/armor/{sex}/{metal}_{sex}.png" for slot in ("feet", "legs") for metal in ("gold", "iron")]
        names += [f"torso/gold/{part}_{sex}.png" for part in ("chest", "arms")] + [f"torso/leather/shoulders_{sex}.png"]
        names += [f"belt/leather/{sex}/leather_{sex}.png", f"head/hoods/{sex}/hood_{sex}.png"]
        names += [f"hair/{sex}/{style}/{colour}.png" for style in ("plain", "long") for colour in ("black", "pink")]
        names += [f"weapons/right hand/{sex}/{weapon}_{sex}.png" for weapon in ("spear", "dagger", "woodwand")]
    folder = paint_all(tmp_path_factory.mktemp("lpc"), [*names, "torso/dress_female/red.png"])
    oversize = folder / "weapons/oversize/right hand/male/longsword_male.png"
    oversize.parent.mkdir(parents=True)
    Image.new("RGBA", (1152, 768)).save(oversize)
    return folder
