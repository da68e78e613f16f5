"""Aseprite's own files: a second reader agrees field by field, hand-made files flatten as worked out by hand."""

import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import py_aseprite as second
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file, parse_aseprite_file, read_aseprite_file
from visual_dynamics.data.sheets import read_sheet, read_sheets_at
from visual_dynamics.errors import UserError

TAGS = (Tag("walk", 0, 1), Tag("läuft zurück", 1, 2, "pingpong"))


def frames(count: int = 3) -> np.ndarray:
    made = np.zeros((count, 6, 9, 4), np.uint8)
    for number, frame in enumerate(made):
        frame[2:5, number : number + 4] = (200, 10 * number, 30, 255)
        frame[3, number + 1] = (0, 90, 0, 128)
    made[1] = 0  # an empty frame
    return made


def chunk(kind: int, data: bytes) -> bytes:
    return struct.pack("<IH", 6 + len(data), kind) + data


def text(words: str) -> bytes:
    return struct.pack("<H", len(words.encode())) + words.encode()


def layer(flags: int = 1, form: int = 0, level: int = 0, blend: int = 0, opacity: int = 255, name: str = "a") -> bytes:
    return chunk(0x2004, struct.pack("<HHHHHHB3x", flags, form, level, 0, 0, blend, opacity) + text(name))


def cel(number: int, x: int, y: int, pixels: np.ndarray, opacity: int = 255, z: int = 0, packed: bool = True) -> bytes:
    head = struct.pack("<HhhBHh5xHH", number, x, y, opacity, 2 if packed else 0, z, pixels.shape[1], pixels.shape[0])
    return chunk(0x2005, head + (zlib.compress(pixels.tobytes()) if packed else pixels.tobytes()))


def linked(number: int, frame: int) -> bytes:
    return chunk(0x2005, struct.pack("<HhhBHh5xH", number, 0, 0, 255, 1, 0, frame))


def file_of(*every: list[bytes], width: int = 4, height: int = 3, depth: int = 32, transparent: int = 0) -> bytes:
    parts = []
    for chunks in every:
        body = b"".join(chunks)
        parts.append(struct.pack("<IHHHxxI", 16 + len(body), 0xF1FA, len(chunks), 70, len(chunks)) + body)
    body = b"".join(parts)
    head = struct.pack(
        "<IHHHHHIHIIB", 128 + len(body), 0xA5E0, len(every), width, height, depth, 1, 100, 0, 0, transparent
    )
    return head.ljust(128, b"\0") + body


def solid(*colour: int, height: int = 1, width: int = 1) -> np.ndarray:
    return np.full((height, width, len(colour)), colour, np.uint8)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hero.aseprite"
    path.write_bytes(aseprite_file(frames(), [100, 40, 65_535], TAGS))
    found = read_aseprite_file(path)
    assert (found.frames == frames()).all() and found.durations == [100, 40, 65_535] and found.tags == TAGS
    sheet = read_sheet(path)
    assert (sheet.frames == frames()).all() and sheet.tags == TAGS and sheet.durations.tolist() == found.durations
    assert len(read_sheets_at(tmp_path, "aseprite")) == 1


def test_a_second_reader_agrees_field_by_field() -> None:
    made = frames()
    data = aseprite_file(made, [100, 40, 7], TAGS, "body")
    found = second.AsepriteFile(data)
    head = found.header
    assert (head.num_frames, head.width, head.height, head.color_depth) == (3, 9, 6, 32)
    assert head.filesize == len(data)
    assert [frame.frame_duration for frame in found.frames] == [100, 40, 7]
    assert [one.name for one in found.layers] == ["body"] and found.layers[0].opacity == 255
    cels = [next(c for c in frame.chunks if isinstance(c, second.CelChunk)) for frame in found.frames]
    for place in (0, 2):
        data, x, y = cels[place].data, cels[place].x_pos, cels[place].y_pos
        pixels = np.frombuffer(data["data"], np.uint8).reshape(data["height"], data["width"], 4)
        canvas = np.zeros_like(made[place])
        canvas[y : y + data["height"], x : x + data["width"]] = pixels
        assert (canvas == made[place]).all()
    (tags,) = [c for c in found.frames[0].chunks if isinstance(c, second.FrameTagsChunk)]
    assert [(t["name"], t["from"], t["to"], t["loop"]) for t in tags.tags] == [
        ("walk", 0, 1, 0),
        ("läuft zurück", 1, 2, 2),
    ]
    (palette,) = [c for c in found.frames[0].chunks if isinstance(c, second.PaletteChunk)]
    colours = {(c["red"], c["blue"], c["green"]) for c in palette.colors}  # that reader has the last two swapped
    assert colours == {(200, 0, 30), (200, 20, 30)}


