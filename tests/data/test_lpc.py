"""Characters from LPC layers: what is drawn, in which order, what is stored, and what is said of mistakes."""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from visual_dynamics.data import lpc
from visual_dynamics.data.lpc import ARROW, CELL, HEIGHT, REED_WINDOW, WIDTH, Layers, compose, cut_frames, draw_recipe
from visual_dynamics.data.lpc_sheets import credits_text, read_sheets, write_sheets
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
LAYERS, REED = SHARED / "lpc", SHARED / "sprites"
needs_layers = pytest.mark.skipif(not LAYERS.is_dir(), reason="needs the LPC layers")

BOXES = {"body": (20, 60), "eyes": (22, 24), "feet": (55, 60), "legs": (45, 58), "torso": (32, 48), "belt": (44, 46)}


def paint(path: Path, colour: tuple[int, int, int, int], rows: tuple[int, int] = (20, 60), cells: int = 21) -> None:
    """A layer: a bar 8 pixels wide in every cell of the first so many rows of cells."""
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


@pytest.fixture(scope="module")
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


def few(folder: Path, eyes: int = 1) -> Path:
    """Two male bodies, and eyes that a helmet hides."""
    paint(folder / "body/male/light.png", (1, 2, 3, 255))
    paint(folder / "body/male/dark.png", (4, 5, 6, 255))
    for number in range(eyes):
        paint(folder / f"body/male/eyes/{number}.png", (number, 90, 90, 255), (22, 24))
    paint(folder / "hair/male/helmet/black.png", (9, 9, 9, 255), (20, 30))
    return folder


def complaint(path: Path, count: int = 1) -> str:
    with pytest.raises(UserError) as error:
        list(compose(path, count, 0))
    text = str(error.value)
    assert "\n" not in text
    return text


# frames and layers


def test_frames_come_in_the_order_of_the_animations() -> None:
    cells = np.arange(21 * 13).reshape(21, 1, 13, 1, 1)
    sheet = np.broadcast_to(cells, (21, CELL, 13, CELL, 4)).astype(np.uint8).reshape(HEIGHT, WIDTH, 4)
    frames = cut_frames(sheet)
    assert frames.shape == (lpc.FRAMES, CELL, CELL, 4) == (178, 64, 64, 4)
    first = [0, 28, 28 + 32, 60 + 36, 96 + 24, 120 + 52]  # of spellcast, thrust, walk, slash, shoot, hurt
    assert frames[first, 0, 0, 0].tolist() == [row * 13 % 256 for row in (0, 4, 8, 12, 16, 20)]
    assert frames[[6, 7, 177], 0, 0, 0].tolist() == [6, 13, (20 * 13 + 5) % 256]


def test_a_window_may_reach_beyond_the_cell_and_the_sheet() -> None:
    sheet = np.full((HEIGHT, WIDTH, 4), 7, np.uint8)
    sheet[CELL] = 9
    frames = cut_frames(sheet, *REED_WINDOW)
    assert frames.shape == (178, 60, 60, 4)
    assert (frames[0, 55] == 9).all() and (frames[0, :55] == 7).all()
    assert (frames[177, :55] == 7).all() and (frames[177, 55:] == 0).all()


def test_upper_layers_hide_lower_ones(layers: Path) -> None:
    body, torso, belt = "body/male/light.png", "torso/gold/chest_male.png", "belt/leather/male/leather_male.png"
    found = Layers(layers)
    colour = {name: np.array(Image.open(layers / name))[BOXES["belt"][0], 28] for name in (body, torso, belt)}
    frame = cut_frames(found.compose([body, torso, belt]))[100]
    assert frame[44, 30].tolist() == colour[belt].tolist()
    assert frame[40, 30].tolist() == colour[torso].tolist()
    assert frame[25, 30].tolist() == np.array(Image.open(layers / body))[25, 28].tolist()
    assert not frame[:20].any() and not frame[:, :28].any()
    assert found.compose([body, belt, torso])[44, 30].tolist() == colour[torso].tolist()


