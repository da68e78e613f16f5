"""The report says what was found, how, and who did not count."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.study import RATES, Crowd
from tests.browser import TOO_FAINT, chromium
from tests.cli.conftest import Fails, Run, fails, place, run  # noqa: F401 - fixtures
from tests.study.conftest import write_study
from visual_dynamics.reporting.study_report import report_text
from visual_dynamics.study.answers import Answer, AnswerStore
from visual_dynamics.study.design import Design
from visual_dynamics.study.folder import Study
from visual_dynamics.study.score import percent, score

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHOICE = Design("choice", ("ours", "flow"), (32, 64), inputs=16, trials=16, sessions=10)
REALISTIC = Design("realistic", ("ours", "real"), (64,), inputs=8, trials=8, samples=2, sessions=8)
REALISTIC_RATES = {("ours", 64): 0.44, ("real", 64): 0.9}


def answered(folder: Path, design: Design, rates: dict[tuple[str, int], float], careless: int = 0) -> Study:
    """A study with the answers of simulated raters."""
    study = write_study(folder, design)
    rows = Crowd(study, rates, 0.1, 0.1).rows(0, careless)
    sessions = [
        (f"{rater:032x}", rater - 1, [Answer(row.trial, row.answer, row.milliseconds) for row in own])
        for rater, own in groupby(rows, lambda row: row.rater)
    ]
    store = AnswerStore(folder, study)
    store.add_sessions(sessions)
    store.close()
    return study


def test_a_forced_choice(run: Run, place: Path) -> None:  # noqa: F811
    study = answered(place / "study", CHOICE, RATES, careless=2)
    assert run("study", "report", "study", "--out", "report.md").code == 0
    text = Path("report.md").read_text()
    result = score(study, AnswerStore(place / "study", study).rows())
    for row in result["rows"]:
        assert f"**{100 * row['share']:.1f}** [{percent(row['interval'])}]" in text
    assert "| method | 32x32 | 64x64 |" in text and text.index("| ours |") < text.index("| flow |")
    for one in result["differences"]:
        assert f"| ours - flow | {one['size']}x{one['size']} | {100 * one['difference']:+.1f} |" in text
    assert result["raters"]["excluded"]
    for one in result["raters"]["excluded"]:
        assert f"| {one['rater']} | {one['right']} | {one['asked']} |" in text
    assert f"{result['raters']['counted']} count of 10 who answered" in text
    assert "Raters with fewer than 5 right answers in the 6 obvious trials do not count." in text
    assert "in one of 10 sessions of 22 trials, 6 of them with an obvious answer (a torn clip); 16 inputs" in text
    for every in result["everyone"]["rows"]:
        assert f"| {100 * every['share']:.1f} | {percent(every['interval'])} |" in text


def test_a_realistic_study(run: Run, place: Path) -> None:  # noqa: F811
    study = answered(place / "study", REALISTIC, REALISTIC_RATES)
    result = score(study, AnswerStore(place / "study", study).rows())
    text = report_text(study, result)
    assert "said whether its motion is realistic" in text and "a torn or a real clip of another input" in text
    for row in result["rows"]:
        assert f"{100 * row['over_images']['mean']:.1f} %, standard deviation" in text
    assert "44.3 %" in text and "Nobody was excluded." in text
    study.source["formats"] = {"real": [".png"], "ours": [".mp4"]}
    study.source["held_out"] = False
    warned = report_text(study, result | {"source": study.source})
    assert "Traces of compression may tell ours (.mp4)" in warned and "the model may know these pictures" in warned


def test_mistakes(fails: Fails, place: Path) -> None:  # noqa: F811
    write_study(place / "study", CHOICE)
    assert "no answers in study yet" in fails("study", "report", "study")
    assert "written as .html or .md" in fails("study", "report", "study", "--out", "report.pdf")
    (place / "mine.md").write_text("mine")
    assert "exists already" in fails("study", "report", "study", "--out", "mine.md")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page(run: Run, place: Path, browser: "Browser", width: int) -> None:  # noqa: F811
    answered(place / "study", CHOICE, RATES, careless=2)
    made = run("study", "report", "study", "--out", "report.html")
    assert made.code == 0 and "220 answers" in made.out
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((place / "report.html").as_uri())
    assert page.title() == "Which animation is real? · Visual Dynamics"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(TOO_FAINT) == []
    assert page.locator("table").count() == 4
    page.close()
