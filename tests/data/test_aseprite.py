"""Aseprite's JSON, written as its exports are: both forms, trimming, padding, tags; and what is said of other JSON."""

from __future__ import annotations

import copy
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from visual_dynamics.data import aseprite, sheets
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import read_aseprite, read_sheet
from visual_dynamics.errors import UserError

PICTURE = np.random.default_rng(0).integers(0, 256, (20, 30, 4), dtype=np.uint8)


def entry(x: int, y: int, w: int, h: int, duration: int = 100) -> dict[str, Any]:
    return {
        "frame": {"x": x, "y": y, "w": w, "h": h},
        "rotated": False,
        "trimmed": False,
        "spriteSourceSize": {"x": 0, "y": 0, "w": w, "h": h},
        "sourceSize": {"w": w, "h": h},
        "duration": duration,
    }


HASH: dict[str, Any] = {
    "frames": {f"hero {k}.aseprite": entry(8 * k, 2, 8, 10, 50 * (k + 1)) for k in range(3)},
    "meta": {
        "app": "https://www.aseprite.org/",
        "version": "1.3.9-x64",
        "image": "hero.png",
        "format": "RGBA8888",
        "size": {"w": 30, "h": 20},
        "scale": "1",
        "frameTags": [
            {"name": "walk", "from": 0, "to": 1, "direction": "pingpong", "color": "#6acd5bff"},
            {"name": "hit", "from": 2, "to": 2, "direction": "reverse", "repeat": "1", "color": "#000000ff"},
        ],
        "layers": [{"name": "Layer 1", "opacity": 255, "blendMode": "normal"}],
        "slices": [],
    },
}


def write(folder: Path, content: Any) -> Path:
    Image.fromarray(PICTURE).save(folder / "hero.png")
    path = folder / "hero.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def with_frames(*entries: dict[str, Any]) -> dict[str, Any]:
    frames = [{"filename": f"hero {k}.aseprite", **one} for k, one in enumerate(entries)]
    return {"frames": frames, "meta": {**HASH["meta"], "frameTags": []}}


def complaint(folder: Path, content: Any) -> str:
    with pytest.raises(UserError) as error:
        read_aseprite(write(folder, content))
    text = str(error.value)
    assert "\n" not in text and "hero.json" in text
    return text


@pytest.mark.parametrize("form", ["hash", "array"])
def test_both_forms(tmp_path: Path, form: str) -> None:
    content = copy.deepcopy(HASH)
    if form == "array":
        content["frames"] = [{"filename": name, **one} for name, one in HASH["frames"].items()]
    sheet = read_sheet(write(tmp_path, content))
    assert np.array_equal(sheet.frames, np.stack([PICTURE[2:12, 8 * k : 8 * k + 8] for k in range(3)]))
    assert sheet.durations.tolist() == [50, 100, 150]
    assert sheet.tags == (Tag("walk", 0, 1, "pingpong"), Tag("hit", 2, 2, "reverse"))


def test_trimmed_frames_get_their_margins_back(tmp_path: Path) -> None:
    first, second = entry(1, 2, 5, 4), entry(10, 3, 1, 1)  # the second as Aseprite writes a fully transparent frame
    for one in (first, second):
        one["trimmed"] = True
        one["sourceSize"] = {"w": 9, "h": 7}
    first["spriteSourceSize"] |= {"x": 3, "y": 2}
    frames = read_aseprite(write(tmp_path, with_frames(first, second))).frames
    assert frames.shape == (2, 7, 9, 4)
    assert np.array_equal(frames[0, 2:6, 3:8], PICTURE[2:6, 1:6])
    assert np.array_equal(frames[1, 0, 0], PICTURE[3, 10])
    frames[0, 2:6, 3:8] = frames[1, 0, 0] = 0
    assert not frames.any()


