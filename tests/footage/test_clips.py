"""The clips of a folder: scenes of its table; PennAction's own layout, drawn, and its real labels, where they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from tests.footage.scenes import contents, moving_square
from visual_dynamics.data.shards import open_pairs, read_manifest
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings, find_clips, find_sequences
from visual_dynamics.footage.cut import labels_window
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.footage.reading import PictureFolder, read_labels
from visual_dynamics.footage.split import held_out_scenes
from visual_dynamics.images import Box

REAL = Path(__file__).parents[3] / "shared" / "data" / "pennaction_labels"
SETTINGS = Settings(rate=10, size=32, crop="labels")
COUNT = 24


def write_labels(path: Path, boxes: np.ndarray, train: int = 1, **more: object) -> None:
    """As published; joints in the corners of the boxes, all visible unless stated otherwise."""
    joints = boxes[:, [0, 2] * 6 + [0]], boxes[:, [1, 3] * 6 + [1]]
    content = {"bbox": boxes, "x": joints[0], "y": joints[1], "visibility": np.ones((len(boxes), 13), np.uint8)}
    content |= {"train": np.int32(train), "nframes": len(boxes), "action": "jump", "pose": "left"}
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, content | more)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sequences, one of them to test on; one without pictures, one with broken labels."""
    folder = tmp_path_factory.mktemp("penn")
    for number in (1, 2, 3):
        frames = moving_square(COUNT, number, left=20, speed=1)
        target = folder / "frames" / f"{number:04d}"
        target.mkdir(parents=True)
        for place, frame in enumerate(frames, 1):
            Image.fromarray(frame).save(target / f"{place:06d}.png")
        left = 1 + 24 + np.arange(COUNT)  # counted from 1: the square is at 24, 25, ... and 36
        boxes = np.stack([left, np.full(COUNT, 37), left + 24, np.full(COUNT, 61)], 1).astype(float)
        write_labels(folder / "labels" / f"{number:04d}.mat", boxes, train=-1 if number == 2 else 1)
    write_labels(folder / "labels" / "0004.mat", boxes)
    (folder / "labels" / "0005.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\0" * 300)
    return folder


