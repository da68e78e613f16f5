"""Packed characters: what is read is what was written, damage is an error, colours are those of the palette."""

import hashlib
import json
import lzma
import tracemalloc
from collections import Counter
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


def test_the_same_move_of_another_character() -> None:
    """A second one lacks the fall, a third one has all; frames of one moment have one place in the table."""
    made = [character(seed) for seed in range(3)]
    made[1] = PackedCharacter(made[1].index[:6], made[1].colours, made[1].clips[:2])
    pairs = packed_pairs(made, "neighbours", 8, 0.0)
    assert pairs.cast is not None and pairs.cast.places.shape == (3, 8)
    assert pairs.cast.places[:, 5].tolist() == [5, 13, 19] and pairs.cast.places[:, 6].tolist() == [6, -1, 20]
    fall = torch.tensor([4])  # of the first character: from frame 6 to 7
    for draws, place in (([0.4, 0.9], 20), ([0.1, 0.9], 6), ([0.4, 0.5], 6)):  # it cannot be the second one
        frames, next_frames = pairs.read_others(fall, torch.tensor([draws]))
        assert torch.equal(frames, pairs.store[torch.tensor([place])])
        assert torch.equal(next_frames, pairs.store[torch.tensor([place + 1])])
    some = pairs.subset(torch.tensor([4]))
    assert torch.equal(some.read_others(torch.tensor([0]), torch.tensor([[0.9]]))[0], pairs.store[torch.tensor([20])])
    with pytest.raises(ValueError, match="know no other characters"):
        pairs.in_memory().read_others(fall, torch.tensor([[0.9]]))


def levels_character(clips: dict[tuple[str, str], list[int]], body: str = "male") -> PackedCharacter:
    """Of 1 x 1 pixels: (animation, view) -> a grey level from 0 to 9 for each frame; a step is 25 of 255."""
    colours = np.full((10, 4), 255, np.uint8)
    colours[:, :3] = 25 * np.arange(10, dtype=np.uint8)[:, None]
    index = np.array([level for levels in clips.values() for level in levels], np.uint8)
    named = tuple(Clip(*names, len(levels)) for names, levels in clips.items())
    return PackedCharacter(index[:, None, None], colours, named, {"body": body, "number": 0, "worn": {}})


def standing_character() -> PackedCharacter:
    walk = {("walk", "up"): [0, 3, 6], ("walk", "down"): [9, 6, 3]}
    return levels_character(walk | {("slash", "up"): [0, 6], ("slash", "down"): [9, 3], ("hurt", "up"): [9]})


def test_pairs_from_the_standing_frame_by_hand() -> None:
    """Frames: walk up 0-2, down 3-5; slash up 6-7, down 8-9; hurt up 10. Slash begins with the standing frame."""
    one = standing_character()
    assert one.distance(0, 2) == pytest.approx(3 * (150 / 255) ** 2)
    assert one.standing() == {"up": 0, "down": 3}
    found = {(clip.animation, clip.view): frames for clip, frames in one.begins(0.1).items()}
    assert found == {
        ("walk", "up"): (0, 1),
        ("walk", "down"): (3, 4),
        ("slash", "up"): (0, 7),
        ("slash", "down"): (3, 9),
        ("hurt", "up"): (0, 10),
    }
    assert ("walk", "up") not in {(clip.animation, clip.view) for clip in one.begins(1.1)}


def moves(between: str) -> Counter[tuple[int, int]]:
    pairs = packed_pairs([standing_character()], between, 1, 0)
    return Counter(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


def test_starts_are_a_fifth_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    begins = standing_character().begins
    monkeypatch.setattr(PackedCharacter, "begins", lambda self: begins(0.1))
    starts = {(0, 1), (3, 4), (0, 7), (3, 9), (0, 10)}
    neighbours = moves("neighbours")
    assert moves("neighbours+starts") == neighbours + Counter(starts)  # no fewer than once
    mostly = moves("mostly")
    more = moves("mostly+starts") - mostly
    assert set(more) == starts and set(more.values()) == {round(mostly.total() / 4 / 5)}
    of_any = moves("any+standing") - moves("any")
    clips = {0: [0, 1, 2, 6, 7, 10], 3: [3, 4, 5, 8, 9]}
    assert set(of_any) == {(still, place) for still, places in clips.items() for place in places}


def test_each_animation_has_as_many_pairs_of_any_two_frames() -> None:
    """Twelve pairs of walk, four of slash: eight of each, of all clips of it."""
    found = moves("any")
    assert found.total() == 16
    walk = {pair: times for pair, times in found.items() if pair[0] < 6}
    assert set(walk.values()) == {1} and len(walk) == 8
    assert {place // 3 for pair in walk for place in pair} == {0, 1}
    assert {pair: times for pair, times in found.items() if pair[0] >= 6} == {
        (6, 7): 2,
        (7, 6): 2,
        (8, 9): 2,
        (9, 8): 2,
    }


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


def test_a_file_that_unpacks_to_more_than_its_table_lists_is_not_unpacked(tmp_path: Path) -> None:
    """32 MiB of zeros take 5 kB. Of them one byte too many is unpacked."""
    pack(tmp_path, [character(0)])
    bomb = lzma.compress(bytes(2**25), preset=0)
    (tmp_path / "frames-000.xz").write_bytes(bomb)
    table = json.loads((tmp_path / TABLE).read_text())
    table["files"]["frames-000.xz"] = hashlib.sha256(bomb).hexdigest()
    (tmp_path / TABLE).write_text(json.dumps(table))
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="does not hold the frames"):
            read_packed(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**22


def test_a_table_that_asks_for_too_much_is_an_error_before_anything_is_unpacked(tmp_path: Path) -> None:
    """64 characters of 4,096 frames of 256 x 256 would be 17 GB."""
    pack(tmp_path, [character(0)])
    table = json.loads((tmp_path / TABLE).read_text())
    table |= {"cell": 256, "characters": CHUNK * [{"clips": [["walk", "up", 4096]]}]}
    (tmp_path / TABLE).write_text(json.dumps(table))
    with pytest.raises(UserError, match=r"would take more than 1,073,741,824 bytes"):
        read_packed(tmp_path)
