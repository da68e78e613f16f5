"""Scores of a study: shares with 95 % intervals, per method and size.

There are two intervals. Wilson's assumes that all answers are independent. The other is a bootstrap by raters, because
answers of one rater are correlated: whole raters are drawn with replacement. Its percentiles are widened for few
raters, as a t distribution is wider than a normal one (Hesterberg's expanded percentiles). If all raters agree, the
bootstrap says nothing, and only Wilson's interval is given.

Letters in shape comments: K raters, C rows of the table, D draws.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import NormalDist, mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.evaluation.intervals import Interval, wilson_interval
from visual_dynamics.study.answers import Row
from visual_dynamics.study.folder import Study

DRAWS = 4_000
CHUNK = 500  # draws at a time: 20 MB with 5,000 raters

Floats = NDArray[np.float64]


def score(study: Study, rows: list[Row], seed: int = 0) -> dict[str, Any]:
    """The whole result as JSON; shares are in [0, 1]."""
    right = {row.rater: 0 for row in rows}
    asked = dict(right)
    for row in (row for row in rows if row.obvious):
        asked[row.rater] += 1
        right[row.rater] += row.answer == row.right
    excluded = sorted(rater for rater in right if right[rater] < study.least_right)
    counted = [row for row in rows if not row.obvious and row.rater not in excluded]
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
        },
        "answers": {"all": len(rows), "counted": len(counted)},
        **_table(study, counted, seed),
    }


def _table(study: Study, rows: list[Row], seed: int) -> dict[str, Any]:
    """A row for each (method, size); by size, the difference between the first method and each other."""
    kinds = sorted({(row.method, row.size) for row in rows}, key=lambda kind: (kind[1], _place(study, kind[0])))
    raters = sorted({row.rater for row in rows})
    hits, counts = np.zeros((2, len(raters), len(kinds)))  # (K, C) each
    for row in rows:
        place = raters.index(row.rater), kinds.index((row.method, row.size))
        hits[place] += _convinced(row)
        counts[place] += 1
    shares = hits.sum(0) / counts.sum(0)  # (C,)
    drawn = _drawn_shares(hits, counts, seed)  # (D, C)
    table = []
    for column, (method, size) in enumerate(kinds):
        answers = int(counts[:, column].sum())
        images = _by_image([row for row in rows if (row.method, row.size) == (method, size)])
        table.append(
            {
                "method": method,
                "size": size,
                "share": float(shares[column]),
                "answers": answers,
                "raters": int((counts[:, column] > 0).sum()),
                "wilson": wilson_interval(float(shares[column]), answers),
                "by_raters": _percentiles(drawn[:, column], len(raters)),
                "images": len(images),
                "over_images": {"mean": mean(images), "deviation": stdev(images) if len(images) > 1 else None},
            }
        )
    return {"rows": table, "differences": _differences(kinds, shares, drawn, len(raters))}


def _differences(kinds: list[tuple[str, int]], shares: Floats, drawn: Floats, raters: int) -> list[dict[str, Any]]:
    found = []
    for size in sorted({size for _, size in kinds}):
        (first, *others) = [place for place, kind in enumerate(kinds) if kind[1] == size]
        for other in others:
            found.append(
                {
                    "methods": (kinds[first][0], kinds[other][0]),
                    "size": size,
                    "difference": float(shares[first] - shares[other]),
                    "by_raters": _percentiles(drawn[:, first] - drawn[:, other], raters),
                }
            )
    return found


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


def _drawn_shares(hits: Floats, counts: Floats, seed: int) -> Floats:
    """(K, C) twice -> (D, C): shares among raters drawn with replacement; NaN if none of them saw the row."""
    raters, chance, parts = len(hits), np.random.default_rng(seed), []
    for _ in range(DRAWS // CHUNK if raters else 0):
        times = chance.multinomial(raters, np.full(raters, 1 / raters), CHUNK).astype(float)  # (CHUNK, K)
        with np.errstate(invalid="ignore"):
            parts.append(times @ hits / (times @ counts))
    return np.concatenate(parts) if parts else np.zeros((0, hits.shape[1]))


def _percentiles(values: Floats, raters: int) -> Interval | None:
    """The 95 % interval of drawn shares or differences, wider for few raters; None if they all agree."""
    values = values[np.isfinite(values)]
    if raters < 3 or not len(values) or values.min() == values.max():
        return None
    normal = NormalDist()
    tail = normal.cdf(-math.sqrt(raters / (raters - 1)) * student_quantile(raters - 1))
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def student_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t from 2 degrees of freedom up, within 0.3 % (Hill's series; 3 % at 2)."""
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def table_text(result: dict[str, Any]) -> str:
    """The result as a table for people."""
    raters, answers = result["raters"], result["answers"]
    lines = [
        f"{'method':<16}{'size':>6}{'% ' + result['measure']:>20}"
        f"{'Wilson 95 %':>16}{'by raters 95 %':>16}{'answers':>9}"
    ]
    for row in result["rows"]:
        size = f"{row['size']}"
        share, wilson, own = f"{100 * row['share']:.1f}", _percent(row["wilson"]), _percent(row["by_raters"])
        lines.append(f"{row['method']:<16}{size:>6}{share:>20}{wilson:>16}{own:>16}{row['answers']:>9}")
    for row in result["differences"]:
        first, second = row["methods"]
        points = f"{100 * row['difference']:+.1f} points, by raters {_percent(row['by_raters'])}"
        lines.append(f"{first} - {second} at {row['size']}: {points}")
    if result["kind"] == "realistic":
        for row in result["rows"]:
            spread = row["over_images"]["deviation"]
            deviation = "" if spread is None else f", standard deviation {100 * spread:.1f}"
            mean_ = f"{100 * row['over_images']['mean']:.1f} %"
            lines.append(f"{row['method']} at {row['size']}, mean over {row['images']} images: {mean_}{deviation}")
    excluded = ", ".join(f"{one['rater']} ({one['right']} of {one['asked']})" for one in raters["excluded"])
    lines += [
        f"{raters['counted']} of {raters['answered']} raters count, with {answers['counted']} of {answers['all']} "
        "answers; obvious trials are not scored",
        f"excluded, with fewer than {raters['least_right']} right answers in obvious trials: {excluded or 'none'}",
    ]
    if not result["source"].get("held_out", True):
        lines.append("the data have no test set: the model may know these pictures")
    return "\n".join(lines)


def _percent(interval: Interval | None) -> str:
    return "-" if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