@pytest.fixture(scope="module")
def prepared(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("penn-data") / "data"
    prepare_videos(published, out, SETTINGS)
    return out


def test_the_split_is_the_published_one_and_faults_are_named(prepared: Path) -> None:
    files = read_manifest(prepared)["files"]
    assert {file["file"]: file["split"] for file in files} == {
        "frames/0001": "train",
        "frames/0002": "held-out",
        "frames/0003": "train",
    }
    summary = json.loads((prepared / "summary.json").read_text())
    assert summary["unusable_clips"]["frames/0004"] == "it is listed, but there is no such file"
    assert summary["unusable_clips"]["frames/0005"] == "it is listed, but there is no such file"


def test_the_window_is_around_the_boxes(prepared: Path, published: Path) -> None:
    for file in read_manifest(prepared)["files"]:
        (take,) = file["takes"]
        left, top, width, height = take["crop"]
        assert width == height and left <= 24 and left + width >= 24 + COUNT - 1 + 24
        assert top <= 36 and top + height >= 60 and width <= 1.3 * (COUNT + 24)
        assert file["rate"] == 30 and file["pair_seconds"] == 0.1
    pairs = open_pairs(prepared, "train")
    assert pairs is not None and len(pairs) == 2 * (COUNT - 3)
    frame, next_frame = pairs.read(torch.tensor([0]))
    assert (frame != next_frame).any()


def test_a_second_run_changes_nothing(published: Path, prepared: Path) -> None:
    before = contents(prepared)
    prepare_videos(published, prepared, SETTINGS)
    assert contents(prepared) == before


def test_labels_are_part_of_a_sequence(published: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "penn", tmp_path / "data"
    shutil.copytree(published, folder)
    prepare_videos(folder, out, SETTINGS)
    (before,) = (file["takes"][0]["crop"] for file in read_manifest(out)["files"] if file["file"] == "frames/0001")
    write_labels(folder / "labels" / "0001.mat", np.tile([10.0, 10, 90, 90], (COUNT, 1)))
    (folder / "labels" / "0003.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\0" * 300)
    summary = prepare_videos(folder, out, SETTINGS)
    (after,) = (file["takes"][0]["crop"] for file in read_manifest(out)["files"] if file["file"] == "frames/0001")
    assert after != before and "these are no labels of PennAction" in summary["unusable_clips"]["frames/0003"]


def test_empty_boxes_are_those_of_the_joints_that_are_seen(tmp_path: Path) -> None:
    boxes = np.array([[11.0, 21, 31, 61], [0, 0, 0, 0], [0, 0, 0, 0]])
    x, y = np.full((3, 13), 500.0), np.full((3, 13), 500.0)
    x[:, :2], y[:, :2] = [5, 41], [51, 71]
    seen = np.zeros((3, 13), np.uint8)
    seen[:2, :2] = 1
    write_labels(tmp_path / "0001.mat", boxes, x=x, y=y, visibility=seen)
    labels = read_labels(tmp_path / "0001.mat")
    assert labels.boxes[:2].tolist() == [[4, 20, 40, 70], [4, 50, 40, 70]] and np.isnan(labels.boxes[2]).all()
    assert labels.train
    write_labels(tmp_path / "0002.mat", boxes, x=x[:2])
    with pytest.raises(UserError, match="it has 3 boxes, but joints of 2 frames"):
        read_labels(tmp_path / "0002.mat")


def test_windows_follow_the_camera_and_keep_to_the_room() -> None:
    room = Box(0, 0, 100, 160)
    boxes = np.array([[40.0, 30, 60, 70], [50, 30, 70, 70], [np.nan] * 4])
    window = labels_window(boxes, [None] * 3, room, 16)
    assert window == Box(27, 32, 46, 46)  # 40 high, 30 wide, a little wider than that, around (55, 50)
    back = np.array([[1.0, 0, -10], [0, 1, 0]])  # the camera went along with the second one
    assert labels_window(boxes, [None, back, None], room, 16) == Box(27, 27, 46, 46)
    assert labels_window(boxes[2:], [None], room, 16) == Box(0, 30, 100, 100)  # nothing is known: the middle
    assert labels_window(boxes * 10, [None] * 3, room, 16).height <= 100


def test_mistakes(published: Path, tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    (tmp_path / "labels").mkdir()
    with pytest.raises(UserError, match="no labels"):
        find_sequences(tmp_path)
    with pytest.raises(UserError, match="no pictures"):
        PictureFolder(tmp_path)
    (tmp_path / "notes").mkdir()
    only = tmp_path / "held out"
    (only / "frames").mkdir(parents=True)
    (only / "labels").mkdir()
    (only / "frames" / "0002").symlink_to(published / "frames" / "0002")
    (only / "labels" / "0002.mat").symlink_to(published / "labels" / "0002.mat")
    prepare_videos(only, tmp_path / "data", SETTINGS)
    with pytest.raises(UserError, match="has no pairs to train on"):
        open_pairs(tmp_path / "data", "train")


@pytest.mark.skipif(not REAL.exists(), reason="PennAction's labels are not here")
def test_real_labels() -> None:
    found = {path.stem: read_labels(path) for path in sorted(REAL.glob("*.mat"))}
    assert len(found) == 4 and not found["0001"].train
    for labels in found.values():
        known = labels.boxes[np.isfinite(labels.boxes).all(1)]
        assert len(known) > 0.9 * len(labels.boxes)
        assert (known[:, 2] > known[:, 0]).all() and (known[:, 3] > known[:, 1]).all()
        assert known.min() > -30 and known.max() < 700


def test_which_scenes_are_held_out() -> None:
    many = {f"scene {number}": 10 for number in range(40)}
    chosen = held_out_scenes(many, 0.1)
    assert len(chosen) == 4 and held_out_scenes(dict(reversed(many.items())), 0.1) == chosen
    assert held_out_scenes(many, 0) == set()
    assert held_out_scenes({"one": 100}, 0.5) == set()
    assert held_out_scenes({"large": 100, "small": 90}, 0.1) == {"small"}
    assert len(held_out_scenes({"a": 1, "b": 1}, 0.9)) == 1
    assert len(held_out_scenes({"a": 1, "b": 1}, 1)) == 1  # one is left to train on, whatever the share


def test_scenes_and_licences_of_a_table(tmp_path: Path) -> None:
    for name in ("a.MP4", "b.mov", "c.webm", "d.txt", "e.mkv"):
        (tmp_path / name).touch()
    rows = ["file,source,scene,license", "a.MP4,here,,MIT", "b.mov,here,,", "c.webm,here,mine,CC0"]
    (tmp_path / "manifest.csv").write_text("\n".join(rows))
    found = {source.name: source for source in find_clips(tmp_path)}
    assert list(found) == ["a.MP4", "b.mov", "c.webm", "e.mkv"]
    assert [found[name].scene for name in found] == ["here", "here", "mine", "e.mkv"]
    assert [found[name].licence for name in found] == ["MIT", "", "CC0", ""]
    assert len({source.key for source in found.values()}) == 4
