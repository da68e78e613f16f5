"""The report: every table and figure of the paper beside what was measured here, from the JSON files of a folder."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.paper_items import ITEMS, Headline, Item

PAGE = "index.html"
TEMPLATE, STYLE = (Path(__file__).with_name(name) for name in ("report.html", "page.css"))
SMALL = "**Small setting: a quick look with few samples, not a result to quote.**"
FIELDS = re.compile(r"(Paper says|Paper|Command|Cost) +(.*)")  # of an experiment's docstring
WEIGHTS = {"weights": "", "autoencoder_weights": "AE ", "integer_weights": "whole pixels ", "guide_weights": "guide "}

Picture = Callable[[Path], str | None]  # a figure as it was just drawn -> where the report finds it, if it does


class Made(NamedTuple):
    """What there is of an experiment."""

    result: dict[str, Any]
    tables: str  # Markdown
    figures: dict[str, str]  # name -> where it is


def write_report(folder: Path, out: Path) -> None:
    """From FOLDER/NAME.json of the experiments: Markdown that links to the figures beside them, or a page that holds
    all of them."""
    if not folder.is_dir():
        raise UserError(f"no such folder: {folder}")
    if out.suffix == ".md":
        text = markdown(folder, lambda made: _beside(folder / made.name, out))
    elif out.suffix == ".html":
        text = page(markdown(folder, _embedded))
    else:
        raise UserError(f"the report is written as .md or .html, not {out.name}")
    write_atomically(out, text.encode())


def _beside(figure: Path, out: Path) -> str | None:
    return Path(os.path.relpath(figure, out.parent)).as_posix() if figure.exists() else None


def _embedded(figure: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(figure.read_bytes()).decode('ascii')}"


def markdown(folder: Path, picture: Picture) -> str:
    """The overview, then a section for each experiment."""
    made = {name: found for name in EXPERIMENTS if (found := _read(folder, name, picture))}
    parts = ["# Results", INTRODUCTION]
    if small := [name for name, found in made.items() if found.result.get("small")]:
        parts.append(f"{SMALL} Such are: {', '.join(small)}.")
    beyond = set(EXPERIMENTS) - {item.experiment for item in ITEMS}
    items = [
        *ITEMS,
        *(Item("beyond the paper", EXPERIMENTS[name].SUMMARY, name) for name in EXPERIMENTS if name in beyond),
    ]
    parts += [_overview(items, made), *(_section(name, items, made.get(name)) for name in EXPERIMENTS)]
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """\
Every table and figure of the paper, what it says, and what was measured here. This page is made from the JSON results
alone: `visual-dynamics report FOLDER --out PAGE.md` (or `PAGE.html`); `visual-dynamics reproduce all` makes all results
and the page. The paper's figures are its own, on its own data and often with another meter."""


def _overview(items: list[Item], made: dict[str, Made]) -> str:
    lines = ["| in the paper | shows | measure | paper | **ours** | floor | made by |", "|---|---|---|---|---|---|---|"]
    for item in items:
        line, found = Headline("", "", "", ""), made.get(item.experiment)
        how = f"[{item.experiment}](#{item.experiment})" if item.experiment else ""
        if found:
            how += ", small setting" if found.result.get("small") else ""
            line = _headline(item.experiment, found.result) if item.numbers else Headline("pictures", "", "", "")
        elif item.experiment:
            how += ": not measured here"
        cells = (item.name, item.shows, line.measure, line.paper, f"**{line.ours}**" if line.ours else "", line.floor)
        how = "; ".join(part for part in (how, item.remark) if part)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in (*cells, how))} |")
    return "\n".join(lines)


def _headline(name: str, result: dict[str, Any]) -> Headline:
    """An experiment that has no such line is read in its section."""
    make = getattr(EXPERIMENTS[name], "headline", None)
    try:
        return make(result) if make else Headline("", "", "see below", "")
    except (KeyError, TypeError, ValueError, IndexError, StopIteration):
        return Headline("", "", "see below", "")


