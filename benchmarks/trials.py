"""Trials for models to come, one option changed at a time: `python benchmarks/trials.py FAMILY DATA RUNS [--minutes 3]`

Each trial is a training in RUNS/NAME. Where it is missing or not finished, its command is printed: on a GPU they run
one after the other, or side by side. Where it is there, it is measured on what is there to be looked at, never on what
is reported. KL: nats a pair at the end of training. The spread over seeds is not measured.

people      DATA is what `visual-dynamics prepare videos` made. Of the true motion code of pairs of held-out scenes,
            means over scenes: what it explains, in its place and on inputs shifted by an eighth of the frame, and how
            sharp frames stay where they change, as in `reproduce video`.
characters  DATA is what `visual-dynamics prepare lpc --items train` made. Of motions carried over between its
            validation characters, at any place: the error over that of copying, as in `reproduce characters`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.data.packed import read_packed
from visual_dynamics.data.sources import is_held_out
from visual_dynamics.evaluation import video_motion
from visual_dynamics.evaluation.carried_motions import draw_motions
from visual_dynamics.experiments import characters
from visual_dynamics.experiments.video import Ruler
from visual_dynamics.footage.measured import draw_inputs, open_footage
from visual_dynamics.reporting.drawing import number, table
from visual_dynamics.reporting.trainings import is_finished, read_log, training_command
from visual_dynamics.reporting.video_tables import CODE
from visual_dynamics.sampling.moves import reconstruct
from visual_dynamics.sprites.generator import ANIMATIONS
from visual_dynamics.training.config import TrainingConfig, configure
from visual_dynamics.training.recipes import find_recipe

Found = dict[str, float | None]  # by metric


@dataclass(frozen=True)
class Family:
    """A recipe, what is changed in it, and how a model is measured: of some pairs of the data."""

    recipe: str
    changes: dict[str, dict[str, Any]]
    measure: Callable[[Model, Path, int], Found]


def plan_trials(family: Family, data: Path, budget: dict[str, Any]) -> dict[str, TrainingConfig]:
    """The trainings by name; the recipe itself comes first."""
    base = configure({"data": str(data)} | budget, find_recipe(family.recipe).stages[0])
    return {family.recipe: base} | {name: changed(base, change) for name, change in family.changes.items()}


def changed(base: TrainingConfig, change: dict[str, Any]) -> TrainingConfig:
    """An augmentation "displace=16" takes the place of another displacement; "-displace" leaves it out."""
    config = replace(base, **{key: value for key, value in change.items() if key != "augment"})
    for text in change.get("augment", ()):
        name = text.removeprefix("-").partition("=")[0]
        kept = tuple(each for each in config.augment if each.partition("=")[0] != name)
        config = replace(config, augment=kept if text.startswith("-") else (*kept, text))
    return config


def measure_people(model: Model, data: Path, count: int) -> Found:
    times = model.predictor.picture_size // model.size
    footage = open_footage(data, "held-out", times * model.size, most=1, seed=0)
    ruler = Ruler(model, FlowTransfer(footage.known, 1), footage.pairs, times, seed=0)  # Flow is not measured here
    inputs, sums = draw_inputs(footage.pairs.resized(model.size), footage.takes, count, seed=0), []
    for one in inputs:
        large, (frame, truth) = ruler.pair(one)
        made = reconstruct(model.predictor, *large)[None].cpu()
        sums.append({CODE: video_motion.pair_sums(frame, truth, made, one.where) | ruler.shifted_sums(one)})
    found = video_motion.by_scene([one.take.scene for one in inputs], sums, [one.where for one in inputs])
    return {name: found["rows"][CODE][name] for name in ("explained", "shifted", "sharpness")}


def measure_characters(model: Model, data: Path, count: int) -> Found:
    found: Found = {}
    validation = read_packed(data, is_held_out)
    for kind, neighbours in characters.KINDS.items():
        each = -(-count // len(ANIMATIONS))
        drawn = {name: draw_motions(validation, name, each, 0, neighbours) for name in ANIMATIONS}
        asked = {name: questions for name, questions in drawn.items() if questions}
        predictors = {characters.OURS: model.predictor}
        errors = {name: characters.answer(predictors, validation, questions) for name, questions in asked.items()}
        rows = characters.measure(validation, asked, errors)[characters.OURS]
        found |= {f"{kind}{words}": rows[part]["average"] for part, words in PARTS.items()}
    return found


PARTS = {characters.ALL: "", characters.ACROSS: ", across body types"}
FAMILIES = {
    "people": Family(
        "people-next",
        {
            "displace-0": {"augment": ("-displace",)},
            "displace-16": {"augment": ("displace=16",)},
            "latent-32": {"latent": 32},
            "latent-128": {"latent": 128},
            "beta-1": {"beta": 1.0},
            "beta-5": {"beta": 5.0},
            "beta-20": {"beta": 20.0},
            "warp-1": {"warp": 1},
            "plain": {"warp": 0, "pyramid": 0.0},
        },
        measure_people,
    ),
    "characters": Family(
        "sprites-lpc-poses",
        {
            "own-character": {"augment": ("-other-character",)},
            "warp": {"warp": 1},
            "beta-1": {"beta": 1.0},
            "beta-50": {"beta": 50.0},
            "latent-64": {"latent": 64},
            "no-mirror": {"augment": ("-mirror",)},
            "any": {"between": "any"},
        },
        measure_characters,
    ),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("family", choices=FAMILIES)
    options.add_argument("data", type=Path)
    options.add_argument("runs", type=Path)
    options.add_argument("--minutes", type=float, default=3.0, help="of each training")
    options.add_argument("--pairs", type=int, default=200, help="that are measured")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = options.parse_args()
    family = FAMILIES[given.family]
    rows, missing = [], []
    metrics: tuple[str, ...] = ()
    for name, config in plan_trials(family, given.data, {"minutes": given.minutes}).items():
        folder = given.runs / name
        if not is_finished(folder, config):
            missing.append(training_command(folder, config))
            continue
        found = family.measure(load(folder / "weights.safetensors", given.device), given.data, given.pairs)
        metrics, last = tuple(found), read_log(folder)[-1]
        rows.append([name, f"{last['step']:,.0f}", f"{last['kl']:.1f}", *(number(each, 3) for each in found.values())])
    if rows:
        print(table(["trial", "steps", "KL", *metrics], rows))
    print("\n".join(missing))


if __name__ == "__main__":
    main()
