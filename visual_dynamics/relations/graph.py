"""Which parts of an image move together, found from one image and many of its sampled futures.

The paper ends with the hope for "inferring objects' higher-order relationships by examining correlations in their
motion distributions". Here segments are found without labels (segments.py) and measured in every future. Pairs of
segments whose motions depend on each other (dependence.py) become the edges of a graph.

    model = visual_dynamics.load("shapes")
    found = find_relations(model.predictor, frame, model.source())
    print(found.graph())
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from visual_dynamics.images import Color, Pixels
from visual_dynamics.relations.dependence import SPREAD, Dependence, Spread, dependences, spread
from visual_dynamics.relations.segments import motion_segments
from visual_dynamics.sampling.latents import LatentSource
from visual_dynamics.sampling.moves import futures
from visual_dynamics.sampling.predictor import Predictor

SAMPLES = 64  # futures
STRENGTH = 0.5  # of an edge at least: a weaker dependence may come from one segment hiding another
LEVEL = 0.05  # p-value of an edge at most, corrected for the number of pairs

SIDE = 320  # pixels a side of a picture of a graph, about
PALETTE = ((230, 97, 1), (94, 60, 153), (0, 136, 85), (200, 30, 90), (30, 110, 200), (140, 110, 0))  # of segments
LINE, PAPER = (20, 20, 20), (255, 255, 255)
DOT, HEAD, WIDTH, TEXT, BESIDE = 6, 11, 3, 18, 26  # pixels: nodes, arrow heads, lines, letters, from line to letters
SPAN = 2.0  # standard deviations of a motion that an arrow shows

Point = tuple[float, float]


class Segment(NamedTuple):
    """A node of the graph: what moves as one. Places and lengths in pixels, y down."""

    area: int
    centre: tuple[float, float]  # x, y
    colour: tuple[float, float, float]  # the median, in [0, 1]
    motion: Spread | None  # None where it is known in fewer than two futures
    measured: float  # share of the futures in which its motion is known


class Relations(NamedTuple):
    """The segments of an image, the largest first, and the dependence of every pair of them."""

    masks: Tensor  # bool (K, H, W)
    motions: Tensor  # float (N, K, 2): dx, dy of each in each future; NaN where it is unknown
    segments: list[Segment]
    pairs: list[Dependence]  # the strongest first

    @property
    def edges(self) -> list[Dependence]:
        """The pairs that depend on each other."""
        return [pair for pair in self.pairs if pair.strength >= STRENGTH and pair.p <= LEVEL]

    def graph(self) -> dict[str, Any]:
        """Nodes and edges, as JSON; the ends of an edge are indices of nodes."""
        nodes = [
            segment._asdict()
            | {
                "moves": segment.motion is not None and segment.motion.along >= SPREAD,
                "motion": segment.motion._asdict() if segment.motion else None,
            }
            for segment in self.segments
        ]
        return {"nodes": nodes, "edges": [edge._asdict() for edge in self.edges]}


def find_relations(
    predictor: Predictor, frame: Tensor, source: LatentSource, samples: int = SAMPLES, seed: int = 0
) -> Relations:
    """The relations in a frame (3, S, S) of the predictor, from sampled futures of it."""
    return relations_of(frame, futures(predictor, frame, source, samples, seed), seed)


def relations_of(frame: Tensor, following: Tensor, seed: int = 0) -> Relations:
    """The relations in a frame (3, H, W), from given futures of it (N, 3, H, W); the seed is for the permutations."""
    masks, motions = motion_segments(frame, following)
    segments = [_segment(frame.cpu(), mask, motion) for mask, motion in zip(masks, motions.unbind(1), strict=True)]
    return Relations(masks, motions, segments, dependences(motions, seed))


def _segment(frame: Tensor, mask: Tensor, motions: Tensor) -> Segment:
    known = motions[motions.isfinite().all(1)].double().numpy()
    y, x = mask.nonzero().double().mean(0).tolist()
    red, green, blue = frame[:, mask].median(1).values.tolist()
    motion = spread(known) if len(known) > 1 else None
    return Segment(int(mask.sum()), (x, y), (red, green, blue), motion, len(known) / max(1, len(motions)))


# --- pictures ---


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
