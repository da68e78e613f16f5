"""Simulated raters with known rates are found again within the intervals, and what was excluded is told."""

import csv
import io
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest

from benchmarks.study import RATES, Crowd, coverage, planned
from visual_dynamics.evaluation.intervals import student_quantile, two_way_error
from visual_dynamics.study.answers import Row, to_csv
from visual_dynamics.study.design import Design
from visual_dynamics.study.score import score, share_interval, table_text

CHOICE = Design("choice", ("ours", "flow"), (32, 64), inputs=40, trials=40, sessions=60)


def answers(design: Design, rates: dict[tuple[str, int], float], seed: int = 0, careless: int = 0) -> list[Row]:
    return Crowd(planned(design), rates, 0.0, 0.0).rows(seed, careless)


@pytest.mark.parametrize("raters", [6, 20])
def test_intervals_hold_the_truth_in_95_of_100_studies(raters: int) -> None:
    """benchmarks/study.py does this with 200 studies for many numbers of raters."""
    found = coverage(raters, (0.12, 0.12), studies=60)
    assert 0.92 <= found["interval"] <= 0.99 and 0.9 <= found["difference"] <= 1, found
    assert found["wilson"] < found["interval"] - 0.04, found  # answers of one rater, or about one input, are alike


def test_intervals_of_raters_and_inputs_that_do_not_matter() -> None:
    found = coverage(20, (0.0, 0.0), studies=60)
    assert 0.92 <= found["interval"] <= 0.985 and 0.92 <= found["wilson"] <= 0.985, found


def test_the_variance_of_two_ways_by_hand() -> None:
    values = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1.0]])  # raters by items
    raters, items = (each.flatten() for each in np.indices(values.shape))
    parts = ((values - values.mean()) / values.size).flatten()
    by_rater, by_item = (((values - values.mean()).sum(way) / 9) for way in (1, 0))
    found = two_way_error(parts, raters, items)
    assert found is not None and found[1] == 2
    assert found[0] ** 2 == pytest.approx(1.5 * (by_rater**2).sum() + 1.5 * (by_item**2).sum() - (parts**2).sum())
    assert two_way_error(parts[:6], raters[:6], items[:6]) is None  # two raters
    assert two_way_error(0 * parts, raters, items) is None  # all agree


def test_an_interval_is_hardly_narrower_than_that_of_independent_answers() -> None:
    values = np.indices((4, 4)).sum(0) % 2  # a chessboard: raters and items all have the mean
    raters, items = (each.flatten() for each in np.indices(values.shape))
    found = two_way_error((values - 0.5).flatten() / 16, raters, items)
    independent = 1.96 * 0.5 / 4  # half of the width
    assert found is not None and found[0] * student_quantile(3) == pytest.approx(0.8 * independent, rel=0.001)


def test_intervals_widen_for_few_raters() -> None:
    """The same answers of four raters, and of forty: ten times the answers would make it 3.2 times narrower."""
    values = np.array(
        [[1, 1, 1, 1, 1, 0, 0, 1], [0, 1, 0, 0, 0, 0, 1, 0], [1, 0, 1, 0, 1, 0, 0, 0], [1, 1, 1, 0, 1, 1, 1, 1]]
    )

    def width(times: int) -> float:
        many = np.tile(values, (times, 1)).astype(float)
        raters, items = (each.flatten() for each in np.indices(many.shape))
        share = float(many.mean())
        found = share_interval(((many - share) / many.size).flatten(), raters, items + 100 * raters, share)
        assert found is not None and 0 < found[0] < share < found[1] < 1
        return found[1] - found[0]

    assert width(1) > 4.2 * width(10)


def test_the_difference_of_two_methods_is_found() -> None:
    result = score(planned(CHOICE), Crowd(planned(CHOICE), RATES, 0.05, 0.05).rows(0))
    assert [row["methods"] for row in result["differences"]] == [("ours", "flow")] * 2
    for row in result["differences"]:
        low, high = row["interval"]
        assert 0 < low < RATES["ours", row["size"]] - RATES["flow", row["size"]] < high


def test_careless_raters_are_excluded() -> None:
    study, rows = planned(CHOICE), answers(CHOICE, RATES, 3, careless=30)
    result = score(study, rows)
    excluded = {one["rater"] for one in result["raters"]["excluded"]}
    assert excluded <= set(range(1, 31)) and len(excluded) > 22  # a coin passes in 7 of 64 cases
    assert result["raters"]["answered"] == 60 and result["raters"]["counted"] == 60 - len(excluded)
    assert result["answers"] == {"all": 60 * 46, "counted": (60 - len(excluded)) * 40}
    assert result["rows"] == score(study, [row for row in rows if row.rater not in excluded])["rows"]
    everyone = score(replace(study, least_right=0), rows)
    assert result["everyone"] == {name: everyone[name] for name in ("rows", "differences")}
    assert mean(row["share"] for row in everyone["rows"]) > mean(row["share"] for row in result["rows"]) + 0.05
    text = table_text(result)
    assert "fewer than 5 right answers in the 6 obvious trials do not count, as fixed before" in text
    for row, every in zip(result["rows"], everyone["rows"], strict=True):
        assert f"{100 * row['share']:.1f}" in text and f"{100 * every['share']:.1f}\n" in text


def test_shares_of_realistic_motions() -> None:
    rates = {("ours", 64): 0.44, ("flow", 64): 0.2, ("real", 64): 0.9}
    design = Design("realistic", ("ours", "flow", "real"), (64,), inputs=30, trials=30, samples=4, sessions=48)
    result = score(planned(design), Crowd(planned(design), rates, 0.05, 0.05).rows(1))
    assert [row["method"] for row in result["rows"]] == ["ours", "flow", "real"]
    for row in result["rows"]:
        low, high = row["interval"]
        assert low <= rates[row["method"], 64] <= high
        assert row["images"] == 30 and row["over_images"]["mean"] == pytest.approx(row["share"], abs=0.02)
    assert "mean over 30 images" in table_text(result)


def test_few_and_unanimous_raters_have_wilsons_interval_alone() -> None:
    design = Design("choice", ("ours",), (32,), inputs=4, trials=4, sessions=5, obvious=0)
    study = planned(design)
    never = [replace(row, answer=str(row.right)) for row in answers(design, {("ours", 32): 0.5})]
    (row,) = score(study, never)["rows"]
    assert row["share"] == 0 and row["interval"] is None and row["wilson"][1] == pytest.approx(0.161, abs=0.001)
    (alone,) = score(study, never[:4])["rows"]
    assert alone["interval"] is None and alone["raters"] == 1


def test_no_one_counts() -> None:
    design = Design("choice", ("ours",), (32,), inputs=4, trials=4, sessions=1)
    rows = [replace(row, answer="left", right="right") for row in answers(design, {("ours", 32): 0.5})]
    result = score(planned(design), rows)
    assert result["rows"] == [] and result["differences"] == [] and result["raters"]["counted"] == 0
    assert "0 of 1 raters count" in table_text(result)


@pytest.mark.parametrize(("freedom", "quantile"), [(2, 4.3027), (4, 2.7764), (9, 2.2622), (19, 2.0930), (99, 1.9842)])
def test_students_quantile(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=0.003 if freedom > 2 else 0.05)


def test_csv_has_a_line_an_answer() -> None:
    rows = answers(Design("choice", ("ours",), (32,), inputs=4, trials=4, sessions=2), {("ours", 32): 0.5})
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert len(read) == len(rows) == 20
    assert [line["answer"] for line in read] == [row.answer for row in rows]
    assert sum(line["obvious"] == "1" for line in read) == 12
