"""A sheet for other programs: Aseprite's own file, SpriteFrames of Godot 4, a tile set of Tiled.

The last two describe the picture TITLE.png that `sheet_files` writes, and lie beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from xml.etree import ElementTree

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.sprites.files import sheet_rows

FORMATS = ("aseprite", "godot", "tiled")
SPEED = 10.0  # frames a second in Godot: a frame that lasts 100 ms has a duration of 1


def exported(title: str, sheet: Sheet, form: str) -> tuple[str, bytes]:
    """Name and content of the file in one of FORMATS."""
    if form == "aseprite":
        return f"{title}.aseprite", aseprite_file(sheet.frames, sheet.durations.tolist(), sheet.tags, title)
    if form == "godot":
        return f"{title}.tres", sprite_frames(title, sheet).encode()
    return f"{title}.tsx", tile_set(title, sheet)


def sprite_frames(title: str, sheet: Sheet) -> str:
    """A SpriteFrames resource as text: an animation for each tag, played in its direction."""
    _, height, width, _ = sheet.frames.shape
    parts = [f'[gd_resource type="SpriteFrames" load_steps={len(sheet.frames) + 2} format=3]']
    parts.append(f'[ext_resource type="Texture2D" path={_quoted(title + ".png")} id="1"]')  # beside this file
    for frame, row, column in _places(sheet):
        region = f"Rect2({column * width}, {row * height}, {width}, {height})"
        head = f'[sub_resource type="AtlasTexture" id="frame_{frame}"]'
        parts.append(f'{head}\natlas = ExtResource("1")\nregion = {region}')
    animations = []
    for tag in _animations(sheet):
        times = [int(sheet.durations[frame]) * SPEED / 1000 for frame in tag.order]
        frames = [
            f'{{\n"duration": {time},\n"texture": SubResource("frame_{frame}")\n}}'
            for frame, time in zip(tag.order, times, strict=True)
        ]
        words = f'"loop": true,\n"name": &{_quoted(tag.name)},\n"speed": {SPEED}'
        animations.append(f'{{\n"frames": [{", ".join(frames)}],\n{words}\n}}')
    parts.append(f"[resource]\nanimations = [{', '.join(animations)}]")
    return "\n\n".join(parts) + "\n"


def tile_set(title: str, sheet: Sheet) -> bytes:
    """A tile set whose tiles are the frames; the first tile of each tag is animated, and has its name as class."""
    _, height, width, _ = sheet.frames.shape
    rows = sheet_rows(sheet)
    columns = max(map(len, rows))
    tiles = {frame: row * columns + column for frame, row, column in _places(sheet)}
    sizes = {"tilewidth": width, "tileheight": height, "tilecount": columns * len(rows), "columns": columns}
    root = ElementTree.Element(
        "tileset", {"version": "1.10", "name": title} | {key: str(n) for key, n in sizes.items()}
    )
    picture = {"source": f"{title}.png", "width": str(columns * width), "height": str(len(rows) * height)}
    ElementTree.SubElement(root, "image", picture)
    for tag in sorted({tag.first: tag for tag in reversed(_animations(sheet))}.values(), key=lambda tag: tag.first):
        tile = ElementTree.SubElement(root, "tile", {"id": str(tiles[tag.first]), "type": tag.name})
        animation = ElementTree.SubElement(tile, "animation")
        for frame in tag.order:
            duration = str(int(sheet.durations[frame]))
            ElementTree.SubElement(animation, "frame", {"tileid": str(tiles[frame]), "duration": duration})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _animations(sheet: Sheet) -> tuple[Tag, ...]:
    """The tags; without any, all frames."""
    return sheet.tags or (Tag("default", 0, len(sheet.frames) - 1),)


def _places(sheet: Sheet) -> Iterator[tuple[int, int, int]]:
    """Each frame with its row and column in the picture."""
    for row, frames in enumerate(sheet_rows(sheet)):
        for column, frame in enumerate(frames):
            yield frame, row, column


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
