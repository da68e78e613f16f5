"""Tables and figure of the video experiment, from its JSON alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visual_dynamics.experiments.futures_pictures import figure, futures
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline

CODE, SAMPLED = "ours, true motion code", "ours, sampled"
WANTED = {"explained": 0.60, "ratio": 5.0, "still": 0.95}  # at least, of ours
COLUMNS = {
    "explained": "explained, %",
    "ratio": "motion inside / outside",
    "still": "still pixels that stay, %",
    "diversity": "two samples differ, % of true motion",
    "inside_share": "of that inside, %",
    "best": "best sample, error / copy's",
}
OWN = {"explained": CODE, "ratio": SAMPLED, "still": SAMPLED}  # the row that is asked to reach what is wanted
PEOPLE = {"Flow": 31.3, SAMPLED: 36.7}  # % of the paper's futures that people took for real, at 32x32
MOST_SCENES = 20  # in the table; the JSON has all


def draw(result: dict[str, Any], folder: Path) -> str:
    """The figure into `folder`; returns tables and notes as Markdown."""
    if any("pictures" in one for one in result["pictures"]):  # a light copy of a result names its rows alone
        write_atomically(folder / "video.png", figure(futures(result["pictures"])))
    parts = ["### Held-out scenes of real video", table(result["rows"])]
    if result.get("judge"):  # older results have none
        parts += ["### Judge", judge_table(result["judge"])]
    parts += ["### By scene", scenes(result["scenes"])]
    text = "\n\n".join([*parts, notes(result)]) + "\n"
    write_atomically(folder / "video.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    rows = result["rows"]
    measure = "% explained by the true code / motion inside over outside / % of still pixels that stay"
    ours, flow = (
        " / ".join(cell(name, rows[row]) for name, row in (("explained", code), ("ratio", some), ("still", some)))
        for code, some in ((CODE, SAMPLED), ("copy", "Flow"))
    )
    return Headline(measure, "no such numbers", ours, f"{flow} (copying / Flow / Flow)")


def table(rows: dict[str, Any]) -> str:
    """Every method over all pairs."""
    lines = [f"| over all pairs | {' | '.join(COLUMNS.values())} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for row, found in rows.items():
        bold = "**" if row.startswith("ours") else ""
        lines.append(f"| {bold}{row}{bold} | {' | '.join(bold + cell(name, found) + bold for name in COLUMNS)} |")
    aims = [f"at least {cell(name, WANTED)}" if name in WANTED else "" for name in COLUMNS]
    lines.append(f"| aim for ours | {' | '.join(aims)} |")
    return "\n".join(lines)


def judge_table(judge: dict[str, Any]) -> str:
    """How often the judge, a small network, takes a method's future for the real next frame; people's answers below."""
    names, size = list(judge["rows"]), f"{judge['size']}x{judge['size']}"
    heads = [f"**{name}**" if name.startswith("ours") else name for name in names]
    cells = [
        f"{100 * row['share']:.1f} ({100 * row['interval'][0]:.1f} to {100 * row['interval'][1]:.1f})"
        for row in judge["rows"].values()
    ]
    said = [f"{PEOPLE[name]:.1f}" for name in names]
    return "\n".join(
        [
            f"| % taken for real, 50 is best (95 % interval) | {' | '.join(heads)} |",
            f"|---|{'---:|' * len(names)}",
            f"| judge, a small network, {size} | {' | '.join(cells)} |",
            f"| people, paper, other footage, 32x32: not comparable | {' | '.join(said)} |",
        ]
    )


def scenes(found: dict[str, Any]) -> str:
    """Ours in each scene: explained by the true motion code, all else of sampled futures; then the best of Flow."""
    lines = [
        f"| scene | pairs | {' | '.join(COLUMNS.values())} | Flow's best |",
        f"|---|{'---:|' * (len(COLUMNS) + 2)}",
    ]
    for scene, own in list(found.items())[:MOST_SCENES]:
        cells = [cell(name, own["rows"][OWN.get(name, SAMPLED)]) for name in COLUMNS]
        cells = [scene.replace("|", "\\|"), f"{own['pairs']:,}", *cells, cell("best", own["rows"]["Flow"])]
        lines.append(f"| {' | '.join(cells)} |")
    if len(found) > MOST_SCENES:
        lines.append(f"\nThe JSON has the other {len(found) - MOST_SCENES:,} scenes.")
    return "\n".join(lines)


def cell(name: str, found: dict[str, Any]) -> str:
    """One number; "none" where there is nothing to divide by."""
    value = found[name]
    if name == "ratio" and value is None and found.get("inside"):
        return "all inside"
    if value is None or (name == "diversity" and not value):  # a single prediction differs from none
        return "none"
    if name == "best":
        return f"{value:.2f}"
    return f"{round(value if name == 'ratio' else 100 * value, 1) + 0.0:.1f}"  # never -0.0


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use numbers and pictures."""
    protocol, moving = result["protocol"], result["regions"]
    size, many = protocol["size"], protocol["futures"]
    shown = "; ".join(f"{row} {one['take']}" for row, one in enumerate(result["pictures"], 1))
    return (
        f"{protocol['pairs']:,} of the {protocol['held_out_pairs']:,} held-out pairs of {protocol['footage']}, from "
        f"{_counted(protocol['takes'], 'take')} of {_counted(len(result['scenes']), 'scene')}, at {size}x{size}. "
        "Explained: 1 - squared error / that of copying the input; of several samples the mean. "
        f"Inside: moving regions, {100 * moving['moving']:.0f} % of a frame on average; motion: squared change of a "
        f"pixel. Still pixels never move in their take, {100 * moving['still']:.0f} % of a frame; they stay if they "
        "change by less than 4 of 255 levels. Two samples differ: their squared difference over that of the true pair, "
        f"which is {result['rows'][CODE]['true_motion']:.1f} on average (colours in [0, 1], summed over the frame). "
        f"Sampled: {many} futures a pair, z from {protocol['source']}; Flow: {many} samples of flow transfer from "
        f"{_counted(protocol['flow_pairs'], 'training pair')} of the same footage; best: of these {many}. "
        "The true motion code, the mean of q(z | v, I), has seen the answer. "
        "Truth: the true next frame itself, with the noise of its camera and codec. "
        f"{judge_notes(result)}"
        "Figure: (a) input, (b) true next frame, (c) ours with the true motion code, (d) sampled, Flow a sample of it, "
        f"(e) the square with the most true motion, enlarged. Rows, drawn by the seed: {shown}. "
        f"Seed {result['seed']}, model {result['model']}, weights {result['weights'][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def judge_notes(result: dict[str, Any]) -> str:
    """How the judge was asked; nothing of older results, which know none."""
    if "judge" not in result:
        return ""
    judge = result["judge"]
    if judge is None:
        return "Judge: none, as all pairs are of one take. "
    split, (one, two) = judge["split"], judge["halves"]
    return (
        "Judge: a trained network, people are not asked, and the paper's answers of people, of its own footage, are no "
        f"comparison. It has to tell the true next frame from a method's first sample, at {judge['size']}x"
        f"{judge['size']}; all {_counted(judge['inputs'], 'pair')} are asked about once, by judges that learned from "
        f"the half of the {split}s ({one:,} and {two:,} pairs) that theirs is not in; {judge['judges']} for each half "
        f"and method, {judge['steps']:,} steps each, answers averaged. Intervals by "
        f"{_counted(judge['takes'], 'take')}. "
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
