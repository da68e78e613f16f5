"""What holds for every experiment."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from visual_dynamics.experiments import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SETTINGS = {"protocol", "paper", "kl_weight", "bottleneck", "seconds", "pairs_per_second"}  # no results
CHECKED = {"histograms", "z_mean", "z_logvar", "nats", "component_shares"}  # never missing: `compute` would have failed


def without_numbers(value: Any) -> Any:
    """A result in which no fraction could be measured: JSON has null there."""
    if isinstance(value, dict):
        return {key: part if key in SETTINGS | CHECKED else without_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_numbers(part) for part in value]
    return None if isinstance(value, float) else value


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_could_not_be_measured_is_none(name: str, tmp_path: Path) -> None:
    experiment, path = EXPERIMENTS[name], RESULTS / f"{name}.json"
    if not path.exists():
        pytest.skip("not published yet")
    result = without_numbers(json.loads(path.read_bytes()))
    text = experiment.draw(result, tmp_path)
    assert "none" in text and not re.search(r"\b(nan|None)\b", text)
    if experiment.headline and name not in ("latents", "sweeps"):  # these count dimensions
        assert re.search("none|not measured", " ".join(experiment.headline(result)))
