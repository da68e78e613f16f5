"""Results of experiments are JSON that every program reads; what is told of models and options that are not there."""

import json
from dataclasses import fields

import pytest
import typer

from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.interfaces.cli import app
from visual_dynamics.interfaces.reproduction import without_nan


def test_nan_becomes_null() -> None:
    result = {"a": [1.0, float("nan"), (2, float("inf"))], "b": {"c": float("nan"), "d": "NaN", "e": None}}
    assert without_nan(result) == {"a": [1.0, None, [2, None]], "b": {"c": None, "d": "NaN", "e": None}}
    json.dumps(without_nan(result), allow_nan=False)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_of_an_experiment_is_one_of_the_command_line(name: str) -> None:
    command = typer.main.get_command(app).commands["reproduce"]  # type: ignore[attr-defined]
    there = {word for option in command.params for word in option.opts}
    assert {f"--{field.name.replace('_', '-')}" for field in fields(EXPERIMENTS[name].Options)} <= there
