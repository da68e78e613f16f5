"""The tables of `reproduce video`: every method, who leads, judges, scenes."""

from __future__ import annotations

from typing import Any

from visual_dynamics.reporting.drawing import number, table

COPY, FLOW, CODE, SAMPLED, TRUTH = "copy", "Flow", "ours, true motion code", "ours, sampled", "truth"
JUDGED = (FLOW, SAMPLED)
AIMS = {"explained": 0.60, "ratio": 5.0, "still": 0.95}  # at least, for ours
METRICS = {
    "explained": "explained, %",
    "ratio": "motion inside / outside",
    "still": "still pixels that stay, %",
    "diversity": "two samples differ, % of true motion",
    "inside_share": "of that inside, %",
    "best": "best sample, error / copy's",
}
PEOPLE = {FLOW: 31.3, SAMPLED: 36.7}  # % of the paper's futures that people took for real, at 32x32
MOST_SCENES = 20  # in the table; the JSON has all


def method_table(result: dict[str, Any]) -> str:
    rows = result["rows"]
    lines = [[row, *(interval_cell(result, row, name) for name in METRICS)] for row in rows]
    lines.append(["aim for ours", *(f"at least {cell(name, AIMS)}" if name in AIMS else "" for name in METRICS)])
    head = "over all pairs" + " (95 % interval)" * bool(result.get("intervals"))
    return table([head, *METRICS.values()], lines) + f"\n\n{who_leads(result)}"


def who_leads(result: dict[str, Any]) -> str:
    """In each column, of Flow and our samples, by the numbers as shown; in diversity there is no better and worse."""
    ahead: dict[str, list[str]] = {}
    for name, words in METRICS.items():
        rows = [result["rows"][row] for row in JUDGED]
        if name == "diversity" or any(row[name] is None for row in rows):
            continue
        flow, ours = (float(cell(name, row)) * (-1 if name == "best" else 1) for row in rows)
        who = "neither" if flow == ours else FLOW if flow > ours else "ours"
        ahead.setdefault(who, []).append(words + " (intervals overlap)" * intervals_overlap(result, name))
    leads = "; ".join(f"{who}: {', '.join(columns)}" for who, columns in ahead.items()) or "not measured"
    worse = [row for row in JUDGED if (result["rows"][row]["explained"] or 0) < 0]
    than_copy = f" Copying the input has less error than a sample of: {'; '.join(worse)}." if worse else ""
    return f"Who leads, Flow or ours, sampled: {leads}.{than_copy}"


def intervals_overlap(result: dict[str, Any], name: str) -> bool:
    """Those of Flow and our samples, where both were measured."""
    ends = [end for row in JUDGED for end in interval_of(result, row, name) or () if end is not None]
    if len(ends) < 4:
        return False
    low, high, other_low, other_high = ends
    return low <= other_high and other_low <= high


def judge_table(found: dict[str, Any]) -> str:
    """How often the judge takes a method's future for the real next frame; people's answers below."""
    shares = []
    for row in found["rows"].values():
        share, low, high = (number(part, 1, 100) for part in (row["share"], *row["interval"]))
        shares.append(f"{share} ({low} to {high})")
    people = [f"{PEOPLE[name]:.1f}" for name in found["rows"]]
    size = f"{found['size']}x{found['size']}"
    lines = [[f"judge, a small network, {size}", *shares]]
    lines.append(["people, paper, other footage, 32x32: not comparable", *people])
    return table(["% taken for real, 50 is best (95 % interval)", *found["rows"]], lines)


def scene_table(scenes: dict[str, Any]) -> str:
    """Ours in each scene: explained by the true motion code, all else of sampled futures; then the best of Flow."""
    lines = []
    for scene, own in list(scenes.items())[:MOST_SCENES]:
        cells = [cell(name, own["rows"][CODE if name == "explained" else SAMPLED]) for name in METRICS]
        lines.append([scene, f"{own['pairs']:,}", *cells, cell("best", own["rows"][FLOW])])
    head = METRICS | {"explained": "explained by the true code, %"}
    text = table(["scene", "pairs", *head.values(), "Flow's best"], lines)
    return text + (f"\n\nThe JSON has the other {len(scenes) - MOST_SCENES:,} scenes." * (len(scenes) > MOST_SCENES))


def interval_cell(result: dict[str, Any], row: str, name: str) -> str:
    """With the interval over scenes, if there is one and it has a width."""
    value = cell(name, result["rows"][row])
    low, high = (cell(name, {name: end}) for end in interval_of(result, row, name) or (None, None))
    return value if low == high else f"{value} ({low} to {high})"


def interval_of(result: dict[str, Any], row: str, name: str) -> list[float | None] | None:
    """Results of older versions have none."""
    found: list[float | None] | None = ((result.get("intervals") or {}).get(row) or {}).get(name)
    return found


def cell(name: str, found: dict[str, Any]) -> str:
    """One number; "none" where the divisor is 0."""
    value = found[name]
    if name == "ratio" and value is None and found.get("inside"):
        return "all inside"
    if value is None or (name == "diversity" and not value):  # one prediction has no diversity
        return "none"
    if name == "best":
        return f"{value:.2f}"
    return f"{round(value if name == 'ratio' else 100 * value, 1) + 0.0:.1f}"  # never -0.0
