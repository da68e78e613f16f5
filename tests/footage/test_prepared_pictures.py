"""What the pairs of prepared clips show: a steady camera, a window around what moves, no change of light."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.footage.clips import encode
from tests.footage.scenes import entries, film, moving_square
from visual_dynamics.data.shards import open_shard
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos

SMALL = Settings(size=32, crop="centre", held_out=0.3)


def test_a_camera_that_moves_is_steadied(tmp_path: Path) -> None:
    """A shaking view of a wider scene: crop and transforms say where frames come from, borders are not seen."""
    wide = moving_square(20, 3, 140, 180, left=40, side=30)
    generator = np.random.default_rng(0)
    places = [(20, 20), *generator.integers(14, 27, (19, 2)).tolist()]
    frames = [np.ascontiguousarray(frame[y : y + 96, x : x + 128]) for frame, (y, x) in zip(wide, places, strict=True)]
    encode(tmp_path / "clips.mp4", frames, rate=10)
    (tmp_path / "clips").mkdir()
    shutil.move(tmp_path / "clips.mp4", tmp_path / "clips" / "shaken.mp4")
    prepare_videos(tmp_path / "clips", tmp_path / "out", Settings(size=32, crop="centre"))
    file = entries(tmp_path / "out")["shaken.mp4"]
    (take,) = file["takes"]
    x, y, width, height = take["crop"]
    assert take["camera"] == "steadied" and 70 <= width == height <= 96
    assert x >= 0 and y >= 0 and x + width <= 128 and y + height <= 96
    tensors = load_file(tmp_path / "out" / file["shards"][0]["file"])
    for moment, transform in zip(tensors["times"], tensors["transforms"], strict=True):
        down, across = np.array(places[round(10 * moment)]) - places[0]
        assert np.abs(transform - [[1, 0, across], [0, 1, down]]).max() < 0.3
    still = np.median(np.abs(np.diff(tensors["frames"].astype(int), axis=0)))
    assert still <= 4  # most of the picture no longer moves


def test_the_window_lies_around_what_moves(tmp_path: Path) -> None:
    film(tmp_path / "clips" / "a.mp4", 12, width=256, height=200, left=150, speed=2)  # from 154 to 200, rows 36 to 60
    prepare_videos(tmp_path / "clips", tmp_path / "out", Settings(size=32, crop="motion"))
    (take,) = entries(tmp_path / "out")["a.mp4"]["takes"]
    x, y, width, height = take["crop"]
    assert width == height and 80 <= width < 120
    assert x <= 150 and x + width >= 204 and y <= 34 and y + height >= 62
    stored = open_shard(next((tmp_path / "out" / "shards").iterdir())).frames
    assert stored.shape == (12, 3, 32, 32)
    prepare_videos(tmp_path / "clips", tmp_path / "box", Settings(size=32, crop="150,20,60,70"))
    assert entries(tmp_path / "box")["a.mp4"]["takes"][0]["crop"] == [150, 25, 60, 60]
    with pytest.raises(UserError, match="the crop lies outside its 256 x 200 pixels"):
        prepare_videos(tmp_path / "clips", tmp_path / "none", Settings(crop="900,20,60,60"))
    assert not (tmp_path / "none").exists()


def test_an_upright_clip_is_not_cut_at_head_and_feet(tmp_path: Path) -> None:
    frames = [np.ascontiguousarray(frame.swapaxes(0, 1)) for frame in moving_square(50, width=240, height=96, speed=4)]
    (tmp_path / "clips").mkdir()
    encode(tmp_path / "clips" / "phone.mp4", frames, rate=10)
    prepare_videos(tmp_path / "clips", tmp_path / "out", Settings(size=32))
    (file,) = entries(tmp_path / "out").values()
    assert file["takes"][0]["crop"] == [-72, 0, 240, 240]
    stored = open_shard(tmp_path / "out" / file["shards"][0]["file"]).frames
    assert (stored[..., :9] == stored[..., :1]).all() and (stored[..., 23:] == stored[..., -1:]).all()
    assert (stored[..., :9] == stored[:1, ..., :9]).all()  # nothing moves beyond the picture
    assert (stored[..., 10:22] != stored[:1, ..., 10:22]).any()


def test_every_frame_of_a_faster_clip_begins_a_pair(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    encode(tmp_path / "clips" / "fast.mp4", moving_square(31, speed=1), rate=30)
    encode(tmp_path / "clips" / "slow.mp4", moving_square(11, speed=3), rate=5)
    prepare_videos(tmp_path / "clips", tmp_path / "out", SMALL)
    known = entries(tmp_path / "out")
    fast, slow = known["fast.mp4"], known["slow.mp4"]
    assert (fast["pairs"], fast["pair_seconds"]) == (28, 0.1)
    tensors = load_file(tmp_path / "out" / fast["shards"][0]["file"])
    apart = tensors["times"][tensors["second"]] - tensors["times"][tensors["first"]]
    assert np.allclose(apart, 0.1)
    assert (slow["pairs"], slow["pair_seconds"]) == (10, 0.2)


def test_light_and_dissolves_are_dropped(tmp_path: Path) -> None:
    frames = moving_square(24)
    for number, frame in enumerate(frames[8:]):  # slower than a cut, faster than the day
        frames[8 + number] = np.minimum(frame + 4.0 * min(number, 4), 255).astype(np.uint8)
    (tmp_path / "clips").mkdir()
    encode(tmp_path / "clips" / "dim.mp4", frames, rate=10)
    prepare_videos(tmp_path / "clips", tmp_path / "out", SMALL)
    file = entries(tmp_path / "out")["dim.mp4"]
    assert file["dropped"] == {"light": 4} and file["pairs"] == 19


def test_long_shots_are_taken_in_pieces_and_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.footage.plan.PIECE", 8)
    monkeypatch.setattr("visual_dynamics.footage.clips.SHARD_BYTES", 12 * 32 * 32 * 3)
    film(tmp_path / "clips" / "a.mp4", 40)
    shares: list[float] = []
    prepare_videos(
        tmp_path / "clips", tmp_path / "out", SMALL, progress=lambda done, total: shares.append(done / total)
    )
    assert len(shares) >= 6 and shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    file = entries(tmp_path / "out")["a.mp4"]
    assert [take["pairs"] for take in file["takes"]] == [7] * 5
    assert [(shard["pairs"], shard["frames"]) for shard in file["shards"]] == [(14, 16), (14, 16), (7, 8)]
    assert load_file(tmp_path / "out" / file["shards"][1]["file"])["take"].tolist() == [2] * 8 + [3] * 8
