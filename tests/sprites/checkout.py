"""An invented checkout of the LPC generator: six items for two body types, two animations, flat colours."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image

from visual_dynamics.sprites.generator import ANIMATIONS, CELL

SKIN, DARK_SKIN, CLOTH = ["#102030", "#405060"], ["#802010", "#a04030"], ["#f0f0f0", "#808080"]
RED, BLUE = ["#ff0000", "#880000"], ["#0000ff", "#000088"]
AREAS = {
    "body": (20, 10, 24, 50),
    "head": (22, 4, 20, 16),
    "legs": (20, 40, 24, 16),
    "veil": (16, 0, 32, 32),
}  # x, y, w, h


def sheet(animation: str, area: tuple[int, int, int, int], colours: list[str], alpha: int = 255) -> Image.Image:
    """Every cell has a rectangle of the first colour, with a stripe of the second one at the number of the cell."""
    frames, views = ANIMATIONS[animation]
    picture = np.zeros((views * CELL, frames * CELL, 4), np.uint8)
    rgb = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in colours]
    x, y, width, height = area
    for view in range(views):
        for frame in range(frames):
            cell = picture[view * CELL : (view + 1) * CELL, frame * CELL : (frame + 1) * CELL]
            cell[y : y + height, x : x + width] = [*rgb[0], alpha]
            cell[y + (view + frame) % height, x : x + width] = [*rgb[1], alpha]
    return Image.fromarray(picture)


def write_checkout(folder: Path) -> Path:
    palettes = {
        "body/body_ulpc": {"light": SKIN, "dark": DARK_SKIN},
        "cloth/cloth_ulpc": {"white": CLOTH, "red": RED, "blue": BLUE},
    }
    for name, words in palettes.items():
        material, base = name.split("/")[0], next(iter(words))
        _json(folder / f"palette_definitions/{name}.json", words)
        _json(folder / f"palette_definitions/{material}/meta_{material}.json", {"default": "ulpc", "base": base})
    skin = {"recolors": {"material": "body", "palettes": ["ulpc"]}, "match_body_color": True}
    cloth = {"recolors": {"material": "cloth", "palettes": ["ulpc"]}}
    _item(folder, "body/body", "Body", "body", 10, {"male": "body/male/", "child": "body/child/"}, skin)
    _item(
        folder,
        "head/heads/human",
        "Human Male",
        "head",
        100,
        {"male": "head/m/", "child": "head/c/"},
        skin | {"tags": ["human"]},
    )
    _item(folder, "legs/trousers", "Trousers", "legs", 20, {"male": "legs/m/"}, cloth)
    _item(folder, "hat/veil", "Veil", "hat", 120, {"male": "veil/${head}/"}, {
        "variants": ["pale green", "absent"], "required_tags": ["human"],
        "replace_in_path": {"head": {"Human_Male": "m"}},
    })  # fmt: skip
    big = {"layer_1": {"zPos": 140, "custom_animation": "slash_128", "male": "weapon/axe/"}, "variants": ["steel"]}
    _json(folder / "sheet_definitions/weapon/axe.json", {"name": "Axe", "type_name": "weapon"} | big)
    _json(folder / "sheet_definitions/weapon/broken.json", {"name": "Broken"})
    _json(folder / "sheet_definitions/weapon/meta_weapon.json", {"priority": 1})
    made = []
    for animation in ("walk", "run"):
        for base, area, colours in (
            ("body/male/", "body", SKIN),
            ("head/m/", "head", SKIN),
            ("legs/m/", "legs", CLOTH),
        ):
            made.append(_save(folder, f"{base}{animation}.png", sheet(animation, AREAS[area], colours)))
    for base, area in (("body/child/", "body"), ("head/c/", "head")):
        made.append(_save(folder, f"{base}walk.png", sheet("walk", AREAS[area], SKIN)))
    made.append(
        _save(folder, "veil/m/walk/pale_green.png", sheet("walk", AREAS["veil"], ["#40c040", "#308030"], alpha=128))
    )
    _save(folder, "veil/m/run/pale_green.png", Image.new("RGBA", (8, 8)))  # of the wrong size
    with (folder / "CREDITS.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["filename", "notes", "authors", "licenses", "urls"])
        rows.writerows([name, "", f"author of {name}", "CC0", "https://example.org"] for name in made)
    return folder


def _item(folder: Path, key: str, name: str, slot: str, z: int, paths: dict[str, str], more: dict) -> None:
    words = {"name": name, "type_name": slot, "layer_1": {"zPos": z} | paths, "animations": ["walk", "run"]}
    _json(folder / f"sheet_definitions/{key}.json", words | more)


def _json(path: Path, words: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(words))


def _save(folder: Path, name: str, picture: Image.Image) -> str:
    path = folder / "spritesheets" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)
    return name
