"""Tables of the analogy experiment, from its JSON alone."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from visual_dynamics.experiments.paper_items import Headline
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit

PARTS = ("all", "within one sex", "across")
OURS, OWN = "ours", "ours, own motion"


def draw(result: dict[str, Any], folder: Path) -> str:
    text = tables(result)
    write_atomically(folder / "analogy.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    rows = next(iter(result["tables"].values()))
    paper, ours, own = (fmean(v) for v in (result["paper"]["ours, paper"], rows[OURS]["all"], rows[OWN]["all"]))
    floor = f"{own:.1f} (a motion on its own character)"
    return Headline("squared error, average of five animations", f"{paper:.1f}", f"{ours:.1f}", floor)


def tables(result: dict[str, Any]) -> str:
    """The main table with the paper's rows, then what changes with weapon, sex and frames."""
    animations = result["animations"]
    main, *others = result["tables"]
    head = f"| squared error | {' | '.join(animations)} | average |\n|---|{'---:|' * (len(animations) + 1)}"
    lines = [f"### Visual analogies between sprites: {main}", "", head]
    lines += [_row(name, values) for name, values in result["paper"].items()]
    for name, parts in result["tables"][main].items():
        lines.append(_row(f"**{name}**" if name == OURS else name, parts["all"]))
    lines += ["", "### The same by sex, weapon and frames", "", head]
    for table in (main, *others):
        for name in ("copy", OURS):
            lines += [_row(f"{name}: {table}, {part}", result["tables"][table][name][part]) for part in PARTS]
    protocol = result["protocol"]
    lines += [
        "",
        f"{protocol['questions']:,} questions an animation, {protocol['characters']} characters ({protocol['split']}). "
        f"Squared differences of colours in [0, 1], summed over 60x60x3. The paper's rows are quoted. "
        f"Seed {result['seed']}, weights {result['weights'][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s.",
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, values: list[float]) -> str:
    average = sum(values) / len(values)
    return f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} | {average:.1f} |"
