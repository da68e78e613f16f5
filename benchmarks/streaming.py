"""Training from files against training from the device's memory: `python benchmarks/streaming.py DATA [--out FILE]`.

DATA is what `visual-dynamics prepare videos` made. One network, compiled once, takes steps in turns on pairs that are
held on the device and on pairs that are read from their files while it works (`train --set stream=true`): `--rounds`
rounds of `--steps` steps each. The result is the medians of the rounds, in pairs a second, and their ratio. The files
may well lie in the system's cache: what is measured is reading, shuffling and sending, not a slow disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.data.shards import open_pairs
from visual_dynamics.provenance import provenance
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.trainer import Trainer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--preset", default="paper")
    options.add_argument("--latent", type=int, default=128)
    options.add_argument("--zoom", type=float, default=1.0, help="as --augment zoom=: 2 reads frames of twice the size")
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    config = TrainingConfig(
        str(given.data),
        preset=given.preset,
        latent=given.latent,
        augment=(f"zoom={given.zoom:g}",) if given.zoom > 1 else (),
        batch=given.batch,
    )
    stored = open_pairs(given.data, "train")
    assert stored is not None  # of this split there are always some
    stored = stored.resized(config.stored_size)
    held = Trainer(config, stored.in_memory(), device, Processes(), compiled=device.type == "cuda")
    streamed = Trainer(config, stored, device, Processes(), compiled=False)
    streamed.network, streamed.module, streamed.optimizer = held.network, held.module, held.optimizer
    speeds: dict[str, list[float]] = {"held": [], "streamed": []}
    step = 0
    for round_ in range(given.rounds + 1):  # the first is not counted: it compiles, and fills the cache
        for name, trainer in (("held", held), ("streamed", streamed)):
            started = time.perf_counter()
            for number in range(step, step + given.steps):
                trainer.step(number, progress=0.0)
            if device.type == "cuda":
                torch.cuda.synchronize()
            if round_:
                speeds[name].append(given.steps * given.batch / (time.perf_counter() - started))
        step += given.steps
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    result = {
        "pairs_per_second": {name: [round(value, 1) for value in values] for name, values in speeds.items()},
        "median": {name: round(value, 1) for name, value in medians.items()},
        "streamed_over_held": round(medians["streamed"] / medians["held"], 3),
        "stored_size": config.stored_size,
        "pairs": len(stored),
        **{name: getattr(given, name) for name in ("preset", "zoom", "batch", "steps", "rounds")},
        **provenance(device),
    }
    text = json.dumps(result, indent=1) + "\n"
    if given.out:
        given.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
