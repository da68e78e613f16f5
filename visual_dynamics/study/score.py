"""Scores of a study: shares with 95 % intervals, per method and size.

There are two intervals. `interval` is the one to report: it is for other raters and other inputs, since answers of one
rater are alike, and so are answers about one input. Its standard error counts both (`evaluation/intervals.py`), its
quantile is Student's, so that it is wider for few raters, and it is symmetric in log-odds, so that it stays within 0
and 1. Wilson's takes all answers for independent. If all answers agree, only Wilson's is given.

The rule for excluding raters is part of the study (`least_right`); every table is made with and without them.

Letters in shape comments: N answers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.evaluation.intervals import Interval, student_quantile, two_way_error, wilson_interval
from visual_dynamics.study.answers import Row
from visual_dynamics.study.folder import Study

Kind = tuple[str, int]  # method and size


def score(study: Study, rows: list[Row]) -> dict[str, Any]:
    """The whole result as JSON; shares are in [0, 1]. `everyone` has the same tables with the excluded raters."""
    right = {row.rater: 0 for row in rows}
    asked = dict(right)
    for row in (row for row in rows if row.obvious):
        asked[row.rater] += 1
        right[row.rater] += row.answer == row.right
    excluded = sorted(rater for rater in right if right[rater] < study.least_right)
    opinions = [row for row in rows if not row.obvious]
    counted = [row for row in opinions if row.rater not in excluded]
    return {
        "study": study.id,
        "kind": study.kind,
        "source": study.source,
        "measure": "taken for real" if study.kind == "choice" else "called realistic",
        "raters": {
            "answered": len(right),
            "counted": len(right) - len(excluded),
            "excluded": [{"rater": rater, "right": right[rater], "asked": asked[rater]} for rater in excluded],
            "least_right": study.least_right,
            "rule": study.rule,
        },
        "answers": {"all": len(rows), "counted": len(counted)},
        **_tables(study, counted),
        "everyone": _tables(study, opinions),
    }


def _tables(study: Study, answers: list[Row]) -> dict[str, Any]:
    """A row for each (method, size); by size, the difference between the first method and each other."""
    groups: dict[Kind, list[Row]] = defaultdict(list)
    for one in answers:
        groups[one.method, one.size].append(one)
    kinds = sorted(groups, key=lambda kind: (kind[1], _place(study, kind[0]), kind[0]))
    found = []
    for method, size in kinds:
        group = groups[method, size]
        share, images = mean(map(_convinced, group)), _by_image(group)
        found.append(
            {
                "method": method,
                "size": size,
                "share": share,
                "answers": len(group),
                "raters": len({one.rater for one in group}),
                "interval": share_interval(_parts(group), *_names(group), share),
                "wilson": wilson_interval(share, len(group)),
                "images": len(images),
                "over_images": {"mean": mean(images), "deviation": stdev(images) if len(images) > 1 else None},
            }
        )
    firsts = {kind[1]: kind for kind in reversed(kinds)}  # size -> its first method
    pairs = [(firsts[kind[1]], kind) for kind in kinds if kind != firsts[kind[1]]]
    return {"rows": found, "differences": [_difference(groups[one], groups[other]) for one, other in pairs]}


def _difference(one: list[Row], other: list[Row]) -> dict[str, Any]:
    """Of two methods, judged by the same raters at the same size."""
    difference = mean(map(_convinced, one)) - mean(map(_convinced, other))
    parts = np.concatenate([_parts(one), -_parts(other)])
    return {
        "methods": (one[0].method, other[0].method),
        "size": one[0].size,
        "difference": difference,
        "interval": difference_interval(parts, *_names(one + other), difference),
    }


def share_interval(
    parts: NDArray[np.float64], raters: NDArray[np.int64], inputs: NDArray[np.int64], share: float
) -> Interval | None:
    """For other raters and inputs, symmetric in log-odds; `parts` as `two_way_error` takes them."""
    if (found := two_way_error(parts, raters, inputs)) is None:
        return None
    error, freedom = found
    centre = math.log(share / (1 - share))
    half = student_quantile(freedom) * error / (share * (1 - share))
    low, high = (0.5 * (1 + math.tanh(odds / 2)) for odds in (centre - half, centre + half))  # from log-odds
    return low, high


def difference_interval(
    parts: NDArray[np.float64], raters: NDArray[np.int64], inputs: NDArray[np.int64], difference: float
) -> Interval | None:
    """The same of a difference of two shares."""
    if (found := two_way_error(parts, raters, inputs)) is None:
        return None
    error, freedom = found
    half = student_quantile(freedom) * error
    return max(-1.0, difference - half), min(1.0, difference + half)


def _parts(rows: list[Row]) -> NDArray[np.float64]:
    """(N,): what each answer adds to the error of their share."""
    values = np.array([_convinced(row) for row in rows], float)
    return (values - values.mean()) / len(values)


def _names(rows: list[Row]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Raters and inputs, (N,) each."""
    return np.array([row.rater for row in rows]), np.array([row.input for row in rows])


def _convinced(row: Row) -> bool:
    """The rater took a synthetic clip for real, or called a motion realistic."""
    return row.answer != row.right if row.right else row.answer == "yes"


def _by_image(rows: list[Row]) -> list[float]:
    """The share of each input."""
    found = defaultdict(list)
    for row in rows:
        found[row.input].append(_convinced(row))
    return [mean(values) for values in found.values()]


def _place(study: Study, method: str) -> int:
    """The place of a method in the design; unknown ones come last."""
    methods = list(study.source.get("design", {}).get("methods", ()))
    return methods.index(method) if method in methods else len(methods)


def table_text(result: dict[str, Any]) -> str:
    """The result as a table for people."""
    raters, answers = result["raters"], result["answers"]
    everyone = {(row["method"], row["size"]): row for row in result["everyone"]["rows"]}
    lines = [
        f"{'method':<16}{'size':>6}{'% ' + result['measure']:>20}{'95 %':>16}{'Wilson 95 %':>16}{'answers':>9}"
        f"{'% of all raters':>17}"
    ]
    for row in result["rows"]:
        every = everyone[row["method"], row["size"]]
        lines.append(
            f"{row['method']:<16}{row['size']:>6}{100 * row['share']:>20.1f}{percent(row['interval']):>16}"
            f"{percent(row['wilson']):>16}{row['answers']:>9}{100 * every['share']:>17.1f}"
        )
    for row in result["differences"]:
        first, second = row["methods"]
        points = f"{100 * row['difference']:+.1f} points, 95 %: {percent(row['interval'])}"
        lines.append(f"{first} - {second} at {row['size']}: {points}")
    if result["kind"] == "realistic":
        for row in result["rows"]:
            lines.append(f"{row['method']} at {row['size']}, mean over {row['images']} images: {over_images(row)}")
    excluded = ", ".join(f"{one['rater']} ({one['right']} of {one['asked']})" for one in raters["excluded"])
    lines += [
        f"{raters['counted']} of {raters['answered']} raters count, with {answers['counted']} of {answers['all']} "
        "answers; obvious trials are not scored",
        f"{raters['rule']}, as fixed before the study; excluded: {excluded or 'none'}",
    ]
    if not result["source"].get("held_out", True):
        lines.append("the data have no test set: the model may know these pictures")
    return "\n".join(lines)


def over_images(row: dict[str, Any]) -> str:
    """As the paper reports its second study."""
    spread = row["over_images"]["deviation"]
    deviation = "" if spread is None else f", standard deviation {100 * spread:.1f}"
    return f"{100 * row['over_images']['mean']:.1f} %{deviation}"


def percent(interval: Interval | None) -> str:
    return "-" if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
