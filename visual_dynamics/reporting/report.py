"""The report: every table and figure of the paper beside what was measured here, from the JSON files of a folder."""

from __future__ import annotations

import base64
import html
import inspect
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.reporting.base import SMALL, Experiment, Experiments, Headline
from visual_dynamics.reporting.drawing import provenance_facts, table

PAGE = "index.html"
TEMPLATE, STYLE = (Path(__file__).with_name(name) for name in ("report.html", "page.css"))
FIELDS = re.compile(r"(Paper says|Paper|Command|Cost|Target) +(.*)")  # of an experiment's docstring
INTRODUCTION = """\
Every table and figure of the paper, what it says, and what was measured here. This page is made from the JSON results
alone: `visual-dynamics report FOLDER --out PAGE.md` (or `PAGE.html`); `visual-dynamics reproduce all` makes all results
and the page. The paper's figures are its own, on its own data and often with another metric.

Bold rows and columns are ours, unless a table says otherwise; bold does not mean best. Until 2026-11-18 training
watched its error on 256 pairs of the test data, and every shipped model but `shapes` and `shapes-ae` was trained
before. So test data are not untouched: they were looked at. Intervals are over what is measured (images, scenes,
characters), not over trainings, unless seeds are named."""
OLDER = (
    "**Measured by an older version of the code: the text above is the present protocol. What it promises and the "
    "tables do not show was not measured.**"
)

FigureLink = Callable[[Path], str | None]  # a figure -> what the report links to; None: not shown


class Item(NamedTuple):
    """A table or figure of the paper, and the experiment that makes it again."""

    name: str
    shows: str
    experiment: str = ""  # its name; empty: none
    remark: str = ""  # what is not made, or how else to see it
    numbers: bool = True  # whether the headline of the experiment belongs to it


ITEMS = (
    Item("Figure 1", "the idea: many futures of one snapshot", remark="a drawing, no result"),
    Item("Figure 2", "the toy world: three ways to predict the motion of circles and squares", "toy"),
    Item("Figure 3", "the network and its five components", remark="a drawing; its parts are the files of `model/`"),
    Item("Figure 4", "results on Shapes: input, truth, reconstruction, samples", "futures"),
    Item(
        "Figure 5",
        "Shapes: true and predicted motion of each shape, plot and table",
        "shapes",
        "motion is matched, not optical flow",
    ),
    Item("Figure 6, left", "results on Sprites: input, truth, reconstruction, samples", "futures-sprites"),
    Item("Figure 6, right", "Sprites: how often people take a future for real", "realism", "a judge instead of people"),
    Item(
        "Figure 7, left",
        "results on Exercise: input, truth, reconstruction, samples",
        "video",
        "on the footage that is given, not the paper's: pictures compare, numbers do not",
    ),
    Item(
        "Figure 7, right",
        "Exercise: how often people take a future for real",
        remark="not made, as it needs people; `reproduce video` asks a judge, whose answers do not compare",
    ),
    Item("Figure 8", "learned layers on Shapes, Sprites and Exercise", "layers", "Shapes only"),
    Item(
        "Figure 9",
        "results on PennAction: input, truth, reconstruction, samples",
        "video",
        "on PennAction where that is the footage given; other pairs of it than the paper's",
        numbers=False,
    ),
    Item("Figure 10", "z by dimension: mean and log-variance", "latents", "without Exercise", numbers=False),
    Item("Table 1", "z: non-zero elements and dominating PCA components", "latents", "without Exercise"),
    Item("Figure 11", "z by dimension, for several weights of the KL term", "sweeps", numbers=False),
    Item("Figure 12", "sizes of z: 8, 32, 128 and 3,200", "sweeps"),
    Item("Figure 13", "what single dimensions of z move", "traversal", "Shapes and Sprites instead of Exercise"),
    Item("Figure 14", "disocclusion on Shapes+Texture", "disocclusion"),
    Item(
        "Figure 15",
        "pictures of visual analogies on Sprites and Exercise",
        "analogy",
        "without Exercise; where sprites are given",
        numbers=False,
    ),
    Item("Table 2", "squared error of visual analogies on Sprites, by animation", "analogy"),
    Item("Figure 16", "clips on Exercise: a sampled motion repeats", "futures", "on Shapes", numbers=False),
)


class Found(NamedTuple):
    """The result of an experiment, ready to show."""

    result: dict[str, Any]
    tables: str  # Markdown
    figures: dict[str, str]  # name -> link


def write_report(experiments: Experiments, folder: Path, out: Path) -> None:
    """Show FOLDER/NAME.json of all experiments, as Markdown with links to the figures or as a page that holds them."""
    if not folder.is_dir():
        raise UserError(f"no such folder: {folder}")
    if out.suffix == ".md":
        text = markdown(experiments, folder, lambda figure: relative_link(folder / figure.name, out))
    elif out.suffix == ".html":
        text = page(markdown(experiments, folder, _embedded))
    else:
        raise UserError(f"the report is written as .md or .html, not {out.name}")
    write_atomically(out, text.encode())


def relative_link(figure: Path, out: Path) -> str | None:
    return Path(os.path.relpath(figure, out.parent)).as_posix() if figure.exists() else None