@given(st.lists(st.tuples(*[st.integers(0, 255)] * 4), min_size=2, max_size=2))
@settings(max_examples=200, deadline=None)
def test_half_transparent_pixels_blend(pixels: list[tuple[int, ...]]) -> None:
    upper, lower = (np.array([pixel], np.uint8) for pixel in pixels)
    a, b = upper[0, 3] / 255, lower[0, 3] / 255
    alpha = a + b * (1 - a)
    if a == 0 or b == 0:
        return
    blended = lpc._blend(upper, lower)[0].astype(float)
    colour = (upper[0, :3] * a + lower[0, :3] * b * (1 - a)) / alpha
    assert abs(blended[3] - 255 * alpha) <= 1
    assert np.abs(blended[:3] - colour).max() <= 1 + 1.5 / alpha  # products are rounded before the division by alpha


def test_soles_do_not_reach_into_the_cell_below(tmp_path: Path) -> None:
    paint(tmp_path / "body/male/light.png", (1, 2, 3, 255))
    paint(tmp_path / "feet/shoes/male/red.png", (200, 0, 0, 255), (0, 1))
    assert not Layers(tmp_path).compose(["feet/shoes/male/red.png"]).any()


# choices


def recipes(layers: Path, count: int, seed: int = 0) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
    found = Layers(layers)
    return (draw_recipe(found, seed, number) for number in range(count))


def check_recipes(layers: Path, count: int) -> None:
    order = ("body", "feet", "legs", "torso", "belt", "hair", "head", "weapons")
    seen: dict[str, set[str]] = {"sex": set(), "weapon": set()}
    for attributes, recipe in recipes(layers, count):
        other = {"male": "female", "female": "male"}[attributes["sex"]]
        assert not [name for name in recipe if {other} & set(name.replace(".", "/").replace("_", "/").split("/"))]
        kinds = [name.split("/")[0] for name in recipe]
        assert kinds[0] == "body" and {"feet", "legs", "torso"} <= set(kinds)
        assert (attributes["hair"] == "none") != (attributes["head"] == "none")
        lower_to_upper = [order.index(kind) for kind in kinds if kind not in ("belt", "torso")]
        assert lower_to_upper == sorted(lower_to_upper)
        assert (ARROW in recipe) == (attributes["weapon"] == "bow")
        assert (kinds[-1] == "weapons") == (attributes["weapon"] != "none")
        assert not any("oversize" in name or "both hand" in name for name in recipe)
        for key, values in seen.items():
            values.add(attributes[key])
    assert seen == {"sex": {"male", "female"}, "weapon": {"bow", "spear", "dagger", "wand", "none"}}


def test_every_choice_fits_the_sex_and_the_order(layers: Path) -> None:
    check_recipes(layers, 300)


def test_attributes_are_named_alike_for_both_sexes(layers: Path) -> None:
    drawn = [attributes for attributes, _ in recipes(layers, 300)]
    for slot, known in {"body": {"light", "orc"}, "eyes": {"blue"}, "feet": {"armor/gold", "armor/iron"}}.items():
        for sex in ("male", "female"):
            assert {attributes[slot] for attributes in drawn if attributes["sex"] == sex} == known
    assert "dress/red" in {attributes["torso"] for attributes in drawn}


def test_a_character_does_not_depend_on_the_count(layers: Path) -> None:
    three, six = list(compose(layers, 3, seed=5)), list(compose(layers, 6, seed=5))
    assert [c.recipe for c in three] == [c.recipe for c in six[:3]]
    assert [c.digest for c in three] == [c.digest for c in six[:3]]
    assert len({c.digest for c in six}) == 6
    assert [c.recipe for c in compose(layers, 3, seed=6)] != [c.recipe for c in three]


def test_characters_differ_in_their_pixels(tmp_path: Path) -> None:
    """Five eyes, all hidden: of the ten recipes only two can be told apart."""
    folder = few(tmp_path, eyes=5)
    assert len({c.digest for c in compose(folder, 2, seed=0)}) == 2
    assert "make 2 distinct characters, not 3" in complaint(folder, 3)


def test_clothes_that_vanish_in_an_animation_are_left_out(tmp_path: Path) -> None:
    folder = few(tmp_path)
    paint(folder / "hair/male/bald/black.png", (80, 0, 0, 255), (20, 30), cells=20)
    told: list[str] = []
    characters = list(compose(folder, 2, 0, told.append))
    assert not any("hair/male/bald/black.png" in c.recipe for c in characters)
    assert told[-1] == "hair/male/bald/black.png is left out: it is empty in hurt"