def test_layers_are_flattened_by_hand() -> None:
    red, blue = solid(255, 0, 0, 255, height=3, width=4), solid(0, 0, 255, 128, height=1, width=2)
    data = file_of(
        [
            layer(),
            layer(name="b"),
            layer(flags=0, name="hidden"),
            layer(flags=1 + 64, name="reference"),  # visible where it is drawn, no part of the picture
            cel(0, 0, 0, red),
            cel(1, 3, -0, blue),
            cel(2, 0, 0, red // 5),
            cel(3, 0, 0, red // 5),
        ]
    )
    (frame,) = parse_aseprite_file(data, "it").frames
    assert frame[0, 3].tolist() == [127, 0, 128, 255]  # half of the blue; its second column is outside
    assert frame[0, 2].tolist() == [255, 0, 0, 255]
    # opacity of layer and cel: 255 * (51 / 255) * (128 / 255) = 25.6
    data = file_of([layer(opacity=51), cel(0, 0, 0, solid(9, 8, 7, 255), opacity=128)])
    assert parse_aseprite_file(data, "it").frames[0, 0, 0].tolist() == [9, 8, 7, 26]


@pytest.mark.parametrize(
    ("blend", "expected"),
    [(0, 100), (1, 78), (2, 222), (4, 100), (5, 200), (10, 100), (16, 255), (17, 100)],
)
def test_blend_modes_by_hand(blend: int, expected: int) -> None:
    """A source of 100 on a backdrop of 200, both opaque."""
    data = file_of(
        [layer(), layer(blend=blend), cel(0, 0, 0, solid(200, 200, 200, 255)), cel(1, 0, 0, solid(100, 100, 100, 255))]
    )
    assert parse_aseprite_file(data, "it").frames[0, 0, 0].tolist() == [expected] * 3 + [255]


def test_groups_links_order_and_depths() -> None:
    dot, other = solid(1, 2, 3, 255), solid(4, 5, 6, 255)
    group = [layer(flags=0, form=1, name="group"), layer(level=1), layer(name="free")]
    data = file_of([*group, cel(1, 0, 0, dot), cel(2, 1, 0, dot)], [linked(2, 0)])
    first, second = parse_aseprite_file(data, "it").frames
    assert first[0, 0, 3] == 0 and first[0, 1].tolist() == [1, 2, 3, 255]  # what is in a hidden group is hidden
    assert second[0, 1].tolist() == [1, 2, 3, 255]
    data = file_of([layer(), layer(), cel(0, 0, 0, dot, z=2), cel(1, 0, 0, other, packed=False)])
    assert parse_aseprite_file(data, "it").frames[0, 0, 0].tolist() == [1, 2, 3, 255]  # z moves it above the other
    grey = file_of([layer(), cel(0, 0, 0, solid(77, 200))], depth=16)
    assert parse_aseprite_file(grey, "it").frames[0, 0, 0].tolist() == [77, 77, 77, 200]
    palette = chunk(
        0x2019, struct.pack("<III8x", 3, 1, 2) + struct.pack("<H4BH4B", 0, 10, 20, 30, 255, 0, 40, 50, 60, 255)
    )
    rows = np.array([[[1], [2]]], np.uint8)
    indexed = file_of([palette, layer(), cel(0, 0, 0, rows)], depth=8, transparent=2)
    assert parse_aseprite_file(indexed, "it").frames[0, 0, :2].tolist() == [[10, 20, 30, 255], [0, 0, 0, 0]]


def test_an_old_palette_by_hand() -> None:
    """Two packets: one colour after two that are skipped, then three more; and one packet of 0 colours: of all 256."""
    few = struct.pack("<HBB3B", 2, 2, 1, 10, 20, 30) + struct.pack("<BB9B", 1, 3, *range(1, 10))
    rows = np.array([[[2], [3], [4], [6]]], np.uint8)
    (frame,) = parse_aseprite_file(file_of([chunk(4, few), layer(), cel(0, 0, 0, rows)], depth=8), "it").frames
    assert frame[0].tolist() == [[10, 20, 30, 255], [0, 0, 0, 0], [1, 2, 3, 255], [7, 8, 9, 255]]
    full = struct.pack("<HBB", 1, 0, 0) + bytes(value for row in range(256) for value in (row, 255 - row, 7))
    rows = np.array([[[1], [100], [255]]], np.uint8)
    (frame,) = parse_aseprite_file(file_of([chunk(4, full), layer(), cel(0, 0, 0, rows)], depth=8), "it").frames
    assert frame[0, :3].tolist() == [[1, 254, 7, 255], [100, 155, 7, 255], [255, 0, 7, 255]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "damaged or cut off"),
        (b"\0" * 200, "it is none"),
        (file_of([layer(blend=12), cel(0, 0, 0, solid(1, 1, 1, 255))]), "layer 'a' has a blend mode that is not read"),
        (file_of([layer(form=2)]), "tilemaps"),
        (file_of([cel(0, 0, 0, solid(1, 1, 1, 255))]), "no layer 0"),
        (file_of([layer()], width=20_000), "20000 x 3 pixels"),
        (file_of([layer()], depth=7), "7 bits"),
        (file_of([layer(), cel(0, 0, 0, np.zeros((1, 1, 1), np.uint8))]), "damaged or cut off"),
        (file_of([linked(0, 0)]), "no layer 0"),
        (file_of([layer(), linked(0, 5)]), "damaged or cut off"),
    ],
)
def test_damage_is_one_line(data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        parse_aseprite_file(data, "it")
    assert "\n" not in str(error.value)


def test_limits_of_who_reads_it() -> None:
    data = aseprite_file(frames(), [1, 2, 3], TAGS)
    count, height, width, _ = frames().shape
    whole = count * height * width
    assert len(parse_aseprite_file(data, "it", whole, max(height, width)).frames) == count
    for pixels, side, words in ((whole - 1, 99, "too large together"), (whole, max(height, width) - 1, "a side")):
        with pytest.raises(UserError, match=words):
            parse_aseprite_file(data, "it", pixels, side)
    many = [[linked(0, 0)] for _ in range(20)]
    data = file_of([layer(), cel(0, 0, 0, solid(1, 2, 3, 255))], *many)
    whole = parse_aseprite_file(data, "it").frames[..., 0].size
    with pytest.raises(UserError, match="its layers are too large together"):  # a large cel in each of small frames
        parse_aseprite_file(file_of([layer(), cel(0, 0, 0, np.ones((10, 10, 4), np.uint8))], *many), "it", whole, 99)


def test_layers_hold_at_most_twice_the_pixels_that_frames_may_have() -> None:
    full = solid(1, 2, 3, 255, height=3, width=4)
    layers = [layer(name=name) for name in "abc"]
    cels = [cel(number, 0, 0, full) for number in range(3)]
    assert parse_aseprite_file(file_of([*layers, *cels[:2]]), "it", 12).frames[0, 0, 0].tolist() == [1, 2, 3, 255]
    with pytest.raises(UserError, match="its layers are too large together"):
        parse_aseprite_file(file_of([*layers, *cels]), "it", 12)
    small = cel(0, 0, 0, full)
    huge = small[:22] + struct.pack("<HH", 65_535, 65_535) + small[26:]  # says it unpacks to 17 GB
    with pytest.raises(UserError, match="its layers are too large together"):  # before it is unpacked
        parse_aseprite_file(file_of([layer(), huge]), "it")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 400))
def test_no_change_of_a_byte_is_a_foreign_error(place: int, value: int, cut: int) -> None:
    data = bytearray(aseprite_file(frames(), [1, 2, 3], TAGS))
    data[place % len(data)] = value
    with suppress(UserError):
        parse_aseprite_file(bytes(data[: len(data) - cut % 3 * cut]), "it")
