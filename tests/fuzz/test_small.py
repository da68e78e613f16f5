"""A hundredth of the corpus: `make fuzz` has the whole of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_damaged_files_are_read_or_an_error(tmp_path: Path) -> None:
    """In a process without threads, as it forks."""
    command = [sys.executable, "-m", "tests.fuzz.run", "--share", "0.01", "--out", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = json.loads((tmp_path / "fuzz.json").read_text())["kinds"]
    assert {name: found["cases"] for name, found in kinds.items()} == {
        "pictures": 100, "weights": 20, "json": 20, "folders": 10, "clips": 5,
    }  # fmt: skip
    assert sum(found["read"] for found in kinds.values()) > 30 and sum(found["error"] for found in kinds.values()) > 60