def _embedded(figure: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(figure.read_bytes()).decode('ascii')}"


def markdown(experiments: Experiments, folder: Path, link: FigureLink) -> str:
    """The overview, then a section for each experiment."""
    results = {name: found for name, one in experiments.items() if (found := _read(folder, one, link))}
    parts = ["# Results", INTRODUCTION]
    if small := [name for name, found in results.items() if found.result.get("small")]:
        parts.append(f"{SMALL} Such are: {', '.join(small)}.")
    in_paper = {item.experiment for item in ITEMS}
    beyond = [Item("beyond the paper", one.summary, name) for name, one in experiments.items() if name not in in_paper]
    items = [*ITEMS, *beyond]
    parts.append(_overview(experiments, items, results))
    for name, experiment in experiments.items():
        places = ", ".join(item.name for item in items if item.experiment == name)
        parts.append(_section(experiment, places, results.get(name)))
    return "\n\n".join(parts) + "\n"


def _overview(experiments: Experiments, items: list[Item], results: dict[str, Found]) -> str:
    rows = []
    for item in items:
        line, found = Headline("", "", "", ""), results.get(item.experiment)
        made_by = f"[{item.experiment}](#{item.experiment})" if item.experiment else ""
        if found:
            made_by += ", small setting" if found.result.get("small") else ""
            made_by += ", older than its protocol" if experiments[item.experiment].is_older(found.result) else ""
            pictures_only = Headline("pictures", "", "", "")
            line = _headline(experiments[item.experiment], found.result) if item.numbers else pictures_only
        elif item.experiment:
            made_by += ": not measured here"
        remarks = "; ".join(part for part in (made_by, item.remark) if part)
        rows.append((item.name, item.shows, line.measure, line.paper, line.ours, line.floor, remarks))
    head = ("in the paper", "shows", "measure", "paper", "ours", "floor, or other method", "made by")
    return table(head, rows, numbers=False)


def _headline(experiment: Experiment, result: dict[str, Any]) -> Headline:
    """Without a headline the reader is sent to the section."""
    try:
        return experiment.headline(result) if experiment.headline else Headline("", "", "see below", "")
    except (KeyError, TypeError, ValueError, IndexError, StopIteration):
        return Headline("", "", "see below", "")


def _section(experiment: Experiment, places: str, found: Found | None) -> str:
    """What the experiment is, where the numbers come from, figures, tables."""
    name, known = experiment.name, described(experiment.about)
    parts = [f"## {name}", f"{places[0].upper()}{places[1:]}: {experiment.summary}."]
    if found and found.result.get("small"):
        parts.append(f"{SMALL} The protocol is that of the full setting.")
    parts += [f"{field}: {known[field]}" for field in ("Paper", "Paper says", "Target") if field in known]
    parts += known["text"]
    if found and experiment.is_older(found.result):
        parts.append(OLDER)
    facts = {"command": f"`{known.get('Command', f'visual-dynamics reproduce {name}')}`"}
    facts["cost"] = known.get("Cost", "not said")
    if found:
        facts |= provenance_facts(found.result)
    parts.append("\n".join(f"- {what}: {words}" for what, words in facts.items()))
    if not found:
        return "\n\n".join([*parts, "Not measured here: there is no such result in the folder."])
    parts += [f"![{figure}]({place})" for figure, place in found.figures.items()]
    return "\n\n".join([*parts, found.tables])


def described(about: str) -> dict[str, Any]:
    """The named lines of an experiment's docstring, and its other paragraphs as "text", each in one line."""
    known: dict[str, Any] = {"text": []}
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(about).strip())[1:]:
        field = ""
        for line in paragraph.splitlines():
            if found := FIELDS.match(line):
                field, known[found[1]] = found[1], found[2].strip()
            elif field:
                known[field] += f" {line.strip()}"
        if not field:
            known["text"].append(" ".join(paragraph.split()))
    return known


def _read(folder: Path, experiment: Experiment, link: FigureLink) -> Found | None:
    """FOLDER/NAME.json with its tables and figures: plots as drawn from it now, pictures as they lie beside it."""
    path = folder / f"{experiment.name}.json"
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_bytes())
        with tempfile.TemporaryDirectory() as place:
            tables = experiment.draw(result, Path(place)).strip()
            beside = [*folder.glob(f"{experiment.name}.png"), *folder.glob(f"{experiment.name}_*.png")]
            figures = {figure.name: figure for figure in [*beside, *Path(place).glob("*.png")]}
            links = {figure.stem: link(figure) for _, figure in sorted(figures.items())}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(
            f"cannot read {path}: it is no result of `reproduce {experiment.name}`, or of another version of it "
            f"({type(error).__name__}: {error})"
        ) from error
    return Found(result, tables, {stem: where for stem, where in links.items() if where})


def page(text: str, title: str = "Results") -> str:
    """Markdown as a page that needs nothing else."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    body = re.sub(r"<h2>([\w-]+)</h2>", r'<h2 id="\1">\1</h2>', body)
    body = re.sub(r"<table>.*?</table>", r'<div class="wide">\g<0></div>', body, flags=re.S)
    parts = {"style": STYLE.read_text(encoding="utf-8"), "body": body, "title": html.escape(title)}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(parts)
