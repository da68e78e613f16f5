"""Pose files: what is written is read, splits share no take, and mistakes are one line each."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.poses import STANDING, waving, write_waving
from visual_dynamics.data import poses as poses_module
from visual_dynamics.data.poses import APART, FPS, JOINTS, PARENTS, Split, read_poses, write_poses
from visual_dynamics.errors import UserError

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "mocap" / "poses.npz"
SPLITS: tuple[Split, ...] = get_args(Split)


def complaint(path: Path) -> str:
    with pytest.raises(UserError) as error:
        read_poses(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    return str(error.value)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    named = [("a", waving(30)), ("b", waving(25, 1)), ("a", waving(40, 2)), ("c", waving(20, 3))]
    assert write_poses(tmp_path / "poses.npz", named) == (tmp_path / "poses.npz").stat().st_size
    poses = read_poses(tmp_path / "poses.npz")
    assert poses.takes == ("a", "b", "a", "c") and poses.starts.tolist() == [0, 30, 55, 95, 115]
    np.testing.assert_allclose(poses.positions[30:55], named[1][1], atol=1 / 512)
    assert poses.positions.dtype == np.float32 and poses.positions.flags.c_contiguous
    with np.load(tmp_path / "poses.npz", allow_pickle=False) as file:
        assert file["parents"].tolist() == list(PARENTS)


def test_too_few_or_too_many_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="three takes are needed"):
        write_poses(tmp_path / "poses.npz", [("a", waving()), ("b", waving())])
    monkeypatch.setattr(poses_module, "MAX_POSES", 80)
    with pytest.raises(UserError, match="90 poses are too many for a file: at most 80"):
        write_poses(tmp_path / "poses.npz", [(name, waving()) for name in "abc"])
    assert not (tmp_path / "poses.npz").exists()


def test_pairs_are_of_one_sequence_and_splits_share_no_take(tmp_path: Path) -> None:
    poses = read_poses(write_waving(tmp_path / "poses.npz", takes=30))
    of = np.repeat(np.arange(len(poses.takes)), np.diff(poses.starts))  # the sequence of each pose
    takes, every = {}, []
    for split in SPLITS:
        first = poses.pairs(split)
        assert (of[first] == of[first + APART]).all() and APART / FPS == 0.1
        takes[split] = {poses.takes[sequence] for sequence in of[first]}
        every.append(first)
    assert {split: len(found) for split, found in takes.items()} == {"train": 24, "validation": 3, "test": 3}
    assert not any(takes[one] & takes[other] for one, other in combinations(SPLITS, 2))
    assert len(np.unique(np.concatenate(every))) == 60 * (30 - APART)  # all there are


def test_how_far_the_fastest_joint_moves(tmp_path: Path) -> None:
    moved = np.tile(STANDING, (20, 1, 1))
    moved[10:, JOINTS.index("l_wrist")] += (0.3, 0.4, 0)
    write_poses(tmp_path / "poses.npz", [("a", moved), ("b", waving()), ("c", waving())])
    poses = read_poses(tmp_path / "poses.npz")
    np.testing.assert_allclose(poses.moves(np.array([7, 8, 9, 10])), [0, 0.5, 0.5, 0], atol=0.004)


def test_reading_needs_no_torch() -> None:
    code = "import sys, visual_dynamics.data.poses, visual_dynamics.data.bvh; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


GOOD: dict[str, Any] = {
    "positions": np.tile(STANDING, (60, 1, 1)).astype(np.float16),
    "starts": np.array([0, 20, 40, 60]),
    "trial": np.array(["a", "b", "c"]),
    "fps": np.float32(20),
    "joints": np.array(JOINTS),
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"positions": None}, "no array positions"),
        ({"positions": GOOD["positions"][:, :14]}, r"array positions is float16 of shape \(60, 14, 3\)"),
        ({"positions": GOOD["positions"].astype(int)}, "array positions is int64"),
        ({"positions": np.full((60, 15, 3), np.nan)}, "no place within 100 of the origin"),
        ({"positions": np.full((60, 15, 3), 101.0)}, "no place within 100"),
        ({"starts": np.array([0, 20, 40])}, "do not ascend from 0 to the 60 poses"),
        ({"starts": np.array([0, 40, 20, 60])}, "do not ascend"),
        ({"starts": np.array([0.0, 20, 40, 60])}, "array starts is float64"),
        ({"trial": np.array(["a", "b"])}, "names 2 takes of 3 sequences"),
        ({"trial": np.array(["a", "b", "a"])}, "three takes are needed"),
        ({"trial": np.array(["a", "b", None])}, "array trial is object"),
        ({"trial": np.array(["a", "b", "c" * 257])}, "array trial is <U257"),  # zeros, which pack to little, fill up
        ({"fps": np.float32(30)}, "30 poses a second, not 20"),
        ({"fps": np.zeros(2)}, r"array fps is float64 of shape \(2,\)"),
        ({"joints": np.array(JOINTS[::-1])}, "its joints are not hips, neck_base"),
    ],
)
def test_mistakes(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    arrays = {name: value for name, value in (GOOD | changed).items() if value is not None}
    np.savez(tmp_path / "poses.npz", **arrays)
    with pytest.raises(UserError, match=words):
        read_poses(tmp_path / "poses.npz")
    complaint(tmp_path / "poses.npz")


def test_what_is_no_pose_file(tmp_path: Path) -> None:
    assert "no such file" in complaint(tmp_path / "poses.npz")
    assert "folder" in complaint(tmp_path)
    (tmp_path / "words.npz").write_text("words")
    assert "not a zip" in complaint(tmp_path / "words.npz")


def test_a_zip_that_may_unpack_without_end_is_not_unpacked(tmp_path: Path) -> None:
    """LZMA unpacks all at once, whatever the zip says of its size: 15 kB became 100 MB."""
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("positions.npy", b"\x93NUMPY\x01\x00" + bytes(1_000_000))
    with pytest.raises(UserError, match="may unpack without end"):
        read_poses(tmp_path / "bomb.npz")


def test_a_false_size_allocates_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", **GOOD)
    with zipfile.ZipFile(tmp_path / "good.npz") as good, zipfile.ZipFile(tmp_path / "bad.npz", "w") as bad:
        for name in good.namelist():
            data = good.read(name)
            bad.writestr(name, data.replace(b"(60, 15, 3)", b"(1999999, 15, 3)"[:16]) if "positions" in name else data)
    assert "cut off" in complaint(tmp_path / "bad.npz") or "header" in complaint(tmp_path / "bad.npz")


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(0, 4000), junk=st.binary(max_size=8))
def test_a_damaged_file_is_read_or_an_error(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("damaged") / "poses.npz"
    np.savez_compressed(path, **GOOD)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + junk + whole[cut + len(junk) :])
    try:
        assert read_poses(path).takes == ("a", "b", "c")
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.skipif(not REAL.exists(), reason="the real poses are not here")
def test_the_real_poses() -> None:
    poses = read_poses(REAL)
    assert len(poses.positions) == 205_980 and len(poses.takes) == 2_271
    shares = {split: len(poses.pairs(split)) / (205_980 - 2 * 2_271) for split in SPLITS}
    assert sum(shares.values()) == pytest.approx(1) and shares["train"] == pytest.approx(0.8, abs=0.02)
    for split in SPLITS:  # one law: as many still pairs, and moves as large
        moves = poses.moves(poses.pairs(split))
        assert (moves < 0.03).mean() == pytest.approx(0.23, abs=0.02)
        assert np.median(moves) == pytest.approx(0.084, abs=0.01)