def _section(name: str, items: list[Item], found: Made | None) -> str:
    """What the experiment is, where the numbers come from, figures, tables."""
    experiment = EXPERIMENTS[name]
    known = described(experiment.__doc__ or "")
    places = ", ".join(item.name for item in items if item.experiment == name)
    parts = [f"## {name}", f"{places[0].upper()}{places[1:]}: {experiment.SUMMARY}."]
    if found and found.result.get("small"):
        parts.append(f"{SMALL} The protocol is that of the full setting.")
    parts += [f"{field}: {known[field]}" for field in ("Paper", "Paper says") if field in known]
    parts += known["text"]
    facts = {"command": f"`{known.get('Command', f'visual-dynamics reproduce {name}')}`"}
    facts["cost"] = known.get("Cost", "not said")
    if found:
        facts |= _origin(found.result)
    parts.append("\n".join(f"- {what}: {words}" for what, words in facts.items()))
    if not found:
        return "\n\n".join([*parts, "Not measured here: there is no such result in the folder."])
    parts += [f"![{name}]({place})" for name, place in found.figures.items()]
    return "\n\n".join([*parts, found.tables])


def _origin(result: dict[str, Any]) -> dict[str, str]:
    digests = [f"{words}`{result[key][:12]}`" for key, words in WEIGHTS.items() if result.get(key)]
    several = [*result.get("sets", {}).values(), *result.get("runs", {}).values()]
    if each := [found for found in several if "weights" in found]:  # a model of its own for each
        digests = [f"{found['model']} `{found['weights'][:12]}`" for found in each]
    facts = {
        "seed": str(result.get("seed", "unknown")),
        "commit": f"`{short_commit(str(result.get('commit', 'unknown')))}`",
        "weights (sha256)": ", ".join(digests) or "none",
        "device": f"{result.get('device', 'unknown')}, torch {result.get('torch', 'unknown')}",
    }
    return facts | ({"time": f"{result['seconds']:,.0f} s"} if "seconds" in result else {})


def described(docstring: str) -> dict[str, Any]:
    """The named lines of an experiment's docstring, and its other paragraphs as "text", each in one line."""
    known: dict[str, Any] = {"text": []}
    for paragraph in re.split(r"\n\s*\n", docstring.strip())[1:]:
        field = ""
        for line in paragraph.splitlines():
            if found := FIELDS.match(line):
                field, known[found[1]] = found[1], found[2].strip()
            elif field:
                known[field] += f" {line.strip()}"
        if not field:
            known["text"].append(" ".join(paragraph.split()))
    return known


def _read(folder: Path, name: str, picture: Picture) -> Made | None:
    """FOLDER/NAME.json with its tables and those of its figures that the report can show.

    Figures are drawn from the JSON; those that lie beside it and cannot be, for lack of their pictures, are shown, too.
    """
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_bytes())
        with tempfile.TemporaryDirectory() as place:
            tables = EXPERIMENTS[name].draw(result, Path(place)).strip()
            beside = [*folder.glob(f"{name}.png"), *folder.glob(f"{name}_*.png")]
            figures = {figure.name: figure for figure in [*beside, *Path(place).glob("*.png")]}  # as drawn, if it is
            drawn = {figure.stem: picture(figure) for _, figure in sorted(figures.items())}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(
            f"cannot read {path}: it is no result of `reproduce {name}`, or of another version of it "
            f"({type(error).__name__}: {error})"
        ) from error
    return Made(result, tables, {stem: where for stem, where in drawn.items() if where})


def page(text: str) -> str:
    """Markdown as a page that needs nothing else."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    body = re.sub(r"<h2>([\w-]+)</h2>", r'<h2 id="\1">\1</h2>', body)
    body = re.sub(r"<table>.*?</table>", r'<div class="wide">\g<0></div>', body, flags=re.S)
    parts = {"style": STYLE.read_text(encoding="utf-8"), "body": body}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(parts)
