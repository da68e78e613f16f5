"""Packed characters: what is read is what was written, damage is an error, colours are those of the palette."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from visual_dynamics.data.packed import CHUNK, TABLE, Clip, PackedCharacter, pack, packed_pairs, read_packed
from visual_dynamics.data.pairs import clip_moves, mix_pairs
from visual_dynamics.errors import UserError


def character(seed: int, side: int = 8) -> PackedCharacter:
    generator = np.random.default_rng(seed)
    colours = np.concatenate([np.zeros((1, 4), np.uint8), generator.integers(0, 256, (9, 4), np.uint8)])
    clips = (Clip("walk", "up", 3), Clip("walk", "down", 3), Clip("hurt", "down", 2))
    return PackedCharacter(generator.integers(0, 10, (8, side, side), np.uint8), colours, clips, {"number": seed})


def test_what_is_read_was_written(tmp_path: Path) -> None:
    made = [character(seed) for seed in range(CHUNK + 3)]
    assert pack(tmp_path, iter(made), {"CREDITS.csv": b"x"}) == len(made)
    assert (tmp_path / "CREDITS.csv").read_bytes() == b"x"
    found = read_packed(tmp_path)
    assert len(found) == len(made)
    for one, same in zip(made, found, strict=True):
        assert (one.rgba() == same.rgba()).all() and one.clips == same.clips and one.facts == same.facts
    some = read_packed(tmp_path, lambda number: number in (1, CHUNK))
    assert [one.facts["number"] for one in some] == [1, CHUNK]


@pytest.mark.parametrize("background", [0.0, 1.0])
def test_pairs_have_the_colours_of_the_palette(background: float) -> None:
    made = [character(seed) for seed in range(3)]
    pairs = packed_pairs(made, "neighbours", 12, background)
    assert pairs.size == (12, 12) and len(pairs) == 3 * (2 + 2 + 1)
    expected = []
    for one in made:
        rgba = np.pad(one.rgba(), ((0, 0), (2, 2), (2, 2), (0, 0))).astype(float)
        rgb = np.rint(rgba[..., :3] * rgba[..., 3:] / 255 + 255 * background * (1 - rgba[..., 3:] / 255))
        for clip in (range(3), range(3, 6), range(6, 8)):
            expected += [(rgb[a], rgb[b]) for a, b in clip_moves(clip, "neighbours")]
    frames, next_frames = pairs.read(torch.arange(len(pairs)))
    for row, (before, after) in enumerate(expected):
        assert np.abs(frames[row].permute(1, 2, 0).numpy() - before).max() <= 1
        assert np.abs(next_frames[row].permute(1, 2, 0).numpy() - after).max() <= 1
    plain = pairs.in_memory()
    assert isinstance(plain.store, torch.Tensor) and torch.equal(plain.frames, frames)
    both = mix_pairs(pairs, pairs, 0.5)
    assert torch.equal(both.frames[: len(pairs)], frames)
    assert torch.equal(pairs.resized(6).frames, plain.resized(6).frames)


def test_damage_is_an_error(tmp_path: Path) -> None:
    pack(tmp_path, [character(1)])
    path = tmp_path / "frames-000.xz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(UserError, match="changed or damaged"):
        read_packed(tmp_path)
    path.write_bytes(whole)
    table = json.loads((tmp_path / TABLE).read_text())
    table["characters"][0]["clips"][0][2] = 4
    (tmp_path / TABLE).write_text(json.dumps(table))
    with pytest.raises(UserError, match="does not hold the frames"):
        read_packed(tmp_path)
    table["cell"] = 10**9
    (tmp_path / TABLE).write_text(json.dumps(table))
    with pytest.raises(UserError, match="no table of packed characters"):
        read_packed(tmp_path)
    (tmp_path / TABLE).write_text("{")
    with pytest.raises(UserError, match="no table of packed characters"):
        read_packed(tmp_path)
