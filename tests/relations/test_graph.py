"""Relations: graphs from drawn futures with a known law, and through a network."""

import json

import pytest
import torch

from tests.boxes import RED, box, canvas
from visual_dynamics.data import shapes
from visual_dynamics.relations.dependence import Dependence
from visual_dynamics.relations.graph import LEVEL, STRENGTH, Relations, find_relations, relations_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.weights import Weights


def true_futures(number: int, textured: bool = False, count: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    scene = shapes.draw_scenes(number + 1, 0, "test").subset([number])
    many = scene.subset([0] * count).with_new_motions(5)
    frame = shapes.images(scene, rendering="smooth", textured=textured)[0] / 255
    return frame, shapes.images(many, True, "smooth", textured=textured) / 255


def test_circle_and_triangle_move_together_and_the_square_does_not() -> None:
    frame, futures = true_futures(0)
    found = relations_of(frame, futures)
    graph = json.loads(json.dumps(found.graph()))
    assert len(graph["nodes"]) == len(found.masks) == 3 and len(graph["edges"]) == 1
    assert found.edges == found.pairs[:1] and len(found.pairs) == 3
    edge = graph["edges"][0]
    assert edge["strength"] > 0.95 >= STRENGTH and edge["p"] <= LEVEL
    directions = sorted([edge["first_direction"], edge["second_direction"]], key=lambda one: abs(one[0]))
    (x, y), (across, down) = directions
    assert abs(x) < 0.1 and abs(across + down) < 0.1  # one up or down, one on the diagonal
    assert y * down < 0  # one down, the other up
    free = ({0, 1, 2} - {edge["first"], edge["second"]}).pop()
    assert abs(graph["nodes"][free]["motion"]["direction"][0]) > 0.99  # the square goes left and right
    assert all(
        node["moves"] and node["area"] == int(mask.sum())
        for node, mask in zip(graph["nodes"], found.masks, strict=True)
    )


def test_textured_shapes_have_the_same_relation() -> None:
    found = relations_of(*true_futures(0, textured=True))
    largest = [edge for edge in found.edges if min(found.segments[k].area for k in edge[:2]) > 60]
    assert len(largest) == 1 and largest[0].strength > 0.9


def test_a_network_gives_the_same_graph_for_the_same_seed(tiny_weights: Weights) -> None:
    predictor, source = Predictor(tiny_weights.network), tiny_weights.posteriors
    frame = torch.full((3, 16, 16), 0.2)
    frame[:, 4:9, 4:9] = torch.tensor([0.9, 0.5, 0.1])[:, None, None]
    found, again = (find_relations(predictor, frame, source, samples=6, seed=3) for _ in range(2))
    assert found.graph() == again.graph() and found.motions.shape == (6, len(found.masks), 2)


def test_a_segment_is_measured_where_it_lies() -> None:
    """A red box, 8 wide and 4 high, goes left, right and down, and is gone in the last of four futures."""
    futures = [box(canvas(), RED, 18 + dx, 6 + dy, 8, 4) for dx, dy in ((-3, 0), (3, 0), (0, 2))]
    (segment,) = relations_of(box(canvas(), RED, 18, 6, 8, 4), torch.stack([*futures, canvas()])).segments
    assert segment.area == 32 and segment.centre == (21.5, 7.5)
    assert segment.colour == pytest.approx((0.9, 0.1, 0.1)) and segment.measured == 0.75


def test_an_edge_is_strong_and_no_chance() -> None:
    def pair(strength: float, p: float) -> Dependence:
        return Dependence(0, 1, strength, p, (1.0, 0.0), (0.0, 1.0), 1.0, 64)

    pairs = [pair(1.0, LEVEL), pair(0.9, 1.01 * LEVEL), pair(STRENGTH, 0.001), pair(0.99 * STRENGTH, 0.001)]
    assert Relations(torch.zeros(2, 1, 1), torch.zeros(64, 2, 2), [], pairs).edges == [pairs[0], pairs[2]]
