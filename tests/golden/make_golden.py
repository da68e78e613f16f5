"""Record goldens again, after a change that is meant to change them: python -m tests.golden.make_golden NAME ...

NAME: tiny_training (the loss curve), samples, openapi, command_line (docs/cli.md, too); or experiments=FOLDER, a folder
that `reproduce all --small --sprites SPRITES` left.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

from tests.golden.check_experiments import GOLDEN as EXPERIMENTS
from tests.golden.check_experiments import numbers
from tests.golden.cli_reference import PAGE, reference
from tests.golden.freeze import FOLDER, FROZEN
from tests.training.test_training import GOLDEN, TINY_RUN, losses
from visual_dynamics.training.loop import train


def make(name: str) -> None:
    torch.set_num_threads(1)
    if name == "tiny_training":
        with tempfile.TemporaryDirectory() as folder:
            train(TINY_RUN, Path(folder) / "run", torch.device("cpu"))
            record = {"config": TINY_RUN.to_dict(), "torch": torch.__version__, "loss": losses(Path(folder) / "run")}
        GOLDEN.write_text(json.dumps(record, indent=2) + "\n")
    elif name.startswith("experiments="):
        found = {path.stem: numbers(path) for path in sorted(Path(name.partition("=")[2]).glob("*.json"))}
        lines = [f'"{name}":{json.dumps(result, separators=(",", ":"))}' for name, result in found.items()]
        EXPERIMENTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")  # a line each: changes stay apart
    else:
        (FOLDER / f"{name}.json").write_text(json.dumps(FROZEN[name](), indent=1) + "\n")
        if name == "command_line":
            PAGE.write_text(reference())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        make(name)
