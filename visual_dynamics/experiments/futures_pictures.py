"""The two figures of the futures experiment and their notes, from its JSON alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline

PICTURE = 192  # pixels a side of a picture in a figure, about: its pixels become squares of a whole number
GAP, WIDE_GAP = 8, 28  # pixels between pictures, and between groups of them
TEXT, SMALL_TEXT = 22, 18  # pixels
HEAD = TEXT + SMALL_TEXT + 24  # room for headings
PAPER, INK, FRAME = (255, 255, 255), (32, 32, 32), (220, 0, 140)  # FRAME: around what is zoomed into


class Group(NamedTuple):
    """Columns under one heading."""

    heading: str
    words: list[str]  # over each column
    rows: list[list[Image.Image]]  # the pictures of each row, all of one size


def draw(result: dict[str, Any], folder: Path) -> str:
    """Both figures into `folder`; returns the notes as Markdown."""
    name = result["experiment"]
    write_atomically(folder / f"{name}.png", figure(futures(result["rows"])))
    write_atomically(folder / f"{name}_extrapolation.png", figure(extrapolations(result["rows"])))
    text = f"### Sampled futures\n\n{table(result['rows'])}\n\n{notes(result)}\n"
    write_atomically(folder / f"{name}.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    ours, copy = (fmean(row["errors"][name] for row in result["rows"]) for name in ("reconstruction", "copy"))
    measure = f"squared error of the reconstruction, mean of {len(result['rows'])} rows"
    return Headline(measure, "no numbers", f"{ours:.1f}", f"{copy:.1f} (copying the input)")


def futures(rows: list[dict[str, Any]]) -> list[Group]:
    """Columns (a) to (e) of the paper, with Flow before (e) where there is one."""

    def column(name: str) -> list[list[Image.Image]]:
        return [[_framed(row["pictures"][name], row["zoom"])] for row in rows]

    numbers = _counted(rows[0]["pictures"]["samples"])
    samples = [[_framed(sample, row["zoom"]) for sample in row["pictures"]["samples"]] for row in rows]
    closer = [
        [_zoomed(picture, row["zoom"]) for picture in (row["pictures"]["truth"], *row["pictures"]["samples"])]
        for row in rows
    ]
    return [
        Group("(a) input", [""], column("input")),
        Group("(b) truth", [""], column("truth")),
        Group("(c) reconstruction", [""], column("reconstruction")),
        Group("(d) samples", numbers, samples),
        *([Group("Flow", [""], column("flow"))] if rows[0]["pictures"]["flow"] else []),
        Group("(e) zoomed", ["truth", *(f"sample {number}" for number in numbers)], closer),
    ]


def extrapolations(rows: list[dict[str, Any]]) -> list[Group]:
    """The input, and what follows when the motion of sample 1 repeats."""
    steps = [[_enlarged(step) for step in row["pictures"]["steps"]] for row in rows]
    still = [[_enlarged(row["pictures"]["input"])] for row in rows]
    return [Group("input", [""], still), Group("steps", _counted(steps[0]), steps)]


def figure(groups: list[Group]) -> bytes:
    """Groups side by side under their headings, as PNG."""
    step = groups[0].rows[0][0].width + GAP  # from a picture to the next
    columns, down = sum(len(group.words) for group in groups), len(groups[0].rows)
    width = GAP + columns * step + (len(groups) - 1) * (WIDE_GAP - GAP)
    sheet = Image.new("RGB", (width, HEAD + down * step), PAPER)
    pen, left = ImageDraw.Draw(sheet), GAP
    for heading, words, rows in groups:
        _write(pen, heading, left + (len(words) * step - GAP) / 2, GAP + TEXT / 2, TEXT)
        for column, word in enumerate(words):
            _write(pen, word, left + column * step + (step - GAP) / 2, HEAD - GAP - SMALL_TEXT / 2, SMALL_TEXT)
            for row, pictures in enumerate(rows):
                sheet.paste(pictures[column], (left + column * step, HEAD + row * step))
        left += len(words) * step + WIDE_GAP - GAP
    return _saved(sheet)


def table(rows: list[dict[str, Any]]) -> str:
    """What each row shows, and how near the reconstruction comes."""
    lines = ["| row | input | error of the reconstruction | of copying the input |", "|---:|---|---:|---:|"]
    for number, row in enumerate(rows, 1):
        errors = row["errors"]
        lines.append(f"| {number} | {row['name']} | {errors['reconstruction']:.1f} | {errors['copy']:.1f} |")
    return "\n".join(lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the figures."""
    protocol = result["protocol"]
    size, flow = protocol["size"], protocol["flow"]
    parts = [
        f"{protocol['source']}. "
        "futures: (a) the input, (b) the true next frame, (c) our reconstruction (the pair encoded and decoded), "
        "(d) sampled next frames, z from training posteriors,",
        f"Flow a sample of flow transfer from {flow['pairs']:,} pairs ({flow['source']})," if flow else "",
        "(e) what lies in the pink frame, enlarged: the square with the most true motion.",
        "extrapolation: the motion of sample 1, repeated.",
        "Rows were chosen before anything was predicted.",
        f"Errors: squared differences of colours in [0, 1], summed over {size}x{size}x3.",
        protocol["note"],
        f"Seed {result['seed']} (row r: `sample --seed` {result['seed']} + r - 1), model {result['model']}, "
        f"weights {result['weights'][:12]}, commit {short_commit(result['commit'])}, {result['device']}, "
        f"{result['seconds']:.0f} s.",
    ]
    return " ".join(part for part in parts if part)


def _counted(things: list[Any]) -> list[str]:
    return [str(number + 1) for number in range(len(things))]


def decoded(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")


def _enlarged(text: str) -> Image.Image:
    picture = decoded(text)
    scale = max(1, round(PICTURE / picture.width))
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def _framed(text: str, zoom: list[int]) -> Image.Image:
    """Enlarged, with a thin frame around what is zoomed into."""
    picture = _enlarged(text)
    scale = picture.width // decoded(text).width
    left, top, side = (scale * length for length in zoom)
    ImageDraw.Draw(picture).rectangle((left, top, left + side - 1, top + side - 1), outline=FRAME, width=2)
    return picture


def _zoomed(text: str, zoom: list[int]) -> Image.Image:
    """That part alone, as large as the pictures beside it."""
    left, top, side = zoom
    part = decoded(text).crop((left, top, left + side, top + side))
    picture = part.resize(_enlarged(text).size, Image.Resampling.NEAREST)
    ImageDraw.Draw(picture).rectangle((0, 0, picture.width - 1, picture.height - 1), outline=FRAME, width=2)
    return picture


def _write(pen: ImageDraw.ImageDraw, words: str, x: float, y: float, size: int) -> None:
    pen.text((x, y), words, fill=INK, font=ImageFont.load_default(size), anchor="mm")


def _saved(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()
