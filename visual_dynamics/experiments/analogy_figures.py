"""Tables of the analogy experiment, from its JSON alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline

PARTS = ("all", "within one sex", "across")
OURS, OWN = "ours", "ours, own motion"
SCALE, GAP, TEXT, LABEL = 2, 8, 16, 250  # pixels: a pixel, between pictures, height of words, room for them


def draw(result: dict[str, Any], folder: Path) -> str:
    text = tables(result)
    if result.get("examples"):
        write_atomically(folder / "analogy.png", figure(result["examples"]))
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


def figure(examples: list[dict[str, Any]]) -> bytes:
    """A row an example: the motion on one character, then the other one, as predicted and in truth; as PNG."""
    rows = [{name: _decoded(text) for name, text in example["pictures"].items()} for example in examples]
    width, height = (side + GAP for side in next(iter(rows[0].values())).size)
    sheet = Image.new("RGB", (LABEL + len(rows[0]) * width, TEXT + 2 * GAP + len(rows) * height), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(TEXT)
    for column, name in enumerate(rows[0]):
        middle = LABEL + column * width + (width - GAP) / 2
        pen.text((middle, GAP + TEXT / 2), name, fill="black", font=font, anchor="mm")
    for number, (example, row) in enumerate(zip(examples, rows, strict=True)):
        top = TEXT + 2 * GAP + number * height
        words = (example["animation"], example["part"], f"character {example['from']} to {example['to']}")
        for line, part in enumerate(words):
            pen.text((GAP, top + (line + 1) * 1.5 * TEXT), part, fill="black", font=font, anchor="lm")
        for column, picture in enumerate(row.values()):
            sheet.paste(picture, (LABEL + column * width, top))
    stream = io.BytesIO()
    sheet.save(stream, "PNG")
    return stream.getvalue()


def _decoded(text: str) -> Image.Image:
    picture = Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")
    return picture.resize((picture.width * SCALE, picture.height * SCALE), Image.Resampling.NEAREST)
