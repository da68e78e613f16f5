"""Trials for a model of people, one option changed at a time: `python benchmarks/trials.py DATA RUNS [--minutes 3]`.

DATA is what `visual-dynamics prepare videos` made. Each trial is a training in RUNS/NAME. Where it is missing or not
finished, its command is printed: on a GPU they run one after the other, or side by side. Where it is there, it is
measured on held-out scenes, the part that is there to be looked at, as `reproduce video` measures its true motion code:
means over scenes of what the code explains, in its place and on inputs shifted by an eighth of the frame, and of how
sharp frames stay where they change. KL: nats a pair at the end of training. The spread over seeds is not measured.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.evaluation import video_motion
from visual_dynamics.experiments.video import Ruler
from visual_dynamics.footage.measured import draw_inputs, open_footage
from visual_dynamics.reporting.drawing import table
from visual_dynamics.reporting.trainings import is_finished, read_log, training_command
from visual_dynamics.reporting.video_tables import CODE
from visual_dynamics.sampling.moves import reconstruct
from visual_dynamics.training.config import TrainingConfig, configure
from visual_dynamics.training.recipes import find_recipe

RECIPE = "people-next"
CHANGES: dict[str, dict[str, Any]] = {
    RECIPE: {},
    "displace-0": {"displace": 0},
    "displace-16": {"displace": 16},
    "latent-32": {"latent": 32},
    "latent-128": {"latent": 128},
    "beta-1": {"beta": 1.0},
    "beta-5": {"beta": 5.0},
    "beta-20": {"beta": 20.0},
    "warp-1": {"warp": 1},
    "plain": {"warp": 0, "pyramid": 0.0},
}


def plan_trials(data: Path, budget: dict[str, Any]) -> dict[str, TrainingConfig]:
    """The trainings by name."""
    base = configure({"data": str(data)} | budget, find_recipe(RECIPE).stages[0])
    planned = {}
    for name, change in CHANGES.items():
        config = replace(base, **{key: value for key, value in change.items() if key != "displace"})
        if "displace" in change:
            kept = tuple(each for each in base.augment if not each.startswith("displace"))
            config = replace(config, augment=(*kept, f"displace={change['displace']}"))
        planned[name] = config
    return planned


def measure(model: Model, data: Path, count: int) -> dict[str, float | None]:
    """Of the true codes of held-out pairs: means over scenes, by the metric's name."""
    times = model.predictor.picture_size // model.size
    footage = open_footage(data, "held-out", times * model.size, most=1, seed=0)
    ruler = Ruler(model, FlowTransfer(footage.known, 1), footage.pairs, times, seed=0)  # Flow is not measured here
    inputs, sums = draw_inputs(footage.pairs.resized(model.size), footage.takes, count, seed=0), []
    for one in inputs:
        large, (frame, truth) = ruler.pair(one)
        made = reconstruct(model.predictor, *large)[None].cpu()
        sums.append({CODE: video_motion.pair_sums(frame, truth, made, one.where) | ruler.shifted_sums(one)})
    found = video_motion.by_scene([one.take.scene for one in inputs], sums, [one.where for one in inputs])
    rows: dict[str, float | None] = found["rows"][CODE]
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("runs", type=Path)
    options.add_argument("--minutes", type=float, default=3.0, help="of each training")
    options.add_argument("--pairs", type=int, default=200, help="that are measured, spread over scenes")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = options.parse_args()
    rows, missing = [], []
    for name, config in plan_trials(given.data, {"minutes": given.minutes}).items():
        folder = given.runs / name
        if not is_finished(folder, config):
            missing.append(training_command(folder, config))
            continue
        found = measure(load(folder / "weights.safetensors", given.device), given.data, given.pairs)
        last = read_log(folder)[-1]
        shown = [found[metric] for metric in ("explained", "shifted", "sharpness")]
        cells = ["-" if value is None else f"{value:.3f}" for value in shown]
        rows.append([name, f"{last['step']:,.0f}", f"{last['kl']:.1f}", *cells])
    if rows:
        print(table(["trial", "steps", "KL", "explained", "explained, shifted", "sharpness"], rows))
    print("\n".join(missing))


if __name__ == "__main__":
    main()
