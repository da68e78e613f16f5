"""Running experiments: options, progress, JSON that every program reads; one failure never costs the others."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from visual_dynamics.cli.main import app
from visual_dynamics.cli.reproduce import SETTINGS
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.reporting import base
from visual_dynamics.reporting.base import (
    FLAGS,
    SMALL,
    Experiment,
    ExperimentOptions,
    Measured,
    Progress,
    run_all,
    run_experiment,
    sprites_folder,
    without_nan,
)

CPU = torch.device("cpu")


@dataclass(frozen=True)
class SpritesOptions(ExperimentOptions):
    model: str = "shapes"
    sprites: Path | None = None


def measures(options: SpritesOptions, device: torch.device, progress: Progress) -> Measured:
    for share in (0.25, 0.5):
        progress("samples [x]", share)
    return Measured({"value": float("nan"), "many": options.samples}, {"one.png": b"picture"})


def needs_sprites(options: SpritesOptions, device: torch.device, progress: Progress) -> Measured:
    return Measured({"folder": str(sprites_folder(options))})


def breaks(*_: object) -> Measured:
    raise ZeroDivisionError("by\nzero")


def draw(result: dict[str, Any], folder: Path) -> str:
    (folder / "one_plot.png").write_bytes(b"plot")
    return f"value {result['value']}\n"


def experiments(**made: Any) -> Mapping[str, Experiment]:
    return {
        name: Experiment(name, f"sums {name}", "docs", SpritesOptions, compute, draw) for name, compute in made.items()
    }


def test_nan_becomes_null() -> None:
    result = {"a": [1.0, float("nan"), (2, float("inf"))], "b": {"c": float("nan"), "d": "NaN", "e": None}}
    assert without_nan(result) == {"a": [1.0, None, [2, None]], "b": {"c": None, "d": "NaN", "e": None}}
    json.dumps(without_nan(result), allow_nan=False)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_of_an_experiment_is_one_of_the_command_line(name: str) -> None:
    command = typer.main.get_command(app).commands["reproduce"]  # type: ignore[attr-defined]
    there = {word for option in command.params for word in option.opts}
    for option in fields(EXPERIMENTS[name].options):
        assert option.name in SETTINGS if option.name not in FLAGS else f"--{option.name}" in there


def test_a_result_holds_numbers_and_their_origin(tmp_path: Path) -> None:
    text = run_experiment(experiments(one=measures), "one", {"samples": 3, "seed": 5, "model": None}, tmp_path, CPU)
    result = json.loads((tmp_path / "one.json").read_bytes())
    assert result["experiment"] == "one" and result["value"] is None and result["many"] == 3 and "small" not in result
    assert result["seed"] == 5 and result["model"] == "shapes" and len(result["weights"]) == 64
    assert all(result[key] is not None for key in ("commit", "version", "device", "torch", "seconds"))
    assert text == (tmp_path / "one.md").read_text() and text.startswith("value None\n\nSeed 5; commit ")
    assert (tmp_path / "one.png").read_bytes() == b"picture" and (tmp_path / "one_plot.png").exists()


def test_one_failure_does_not_cost_the_others(tmp_path: Path) -> None:
    said: list[str] = []
    known = experiments(one=measures, broken=breaks, analogy=needs_sprites)
    given = {"seed": 3, "small": True, "sprites": None, "model": None, "guide": "sprites"}
    assert not run_all(known, given, tmp_path, CPU, said.append)
    assert said[::2] == ["[1/3] one: sums one", "[2/3] broken: sums broken", "[3/3] analogy: sums analogy"]
    assert said[1].startswith("    done in") and said[3] == "    failed: by zero (ZeroDivisionError)"
    assert "not made: this is measured on Reed's sprites: give their folder with --sprites" in said[5]
    result = json.loads((tmp_path / "one.json").read_bytes())
    assert result["small"] is True and result["seed"] == 3
    assert (tmp_path / "one.md").read_text().startswith(SMALL)
    assert run_all(experiments(one=measures, analogy=needs_sprites), given, tmp_path, CPU, said.append)


def test_a_small_result_never_replaces_a_full_one(tmp_path: Path) -> None:
    known = experiments(one=measures)
    run_experiment(known, "one", {}, tmp_path, CPU)
    before = (tmp_path / "one.json").read_bytes()
    with pytest.raises(UserError, match="holds a full result of one"):
        run_experiment(known, "one", {"small": True}, tmp_path, CPU)
    assert (tmp_path / "one.json").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"guide": "sprites"},
            "no option --set guide=MODEL; it has --samples, --seed, --small, --model",
        ),
        ({"samples": 0}, "samples must be positive, not 0"),
        ({"sprites": Path("nowhere")}, "no such folder or zip: nowhere"),
        ({"model": "nowhere"}, "nowhere"),
    ],
)
def test_mistakes_are_reported_before_anything_is_made(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        run_experiment(experiments(one=breaks), "one", given, tmp_path / "out", CPU)
    assert not (tmp_path / "out").exists()


def test_models_of_another_size_are_refused(tiny_weights_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="makes frames of 16 pixels; this is measured on 64"):
        run_experiment(experiments(one=breaks), "one", {"model": str(tiny_weights_file)}, tmp_path, CPU)


def test_options_of_single_experiments_are_not_for_all(tmp_path: Path) -> None:
    for given, words in (({"samples": 3}, "no option --samples"), ({"sprites": tmp_path / "none"}, "no such folder")):
        with pytest.raises(UserError, match=words):
            run_all(EXPERIMENTS, given, tmp_path / "out", CPU, print)
    assert not (tmp_path / "out").exists()


def test_a_log_has_a_line_of_progress_every_minute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for minute, lines in ((0.0, ["one: samples [x] 25%", "one: samples [x] 50%"]), (60.0, [])):
        monkeypatch.setattr(base, "MINUTE", minute)
        run_experiment(experiments(one=measures), "one", {}, tmp_path, CPU)
        assert capfd.readouterr().err.splitlines() == lines
