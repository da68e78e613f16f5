"""visual-dynamics prepare."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from tests.characters import noise_characters
from tests.cli.conftest import TINY_RUN, Fails, Run, one_line
from tests.footage.scenes import film
from tests.poses import bvh, drifting
from visual_dynamics.data.reed import pack_characters, read_characters
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.trainer import training_pairs
from visual_dynamics.weights import load_weights

LAYERS = Path(__file__).parents[3] / "shared" / "data" / "lpc"


@pytest.mark.skipif(not LAYERS.exists(), reason="the layers are not here")
def test_composed_characters_are_training_data(run: Run, tmp_path: Path) -> None:
    answer = run("prepare", "lpc", LAYERS, "--out", tmp_path / "lpc", "--count", 2)
    assert answer.code == 0 and "2 characters" in answer.out
    assert "Liberated Pixel Cup" in (tmp_path / "lpc" / "CREDITS.txt").read_text()
    assert len(training_pairs(TrainingConfig(data=str(tmp_path / "lpc"), preset="sprites"))) == 2 * 157


@pytest.mark.skipif(not LAYERS.exists(), reason="the layers are not here")
def test_composing_again_replaces_its_own_result_only(run: Run, fails: Fails, place: Path) -> None:
    words = ("prepare", "lpc", LAYERS, "--count", 1, "--out")
    (place / "foreign").mkdir()
    for name in ("0000.png", "CREDITS.txt", "characters.json"):
        (place / "foreign" / name).write_text('{"characters": ["Ann"]}')
        assert "foreign is not empty, and holds no earlier result: give --overwrite" in fails(*words, "foreign")
    answer = run(*words, "foreign", "--overwrite")
    assert answer.code == 0 and answer.out.startswith("1 character in foreign;")
    (place / "empty").mkdir()
    for folder in ("foreign", "empty", "new"):
        assert run(*words, folder, "--seed", 1).code == 0


def test_packing_replaces_its_own_result_only(run: Run, fails: Fails, place: Path) -> None:
    pack_characters(noise_characters(1), place / "one")
    (place / "two").mkdir()
    (place / "two" / "palette.npy").write_text("mine")
    assert "two is not empty" in fails("prepare", "sprites", "one", "--out", "two")
    assert run("prepare", "sprites", "one", "--out", "two", "--overwrite").out == "1 character in two\n"
    assert run("prepare", "sprites", "one", "--out", "two").code == 0


def test_packing_packed_sprites_changes_nothing(run: Run, tmp_path: Path) -> None:
    pack_characters(noise_characters(2), tmp_path / "one")
    assert run("prepare", "sprites", tmp_path / "one", "--out", tmp_path / "two").code == 0
    assert (read_characters(tmp_path / "two").frames == read_characters(tmp_path / "one").frames).all()


def test_recorded_motions_become_a_file_of_poses(run: Run, fails: Fails, place: Path) -> None:
    for number in range(3):
        (place / "takes" / f"{number:02}").mkdir(parents=True)
        (place / "takes" / f"{number:02}" / f"{number:02}_01.bvh").write_text(bvh(drifting(90 + number)))
    (place / "takes" / "bad.bvh").write_text("words")
    words = ("prepare", "poses", "takes", "--out")
    answer = run(*words, "poses.npz")
    assert answer.code == 0 and answer.err == "skipped: bad.bvh: it has no MOTION\n"
    assert answer.out.startswith("92 poses of 3 takes in poses.npz (0.0 MB)") and "not to resell" in answer.out
    assert "poses.npz is there already: give --overwrite" in fails(*words, "poses.npz")
    assert run(*words, "poses.npz", "--overwrite").code == 0
    assert "a pose file is named NAME.npz, not poses" in fails(*words, "poses")
    assert "no folder of BVH files" in fails("prepare", "poses", "nowhere", "--out", "new.npz")
    trained = run("train", "run", "--data", "figures", "--poses", "poses.npz", "--steps", 2, *TINY_RUN)
    assert trained.code == 0
    config = json.loads((place / "run" / "config.json").read_text())
    assert (config["data"], config["poses"]) == ("figures", "poses.npz")
    assert load_weights(place / "run" / "weights.safetensors").training["config"]["poses"] == "poses.npz"
    assert "cannot read poses from picture.png" in fails("train", "new", "--data", "figures", "--poses", "picture.png")
    assert "poses are for drawn people" in fails("train", "new", "--poses", "poses.npz")


def test_mistakes(fails: Fails, place: Path) -> None:
    (place / "empty").mkdir()
    assert "no sprites in empty" in fails("prepare", "sprites", "empty", "--out", "new")
    assert "layer" in fails("prepare", "lpc", "empty", "--out", "new")
    assert "nowhere" in fails("prepare", "lpc", "nowhere", "--out", "new")


def test_videos_are_prepared_and_reported(run: Run, fails: Fails, place: Path) -> None:
    film(place / "clips" / "a.mp4", seed=1)
    film(place / "clips" / "b.mp4", 25, seed=2)
    (place / "clips" / "words.mp4").write_text("words")
    words = ("prepare", "videos", "clips", "--out", "data", "--size", 32, "--crop", "centre", "--workers", 1)
    answer = run(*words, "--held-out", 0.4)
    assert answer.code == 0, answer.err
    first, sides, dropped, unused, look = answer.out.splitlines()
    assert first.startswith("36 pairs of 2 clips in data (0.")
    assert sides == "to train on: 24 of 1 scene; held out: 12 of 1 scene"
    assert dropped == "pairs dropped: none"
    assert unused == "not used: words.mp4: it is not a readable video"
    assert look == "look at data/contact.png; all this is in data/summary.json"
    assert run(*words, "--held-out", 0.4).out == answer.out
    assert "data was made with --held-out 0.4, not 0.1: give --overwrite" in fails(*words)
    assert run(*words, "--overwrite").code == 0
    for options in ([], ["--set=stream=true"]):
        assert run("train", f"run{len(options)}", *TINY_RUN, "--steps", 2, "--data", "data", *options).code == 0
    runs = [load_weights(Path(f"run{number}/weights.safetensors")).network.state_dict() for number in (0, 1)]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert json.loads(Path("run1/config.json").read_text())["stream"] is True
    assert "clips cannot be streamed" in fails("train", "run2", *TINY_RUN, "--data", "clips", "--set=stream=true")


def test_packages_of_an_extra_are_missing(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = fails("prepare", "videos", "clips", "--out", "data")
    assert "this needs cv2, scipy: pip install 'visual-dynamics[video]'" in words


def test_videos_that_cannot_be_prepared(run: Run, fails: Fails, place: Path) -> None:
    def message(*options: object) -> str:
        return fails("prepare", "videos", *options)

    film(place / "clips" / "a.mp4", 3)
    (place / "none").mkdir()
    assert "nowhere is missing" in message("nowhere", "--out", "data")
    assert "no clips in none" in message("none", "--out", "data")
    assert "a crop is centre, motion, labels, or X,Y,W,H in pixels, not 'left'" in message(
        "clips", "--out", "d", "--crop", "left"
    )
    assert "clips holds the clips" in message("clips", "--out", "clips")
    assert ". is not empty, and holds no earlier result" in message("clips", "--out", ".")
    assert "a size is from 8 to 512" in message("clips", "--out", "d", "--size", 1000)
    assert "a rate is from" in message("clips", "--out", "d", "--rate", "nan")
    assert "--workers" in message("clips", "--out", "d", "--workers", 0)
    (place / "none" / "words.mp4").write_text("words")
    assert "no clip in none gives a pair (words.mp4: it is not a readable video)" in one_line(
        run("prepare", "videos", "none", "--out", "deep/data")
    )
    assert not (place / "deep").exists()
