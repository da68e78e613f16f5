"""Models of the Shapes table side by side: what they store, their codes on other scenes, what the KL term bought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.drawing import listed, number, table, with_interval

SOURCES = {"stored codes": "", "the learned prior": ", z from the learned prior", "N(0, I)": ", z from N(0, I)"}
SAME_STEPS = 0.001  # share of the steps by which trainings of equal length may differ
CARRIED = {"analogy": "another scene", "reconstruction": "its own scene", "copy": "nothing moved"}


def cells(row: dict[str, Any], columns: Sequence[str], digits: int = 3) -> list[str]:
    """Numbers of a row, with their intervals where these were measured."""
    if "intervals" not in row:
        return [number(row[column], digits) for column in columns]
    return [with_interval(row[column], row["intervals"][column], digits) for column in columns]


def clearly_below(one: dict[str, Any], other: dict[str, Any], names: Sequence[str]) -> list[bool]:
    """For each number whether the interval of one lies below that of the other; no where one was not measured."""
    bounds = [(one["intervals"][name][1], other["intervals"][name][0]) for name in names]
    return [high is not None and low is not None and high < low for high, low in bounds]


def claim(result: dict[str, Any]) -> str:
    """What the rows show about the paper's claim that the KL term makes samples better, and what they cannot show."""
    rows, columns, paper = result["sets"]["generated"]["rows"], result["columns"], result["paper"]
    gaps = [theirs - ours for ours, theirs in zip(paper["ours"], paper["AE"], strict=True)]
    parts = []
    for source, words in SOURCES.items():
        ours, theirs = rows.get(f"ours{words}", {}), rows.get(f"AE{words}", {})
        if "intervals" in ours and "intervals" in theirs:
            lower, higher = (sum(clearly_below(*pair, columns)) for pair in ((ours, theirs), (theirs, ours)))
            known = [column for column in columns if None not in (ours[column], theirs[column])]
            most = max((theirs[column] - ours[column] for column in known), key=abs, default=None)
            parts.append(
                f"z from {source}: ours lower in {lower} of {len(columns)} columns, the AE in {higher} "
                f"(largest difference, AE - ours, {number(most, 3, form='+')} nats)"
            )
    if not parts:
        return "Whether the KL term makes samples better was not measured with intervals here; see kl-term."
    models = result.get("models", {})
    return (
        f"The paper claims that the KL term makes samples better: its AE is {min(gaps):.1f} to {max(gaps):.1f} nats "
        f"above its model. Here, counting columns whose intervals do not overlap: {'; '.join(parts)}. "
        f"{beside_seeds(result)}{steps_compared(models)} "
        "The AE has no sampling layer, as in the paper: its stored codes are points. With "
        "these each of its samples repeats the motion of one training pair, and so it can be near the truth without "
        f"having learned a distribution.{points_of_ours(models)} The codes of an AE have no fixed scale, so N(0, I) "
        "need not fit them; the learned prior is fitted to them."
    )


def beside_seeds(result: dict[str, Any]) -> str:
    """Where the one AE lies beside all trainings of ours, both with stored codes."""
    ranges, theirs = result.get("over_seeds", {}).get("range"), result["sets"]["generated"]["rows"].get("AE")
    if not ranges or not theirs or any(None in (*ranges[c], theirs[c]) for c in result["columns"]):
        return ""
    below, above = (
        sum(sign * theirs[c] < sign * ranges[c][end] for c in result["columns"]) for sign, end in ((1, 0), (-1, 1))
    )
    return (
        f"With stored codes the AE (one training) is below each of {result['over_seeds']['models']} trainings of ours "
        f"in {below} of {len(result['columns'])} columns, above each in {above}. "
    )


def steps_compared(models: dict[str, dict[str, Any]]) -> str:
    """Whether ours and the AE were trained alike. Equal minutes may differ by a step."""
    ours, theirs = (models.get(name, {}).get("steps") for name in ("ours", "AE"))
    if ours and theirs and abs(ours - theirs) <= SAME_STEPS * ours:
        return f"Both were trained for {' and '.join(f'{steps:,}' for steps in sorted({ours, theirs}))} steps."
    steps = f"ours {ours:,}, the AE {theirs:,}" if ours and theirs else "not known of both"
    return f"Steps of training: {steps}; so these rows do not test the paper's claim. `kl-term` trains both alike."


def points_of_ours(models: dict[str, dict[str, Any]]) -> str:
    """Which part of our codes repeats training motions as the AE's do."""
    if "ours" not in models:
        return ""
    bound, size = models["ours"]["at_bound"], len(models["ours"]["least_log_variance"])
    if bound:
        return f" Of ours {bound} of {size} dimensions have stored codes without noise, which are such points, too."
    return " The stored codes of ours have noise in every dimension."


def models_table(models: dict[str, dict[str, Any]]) -> str:
    rows = []
    for name, found in models.items():
        least = found["least_log_variance"]
        lowest = sorted(least, key=lambda value: float("inf") if value is None else value)
        made = [found["weights"][:12], str(found["training_seed"]), short_commit(str(found["training_commit"]))]
        made.append(number(found["steps"], 0, form=","))
        shares = "its codes are points" if found["autoencoder"] else f"{found['at_bound']} of {len(least)}"
        rows.append([name, *made, listed(lowest[:8], 1), shares])
    head = [
        "model",
        "weights",
        "seed",
        "commit",
        "steps of the last training",
        "least log-variances",
        "log-variances at the bound",
    ]
    return table(head, rows)


def analogies_table(found: dict[str, Any]) -> str:
    """Squared errors of codes on another scene and on their own."""
    rows = {"ours": found} if "copy" in found else found  # an older result knows one model
    head = ["squared error of a frame, code carried to", *CARRIED.values()]
    lines = [table(head, [[name, *cells(row, list(CARRIED), 1)] for name, row in rows.items()], bold=("ours",))]
    if "AE" in rows and "ours" in rows:
        both = rows["ours"], rows["AE"]
        below, above = (clearly_below(*pair, ["analogy"])[0] for pair in (both, both[::-1]))
        verdict = "lower than" if below else "higher than" if above else "not clearly different from"
        lines.append(
            f"Carried to another scene, the error of ours is {verdict} that of the AE. Codes are stored ones of "
            "training scenes, where a row does not say otherwise; the other scenes are test scenes."
        )
    return "\n\n".join(lines)
