"""Which scenes are for what: a table decides, and nothing is in two parts; the list of clips is as drawn."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.footage.scenes import film
from visual_dynamics.data.shards import open_pairs
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings, read_rows
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.footage.split import SPLITS, read_split

DOCS = Path(__file__).parents[2] / "docs"
CLIPS = Path(__file__).parents[3] / "shared" / "data" / "video" / "manifest.csv"
SMALL = Settings(size=32, crop="centre")
TABLE = "scene,split\nhall,train\nlawn,held-out\ncafe,test\n"


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    rows = ["file,scene"]
    for number, scene in enumerate(("hall", "lawn", "cafe", "hall")):
        film(folder / f"{number}.mp4", seed=number)
        rows.append(f"{number}.mp4,{scene}")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split") / "scenes.csv"
    path.write_text(TABLE)
    return path


def test_parts_share_no_scene_and_no_frame(clips: Path, table: Path, tmp_path: Path) -> None:
    summary = prepare_videos(clips, tmp_path, SMALL, split=table)
    assert {name: part["scenes"] for name, part in summary["splits"].items()} == {
        "train": ["hall"],
        "held-out": ["lawn"],
        "test": ["cafe"],
    }
    frames = []
    for split in SPLITS:
        pairs = open_pairs(tmp_path, split)
        assert pairs is not None and len(pairs) == 12 * (2 if split == "train" else 1)
        assert len({*pairs.first.tolist()}) == len(pairs)  # each shard has frames of its own
        frames.append({hashlib.sha256(frame.numpy().tobytes()).digest() for frame in pairs.in_memory().store})
    assert not frames[0] & frames[1] | frames[0] & frames[2] | frames[1] & frames[2]
    changed = tmp_path.parent / "changed.csv"
    changed.write_text(TABLE.replace("lawn,held-out", "lawn,test"))
    with pytest.raises(UserError, match=r"made with --split [0-9a-f]{12}, not [0-9a-f]{12}"):
        prepare_videos(clips, tmp_path, SMALL, split=changed)
    with pytest.raises(UserError, match=r"made with --split [0-9a-f]{12}, not without"):
        prepare_videos(clips, tmp_path, SMALL)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary


def test_a_clip_under_two_names_is_in_one_part(clips: Path, table: Path, tmp_path: Path) -> None:
    twice = shutil.copytree(clips, tmp_path / "twice", copy_function=shutil.copyfile)
    shutil.copyfile(twice / "0.mp4", twice / "2.mp4")
    with pytest.raises(UserError, match=r"0.mp4 and 2.mp4 are the same clip, in train and in test"):
        prepare_videos(twice, tmp_path / "out", SMALL, split=table)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "scene,split\nhall,train\nlawn,validation\n",
            "every row needs a scene and, as its split, train, held-out, test",
        ),
        ("scene\nhall\n", "every row needs a scene and"),
        (TABLE + "hall,test\n", "the scene 'hall' is in train and in test"),
        ("scene,split\nhall,test\n", "no scene is there to train on"),
    ],
)
def test_mistakes_in_a_table_are_reported(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "scenes.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_split(path)


def test_every_scene_needs_a_part(clips: Path, tmp_path: Path) -> None:
    (tmp_path / "scenes.csv").write_text("scene,split\nhall,train\n")
    with pytest.raises(UserError, match="the split does not have the scene 'cafe'"):
        prepare_videos(clips, tmp_path / "out", SMALL, split=tmp_path / "scenes.csv")
    with pytest.raises(UserError, match="there is no such file"):
        prepare_videos(clips, tmp_path / "out", SMALL, split=tmp_path / "nowhere.csv")
    assert not (tmp_path / "out").exists()


# --- the list of the clips: docs/video-clips.csv ---


def test_no_scene_and_no_clip_of_the_list_is_in_two_parts() -> None:
    rows = read_rows(DOCS / "video-clips.csv")
    for column, count in (("scene", 40), ("sha256", 76)):
        parts: dict[str, set[str]] = {}
        for row in rows:
            parts.setdefault(row[column], set()).add(row["split"])
        assert len(parts) == count and all(len(part) == 1 for part in parts.values())
    assert Counter(read_split(DOCS / "video-clips.csv").values()) == {"train": 24, "held-out": 6, "test": 10}


def test_scenes_to_report_on_were_never_used() -> None:
    """`people` learned from six scenes, and four were looked at while it was made."""
    split = read_split(DOCS / "video-clips.csv")
    used = read_split(DOCS / "people-clips.csv")
    assert len(used) == 10 and all(split[scene] == part for scene, part in used.items())


def test_the_list_is_what_the_seed_draws() -> None:
    """Scenes alike stay together. Known ones stay where they are; the talkers of GRID, in one studio, are to learn
    from."""
    rows = read_rows(DOCS / "video-clips.csv")
    scenes = list(dict.fromkeys(row["scene"] for row in rows))
    drawn = read_split(DOCS / "people-clips.csv")
    drawn |= {"sofa": drawn["squats"]} | {scene: "train" for scene in scenes if scene.startswith("GRID talker")}
    left = {"test": 10, "held-out": 6 - list(drawn.values()).count("held-out"), "train": len(scenes)}
    alike: dict[str, list[str]] = {}
    for scene in scenes:
        if scene not in drawn:
            alike.setdefault("study" if scene.startswith("study") else scene, []).append(scene)
    for name in sorted(alike, key=lambda name: hashlib.sha256(f"20 {name}".encode()).digest()):
        part = next(part for part, room in left.items() if room >= len(alike[name]))
        left[part] -= len(alike[name])
        drawn |= dict.fromkeys(alike[name], part)
    assert drawn == read_split(DOCS / "video-clips.csv")


@pytest.mark.skipif(not CLIPS.exists(), reason="the clips are not here")
def test_the_list_is_of_the_clips_that_are_there() -> None:
    with CLIPS.open(newline="") as stream:
        there = {row["file"]: (row["scene"], row["sha256"]) for row in csv.DictReader(stream)}
    assert {row["file"]: (row["scene"], row["sha256"]) for row in read_rows(DOCS / "video-clips.csv")} == there
