"""Results of experiments are JSON that every program reads."""

import json

from visual_dynamics.interfaces.reproduction import without_nan


def test_nan_becomes_null() -> None:
    result = {"a": [1.0, float("nan"), (2, float("inf"))], "b": {"c": float("nan"), "d": "NaN", "e": None}}
    assert without_nan(result) == {"a": [1.0, None, [2, None]], "b": {"c": None, "d": "NaN", "e": None}}
    json.dumps(without_nan(result), allow_nan=False)
