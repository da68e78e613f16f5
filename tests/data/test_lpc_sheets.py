"""Folders of sheets of LPC characters: what is stored, read again and credited."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from visual_dynamics.errors import UserError
from visual_dynamics.sprites.lpc import LpcCharacter, compose
from visual_dynamics.sprites.lpc_sheets import credits_text, read_sheets, write_sheets


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


def interrupted(characters: Iterator[LpcCharacter]) -> Iterator[LpcCharacter]:
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
