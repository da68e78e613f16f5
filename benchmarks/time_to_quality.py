"""Minutes of training until Shapes is learned: `python benchmarks/time_to_quality.py --minutes 1 2 3 4 6 [--out FILE]`.

Each budget is a training of its own, from nothing, whose learning rate ends with it; then its samples are measured as
in the Shapes table: 5,000 futures of 500 images, and the KL divergence of each column. The time to quality is the first
budget after which no column is above --limit. The images are validation scenes: recipes may be chosen by them.

Minutes count from the second step, as the first one compiles; measuring is not counted. --recipe and --set choose what
is compared: `--set batch=64`, or on two CPU cores `--recipe shapes-small --limit 0.5`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.shapes import Extent
from visual_dynamics.evaluation.trained_shapes import COLUMNS, measure_motion, sampler_of
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import provenance
from visual_dynamics.reporting.drawing import number, table
from visual_dynamics.reporting.trainings import make_run, read_log
from visual_dynamics.training.config import TrainingConfig, configure, parse_settings
from visual_dynamics.training.recipes import find_recipe


def silent(*_: object) -> None:
    pass


def measure(config: TrainingConfig, extent: Extent, device: torch.device) -> dict[str, Any]:
    """Train within the budget of a configuration; what it cost, and the KL divergence of each column."""
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder) / "run", config, device, silent)
        model, last = load(f"{folder}/run/weights.safetensors", str(device)), read_log(Path(folder) / "run")[-1]
    rows, floor = measure_motion({"trained": sampler_of(model)}, extent, device, silent)
    steps = model.weights.training["step"]
    spent = {"minutes": config.minutes, "steps": steps, "pairs": steps * config.batch, "seconds": last["seconds"]}
    return {**spent, "kl": rows["trained"]["kl"], "floor": floor}


def is_good(kl: dict[str, float | None], limit: float) -> bool:
    """A column in which no object could be measured is not good."""
    return all(value is not None and value <= limit for value in kl.values())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, nargs="+", required=True, help="budgets, tried by size")
    options.add_argument("--recipe", default="shapes")
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of `train`")
    options.add_argument("--limit", type=float, default=0.05, help="nats, in every column")
    options.add_argument("--samples", type=int, default=5_000)
    options.add_argument("--images", type=int, default=shapes.TEST_PAIRS)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    device, tried, reached = torch.device(given.device), [], False
    base = replace(find_recipe(given.recipe).stages[0], **parse_settings(given.set))
    extent = Extent(given.images, given.samples, seed=0, truths=100, split="validation")
    for minutes in sorted(given.minutes):
        tried.append(measure(configure({"minutes": minutes}, base), extent, device))
        reached = is_good(tried[-1]["kl"], given.limit)
        cells = [f"{minutes:g}", f"{tried[-1]['pairs']:,}", *(number(tried[-1]["kl"][name], 3) for name in COLUMNS)]
        print(table(["minutes", "pairs seen", *COLUMNS], [cells]).splitlines()[-1], flush=True)
        if reached:
            break
    words = f"{tried[-1]['minutes']:g} minutes" if reached else f"not within {tried[-1]['minutes']:g} minutes"
    print(f"KL of at most {given.limit:g} nats in every column: {words}")
    if given.out:
        settings = {"recipe": given.recipe, "set": given.set, "limit": given.limit, "samples": given.samples}
        found = {**settings, "reached": reached, "tried": tried, **provenance(device)}
        write_atomically(given.out, json.dumps(found, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
