"""The bodies that come with the package: small, credited, and what a checkout of the generator gives."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from visual_dynamics.sprites.bodies import FOLDER, HEADS, shipped_bodies, write_bodies
from visual_dynamics.sprites.generator import ANIMATIONS, BODY_TYPES, CELL

SHARED = Path(__file__).parents[2].parent / "shared/data/lpc_generator"
USED = ("body/bodies/", *(f"head/heads/human/{head}/" for head in {"male", *HEADS.values()}))


def test_every_body_type_in_whole_sheets() -> None:
    bodies = shipped_bodies()
    assert tuple(each.body for each in bodies) == BODY_TYPES
    for each in bodies:
        assert {"walk", "idle", "jump", "sit", "slash", "hurt"} <= set(each.animations)
        for (animation, _), frames in each.clips.items():
            assert frames.shape == (ANIMATIONS[animation][0], CELL, CELL, 4)
            assert (frames[..., 3] > 0).any((1, 2)).all()


def test_each_sheet_has_its_authors_and_a_licence_that_allows_to_pass_it_on() -> None:
    with (FOLDER / "CREDITS.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["filename"]: row for row in csv.DictReader(file)}
    used = [name for each in json.loads((FOLDER / "packed.json").read_bytes())["characters"] for name in each["files"]]
    assert set(used) == rows.keys()
    for row in rows.values():
        assert row["authors"] and {"OGA-BY 3.0", "CC-BY-SA 3.0"} & set(row["licenses"].split(","))
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


def test_they_are_written_from_a_checkout(tmp_path: Path) -> None:
    if not SHARED.exists():
        pytest.skip("needs the layers of the LPC generator")
    with zipfile.ZipFile(SHARED / "layers.zip") as archive:
        for name in archive.namelist():
            if not name.endswith(".png") or name.removeprefix("spritesheets/").startswith(USED):
                archive.extract(name, tmp_path / "checkout")
    shutil.copy(SHARED / "CREDITS.csv", tmp_path / "checkout")
    write_bodies(tmp_path / "checkout", tmp_path / "new")
    assert (tmp_path / "new/CREDITS.csv").read_bytes() == (FOLDER / "CREDITS.csv").read_bytes()
    for new, shipped in zip(shipped_bodies(tmp_path / "new"), shipped_bodies(), strict=True):
        assert new.credits == shipped.credits and new.clips.keys() == shipped.clips.keys()
        assert all(np.array_equal(frames, shipped.clips[key]) for key, frames in new.clips.items())
