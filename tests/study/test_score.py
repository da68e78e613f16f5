"""Simulated raters with known rates are found again within the intervals."""

import csv
import io
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from visual_dynamics.study.answers import Row, to_csv
from visual_dynamics.study.design import OBVIOUS, Design, plan_sessions
from visual_dynamics.study.folder import Study, name_clips
from visual_dynamics.study.score import _percentiles, score, student_quantile, table_text

RATES = {("ours", 32): 0.42, ("ours", 64): 0.36, ("flow", 32): 0.30, ("flow", 64): 0.2}


def made(design: Design) -> Study:
    return name_clips(design, plan_sessions(design), {"design": {"methods": list(design.methods)}})


def simulated(study: Study, rates: dict, spread: float, seed: int, careless: int = 0) -> list[Row]:  # type: ignore[type-arg]
    """Answers to all sessions; a rater's rates are Beta distributed about the true ones, correlation `spread`.

    The first `careless` raters toss a coin.
    """
    draw, rows = np.random.default_rng(seed), []
    for number, session in enumerate(study.sessions):
        own = {
            kind: draw.beta(rate * (1 / spread - 1), (1 - rate) * (1 / spread - 1)) if spread else rate
            for kind, rate in rates.items()
        }
        for trial in range(len(session)):
            clip, right = study.trial_clip(number, trial), study.right_answer(number, trial)
            first, second = study.choices
            wrong = second if right == first else first
            chance = 0.5 if number < careless else 0.0 if clip.method in OBVIOUS else own[clip.method, clip.size]
            convinced = draw.random() < chance
            answer = ("yes" if convinced else "no") if right is None else (wrong if convinced else right)
            about = (clip.input, clip.method, clip.size, clip.sample)
            rows.append(Row(number + 1, number, trial, *about, str(answer), right, 1000))
    return rows


@pytest.mark.parametrize(("spread", "least"), [(0.0, 0.93), (0.1, 0.93)])
def test_intervals_hold_the_truth_in_95_of_100_studies(spread: float, least: float) -> None:
    study = made(Design("choice", ("ours", "flow"), (32, 64), inputs=40, trials=40, sessions=20))
    held: dict[str, list[bool]] = {"wilson": [], "by_raters": []}
    for seed in range(150):
        for row in score(study, simulated(study, RATES, spread, seed), seed)["rows"]:
            truth = RATES[row["method"], row["size"]]
            for name, holds in held.items():
                holds.append(row[name][0] <= truth <= row[name][1])
    coverage = {name: float(np.mean(holds)) for name, holds in held.items()}
    assert least <= coverage["by_raters"] <= 0.985, coverage
    if spread:
        assert coverage["wilson"] < coverage["by_raters"], coverage  # answers of one rater are not independent
    else:
        assert 0.93 <= coverage["wilson"] <= 0.98, coverage


def test_the_difference_of_two_methods_is_found() -> None:
    study = made(Design("choice", ("ours", "flow"), (32, 64), inputs=40, trials=40, sessions=48))
    result = score(study, simulated(study, RATES, 0.05, 0))
    assert [row["methods"] for row in result["differences"]] == [("ours", "flow")] * 2
    for row in result["differences"]:
        low, high = row["by_raters"]
        assert 0 < low < RATES["ours", row["size"]] - RATES["flow", row["size"]] < high


def test_careless_raters_are_excluded() -> None:
    study = made(Design("choice", ("ours", "flow"), (32, 64), inputs=40, trials=40, sessions=60))
    result = score(study, simulated(study, RATES, 0, 3, careless=30))
    excluded = {one["rater"] for one in result["raters"]["excluded"]}
    assert excluded <= set(range(1, 31)) and len(excluded) > 22  # a coin passes in 7 of 64 cases
    assert result["raters"]["answered"] == 60 and result["raters"]["counted"] == 60 - len(excluded)
    assert result["answers"] == {"all": 60 * 46, "counted": (60 - len(excluded)) * 40}
    rows = simulated(study, RATES, 0, 3, careless=30)
    assert result["rows"] == score(study, [row for row in rows if row.rater not in excluded])["rows"]
    everyone = score(replace(study, least_right=0), rows)["rows"]
    assert mean(row["share"] for row in everyone) > mean(row["share"] for row in result["rows"]) + 0.05
    text = table_text(result)
    assert "excluded, with fewer than 5 right answers" in text and "Wilson 95 %" in text


def test_shares_of_realistic_motions() -> None:
    rates = {("ours", 64): 0.44, ("flow", 64): 0.2, ("real", 64): 0.9}
    design = Design("realistic", ("ours", "flow", "real"), (64,), inputs=30, trials=30, samples=4, sessions=48)
    study = made(design)
    result = score(study, simulated(study, rates, 0.02, 1))
    assert [row["method"] for row in result["rows"]] == ["ours", "flow", "real"]
    for row in result["rows"]:
        low, high = row["by_raters"]
        assert low <= rates[row["method"], 64] <= high
        assert row["images"] == 30 and row["over_images"]["mean"] == pytest.approx(row["share"], abs=0.02)
    assert "mean over 30 images" in table_text(result)


def test_few_and_unanimous_raters_have_wilsons_interval_alone() -> None:
    study = made(Design("choice", ("ours",), (32,), inputs=4, trials=4, sessions=5, obvious=0))
    never = simulated(study, {("ours", 32): 0.0}, 0, 0)
    (row,) = score(study, never)["rows"]
    assert row["share"] == 0 and row["by_raters"] is None and row["wilson"][1] == pytest.approx(0.161, abs=0.001)
    (alone,) = score(study, never[:4])["rows"]
    assert alone["by_raters"] is None and alone["raters"] == 1


@pytest.mark.parametrize("raters", [3, 5, 20, 200])
def test_intervals_are_widened_for_few_raters(raters: int) -> None:
    """Hesterberg's expanded percentiles: those of a normal distribution at the quantile of Student's t, corrected."""
    drawn = np.linspace(0, 1, 100_001)
    tail = norm.cdf(-((raters / (raters - 1)) ** 0.5) * student.ppf(0.975, raters - 1))
    assert _percentiles(drawn, raters) == pytest.approx((tail, 1 - tail), rel=0.1, abs=1e-4)
    assert tail < 0.025


def test_no_one_counts() -> None:
    study = made(Design("choice", ("ours",), (32,), inputs=4, trials=4, sessions=1))
    rows = [replace(row, answer="left", right="right") for row in simulated(study, {("ours", 32): 0.5}, 0, 0)]
    result = score(study, rows)
    assert result["rows"] == [] and result["differences"] == [] and result["raters"]["counted"] == 0
    assert "0 of 1 raters count" in table_text(result)


@pytest.mark.parametrize(("freedom", "quantile"), [(2, 4.3027), (4, 2.7764), (9, 2.2622), (19, 2.0930), (99, 1.9842)])
def test_students_quantile(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=0.003 if freedom > 2 else 0.05)


def test_csv_has_a_line_an_answer() -> None:
    study = made(Design("choice", ("ours",), (32,), inputs=4, trials=4, sessions=2))
    rows = simulated(study, {("ours", 32): 0.5}, 0, 0)
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert len(read) == len(rows) == 20
    assert [line["answer"] for line in read] == [row.answer for row in rows]
    assert sum(line["obvious"] == "1" for line in read) == 12
