"""The figure and the table of relations, from the experiment's JSON alone."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from visual_dynamics.experiments.futures_pictures import INK, PAPER, Group, figure
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit

PICTURE = 320  # pixels a side of a picture, about: its pixels become squares of a whole number
ACROSS = 2  # images side by side
PALETTE = ((230, 97, 1), (94, 60, 153), (0, 136, 85), (200, 30, 90), (30, 110, 200), (140, 110, 0))  # of segments
EDGE = (20, 20, 20)
DOT, HEAD, WIDTH, WORDS, BESIDE = 6, 11, 3, 18, 26  # pixels: nodes, arrow heads, lines, letters, from line to letters
SPAN = 2.0  # deviations that a segment's arrows show
ROWS = {
    "ours": "**sampled futures**",
    "true futures": "ceiling: true futures",
    "shuffled": "floor: sampled motions, shuffled",
}


def draw(result: dict[str, Any], folder: Path) -> str:
    """The figure into `folder`; returns table and notes as Markdown."""
    write_atomically(folder / "relations.png", figure(groups(result["pictures"])))
    text = f"### Relations\n\n{table(result)}\n\n{more(result)}\n\n{notes(result)}\n"
    write_atomically(folder / "relations.md", text.encode())
    return text


def groups(pictures: list[dict[str, Any]]) -> list[Group]:
    """Input, segments and graph of every image, some images to a row."""
    across = min(ACROSS, len(pictures))
    blank = Image.new("RGB", _enlarged(pictures[0]["input"]).size, PAPER)
    tiles = [[_enlarged(one["input"]), segments(one), graph(one)] for one in pictures]
    tiles += [[blank] * 3] * (-len(tiles) % across)
    made = []
    for column in range(across):
        rows = [tiles[start + column] for start in range(0, len(tiles), across)]
        made.append(Group("", ["input", "segments found", "relations found"], rows))
    return made


def segments(one: dict[str, Any]) -> Image.Image:
    """Each segment in a colour of its own on a pale image."""
    picture, scale = _enlarged(one["input"]), _scale(one["input"])
    labels = np.array(_decoded(one["segments"]))[:, :, 0].repeat(scale, 0).repeat(scale, 1)
    pixels = _pale(picture, 0.85)
    for number in range(1, labels.max(initial=0) + 1):
        pixels[labels == number] = 0.7 * np.array(_colour(number - 1)) + 0.3 * 255
    return Image.fromarray(pixels.astype(np.uint8))


def graph(one: dict[str, Any]) -> Image.Image:
    """Nodes with the line along which each moves; edges with their strengths; for a node with an edge an arrow, which
    says where it goes when the node at the other end follows its own."""
    scale = _scale(one["input"])
    picture = Image.fromarray(_pale(_enlarged(one["input"]), 0.6).astype(np.uint8))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(WORDS)
    nodes, edges = one["graph"]["nodes"], one["graph"]["edges"]
    centres = [((x + 0.5) * scale, (y + 0.5) * scale) for x, y in (node["centre"] for node in nodes)]
    for edge in edges:
        pen.line([centres[edge["first"]], centres[edge["second"]]], fill=EDGE, width=WIDTH)
    arrows: dict[int, tuple[float, float]] = {}
    for edge in edges:
        for end in ("first", "second"):
            arrows.setdefault(edge[end], edge[f"{end}_direction"])
    for number, (node, centre) in enumerate(zip(nodes, centres, strict=True)):
        colour = _colour(number)
        if node["moves"]:
            length = SPAN * node["motion"]["along"] * scale
            way = arrows.get(number, node["motion"]["direction"])
            _arrow(pen, centre, way, length, colour, both=number not in arrows)
        pen.ellipse([centre[0] - DOT, centre[1] - DOT, centre[0] + DOT, centre[1] + DOT], fill=colour, outline=EDGE)
    for edge in edges:
        (x, y), (u, v) = centres[edge["first"]], centres[edge["second"]]
        length, words = max(1.0, math.hypot(u - x, v - y)), f"{edge['strength']:.2f}"
        aside = BESIDE if u >= x else -BESIDE  # below the line
        middle = ((x + u) / 2 - (v - y) / length * aside, (y + v) / 2 + (u - x) / length * aside)
        pen.rectangle(_grown(pen.textbbox(middle, words, font=font, anchor="mm")), fill=PAPER)
        pen.text(middle, words, fill=INK, font=font, anchor="mm")
    return picture


def _arrow(
    pen: ImageDraw.ImageDraw,
    start: tuple[float, float],
    way: tuple[float, float],
    length: float,
    colour: tuple[int, int, int],
    both: bool,
) -> None:
    """From the start along a unit vector; or to both sides, where a line has no sense."""
    for sign in (1, -1) if both else (1,):
        x, y = (start[axis] + sign * way[axis] * length for axis in (0, 1))
        pen.line([start, (x, y)], fill=colour, width=WIDTH + 1)
        angle = math.atan2(sign * way[1], sign * way[0])
        tip = (x + math.cos(angle) * HEAD / 2, y + math.sin(angle) * HEAD / 2)
        sides = [(x + HEAD * math.cos(angle + turn), y + HEAD * math.sin(angle + turn)) for turn in (2.5, -2.5)]
        pen.polygon([tip, *sides], fill=colour)


def table(result: dict[str, Any]) -> str:
    """Edges found, false edges and strengths."""
    first, second = result["protocol"]["visible"]
    lines = [
        f"| | images | circle-triangle found, both visible (at least {first} px) | at least {second} px | false edge | "
        "circle-square | square-triangle |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    target = result["protocol"]["target"]
    lines.append(f"| to reach | | ≥ {_percent(target['found'])} | | ≤ {_percent(target['false'])} | | |")
    for name, title in ROWS.items():
        row = result["rows"][name]
        found = [
            f"{_percent(row['found'][str(px)]['share'])} of {row['found'][str(px)]['images']}" for px in (first, second)
        ]
        false = [row["false"], *row["false_each"].values()]
        lines.append(f"| {title} | {row['images']} | {' | '.join([*found, *map(_percent, false)])} |")
    return "\n".join(lines)


def more(result: dict[str, Any]) -> str:
    """Strengths, directions and segments."""
    names = list(result["rows"]["ours"]["strengths"])
    heads = [*(f"strength {name}" for name in names), "circle's direction off by", "triangle's"]
    heads += ["segments", "visible shapes", "images with just these", "an edge within one shape"]
    lines = [f"| mean | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name, title in ROWS.items():
        row = result["rows"][name]
        cells = [_number(row["strengths"][couple]) for couple in names]
        cells += [_number(row["angles"][shape], 1, "°") for shape in ("circle", "triangle")]
        cells += [_number(row["segments"]), _number(row["seen"])]
        cells += [_percent(row["right_segments"]), _percent(row["one_shape"])]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use numbers and figure."""
    protocol, size = result["protocol"], result["protocol"]["size"]
    return (
        f"{protocol['images']} generated test images of {size}x{size} pixels, {protocol['futures']} futures each. "
        "Segments and edges come from image and futures alone; the true masks only say which segment is which shape, "
        f"and that a shape is visible: at least {protocol['visible'][0]} pixels of it. An edge: distance correlation "
        f"of the two motions at least {protocol['strength']:g}, and p at most {protocol['level']:g} by "
        f"{protocol['permutations']} permutations, corrected for the couples of the image (Holm). False edges are "
        "shares of all images. Strength 0: independent, 1: one motion tells the other. The ceiling is the same with "
        "true futures, the floor with every segment's motions in another random order. "
        "relations.png: the first test images; arrows of two deviations of a segment's motion: where it goes when "
        "the segment at the other end of its edge goes along its own arrow (or both the other way); two-headed "
        f"without an edge. Seed {result['seed']}, model {result['model']}, weights {result['weights'][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None, digits: int = 2, unit: str = "") -> str:
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def _decoded(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")


def _scale(text: str) -> int:
    return max(1, round(PICTURE / _decoded(text).width))


def _enlarged(text: str) -> Image.Image:
    picture, scale = _decoded(text), _scale(text)
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def _pale(picture: Image.Image, share: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mixed with so much white."""
    return np.array(picture) * (1 - share) + 255 * share


def _colour(number: int) -> tuple[int, int, int]:
    return PALETTE[number % len(PALETTE)]


def _grown(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    return box[0] - 3, box[1] - 3, box[2] + 3, box[3] + 3
