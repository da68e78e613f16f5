"""Made data that several tests read: a folder of LPC layers, sprite characters and their packed files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from visual_dynamics.data.reed import Characters, pack_characters
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.lpc import ANIMATIONS, ARROW, CELL, HEIGHT, WIDTH

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


# --- sprite characters ---


@pytest.fixture(scope="session")
def made() -> Characters:
    """Three characters of coloured noise: black where the mask is not, as in most of the real ones."""
    return noise_characters(3)


@pytest.fixture(scope="session")
def packed_once(made: Characters, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    pack_characters(made, folder)
    return folder


@pytest.fixture
def packed(packed_once: Path, tmp_path: Path) -> Path:
    """A packed folder that a test may spoil."""
    return shutil.copytree(packed_once, tmp_path / "packed")


def assert_same(some: Characters, others: Characters) -> None:
    assert len(some) == len(others)
    for place in range(len(some)):
        assert torch.equal(some.rgba(place), others.rgba(place))
    assert (some.attributes == others.attributes).all()
    assert (some.numbers == others.numbers).all()
