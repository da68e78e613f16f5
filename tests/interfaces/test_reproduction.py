"""Results of experiments are JSON that every program reads; what is told of models and options that are not there."""

import json
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import torch
import typer

from visual_dynamics import catalogue
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, disocclusion_table
from visual_dynamics.interfaces.cli import app
from visual_dynamics.interfaces.reproduction import run_experiment, without_nan

CPU = torch.device("cpu")


def test_nan_becomes_null() -> None:
    result = {"a": [1.0, float("nan"), (2, float("inf"))], "b": {"c": float("nan"), "d": "NaN", "e": None}}
    assert without_nan(result) == {"a": [1.0, None, [2, None]], "b": {"c": None, "d": "NaN", "e": None}}
    json.dumps(without_nan(result), allow_nan=False)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_of_an_experiment_is_one_of_the_command_line(name: str) -> None:
    command = typer.main.get_command(app).commands["reproduce"]  # type: ignore[attr-defined]
    there = {word for option in command.params for word in option.opts}
    assert {f"--{field.name.replace('_', '-')}" for field in fields(EXPERIMENTS[name].Options)} <= there


def test_how_to_train_a_model_that_is_not_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "SHIPPED", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"^no model 'shapes-texture' comes with the package: train one with `visual-"
    ) as e:
        run_experiment("disocclusion", {}, tmp_path / "out", CPU)
    assert str(e.value).endswith("then give --model runs/shapes-texture/weights.safetensors")
    verb, *words = shlex.split(disocclusion_table.HOW_TO_TRAIN)[1:]
    context = typer.main.get_command(app).commands[verb].make_context(verb, words)  # type: ignore[attr-defined]
    assert context.params["data"] == "shapes-texture" and str(context.params["out"]) == "runs/shapes-texture"
