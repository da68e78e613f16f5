"""The tables of `reproduce video`: methods, futures against Flow, codes, sets of pairs, judges, scenes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import number, table, with_interval

COPY, FLOW, CODE, SAMPLED, TRUTH = "copy", "Flow", "ours, true motion code", "ours, sampled", "truth"
JPEG = "truth as JPEG"
JUDGED = (COPY, CODE, JPEG, FLOW, SAMPLED)  # the last two are compared
DRAWN_PEOPLE = "drawn people"
METRICS = {  # name -> words, digits, factor
    "energy_score": ("energy score / copy's", 3, 1),
    "energy": ("energy, % of the true", 1, 100),
    "ratio": ("motion inside / outside", 1, 1),
    "still": ("still pixels that stay, %", 1, 100),
    "best_10": ("best of 10, error / copy's", 3, 1),
    "sharpness": ("sharpness / input's", 2, 1),
    "laplacian": ("Laplacian / copy's", 2, 1),
    "ms_ssim": ("MS-SSIM distance / copy's", 2, 1),
    "diversity": ("two samples differ, % of true motion", 1, 100),
    "inside_share": ("of that inside, %", 1, 100),
}
OF_CODE = {"explained": ("explained, %", 1, 100), "shifted": ("explained on the shifted input, %", 1, 100)}
LESS_IS_BETTER = ("energy_score", "best_10", "laplacian", "ms_ssim")
ENERGY = (0.35, 1.5)  # of the truth: what counts as moving as much
PEOPLE = {FLOW: 31.3, SAMPLED: 36.7}  # % of the paper's futures that people took for real, at 32x32
MOST_SCENES = 20  # in the table; the JSON has all


def draw(result: dict[str, Any], folder: Path) -> str:
    """All tables of a result."""
    if "differences" not in result:
        return "This result is of an earlier protocol: it has none of the tables of this one."
    protocol = result["protocol"]
    looked = {"held-out": " to look at: not fresh", "test": " to report on"}
    drawn = protocol["footage"] == DRAWN_PEOPLE
    kind = "Drawn people, not footage: a quick look" if drawn else f"Scenes of footage{looked[protocol['split']]}"
    parts = [f"### {kind}", method_table(result), code_line(result)]
    parts += ["### Best of N futures, squared error / copy's", best_table(result)]
    parts += ["### Ours, sampled, minus Flow", difference_table(result)]
    parts += ["### Sets of pairs", set_table(result["sets"])]
    if result["judge"]:
        parts += ["### Judge", judge_table(result["judge"])]
    return "\n\n".join([*parts, "### By scene", scene_table(result["scenes"]), notes(result)])


def method_table(result: dict[str, Any]) -> str:
    rows = [row for row in result["rows"] if row != JPEG]
    lines = [[row, *(cell(result, row, name) for name in METRICS)] for row in rows]
    head = "mean over scenes" + " (95 % interval)" * (len(result["scenes"]) > 1)
    return table([head, *(words for words, _, _ in METRICS.values())], lines)


def code_line(result: dict[str, Any]) -> str:
    """What the true code explains, and how many scenes are moved as much as in truth."""
    explained, shifted = (cell(result, CODE, name, OF_CODE) for name in OF_CODE)
    energies = [scene["rows"][SAMPLED]["energy"] for scene in result["scenes"].values()]
    low, high = ENERGY
    right = sum(energy is not None and low <= energy <= high for energy in energies)
    return (
        f"The true motion code explains {explained} % of the squared difference, and on inputs shifted by an eighth of "
        f"their side {shifted} %. Sampled motion is between {100 * low:.0f} and {100 * high:.0f} % of the true one in "
        f"{right} of {len(energies)} scenes."
    )


def best_table(result: dict[str, Any]) -> str:
    """By number of futures, then by seconds on the machine that measured."""
    known = [name for name in result["rows"][SAMPLED] if name.startswith("best_")]
    timed = result["best_within"]["seconds"]
    marks = list(timed[SAMPLED])
    lines = []
    for row in (FLOW, SAMPLED):
        cells = [number(result["rows"][row][name], 3) for name in known]
        found = (timed[row][mark] for mark in marks)
        lines.append([row, *cells, *(f"{number(one['best'], 3)} (of {number(one['futures'], 0)})" for one in found)])
    heads = [f"of {name.removeprefix('best_')}" for name in known]
    return table(["", *heads, *(f"within {mark} s" for mark in marks)], lines)


def difference_table(result: dict[str, Any]) -> str:
    """Scene by scene; the interval of the mean is over scenes."""
    lines = []
    for name, (words, digits, factor) in METRICS.items():
        if name not in ("ratio", "diversity", "inside_share") and (own := result["differences"].get(name)):
            better = own["below"] if name in LESS_IS_BETTER else own["scenes"] - own["below"]
            scenes = "" if name == "energy" else f"{better} of {own['scenes']}"
            lines.append([words, with_interval(own["mean"], own["interval"], digits, factor, "+"), scenes])
    return table(["", "ours - Flow (95 % interval)", "ours is not worse in scenes"], lines)


def set_table(sets: dict[str, Any]) -> str:
    """Distances to other true pairs of the same takes; the row of the truth is the floor."""
    rows = next(iter(sets.values()))
    lines = []
    for row in rows:
        cells = []
        for found in sets.values():
            own = found[row]
            cells += [number(own["frechet"], 2), with_interval(own["kernel"], own["interval"], 3)]
        lines.append([f"{row} (floor)" if row == TRUTH else row, *cells])
    heads = [f"{kind}, {name}" for kind in sets for name in ("Frechet", "kernel distance")]
    return table(["distance to other true pairs", *heads], lines)


def judge_table(found: dict[str, Any]) -> str:
    """How often judges take a method's future for the real next frame; people's answers below."""
    lines = []
    for name, words in (("plain", "judge"), ("blind", "judge, blind for noise")):
        own = found[name]
        cells = [with_interval(row["share"], row["interval"], 1, 100) for row in own["rows"].values()]
        more = with_interval(own["difference"]["mean"], own["difference"]["interval"], 1, 100, "+")
        lines.append([f"{words}, {found['size']}x{found['size']}", *cells, more])
    people = [f"{PEOPLE[row]:.1f}" if row in PEOPLE else "" for row in JUDGED]
    lines.append(["people, paper, other footage, 32x32: not comparable", *people, ""])
    return table(["% taken for real, 50 is best (95 % interval)", *JUDGED, "ours - Flow"], lines)


def scene_table(scenes: dict[str, Any]) -> str:
    """Ours in each scene, sampled; beside it Flow's energy score and best of ten, and what the true code explains."""
    shown = [name for name in METRICS if name not in ("laplacian", "ms_ssim", "inside_share")]
    beside = [name for name in ("energy_score", "best_10") if name in shown]
    lines = []
    for scene, own in list(scenes.items())[:MOST_SCENES]:
        cells = []
        for name in shown:
            cells.append(plain(own["rows"][SAMPLED], name))
            if name in beside:
                cells.append(plain(own["rows"][FLOW], name))
        lines.append(
            [scene, f"{own['pairs']:,}", *cells, *(plain(own["rows"][CODE], name, OF_CODE) for name in OF_CODE)]
        )
    heads: list[str] = []
    for name in shown:
        heads += [METRICS[name][0], *(["Flow's"] if name in beside else [])]
    text = table(["scene", "pairs", *heads, *(f"true code: {words}" for words, _, _ in OF_CODE.values())], lines)
    return text + (f"\n\nThe JSON has the other {len(scenes) - MOST_SCENES:,} scenes." * (len(scenes) > MOST_SCENES))


