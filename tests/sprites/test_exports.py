"""Sheets for Godot and Tiled, read back by parsers that know the documented forms alone."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import parse_aseprite_file
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.sprites.exports import FORMATS, exported

FRAMES = np.random.default_rng(0).integers(0, 256, (5, 8, 6, 4), dtype=np.uint8)
FRAMES[..., 3] = 255
SHEET = Sheet(FRAMES, np.array([100, 50, 250, 80, 80]), (Tag('wa"lk', 0, 2), Tag("run", 3, 4, "reverse")))


def value(text: str) -> object:
    """A value of Godot's text form: its constructors become tuples, its dictionaries and arrays Python's."""
    text = re.sub(r"&(\")", r"\1", text)
    text = re.sub(r"(ExtResource|SubResource|Rect2)\(", r'("\1", ', text)
    return eval(text, {"__builtins__": {}}, {"true": True})  # of this file's own making


def sections(text: str) -> list[tuple[str, dict[str, str], dict[str, object]]]:
    """Each [head key=value ...] with the assignments below it."""
    found = []
    for head, body in re.findall(r"^\[(.*?)\]\n(.*?)(?=^\[\w|\Z)", text, re.S | re.M):
        kind, _, rest = head.partition(" ")
        keys = {key: word.strip('"') for key, word in re.findall(r'(\w+)=("[^"]*"|\d+)', rest)}
        lines = re.findall(r"^(\w+) = (.*?)(?=^\w+ = |\Z)", body, re.S | re.M)
        found.append((kind, keys, {name: value(words.strip()) for name, words in lines}))
    return found


def test_godot() -> None:
    name, data = exported("hero", SHEET, "godot")
    assert name == "hero.tres"
    head, picture, *frames, resource = sections(data.decode())
    assert head[0] == "gd_resource" and head[1] == {"type": "SpriteFrames", "load_steps": "7", "format": "3"}
    assert picture[1] == {"type": "Texture2D", "path": "hero.png", "id": "1"}
    regions = {keys["id"]: body["region"] for _, keys, body in frames}
    assert all(body["atlas"] == ("ExtResource", "1") for _, _, body in frames)
    assert regions["frame_0"] == ("Rect2", 0, 0, 6, 8) and regions["frame_2"] == ("Rect2", 12, 0, 6, 8)
    assert regions["frame_3"] == ("Rect2", 0, 8, 6, 8)  # a tag, a row
    walk, run = resource[2]["animations"]
    assert (walk["name"], walk["speed"], walk["loop"]) == ('wa"lk', 10.0, True) and run["name"] == "run"
    assert [frame["duration"] for frame in walk["frames"]] == [1.0, 0.5, 2.5]  # times a tenth of a second
    assert [frame["texture"] for frame in run["frames"]] == [("SubResource", "frame_4"), ("SubResource", "frame_3")]


def test_a_second_parser_of_godots_form() -> None:
    """It knows Godot 3, and so not the & before names of Godot 4: the only thing that is changed for it."""
    second = pytest.importorskip("godot_parser")
    _, data = exported("hero", SHEET, "godot")
    read = second.GDResource.parse(data.decode().replace('&"', '"'))
    head, picture, *frames, resource = read.get_sections()
    assert head.header.attributes == {"type": "SpriteFrames", "load_steps": 7, "format": 3}
    assert (picture.type, picture.path, str(picture.id)) == ("Texture2D", "hero.png", "1")
    regions = [list(frame.properties["region"].args) for frame in frames]
    assert regions == [[0, 0, 6, 8], [6, 0, 6, 8], [12, 0, 6, 8], [0, 8, 6, 8], [6, 8, 6, 8]]
    assert all(frame.type == "AtlasTexture" and frame.properties["atlas"].id == "1" for frame in frames)
    walk, run = resource.properties["animations"]
    assert (walk["name"], walk["speed"], walk["loop"], run["name"]) == ('wa"lk', 10.0, True, "run")
    assert [frame["duration"] for frame in walk["frames"]] == [1.0, 0.5, 2.5]
    names = [[frame["texture"].id for frame in animation["frames"]] for animation in (walk, run)]
    assert names == [["frame_0", "frame_1", "frame_2"], ["frame_4", "frame_3"]]


def test_tiled() -> None:
    name, data = exported("hero", SHEET, "tiled")
    assert name == "hero.tsx"
    root = ElementTree.fromstring(data)
    sizes = {key: root.get(key) for key in ("tilewidth", "tileheight", "tilecount", "columns")}
    assert sizes == {"tilewidth": "6", "tileheight": "8", "tilecount": "6", "columns": "3"}
    assert root.find("image").attrib == {"source": "hero.png", "width": "18", "height": "16"}
    walk, run = root.findall("tile")
    assert (walk.get("id"), walk.get("type"), run.get("id")) == ("0", 'wa"lk', "3")
    steps = [[(f.get("tileid"), f.get("duration")) for f in tile.iter("frame")] for tile in (walk, run)]
    assert steps == [[("0", "100"), ("1", "50"), ("2", "250")], [("4", "80"), ("3", "80")]]


@pytest.mark.parametrize("form", FORMATS)
def test_a_sheet_without_tags_is_one_animation(form: str) -> None:
    name, data = exported("hero", Sheet(FRAMES, SHEET.durations), form)
    if form == "aseprite":
        assert (parse_aseprite_file(data, name).frames == FRAMES).all()
    else:
        assert data.count(b"default") == 1
