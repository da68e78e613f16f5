"""Results of experiments are JSON that every program reads; what is told of models and options that are not there."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer

from visual_dynamics.cli.main import app
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.reporting import reproduction
from visual_dynamics.reporting.reproduction import run_experiment, without_nan


def test_nan_becomes_null() -> None:
    result = {"a": [1.0, float("nan"), (2, float("inf"))], "b": {"c": float("nan"), "d": "NaN", "e": None}}
    assert without_nan(result) == {"a": [1.0, None, [2, None]], "b": {"c": None, "d": "NaN", "e": None}}
    json.dumps(without_nan(result), allow_nan=False)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_of_an_experiment_is_one_of_the_command_line(name: str) -> None:
    command = typer.main.get_command(app).commands["reproduce"]  # type: ignore[attr-defined]
    there = {word for option in command.params for word in option.opts}
    assert {f"--{field.name.replace('_', '-')}" for field in fields(EXPERIMENTS[name].Options)} <= there


def test_a_log_tells_how_it_goes_every_minute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def compute(options: object, device: object, tell: Callable[[str, float], None]) -> dict:
        for share in (0.25, 0.5):
            tell("samples [x]", share)
        return {}

    options = type("Options", (), {"__dataclass_fields__": {}, "samples": None})
    experiment = SimpleNamespace(Options=options, compute=compute, draw=lambda result, folder: "")
    monkeypatch.setitem(EXPERIMENTS, "counting", experiment)
    for minute, lines in ((0.0, ["counting: samples [x] 25%", "counting: samples [x] 50%"]), (60.0, [])):
        monkeypatch.setattr(reproduction, "MINUTE", minute)
        run_experiment("counting", {}, tmp_path, torch.device("cpu"))
        assert capfd.readouterr().err.splitlines() == lines
