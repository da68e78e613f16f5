"""Pictures of the relations in an image: its segments in colours, and its graph with arrows and strengths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from visual_dynamics.images import Color, Pixels

SIDE = 320  # pixels a side of a picture of a graph, about
PALETTE = ((230, 97, 1), (94, 60, 153), (0, 136, 85), (200, 30, 90), (30, 110, 200), (140, 110, 0))  # of segments
LINE, PAPER = (20, 20, 20), (255, 255, 255)
DOT, HEAD, WIDTH, TEXT, BESIDE = 6, 11, 3, 18, 26  # pixels: nodes, arrow heads, lines, letters, from line to letters
SPAN = 2.0  # standard deviations of a motion that an arrow shows

Point = tuple[float, float]


def draw_segments(picture: Pixels, masks: Tensor) -> Pixels:
    """Each segment (K, H, W) in a colour of its own on the pale picture (H, W, 3)."""
    result = _pale(picture, 0.85)
    for place, mask in enumerate(masks):
        result[mask.numpy()] = np.array([0.7 * colour + 0.3 * 255 for colour in _colour(place)], np.uint8)
    return result


def draw_graph(picture: Pixels, graph: dict[str, Any]) -> Pixels:
    """Nodes with arrows along their motions, and edges with their strengths, on the pale picture, enlarged.

    The arrow of a node with an edge says where it goes when the node at the other end follows its own arrow. Without an
    edge it has two heads.
    """
    scale = max(1, round(SIDE / picture.shape[1]))
    image = Image.fromarray(_pale(picture, 0.6).repeat(scale, 0).repeat(scale, 1))
    pen, nodes, edges = ImageDraw.Draw(image), graph["nodes"], graph["edges"]
    centres = [((x + 0.5) * scale, (y + 0.5) * scale) for x, y in (node["centre"] for node in nodes)]
    directions: dict[int, Point] = {}
    for edge in edges:
        pen.line([centres[edge["first"]], centres[edge["second"]]], fill=LINE, width=WIDTH)
        for end in ("first", "second"):
            directions.setdefault(edge[end], edge[f"{end}_direction"])
    for place, (node, centre) in enumerate(zip(nodes, centres, strict=True)):
        colour = _colour(place)
        if node["moves"]:
            length, direction = SPAN * node["motion"]["along"] * scale, node["motion"]["direction"]
            _arrow(pen, centre, directions.get(place, direction), length, colour, both=place not in directions)
        pen.ellipse([centre[0] - DOT, centre[1] - DOT, centre[0] + DOT, centre[1] + DOT], fill=colour, outline=LINE)
    for edge in edges:
        _write_beside(pen, centres[edge["first"]], centres[edge["second"]], f"{edge['strength']:.2f}")
    return np.array(image)


def _arrow(pen: ImageDraw.ImageDraw, start: Point, direction: Point, length: float, colour: Color, both: bool) -> None:
    """From the start along a unit vector, or to both sides."""
    for sign in (1, -1) if both else (1,):
        x, y = (start[axis] + sign * direction[axis] * length for axis in (0, 1))
        pen.line([start, (x, y)], fill=colour, width=WIDTH + 1)
        angle = math.atan2(sign * direction[1], sign * direction[0])
        tip = (x + math.cos(angle) * HEAD / 2, y + math.sin(angle) * HEAD / 2)
        sides = [(x + HEAD * math.cos(angle + turn), y + HEAD * math.sin(angle + turn)) for turn in (2.5, -2.5)]
        pen.polygon([tip, *sides], fill=colour)


def _write_beside(pen: ImageDraw.ImageDraw, start: Point, end: Point, words: str) -> None:
    """Words below the middle of a line."""
    (x, y), (u, v) = start, end
    length, aside = max(1.0, math.hypot(u - x, v - y)), BESIDE if u >= x else -BESIDE
    middle = ((x + u) / 2 - (v - y) / length * aside, (y + v) / 2 + (u - x) / length * aside)
    font = ImageFont.load_default(TEXT)
    left, top, right, bottom = pen.textbbox(middle, words, font=font, anchor="mm")
    pen.rectangle((left - 3, top - 3, right + 3, bottom + 3), fill=PAPER)
    pen.text(middle, words, fill=LINE, font=font, anchor="mm")


def _pale(picture: Pixels, share: float) -> Pixels:
    """Mixed with this share of white."""
    return (picture * (1 - share) + 255 * share).astype(np.uint8)


def _colour(place: int) -> Color:
    return PALETTE[place % len(PALETTE)]
