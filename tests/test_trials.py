"""Trials of models to come: what is planned, that commands make it, and what is measured of a finished one."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import trials
from tests.footage.scenes import film
from visual_dynamics.api import load
from visual_dynamics.data.packed import Clip, PackedCharacter, pack
from visual_dynamics.experiments.characters import KINDS
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.loop import train

PEOPLE = trials.FAMILIES["people"]
TINY = {"preset": "tiny", "latent": 8, "steps": 2, "batch": 8, "pairs": 24, "also": None, "also_pairs": None}


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clips = tmp_path_factory.mktemp("footage") / "clips"
    for number, count in enumerate((20, 13, 9)):
        film(clips / f"{number}.mp4", count, seed=number)
    prepare_videos(clips, clips.parent / "data", Settings(size=32, crop="centre", held_out=0.3))
    return clips.parent / "data"


def test_one_option_changes_at_a_time() -> None:
    base, *others = trials.plan_trials(PEOPLE, Path("data"), {"minutes": 3.0}).values()
    assert base.augmentations["displace"] == 8 and base.steps is None
    changed = [{key for key, value in one.to_dict().items() if value != base.to_dict()[key]} for one in others]
    assert changed[:2] == [{"augment"}] * 2 and changed[-1] == {"warp", "pyramid"}
    assert all(len(keys) == 1 for keys in changed[:-1]) and len({str(one) for one in others}) == len(others)
    assert [one.augmentations.get("displace") for one in others[:2]] == [None, 16]


def test_characters_are_shown_by_others_in_all_trials_but_one() -> None:
    planned = trials.plan_trials(trials.FAMILIES["characters"], Path("data"), {"minutes": 3.0})
    assert [name for name, one in planned.items() if "other-character" not in one.augmentations] == ["own-character"]
    assert [name for name, one in planned.items() if "mirror" not in one.augmentations] == ["no-mirror"]
    base, *others = planned.values()
    assert len({str(one) for one in (base, *others)}) == len(others) + 1


def test_a_missing_trial_is_a_command_and_a_finished_one_a_row(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tiny(
        family: trials.Family, data: Path, budget: dict[str, float], plan=trials.plan_trials
    ) -> dict[str, TrainingConfig]:  # type: ignore[no-untyped-def]
        assert budget == {"minutes": 1.0}
        return plan(family, data, TINY)

    monkeypatch.setattr(trials, "plan_trials", tiny)
    planned = tiny(PEOPLE, footage, {"minutes": 1.0})
    train(planned["plain"], tmp_path / "plain", torch.device("cpu"))
    monkeypatch.setattr(
        sys, "argv", ["trials", "people", str(footage), str(tmp_path), "--minutes=1", "--pairs=2", "--device=cpu"]
    )
    trials.main()
    head, _, row, *commands = capsys.readouterr().out.splitlines()
    assert head.split("|")[1:4] == [" trial ", " steps ", " KL "] and row.startswith("| plain | 2 |")
    assert len(commands) == len(PEOPLE.changes)
    words = shlex.split(commands[0])
    assert words[:4] == ["visual-dynamics", "train", str(tmp_path / "people-next"), "--preset"]


def test_codes_are_measured_in_their_place_and_shifted(footage: Path, tmp_path: Path) -> None:
    """A network whose last layer is zero copies its input: it explains nothing, anywhere."""
    train(trials.plan_trials(PEOPLE, footage, TINY)["people-next"], tmp_path / "run", torch.device("cpu"))
    model, copying = (load(tmp_path / "run" / "weights.safetensors") for _ in range(2))
    for value in copying.predictor.network.motion_decoder.last.parameters():
        value.data.zero_()
    found, copied = (PEOPLE.measure(each, footage, 2) for each in (model, copying))
    for name in ("explained", "shifted"):
        assert copied[name] == pytest.approx(0, abs=1e-4) and abs(found[name] or 0) > 1e-3


def test_motions_of_validation_characters_are_measured(tmp_path: Path) -> None:
    """A network whose last layer is zero copies its input: its error is that of copying. Characters 10 and 30 count."""
    random, clips = np.random.default_rng(0), (Clip("walk", "down", 3),)

    def character(number: int) -> PackedCharacter:
        index = np.zeros((3, 16, 16), np.uint8)
        index[:, 4:12, 4:12] = random.integers(1, 4, (3, 8, 8))
        colours = np.array([[0, 0, 0, 0], [255, 0, 0, 255], [0, 255, 0, 255], [0, 0, 255, 255]], np.uint8)
        return PackedCharacter(index, colours, clips, {"number": number, "body": ("male", "child")[number // 20]})

    pack(tmp_path / "data", (character(number) for number in range(40)))
    characters = trials.FAMILIES["characters"]
    config = replace(trials.plan_trials(characters, tmp_path / "data", TINY)["sprites-lpc-poses"], between="any")
    train(config, tmp_path / "run", torch.device("cpu"))
    model = load(tmp_path / "run" / "weights.safetensors")
    for value in model.predictor.network.motion_decoder.last.parameters():
        value.data.zero_()
    found = characters.measure(model, tmp_path / "data", 30)
    assert found == {
        name: pytest.approx(1) for name in (f"{kind}{words}" for kind in KINDS for words in trials.PARTS.values())
    }