def test_inner_padding_is_cut_off(tmp_path: Path) -> None:
    padded = entry(1, 2, 5 + 4, 4 + 4)  # two pixels on each side
    padded["spriteSourceSize"] = {"x": 0, "y": 0, "w": 5, "h": 4}
    padded["sourceSize"] = {"w": 5, "h": 4}
    assert np.array_equal(read_aseprite(write(tmp_path, with_frames(padded))).frames[0], PICTURE[4:8, 3:8])


def test_what_other_programs_leave_out(tmp_path: Path) -> None:
    content = {"frames": {"a": {"frame": {"x": 3, "y": 4, "w": 6, "h": 5}}}, "meta": {"image": "hero.png"}}
    sheet = read_aseprite(write(tmp_path, content))
    assert np.array_equal(sheet.frames[0], PICTURE[4:9, 3:9]) and sheet.durations.tolist() == [100]


def test_fractions_of_a_millisecond_are_rounded(tmp_path: Path) -> None:
    for written, kept in ((33.4, 33), (16.7, 17), (100.0, 100), (0.2, 1)):
        assert read_aseprite(write(tmp_path, changed(f"{ONE}/duration", written))).durations.tolist() == [50, kept, 150]


def test_byte_order_marks_and_line_breaks_in_names(tmp_path: Path) -> None:
    text = json.dumps(HASH).replace('"walk"', '"wa\nlk"')
    path = write(tmp_path, "")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_aseprite(path).tags[0].name == "wa\nlk"


@pytest.mark.parametrize(
    ("first", "last", "direction", "order"),
    [
        (3, 7, "forward", [3, 4, 5, 6, 7]),
        (3, 7, "reverse", [7, 6, 5, 4, 3]),
        (3, 7, "pingpong", [3, 4, 5, 6, 7, 6, 5, 4]),
        (3, 7, "pingpong_reverse", [7, 6, 5, 4, 3, 4, 5, 6]),
        (3, 4, "pingpong", [3, 4]),
        (3, 3, "pingpong_reverse", [3]),
    ],
)
def test_order_of_playing(first: int, last: int, direction: str, order: list[int]) -> None:
    assert Tag("a", first, last, direction).order == order


def test_a_tag_checks_itself() -> None:
    with pytest.raises(ValueError, match="2 to 1"):
        Tag("a", 2, 1)
    with pytest.raises(ValueError, match="sideways"):
        Tag("a", 0, 1, "sideways")


def changed(path: str, value: Any) -> dict[str, Any]:
    """HASH with the value at "meta/image", say, replaced, or for ... removed."""
    content = copy.deepcopy(HASH)
    *parents, key = [int(part) if part.isdigit() else part for part in path.split("/")]
    place: Any = content
    for parent in parents:
        place = place[parent]
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return content


ONE = "frames/hero 1.aseprite"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"frames": ' + "9" * 5000 + "}", "not valid JSON"),
        ([], "the content is not an object"),
        ({"name": "left-pad", "version": "1.0.0"}, "'frames' is missing"),
        ({"frames": 7}, "'frames' is not a list"),
        ({"frames": []}, "holds no frames"),
        ('{"frames": {"a": {}, "a": {}}}', "'a' is there twice"),
        (changed("meta", ...), "'meta' is missing"),
        (changed(ONE, 3), "frame 'hero 1.aseprite' is not an object"),
        (changed(f"{ONE}/frame", ...), "the frame of frame 'hero 1.aseprite' is missing"),
        (changed(f"{ONE}/frame/x", -1), "'x' in the frame of frame 'hero 1.aseprite' is not a whole number"),
        (changed(f"{ONE}/frame/x", True), "not a whole number"),
        (changed(f"{ONE}/frame/x", 1.5), "not a whole number"),
        (changed(f"{ONE}/frame/w", 0), "not a whole number from 1"),
        (changed(f"{ONE}/frame/w", 9), "but its spriteSourceSize is 8 x 10 pixels"),
        (changed(f"{ONE}/frame/x", 23), "leaves the picture hero.png, which is 30 x 20 pixels"),
        (changed(f"{ONE}/frame/y", 10**4), "leaves the picture"),
        (changed(f"{ONE}/rotated", True), "is rotated in the picture; export it without rotation"),
        (changed(f"{ONE}/spriteSourceSize/x", 1), "leaves its sourceSize"),
        (changed(f"{ONE}/sourceSize/w", 20), "differ in size: frame 'hero 0.aseprite' is 8 x 10 pixels"),
        (
            changed(f"{ONE}/duration", 0),
            "the duration of frame 'hero 1.aseprite' is not a whole number from 1 to 65,535",
        ),
        *((changed(f"{ONE}/duration", time), "the duration of") for time in (-3.5, math.inf, math.nan, 7e4, True)),
        (changed("meta/image", ...), "the name of its picture, is missing"),
        (changed("meta/frameTags/0/to", 3), "'to' of tag 'walk' is not a whole number from 0 to 2"),
        (changed("meta/frameTags/0/from", 2), "'from' of tag 'walk' is not a whole number from 0 to 1"),
        (changed("meta/frameTags/0/direction", "up"), "the direction of tag 'walk' is none of forward"),
        (changed("meta/frameTags/0/name", ...), "the name of a tag is missing"),
    ],
)
def test_broken_and_foreign_json(tmp_path: Path, content: Any, words: str) -> None:
    assert words in complaint(tmp_path, content)


