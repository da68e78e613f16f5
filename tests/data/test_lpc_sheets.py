"""Folders of composed characters: what is stored and credited."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from visual_dynamics.sprites.lpc import LpcCharacter, compose, credits_text, holds_characters, write_characters


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