def notes(result: dict[str, Any]) -> str:
    """The counts behind the numbers."""
    protocol, moving, found = result["protocol"], result["regions"], result["judge"]
    judged = "Judge: none, as all pairs are from one take."
    if found:
        judged = (
            f"Judge: a trained network, not people; {found['inputs']:,} pairs in {found['folds']} folds with no "
            f"{protocol['judged_by']} in two; judges for each method and fold: {found['judges']}, {found['steps']:,} "
            "steps each."
        )
    shown = "; ".join(f"{row} {one['take']}" for row, one in enumerate(result["pictures"], 1))
    part = f" of the part {protocol['split']}" * (protocol["footage"] != DRAWN_PEOPLE)
    return (
        f"Pairs: {protocol['pairs']:,} of the {protocol['split_pairs']:,}{part} of {protocol['footage']}, at "
        f"{protocol['size']}x{protocol['size']}; takes: {protocol['takes']:,}; scenes: {len(result['scenes']):,}. "
        f"Moving regions are {number(moving['moving'], 0, 100)} % of a frame on average, pixels that never move "
        f"{number(moving['still'], 0, 100)} %. The squared difference of a true pair is "
        f"{number(result['rows'][CODE]['true_motion'], 1)} on average (colours in [0, 1], summed over the frame). "
        f"{protocol['futures']} futures a pair, z from {protocol['source']}; Flow knows {protocol['flow_pairs']:,} "
        f"pairs. {judged} Rows of the figure, drawn by the seed: {shown}."
    )


def headline(result: dict[str, Any]) -> Headline:
    names = ("energy_score", "energy", "ratio", "still", "best_10")
    drawn = " (drawn people)" if result["protocol"]["footage"] == DRAWN_PEOPLE else ""
    measure = f"of samples: {' / '.join(METRICS[name][0] for name in names)}; % explained by the true code{drawn}"
    ours, flow = (" / ".join(cell(result, row, name) for name in names) for row in (SAMPLED, FLOW))
    explained = cell(result, CODE, "explained", OF_CODE)
    return Headline(measure, "no such numbers", f"{ours}; {explained}", f"Flow: {flow}; copying: 0.0")


def cell(result: dict[str, Any], row: str, name: str, metrics: dict[str, tuple[str, int, int]] = METRICS) -> str:
    """A mean over scenes, with its interval."""
    if _has_none(result["rows"][row], name):
        return "none"
    interval = result["intervals"][row].get(name)
    return with_interval(result["rows"][row][name], interval if _wide(interval) else None, *metrics[name][1:])


def plain(own: dict[str, Any], name: str, metrics: dict[str, tuple[str, int, int]] = METRICS) -> str:
    return "none" if _has_none(own, name) else number(own[name], *metrics[name][1:])


def _has_none(own: dict[str, Any], name: str) -> bool:
    """One prediction has no diversity; the best of ten needs ten."""
    return own.get(name) is None or (name == "diversity" and not own[name])


def _wide(interval: Sequence[float] | None) -> bool:
    return interval is not None and interval[0] < interval[1]
