"""Clips become shards: cut, cropped, split by scene; killed and started again, the same bytes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image
from safetensors.numpy import load_file

from tests.footage.clips import SHARED, encode, encode_sound
from tests.footage.scenes import contents, entries, film, moving_square, two_shots
from visual_dynamics.data.shards import open_shard, split_shards
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos

ROOT = Path(__file__).parents[2]
SMALL = Settings(size=32, crop="centre", held_out=0.3)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound clips and others; three of the sound ones show two scenes, as a table says."""
    folder = tmp_path_factory.mktemp("clips")
    film(folder / "a.mp4", seed=1)
    film(folder / "b.mkv", seed=2)
    film(folder / "below" / "c.mp4", seed=3)
    two_shots(folder / "two.mp4")
    encode(folder / "still.mp4", [moving_square(1)[0]] * 12, rate=10)
    encode(folder / "one.mp4", moving_square(1), rate=10)
    encode_sound(folder / "sound.mp4")
    (folder / "words.mp4").write_text("this is no clip\n" * 100)
    whole = film(folder / "cut.mp4", 20, seed=4).read_bytes()
    (folder / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    whole = encode(folder / "torn.mkv", moving_square(40, 5), rate=10).read_bytes()
    (folder / "torn.mkv").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "notes.txt").write_text("not looked at")
    (folder / "._a.mp4").write_text("a file of the Finder's")
    rows = ["file,scene,licence,source", "a.mp4,wall,CC-BY-4.0,here", "below/c.mp4,wall,CC0,there", "gone.mp4,wall,,"]
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def prepared(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared") / "data"
    prepare_videos(clips, out, SMALL)
    return out


def test_what_cannot_be_used_is_named_and_the_rest_is_used(prepared: Path) -> None:
    summary = json.loads((prepared / "summary.json").read_text())
    assert summary["clips"] == 11 and summary["kept"]["clips"] == 5
    assert summary["unusable_clips"] == {
        "cut.mp4": "it is not a readable video",
        "gone.mp4": "it is listed, but there is no such file",
        "one.mp4": "it has a single frame",
        "sound.mp4": "it has no pictures, only sound or text",
        "still.mp4": "no pair is left of it (dropped: 11 still)",
        "words.mp4": "it is not a readable video",
    }
    assert list(summary["broken_clips"]) == ["torn.mkv"]
    assert list(entries(prepared)) == ["a.mp4", "b.mkv", "below/c.mp4", "torn.mkv", "two.mp4"]
    with Image.open(prepared / "contact.png") as sheet:
        assert sheet.width > 1000


def test_pairs_are_neighbours_of_one_shot_and_share_their_frames(prepared: Path, clips: Path) -> None:
    known = entries(prepared)
    assert [known[name]["pairs"] for name in ("a.mp4", "b.mkv", "below/c.mp4")] == [12, 12, 12]
    two = known["two.mp4"]
    assert two["pairs"] == 7 + 8 and two["shots"] == 2 and two["shards"][0]["frames"] == 17
    assert [take["shot"] for take in two["takes"]] == [0, 1]
    assert [take["seconds"] for take in two["takes"]] == [[0.0, 0.8], [0.8, 1.7]]
    tensors = load_file(prepared / two["shards"][0]["file"])
    assert (np.diff(tensors["times"]).round(3) == 0.1).all()
    assert (tensors["second"] - tensors["first"] == 1).all()
    assert 7 not in tensors["first"]  # the last frame of the first shot
    assert tensors["take"].tolist() == [0] * 8 + [1] * 9
    assert (tensors["transforms"] == np.eye(2, 3)).all()


def test_frames_are_the_clip_s_own_cropped_and_averaged(prepared: Path) -> None:
    file = entries(prepared)["a.mp4"]
    assert file["takes"][0]["crop"] == [16, 0, 96, 96] and file["takes"][0]["camera"] == "still"
    assert (file["licence"], file["source"], file["width"], file["height"]) == ("CC-BY-4.0", "here", 128, 96)
    stored = open_shard(prepared / file["shards"][0]["file"]).frames
    for number, frame in enumerate(moving_square(13, 1)):
        exact = frame[:, 16:112].reshape(32, 3, 32, 3, 3).mean((1, 3)).transpose(2, 0, 1)
        assert np.abs(stored[number] - exact).mean() < 4  # the codec's share


def test_no_scene_is_on_both_sides(prepared: Path) -> None:
    known = entries(prepared)
    assert known["a.mp4"]["scene"] == known["below/c.mp4"]["scene"] == "wall"
    assert known["b.mkv"]["scene"] == "b.mkv"
    sides: dict[str, set[str]] = {}
    for file in known.values():
        sides.setdefault(file["scene"], set()).add(file["split"])
    assert all(len(side) == 1 for side in sides.values())
    assert {"train"} in sides.values() and {"held-out"} in sides.values()
    total = sum(file["pairs"] for file in known.values())
    held_out = sum(len(shard.first) for shard in split_shards(prepared, "held-out"))
    assert 0 < held_out <= 0.3 * total
    assert held_out + sum(len(shard.first) for shard in split_shards(prepared, "train")) == total


def test_a_second_run_writes_nothing_and_another_place_or_number_of_workers_gives_the_same(
    prepared: Path, clips: Path, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*") if path.suffix != ".lock"}
    prepare_videos(clips, prepared, SMALL)
    assert {path: path.stat().st_mtime_ns for path in prepared.rglob("*") if path.suffix != ".lock"} == before
    elsewhere = shutil.copytree(clips, tmp_path / "copied", copy_function=shutil.copyfile)
    prepare_videos(elsewhere, tmp_path / "again", SMALL, workers=2)
    assert contents(tmp_path / "again") == contents(prepared)


def test_only_what_is_missing_is_made(clips: Path, prepared: Path, tmp_path: Path, counted: list[str]) -> None:
    out = shutil.copytree(prepared, tmp_path / "out")
    shards = sorted((out / "shards").iterdir())
    shards[0].write_bytes(shards[0].read_bytes()[:-1])
    two = next(shard for shard in shards if shard.name.startswith("two_mp4"))
    two.write_bytes(two.read_bytes()[:-1] + b"\xff")  # as large as it was
    sorted((out / "records").iterdir())[1].unlink()
    prepare_videos(clips, out, SMALL)
    assert counted == ["a.mp4", "b.mkv", "cut.mp4", "sound.mp4", "two.mp4", "words.mp4"]
    assert contents(out) == contents(prepared)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of clips that are opened."""
    from visual_dynamics.footage import clips as one_clip

    names: list[str] = []
    opened: Callable[..., Any] = one_clip._opened
    monkeypatch.setattr(
        one_clip, "_opened", lambda listed, crop: names.append(listed.path.name) or opened(listed, crop)
    )
    return names


def test_a_clip_that_changed_or_came_is_made_and_one_that_went_is_an_error(clips: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "clips", tmp_path / "out"
    for number, name in enumerate(("a.mp4", "b.mp4")):
        film(folder / name, seed=number)
    prepare_videos(folder, out, SMALL)
    first = contents(out)
    film(folder / "a.mp4", seed=7)
    film(folder / "c.mp4", seed=2)
    assert prepare_videos(folder, out, SMALL)["kept"]["pairs"] == 36
    now = contents(out)
    kept = [name for name in first if name.startswith("shards/") and now[name] == first[name]]
    assert len(kept) == 1 and kept[0].startswith("shards/b_mp4-")
    (folder / "c.mp4").unlink()
    with pytest.raises(UserError, match=r"no longer there \(c_mp4-.*--overwrite"):
        prepare_videos(folder, out, SMALL)
    assert contents(out) == now
    assert prepare_videos(folder, out, SMALL, overwrite=True)["kept"]["pairs"] == 24


PROGRAM = f"""
import os, signal, sys
from pathlib import Path
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos

clips, out, workers, writes = sys.argv[1:]
replace, done = Path.replace, 0

def replaced(part, path):
    global done
    done += 1
    if done == int(writes):
        if len(path.name) % 2:
            replace(part, path)
        os.kill(os.getpid(), signal.SIGKILL)
    replace(part, path)

Path.replace = replaced
if __name__ == "__main__":
    prepare_videos(Path(clips), Path(out), {SMALL!r}, int(workers))
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """A process that prepares clips into `out`; it kills itself while it writes its n-th file."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, tmp_path / "program.py"]

    def start(clips: Path, workers: int = 1, writes: int = 0) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, clips, tmp_path / "out", str(workers), str(writes)], env=environment)

    return start


def test_killed_while_it_writes_and_started_again(start: Any, clips: Path, tmp_path: Path) -> None:
    """Before a finished part takes its place, or right after, in the second or third file that it writes."""
    few = tmp_path / "few"
    few.mkdir()
    for name in ("b.mkv", "two.mp4"):
        shutil.copyfile(clips / name, few / name)
    prepare_videos(few, tmp_path / "expected", SMALL)
    codes = []
    while not codes or codes[-1] != 0:
        codes.append(start(few, writes=2 + len(codes) % 2).wait(60))
        assert len(codes) < 20
    assert codes[:-1] == [-signal.SIGKILL] * len(codes[:-1]) and len(codes) > 3
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_any_moment_and_started_again(
    start: Any, clips: Path, prepared: Path, tmp_path: Path, workers: int
) -> None:
    chance = random.Random(workers)
    moments = [0.1 + 0.8 * workers * chance.random() for _ in range(3)]  # seconds after the first file
    for moment in moments:
        process = start(clips, workers)
        deadline = time.monotonic() + 60
        while not (tmp_path / "out" / "settings.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.kill()
        process.wait()
    assert start(clips, workers).wait(60) == 0
    assert contents(tmp_path / "out") == contents(prepared)


def test_mistakes(clips: Path, prepared: Path, tmp_path: Path) -> None:
    def check(words: str, folder: Path, out: Path, settings: Settings = SMALL) -> None:
        with pytest.raises(UserError, match=words):
            prepare_videos(folder, out, settings)

    empty = tmp_path / "empty"
    empty.mkdir()
    check("is missing: give a folder of clips", tmp_path / "nowhere", tmp_path / "out")
    check("is a file, not a folder", clips / "a.mp4", tmp_path / "out")
    check(r"no clips in .*empty", empty, tmp_path / "out")
    check("holds the clips", clips, clips)
    check("is a file; results need a folder", clips, clips / "a.mp4")
    check("is not empty, and holds no earlier result", clips, clips.parent)
    check(r"made with --size 32, not 64: give --overwrite", clips, prepared, Settings(size=64, crop="centre"))
    with FileLock(prepared / "prepare.lock"):
        check("in use by another process", clips, prepared)
    (empty / "words.mp4").write_text("words")
    check(r"no clip in .*empty gives a pair \(words.mp4: it is not a readable video\)", empty, tmp_path / "out")
    (empty / "manifest.csv").write_text("name,scene\nwords.mp4,1\n")
    check("needs a column 'file'", empty, tmp_path / "out")
    (empty / "manifest.csv").write_text("file\n../words.mp4\n")
    check("is not below the folder", empty, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_starting_anew_leaves_other_files_alone(clips: Path, tmp_path: Path) -> None:
    few, out = tmp_path / "few", tmp_path / "out"
    few.mkdir()
    shutil.copyfile(clips / "b.mkv", few / "b.mkv")
    mine = {"shards/thesis.txt": b"mine", "records/2019.json": b"{}", "settings.json": b"{}", "photo.png": b"mine"}
    for name, data in mine.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
    prepare_videos(few, out, SMALL, overwrite=True)
    del mine["settings.json"]  # its name is ours
    now = contents(out)
    assert mine.items() <= now.items() and "manifest.json" in now
    (out / "records" / "2019.json").unlink()
    prepare_videos(few, out, Settings(size=16, crop="centre"), overwrite=True)
    assert contents(out).keys() == now.keys() - {"records/2019.json"}
    assert open_shard(next((out / "shards").glob("*.safetensors"))).frames.shape[2] == 16


@pytest.mark.parametrize("options", [{"rate": 0}, {"size": 4}, {"held_out": 1.0}, {"crop": "left"}, {"crop": "1,2,3"}])
def test_settings_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Settings(**options)


def test_a_full_disk_is_an_error_and_leaves_what_can_be_gone_on_with(
    clips: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visual_dynamics.footage import clips as one_clip

    write = one_clip.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.name.startswith("two_mp4"):
            raise UserError(f"cannot write {path}: No space left on device; nothing was changed")
        write(path, data)

    monkeypatch.setattr(one_clip, "write_atomically", full)
    with pytest.raises(UserError, match="No space left"):
        prepare_videos(clips, tmp_path / "out", SMALL)
    monkeypatch.undo()
    prepare_videos(clips, tmp_path / "out", SMALL)
    assert contents(tmp_path / "out") == contents(prepared)


@pytest.mark.skipif(not SHARED.exists(), reason="the clips are not here")
def test_real_clips(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    for name in ("intel_asl_gestures_eat.mkv", "tfjs_pose_squats.mp4", "manifest.csv"):
        shutil.copyfile(SHARED / name, tmp_path / "clips" / name)
    rows = (tmp_path / "clips" / "manifest.csv").read_text().splitlines()
    chosen = [row for row in rows if row.startswith(("file,", "intel_asl_gestures_eat", "tfjs_pose_squats"))]
    (tmp_path / "clips" / "manifest.csv").write_text("\n".join(chosen) + "\n")
    summary = prepare_videos(tmp_path / "clips", tmp_path / "out", Settings(size=64, crop="motion"))
    assert summary["unusable_clips"] == {} and sum(summary["takes"].values()) == 2
    known = entries(tmp_path / "out")
    eat, squats = known["intel_asl_gestures_eat.mkv"], known["tfjs_pose_squats.mp4"]
    assert eat["scene"] == "sign language" and squats["scene"] == "squats"
    assert squats["licence"].startswith("Apache-2.0")
    assert eat["pairs"] > 25 and squats["pairs"] > 50 and squats["pair_seconds"] == 0.2


def test_workers_start_quickly() -> None:
    """What a worker imports has neither torch nor the command line in it."""
    code = "import sys, visual_dynamics.footage.prepare; print({'torch', 'typer'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"