@pytest.mark.parametrize(
    "image",
    ["../hero.png", "/etc/hero.png", "sub/hero.png", "C:\\art\\hero.png", "..\\hero.png", "..", ".", "", "a\0b"],
)
def test_only_a_picture_beside_the_json_is_read(tmp_path: Path, image: str) -> None:
    for folder in (tmp_path, tmp_path / "in", tmp_path / "in" / "sub"):
        folder.mkdir(exist_ok=True)
        Image.fromarray(PICTURE).save(folder / "hero.png")
    assert "only a file beside the JSON is read" in complaint(tmp_path / "in", changed("meta/image", image))


@pytest.mark.parametrize("image", ["\n", "hero\r.png", "\x1b[2J"])
def test_a_picture_whose_name_breaks_a_line_is_an_error_of_one_line(tmp_path: Path, image: str) -> None:
    with pytest.raises(UserError, match="there is no such file") as error:
        read_aseprite(write(tmp_path, changed("meta/image", image)))
    assert str(error.value).isprintable()


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.json: there is no such file"):
        read_sheet(tmp_path / "nothing.json")
    path = write(tmp_path, HASH)
    (tmp_path / "hero.png").unlink()
    with pytest.raises(UserError, match=r"hero\.png: there is no such file"):
        read_sheet(path)
    (tmp_path / "hero.png").mkdir()
    with pytest.raises(UserError, match=r"hero\.png: it is a folder"):
        read_sheet(path)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UserError, match=r"pipe\.json: it is not a regular file"):
        read_sheet(tmp_path / "pipe.json")


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = entry(0, 0, 8, 10)
    far["sourceSize"] = {"w": 16_384, "h": 16_384}
    assert "1 frames of 16384 x 16384 pixels are too large" in complaint(tmp_path, with_frames(far))
    monkeypatch.setattr(sheets, "MAX_PIXELS", 639)  # enough for the picture of 600
    assert "8 frames of 8 x 10 pixels are too large" in complaint(tmp_path, with_frames(*[entry(0, 0, 8, 10)] * 8))
    monkeypatch.setattr(aseprite, "MAX_BYTES", 100)
    assert "too large (at most 100 bytes)" in complaint(tmp_path, HASH)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLACES = ["frames", ONE, f"{ONE}/frame", f"{ONE}/frame/x", f"{ONE}/spriteSourceSize", f"{ONE}/sourceSize/h"]
PLACES += [f"{ONE}/duration", f"{ONE}/rotated", "meta", "meta/image", "meta/frameTags", "meta/frameTags/0/direction"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_in_a_field_is_read_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, place: str, value: Any
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    try:
        assert len(read_aseprite(write(folder, changed(place, value))).frames) == 3
    except UserError as error:
        assert "\n" not in str(error)
