"""The report: nothing of the paper is left out, numbers come from the JSON alone, and docs/results.md is current."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.reporting.base import SMALL
from visual_dynamics.reporting.report import ITEMS, OLDER, described, markdown, relative_link, write_report

ROOT = Path(__file__).parents[2]
RESULTS, REPORT = ROOT / "docs" / "results", ROOT / "docs" / "results.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The analogy table, which has no figure and so is drawn at once."""
    (tmp_path / "analogy.json").write_bytes((RESULTS / "analogy.json").read_bytes())
    return tmp_path


def test_every_table_and_figure_is_listed(tmp_path: Path) -> None:
    write_report(EXPERIMENTS, tmp_path, tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    for number in range(1, 17):
        assert f"| Figure {number} |" in text or f"| Figure {number}, left |" in text
    assert "bold does not mean best" in text and "| floor, or other method |" in text
    assert "| Table 1 |" in text and "| Table 2 |" in text
    assert {item.experiment for item in ITEMS} - {""} <= set(EXPERIMENTS)
    for name in EXPERIMENTS:
        assert f"\n## {name}\n" in text and f"[{name}](#{name}): not measured here" in text


def test_every_experiment_says_what_it_is() -> None:
    for name, experiment in EXPERIMENTS.items():
        known = described(experiment.about)
        assert known["Command"].startswith(f"visual-dynamics reproduce {name}") and known["Cost"] and known["Paper"]
        assert any(text.startswith("Protocol: ") for text in known["text"])


def test_the_checked_in_report_is_current() -> None:
    """If not: visual-dynamics report docs/results --out docs/results.md"""
    made = markdown(EXPERIMENTS, RESULTS, lambda figure: relative_link(RESULTS / figure.name, REPORT))
    assert made == REPORT.read_text()
    shown = set(re.findall(r"!\[\S+\]\(results/(\S+)\)", made))
    assert shown == {path.name for path in RESULTS.glob("*.png")}
    assert SMALL not in made
    assert not [line for line in made.splitlines() if line.startswith("- commit: ") and "-modified" in line]


def test_the_page_needs_nothing_else(folder: Path) -> None:
    result = json.loads((folder / "analogy.json").read_bytes())
    write_report(EXPERIMENTS, folder, folder / "index.html")
    page = (folder / "index.html").read_text()
    assert "prefers-color-scheme: dark" in page and '<h2 id="analogy">' in page and 'href="#analogy"' in page
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    ours = fmean(result["tables"]["neighbouring frames, same weapon"]["ours"]["all"])
    assert f"<td>{ours:.1f} (" in page and result["weights"][:12] in page and result["device"] in page


def test_a_page_holds_its_figures(tmp_path: Path) -> None:
    (tmp_path / "latents.json").write_bytes((RESULTS / "latents.json").read_bytes())
    write_report(EXPERIMENTS, tmp_path, tmp_path / "index.html")
    write_report(EXPERIMENTS, tmp_path, tmp_path / "report.md")
    assert '<img src="data:image/png;base64,' in (tmp_path / "index.html").read_text()
    assert "![latents]" not in (tmp_path / "report.md").read_text()  # there is no such file to link to


def test_small_results_are_marked(folder: Path) -> None:
    path = folder / "analogy.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"small": True}))
    write_report(EXPERIMENTS, folder, folder / "report.md")
    text = (folder / "report.md").read_text()
    assert text.count(SMALL) == 2 and "[analogy](#analogy), small setting" in text


def test_results_older_than_their_protocol_are_marked(tmp_path: Path) -> None:
    """Decided by a field that the present code writes: intervals of the ratios, in this case."""
    path, report = tmp_path / "traversal.json", tmp_path / "report.md"
    result = json.loads((RESULTS / "traversal.json").read_bytes())
    for older in (False, True):
        if older:
            del result["sets"]["shapes"]["intervals"]
        path.write_text(json.dumps(result))
        write_report(EXPERIMENTS, tmp_path, report)
        text = report.read_text()
        assert (OLDER in text) == ("[traversal](#traversal), older than its protocol" in text) == older


def test_what_an_experiment_aims_at_is_a_line_of_its_own() -> None:
    known = described("A.\n\nPaper      nothing.\nCost       a minute.\nTarget     95 % of\n           all.\n\nText.")
    assert known["Cost"] == "a minute." and known["Target"] == "95 % of all." and known["text"] == ["Text."]


def test_other_files_are_reported(folder: Path) -> None:
    for content in ("{", "[]", '{"experiment": "analogy"}'):
        (folder / "analogy.json").write_text(content)
        with pytest.raises(UserError, match=r"cannot read .*analogy.json: it is no result of `reproduce analogy`"):
            write_report(EXPERIMENTS, folder, folder / "report.md")
    assert not (folder / "report.md").exists()
