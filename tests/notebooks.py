"""Runs the course in docs/notebooks and stores it with its pictures: python -m tests.notebooks [NUMBER ...]"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from visual_dynamics.files import write_atomically

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SECONDS = 280  # a cell, on a busy machine


def run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Every cell in order, in a new kernel that works in the folder. A cell that raises ends it with that error."""
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=SECONDS, record_timing=False, resources=resources).execute()


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # many small steps: threads would wait for each other, on a busy machine long
    for path in (path for path in NOTEBOOKS if not sys.argv[1:] or path.name[:2] in sys.argv[1:]):
        done = run(nbformat.read(path, as_version=4), path.parent)
        write_atomically(path, (nbformat.writes(done) + "\n").encode())
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB", flush=True)
