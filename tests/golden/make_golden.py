"""Record the golden loss curve again, after a change that is meant to change it: python -m tests.golden.make_golden"""

import json
import tempfile
from pathlib import Path

import torch

from tests.training.test_training import GOLDEN, TINY_RUN, losses
from visual_dynamics.training.loop import train

if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        train(TINY_RUN, Path(folder) / "run", torch.device("cpu"))
        record = {"config": TINY_RUN.to_dict(), "torch": torch.__version__, "loss": losses(Path(folder) / "run")}
    GOLDEN.write_text(json.dumps(record, indent=2) + "\n")
