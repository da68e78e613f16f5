"""Which parts of an image move together, found from one image and many of its sampled futures.

The paper ends with the hope for "inferring objects' higher-order relationships by examining correlations in their
motion distributions". Here segments are found without labels (segments.py) and measured in every future. Pairs of
segments whose motions depend on each other (dependence.py) become the edges of a graph.

    model = visual_dynamics.load("shapes")
    found = find_relations(model.predictor, frame, model.source())
    print(found.graph())
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from visual_dynamics.relations.dependence import SPREAD, Dependence, Spread, dependences, spread
from visual_dynamics.relations.segments import motion_segments
from visual_dynamics.sampling.latents import LatentSource
from visual_dynamics.sampling.moves import futures
from visual_dynamics.sampling.predictor import Predictor

SAMPLES = 64  # futures
STRENGTH = 0.5  # of an edge at least: a weaker dependence may come from one segment hiding another
LEVEL = 0.05  # p-value of an edge at most, corrected for the number of pairs


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
