"""Two training processes on one machine without GPUs, against one with the same threads in total.

Command  python benchmarks/processes.py [--out out/bench/processes.json]
Cost     about five minutes on two CPU cores

Protocol: the paper's network on drawn shapes, the same global batch, under torchrun (gloo) and alone, in turns. Kept
are the pairs a second that each run logs; of several runs the best. Efficiency: two processes over one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.files import check_folder, write_atomically
from visual_dynamics.provenance import provenance

ROOT = Path(__file__).parents[1]
PROCESSES, THREADS = 2, 2  # threads in total
OPTIONS = "--pairs 64 --batch 16 --device cpu --set log_every=2 --set checkpoint_every=1000"


def pairs_per_second(processes: int, steps: int, preset: str) -> float:
    """Of a run of its own; the best of what it logs, as the first steps wait for memory."""
    with tempfile.TemporaryDirectory() as folder:
        train = ["-m", "visual_dynamics", "train", f"{folder}/run", "--preset", preset, "--steps", str(steps)]
        shared = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(shared if processes > 1 else []), *train, *OPTIONS.split()]
        environment = os.environ | {"OMP_NUM_THREADS": str(THREADS // processes), "PYTHONPATH": str(ROOT)}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        lines = Path(folder, "run", "log.jsonl").read_text().splitlines()
    speeds = [json.loads(line).get("pairs_per_second", 0.0) for line in lines]
    return float(max(speeds))


def measure(rounds: int, steps: int, preset: str = "paper") -> dict[str, float]:
    found = [[pairs_per_second(processes, steps, preset) for processes in (1, PROCESSES)] for _ in range(rounds)]
    one, two = (max(speeds) for speeds in zip(*found, strict=True))
    return {"one_process": one, "two_processes": two, "efficiency": two / one}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("out/bench/processes.json"))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=8)
    given = options.parse_args()
    check_folder(given.out.parent)
    result = measure(given.rounds, given.steps) | {"rounds": given.rounds, "threads": THREADS}
    result |= {"date": datetime.now(UTC).date().isoformat()} | provenance(torch.device("cpu"))
    write_atomically(given.out, json.dumps(result, indent=1).encode() + b"\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
