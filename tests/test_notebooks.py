"""The course in docs/notebooks: each notebook runs, with less work, and is stored with its pictures."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.notebooks import NOTEBOOKS, run

ROOT = Path(__file__).parents[1]
MAX_BYTES = 2_000_000  # of all together


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels inherit it: fewer steps and samples in the same cells, from this checkout, on one thread."""
    monkeypatch.setenv("VISUAL_DYNAMICS_QUICK", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    done = run(nbformat.read(path, as_version=4), tmp_path)
    assert all(cell.execution_count for cell in code_cells(done))
    assert not list(tmp_path.iterdir())  # nothing is left where it ran
    warned = [output.text for cell in code_cells(done) for output in cell.outputs if output.get("name") == "stderr"]
    assert not warned


@pytest.mark.usefixtures("quick")
def test_a_broken_cell_fails(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(notebook, tmp_path)


def test_no_notebook_hides_errors() -> None:
    assert len(NOTEBOOKS) == 5
    for path in NOTEBOOKS:
        for cell in code_cells(nbformat.read(path, as_version=4)):
            assert "raises-exception" not in cell.metadata.get("tags", []), path.name


def test_notebooks_are_stored_as_they_ran() -> None:
    """After a change: make notebooks."""
    assert sum(path.stat().st_size for path in NOTEBOOKS) <= MAX_BYTES
    for path in NOTEBOOKS:
        cells = code_cells(nbformat.read(path, as_version=4))
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), path.name
        assert any("text/html" in output.get("data", {}) for cell in cells for output in cell.outputs), path.name


def test_links_of_notebooks_lead_somewhere() -> None:
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            for target in re.findall(r"\]\(([^)#]+)", cell.source) if cell.cell_type == "markdown" else ():
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]