def test_what_is_missing_is_told_and_done_without(tmp_path: Path, layers: Path) -> None:
    told: list[str] = []
    done: list[tuple[int, int]] = []
    (character,) = compose(few(tmp_path), 1, 0, told.append, lambda *pair: done.append(pair))
    assert told[0].startswith("no female bodies in ")
    assert told[1].startswith(
        "no layers for feet, legs, torso, arms, belt, shoulders, head, bow, spear, dagger, wand of male"
    )
    assert (character.sex, character.weapon, character.attributes["legs"]) == ("male", "none", "none")
    assert character.frames.shape == (178, 64, 64, 4)
    assert done == [(1, 1)]
    assert Layers(layers).remarks() == ["1 oversize weapons are left out: their cells are larger than 64x64"]


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path / "nowhere").startswith("no such folder of layers: ")
    (tmp_path / "cat.png").write_bytes(b"a cat")
    assert complaint(tmp_path).startswith("no layers in ")
    folder = few(tmp_path / "few")
    assert complaint(folder, 0) == "the number of characters is at least 1, not 0"
    hair = folder / "hair/male/helmet/black.png"
    whole = hair.read_bytes()
    for broken in (b"", b"not a PNG", whole[: len(whole) // 2]):
        hair.write_bytes(broken)
        assert complaint(folder) == f"hair/male/helmet/black.png in {folder} is not a readable PNG"
    Image.new("RGBA", (832, 1280)).save(hair)
    assert "black.png" in complaint(folder) and "is 832x1280, a sheet of layers is 832x1344" in complaint(folder)


# folders of sheets


def test_sheets_are_read_as_they_were_written(tmp_path: Path, layers: Path) -> None:
    made = list(compose(layers, 3, 0))
    assert write_sheets(tmp_path / "out", iter(made), layers) == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *(f"{number:04d}.png" for number in range(3)),
        "CREDITS.txt",
        "characters.json",
    ]
    for before, after in zip(made, read_sheets(tmp_path / "out"), strict=True):
        assert (after.number, after.attributes, after.recipe) == (before.number, before.attributes, before.recipe)
        assert np.array_equal(after.frames, before.frames)
    table = json.loads((tmp_path / "out/characters.json").read_text())["characters"]
    assert [(entry["sex"], entry["weapon"]) for entry in table] == [(c.sex, c.weapon) for c in made]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, layers: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_sheets(tmp_path, interrupted(compose(layers, 3, 0)), layers)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["0000.png", "0001.png"]
    with pytest.raises(UserError, match=r"no characters\.json in .*: prepare the characters again"):
        read_sheets(tmp_path)
    first = tmp_path / "0000.png"
    (tmp_path / "0001.png").write_bytes(first.read_bytes())  # of another character: not to be kept
    before = first.stat().st_mtime_ns
    write_sheets(tmp_path, compose(layers, 3, 0), layers)
    assert first.stat().st_mtime_ns == before
    assert [c.digest for c in read_sheets(tmp_path)] == [c.digest for c in compose(layers, 3, 0)]


def interrupted(characters: Iterator[lpc.LpcCharacter]) -> Iterator[lpc.LpcCharacter]:
    yield from itertools.islice(characters, 2)
    raise KeyboardInterrupt


def test_sheets_of_another_run_are_noticed(tmp_path: Path, layers: Path) -> None:
    write_sheets(tmp_path, compose(layers, 2, 0), layers)
    paths = [tmp_path / f"{number:04d}.png" for number in range(2)]
    paths[1].write_bytes(paths[0].read_bytes())
    with pytest.raises(UserError, match=r"0001\.png is not the sheet that characters\.json tells of"):
        list(read_sheets(tmp_path))
    paths[0].write_bytes(b"")
    with pytest.raises(UserError, match=r"0000\.png is missing or not a readable PNG"):
        next(read_sheets(tmp_path))


@pytest.mark.parametrize("table", ["", "[]", '{"characters": [{"number": 0}]}', '{"characters": 3}', "\xff"])
def test_a_broken_table_is_told_in_one_line(tmp_path: Path, table: str) -> None:
    (tmp_path / "characters.json").write_text(table, encoding="latin-1")
    with pytest.raises(UserError, match=r"characters\.json in .* is not a readable table of characters"):
        read_sheets(tmp_path)


def test_credits_hold_the_words_of_the_layers(tmp_path: Path) -> None:
    used = ["torso/b.png", "body/a.png", "torso/b.png"]
    text = credits_text(tmp_path, used)
    assert "CC-BY-SA 3.0" in text and "GNU GPL 3.0" in text
    assert text.count("CREDITS ARE MISSING") == 2
    assert text.endswith("---- the 2 layers used ----\n\nbody/a.png\ntorso/b.png\n")
    (tmp_path / "ATTRIBUTION.txt").write_text("Commit : 2668274d\nfrom somewhere\n")
    (tmp_path / "AUTHORS.txt").write_text("\ufeffJohannes Sjölund\n----\nspear\n", encoding="utf-8")
    text = credits_text(tmp_path, used)
    assert "MISSING" not in text and "\ufeff" not in text
    assert "Commit : 2668274d\nfrom somewhere" in text and "Johannes Sjölund\n----\nspear" in text


# the real layers


@needs_layers
def test_the_real_layers_make_distinct_characters() -> None:
    check_recipes(LAYERS, 672)
    assert len({recipe for _, recipe in recipes(LAYERS, 672)}) == 672
    characters = list(compose(LAYERS, 4, 0))
    assert len({c.digest for c in characters}) == 4
    for character in characters:
        assert (character.frames[..., 3] > 0).any((1, 2)).all()  # a figure in each frame
        text = credits_text(LAYERS, character.recipe)
        assert "2668274d5a96c91584172f2d299b90f0a8c0caac" in text and "Stephen Challener (AKA Redshrike)" in text


REED_HAIR = ("plain/blonde", "plain/blue", "ponytail/blonde", "ponytail/blue", "mohawk/green", "bangslong/pink")


def reed_recipe(labels: list[int]) -> list[str]:
    """What Reed's seven attributes mean: sex, body, torso, hair, arms, legs, weapon; golden boots lie uppermost."""
    sex = ("male", "female")[labels[0]]
    return [
        f"body/{sex}/{('light', 'dark', 'orc', 'darkelf')[labels[1]]}.png",
        f"torso/{('gold', 'leather', 'plate')[labels[2]]}/chest_{sex}.png",
        f"hair/{sex}/{REED_HAIR[labels[3]]}.png",
        f"torso/{('gold', 'plate')[labels[4]]}/arms_{sex}.png",
        f"legs/armor/{sex}/{('metal_pants', 'golden_greaves')[labels[5]]}_{sex}.png",
        ("weapons/right hand/either/bow.png", "weapons/both hand/spear.png")[labels[6]],
        f"feet/armor/{sex}/golden_boots_{sex}.png",
    ]


def reed_frames(numbers: list[int]) -> dict[int, Pixels]:
    """number -> (178, 60, 60, 3); decodes no more of the file than it has to."""
    palette, found = np.load(REED / "palette.npy"), {}
    size = 178 * 60 * 60 * 2
    with lzma.open(REED / "frames.u16.xz") as stream:
        for number in range(max(numbers) + 1):
            indices = np.frombuffer(stream.read(size), np.uint16).reshape(178, 60, 60)
            if number in numbers:
                found[number] = palette[indices]
    return found


@needs_layers
@pytest.mark.skipif(not REED.is_dir(), reason="needs Reed's sprites")
def test_reeds_characters_are_made_of_these_layers() -> None:
    """To the bit; each value of each attribute is met."""
    numbers = [0, 1, 23, 54, 84, 145, 220, 300, 315, 320, 504, 641]
    lines = (REED / "sprite_large_labels.txt").read_text().split()
    labels = {number: [int(word) for word in lines[number].split(",")] for number in numbers}
    assert [len(set(column)) for column in zip(*labels.values(), strict=True)] == [2, 4, 3, 6, 2, 2, 2]
    layers = Layers(LAYERS)
    for number, theirs in reed_frames(numbers).items():
        ours = cut_frames(layers.compose(reed_recipe(labels[number])), *REED_WINDOW)[..., :3].copy()
        ours[172:, 55:] = 255  # beyond the sheet, below hurt, theirs is white
        # A sole of the women's boots reaches 2 pixels into the cell below, of which Reed's window shows 5 rows.
        rows = 60 if labels[number][0] == 0 else 55
        assert np.array_equal(ours[:, :rows], theirs[:, :rows]), number
