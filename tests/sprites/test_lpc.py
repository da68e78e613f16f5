"""Characters from LPC layers: what is drawn, in which order, and what is said of mistakes."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.sprites.conftest import BOXES, cut_frames, paint
from visual_dynamics.errors import UserError
from visual_dynamics.sprites import lpc
from visual_dynamics.sprites.lpc import (
    ARROW,
    Layers,
    LpcCharacter,
    compose,
    credits_text,
    draw_recipe,
    holds_characters,
    write_characters,
)


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


# layers


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
    blended = lpc.blend(upper, lower)[0].astype(float)
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
    """Five eyes, all hidden: of the ten recipes only two differ."""
    folder = few(tmp_path, eyes=5)
    assert len({c.digest for c in compose(folder, 2, seed=0)}) == 2
    assert "make 2 distinct characters, not 3" in complaint(folder, 3)


def test_clothes_that_vanish_in_an_animation_are_left_out(tmp_path: Path) -> None:
    folder = few(tmp_path)
    paint(folder / "hair/male/bald/black.png", (80, 0, 0, 255), (20, 30), cells=20)
    messages: list[str] = []
    characters = list(compose(folder, 2, 0, messages.append))
    assert not any("hair/male/bald/black.png" in c.recipe for c in characters)
    assert messages[-1] == "hair/male/bald/black.png is left out: it is empty in hurt"


def test_what_is_missing_is_reported_and_left_out(tmp_path: Path, layers: Path) -> None:
    messages: list[str] = []
    done: list[tuple[int, int]] = []
    (character,) = compose(few(tmp_path), 1, 0, messages.append, lambda *pair: done.append(pair))
    assert messages[0].startswith("no female bodies in ")
    assert messages[1].startswith(
        "no layers for feet, legs, torso, arms, belt, shoulders, head, bow, spear, dagger, wand of male"
    )
    assert [character.attributes[name] for name in ("sex", "weapon", "legs")] == ["male", "none", "none"]
    assert cut_frames(character.sheet).shape == (178, 64, 64, 4)
    assert done == [(1, 1)]
    assert Layers(layers).remarks() == ["1 oversize weapons are left out: their cells are larger than 64x64"]


def test_mistakes_are_errors_of_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path / "nowhere").startswith("no such folder of layers: ")
    (tmp_path / "cat.png").write_bytes(b"a cat")
    assert complaint(tmp_path).startswith("no layers in ")
    folder = few(tmp_path / "few")
    assert complaint(folder, 0) == "the number of characters is at least 1, not 0"
    hair = folder / "hair/male/helmet/black.png"
    whole = hair.read_bytes()
    for broken in (b"", b"not a PNG", whole[: len(whole) // 2]):
        hair.write_bytes(broken)
        assert complaint(folder).startswith(f"cannot read {hair}: ")
    Image.new("RGBA", (832, 1280)).save(hair)
    assert "black.png" in complaint(folder) and "is 832x1280, a sheet of layers is 832x1344" in complaint(folder)


# --- folders of composed characters: what is stored and credited ---


def test_what_is_written(tmp_path: Path, layers: Path) -> None:
    made = list(compose(layers, 3, 0))
    assert write_characters(tmp_path / "out", iter(made), layers) == 3
    assert holds_characters(tmp_path / "out")
    names = [*(f"{number:04d}.png" for number in range(3)), "CREDITS.txt", "characters.json"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    table = json.loads((tmp_path / "out/characters.json").read_text())["characters"]
    for entry, character in zip(table, made, strict=True):
        assert entry["number"] == character.number and tuple(entry["recipe"]) == character.recipe
        assert entry["attributes"] == character.attributes and entry["sex"] == character.attributes["sex"]
        with Image.open(tmp_path / "out" / f"{character.number:04d}.png") as image:
            sheet = np.array(image)
        assert np.array_equal(sheet, character.sheet)
        assert entry["sha256"] == hashlib.sha256(sheet.tobytes()).hexdigest()


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, layers: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_characters(tmp_path / "out", interrupted(compose(layers, 3, 0)), layers)
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["0000.png", "0001.png"]
    assert not holds_characters(tmp_path / "out")
    first = tmp_path / "out" / "0000.png"
    (tmp_path / "out" / "0001.png").write_bytes(first.read_bytes())  # of another character: replaced
    before = first.stat().st_mtime_ns
    write_characters(tmp_path / "out", compose(layers, 3, 0), layers)
    assert first.stat().st_mtime_ns == before
    write_characters(tmp_path / "whole", compose(layers, 3, 0), layers)
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def interrupted(characters: Iterator[LpcCharacter]) -> Iterator[LpcCharacter]:
    yield from itertools.islice(characters, 2)
    raise KeyboardInterrupt


@pytest.mark.parametrize("table", ["", "[]", '{"characters": [{"number": 0}]}', '{"characters": 3}', "\xff"])
def test_a_broken_table_is_not_ours(tmp_path: Path, table: str) -> None:
    (tmp_path / "characters.json").write_text(table, encoding="latin-1")
    assert not holds_characters(tmp_path)


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
