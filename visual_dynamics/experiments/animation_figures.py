"""Tables and figures of the animation experiment, from its JSON alone."""

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

PARTS = {"within one sex": "-", "across": "--"}  # and how their lines are drawn
COLOURS = {"direct": "tab:blue", "guided": "tab:orange"}
STRIPS = {"reference": "reference", "truth": "truth", "made": "guided"}  # rows of a strip, and their labels
SCALE = 2  # pixels a pixel
GAP, LABEL, TEXT = 10, 104, 18  # pixels: between strips, room for labels, height of words
PAPER, INK = (255, 255, 255), (32, 32, 32)
CREDIT = "Sprites by the Liberated Pixel Cup contributors (lpc.opengameart.org), CC-BY-SA 3.0 / GPL 3.0."
BEHIND = (150, 150, 150)  # sprites: light and dark outlines both show


def draw(result: dict[str, Any], folder: Path) -> str:
    """Both figures into `folder`, strips where the result holds pictures; returns tables and notes as Markdown."""
    plot(result, folder / "animation.png")
    if result["strips"]:
        write_atomically(folder / "animation_strips.png", strips(result["strips"]))
    parts = ["### Whole animations carried over to unseen characters: squared error of a frame", table(result, "error")]
    parts += ["### The worst frame number over frame 1", table(result, "growth")]
    parts += ["### % of frames in the right pose", table(result, "right pose"), notes(result)]
    text = "\n\n".join(parts) + "\n"
    write_atomically(folder / "animation.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    guided, copy = (fmean(result["rows"][row]["all"]["error"].values()) for row in ("guided", "copy"))
    measure = "squared error of a frame, average of five animations"
    return Headline(measure, "not in the paper", f"{guided:.1f}", f"{copy:.1f} (standing still)")


def table(result: dict[str, Any], what: str) -> str:
    """One number of every row, part and animation."""
    animations = result["animations"]
    scale = 100 if what == "right pose" else 1  # per cent
    lines = [f"| {what} | {' | '.join(animations)} | average |", f"|---|{'---:|' * (len(animations) + 1)}"]
    for part in sorted(next(iter(result["rows"].values())), key=[*PARTS, "all"].index):
        for row, found in result["rows"].items():
            values = [found[part][what][name] for name in animations]
            average = None if None in values else sum(values) / len(values)
            cells = ["none" if value is None else f"{scale * value:.1f}" for value in (*values, average)]
            lines.append(f"| {row}, {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    protocol = result["protocol"]
    counts = {part: sum(couple["part"] == part for couple in result["couples"]) for part in PARTS}
    views = ", ".join(protocol.get("views", ())) or "all"
    outside = max(found[part]["outside palette"] for found in result["rows"].values() for part in found)
    return (
        f"Couples of characters: {counts['within one sex']} within one sex, {counts['across']} across "
        f"({protocol['split']}, same weapon); views: {views}. "
        f"{protocol['twins']} of the targets have a twin with the other weapon among the 500 training characters. "
        "From the first frame of the target the others are made: direct, each at once; guided, each after a model of "
        "what comes next has drafted it from the one before; copy, the target stands still. "
        "Errors: squared differences of colours in [0, 1] over black, summed over 60x60x3. "
        f"Right pose: the nearest true frame of the clip is at most {protocol['alike']:g} away from the right one. "
        f"Pixels in a colour that the target's first frame does not have: {100 * outside:.2f} %. {CREDIT} "
        f"Seed {result['seed']}, model {result['model']}, weights {result['weights'][:12]}, "
        f"guide {result['guide']}, weights {result['guide_weights'][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Error by frame number, a panel an animation: solid within one sex, dashed across, copying in grey."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    animations, rows = result["animations"], result["rows"]
    figure = Figure(figsize=(2.6 * len(animations) + 0.4, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, name in zip(figure.subplots(1, len(animations), sharey=True, squeeze=False)[0], animations, strict=True):
        lines = [("copy", "all", "0.6", "-")]
        lines += [(row, part, COLOURS[row], PARTS[part]) for part in PARTS for row in COLOURS if part in rows[row]]
        for row, part, colour, style in lines:
            errors = rows[row][part]["error by frame"][name]
            words = row if row == "copy" else f"{row}, {part}"
            numbers = range(1, len(errors) + 1)
            axis.plot(numbers, errors, style, color=colour, marker="o", markersize=3, linewidth=1.4, label=words)
        axis.set_yscale("log")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis="y", color="0.9")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("frame", fontsize=9)
    figure.axes[0].set_ylabel("squared error", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=len(labels), loc="outside lower center", frameon=False)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    write_atomically(path, stream.getvalue())


def strips(examples: list[dict[str, Any]]) -> bytes:
    """Example after example: a heading, then the clips of the reference, of the target and ours, as PNG."""
    blocks = [[_decoded(example["pictures"][name]) for name in STRIPS] for example in examples]
    width = LABEL + max(picture.width for block in blocks for picture in block) + GAP
    heights = [GAP + TEXT + GAP + sum(picture.height for picture in block) for block in blocks]
    sheet = Image.new("RGB", (width, sum(heights) + GAP), PAPER)
    pen, font, top = ImageDraw.Draw(sheet), ImageFont.load_default(TEXT), 0
    for example, block, height in zip(examples, blocks, heights, strict=True):
        couple = f"character {example['from']} to {example['to']}, {example['part']}"
        words = f"{example['animation']}, {example['view']}: {couple}"
        pen.text((LABEL, top + GAP + TEXT / 2), words, fill=INK, font=font, anchor="lm")
        below = top + GAP + TEXT + GAP
        for label, picture in zip(STRIPS.values(), block, strict=True):
            pen.text((LABEL - GAP, below + picture.height / 2), label, fill=INK, font=font, anchor="rm")
            sheet.paste(picture, (LABEL, below))
            below += picture.height
        top += height
    stream = io.BytesIO()
    sheet.save(stream, "PNG")
    return stream.getvalue()


def _decoded(text: str) -> Image.Image:
    """A strip over grey, enlarged."""
    picture = Image.open(io.BytesIO(base64.b64decode(text))).convert("RGBA")
    ground = Image.new("RGBA", picture.size, (*BEHIND, 255))
    size = picture.width * SCALE, picture.height * SCALE
    return Image.alpha_composite(ground, picture).convert("RGB").resize(size, Image.Resampling.NEAREST)
