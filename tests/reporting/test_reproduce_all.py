"""All experiments in one run: what is missing or broken is told in a line, the rest is made, small is marked."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, futures_figure, latents_table, toy_world
from visual_dynamics.reporting.report import SMALL
from visual_dynamics.reporting.reproduce_all import run_all
from visual_dynamics.reporting.reproduction import run_experiment

CPU = torch.device("cpu")
KEPT = ("toy", "futures", "analogy", "latents")


@dataclass(frozen=True)
class SmallLess:
    """Options of an experiment that has no small setting."""

    samples: int | None = None
    seed: int = 0


def breaks(*_: object) -> dict:
    raise ZeroDivisionError("by\nzero")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Some of the experiments, tiny; one that breaks, and one without a small setting."""
    pytest.importorskip("cv2")
    every = dict(EXPERIMENTS)
    for module, name, value in (
        (toy_world, "SMALL_SAMPLES", 500),
        (toy_world, "DRAWN", 500),
        (futures_figure, "SMALL_ROWS", 1),
        (futures_figure, "SMALL_FLOW_SCENES", 10),
        (latents_table, "SMALL_PAIRS", 4),
    ):
        monkeypatch.setattr(module, name, value)
    broken = {"SUMMARY": "breaks", "Options": toy_world.Options, "compute": breaks, "draw": breaks}
    others = {"broken": broken, "later": broken | {"Options": SmallLess}}
    EXPERIMENTS.clear()
    EXPERIMENTS.update({name: every[name] for name in KEPT})
    EXPERIMENTS.update({name: SimpleNamespace(**parts) for name, parts in others.items()})
    yield
    EXPERIMENTS.clear()
    EXPERIMENTS.update(every)


def test_what_can_be_made_is_made(few: None, tmp_path: Path) -> None:
    told: list[str] = []
    assert not run_all({"seed": 3, "small": True, "sprites": None, "model": None}, tmp_path, CPU, told.append)
    assert [line.split()[1] for line in told[::2]] == [f"{name}:" for name in EXPERIMENTS]
    said = dict(zip(EXPERIMENTS, told[1::2], strict=True))
    assert all("done in" in said[name] for name in ("toy", "futures", "latents"))
    assert "not made: this is measured on Reed's sprites: give their folder" in said["analogy"]
    assert said["broken"] == "    failed: by zero (ZeroDivisionError)"
    assert "not made: reproduce later has no option --small" in said["later"]
    for name in ("toy", "futures", "latents"):
        result = json.loads((tmp_path / f"{name}.json").read_bytes())
        assert result["small"] is True and result["seed"] == 3
        assert (tmp_path / f"{name}.md").read_text().startswith(SMALL)
    page = (tmp_path / "index.html").read_text()
    assert page.count("Small setting") == 4 and page.count(", small setting") == 5  # Figures 2, 4, 10, 16, Table 1


def test_a_small_result_never_replaces_a_full_one(few: None, tmp_path: Path) -> None:
    run_experiment("toy", {"samples": 500}, tmp_path, CPU)
    before = (tmp_path / "toy.json").read_bytes()
    with pytest.raises(UserError, match="holds a full result of toy"):
        run_experiment("toy", {"small": True}, tmp_path, CPU)
    assert (tmp_path / "toy.json").read_bytes() == before and "small" not in json.loads(before)


def test_mistakes_are_told_before_anything_is_made(tmp_path: Path) -> None:
    for given, words in (
        ({"samples": 3}, "no option --samples"),
        ({"sprites": tmp_path / "nowhere"}, "no such folder"),
    ):
        with pytest.raises(UserError, match=words):
            run_all(given, tmp_path / "out", CPU, print)
    assert not (tmp_path / "out").exists()
