"""The relations experiment in small: how graphs are scored by the true masks, tables and the figure."""

import io
import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from visual_dynamics.experiments import relations
from visual_dynamics.experiments.relations import RelationsOptions, angles, names_of, score, shuffled_pairs, summary
from visual_dynamics.relations.dependence import Dependence
from visual_dynamics.relations.graph import Relations
from visual_dynamics.reporting.base import Measured

DIAGONAL = 0.5**0.5


def bands(*rows: tuple[int, int]) -> torch.Tensor:
    """Masks (K, 12, 12) of rows from, to."""
    masks = torch.zeros(len(rows), 12, 12, dtype=torch.bool)
    for mask, (first, last) in zip(masks, rows, strict=True):
        mask[first:last] = True
    return masks


VISIBLE = bands((0, 4), (4, 8), (8, 11)).float()  # circle, square, triangle: 48, 48, 36 pixels


def pair(first: int, second: int, strength: float = 0.9, direction: tuple[float, float] = (0.0, 1.0)) -> Dependence:
    return Dependence(first, second, strength, 0.001, direction, (DIAGONAL, -DIAGONAL), 0.9, 64)


def graph(masks: torch.Tensor, *pairs: Dependence) -> Relations:
    return Relations(masks, torch.zeros(4, len(masks), 2), [], list(pairs))


def test_segments_are_named_by_the_true_masks() -> None:
    assert names_of(bands((0, 4), (3, 7), (8, 11), (10, 12)), VISIBLE) == ["circle", "square", "triangle", "triangle"]
    assert names_of(bands((11, 12)), VISIBLE) == ["ground"]


def test_scores_of_a_graph() -> None:
    masks = bands((4, 8), (0, 4), (8, 11))  # square, circle, triangle
    found = graph(masks, pair(1, 2, 0.8), pair(0, 1, 0.3), pair(0, 2, 0.6))
    one = score(found, VISIBLE)
    assert one["found"] == ["circle-triangle", "square-triangle"]
    assert one["strengths"] == {"circle-triangle": 0.8, "circle-square": 0.3, "square-triangle": 0.6}
    assert one["pixels"] == {"circle": 48, "square": 48, "triangle": 36}
    assert one["angles"] == pytest.approx({"circle": 0, "triangle": 0}, abs=0.1)
    right = score(graph(masks, pair(1, 2)), VISIBLE)
    none = score(graph(masks), VISIBLE)
    row = summary([one, right, none, score(graph(masks), VISIBLE / 2)])  # in the last only 18 of the triangle
    found = {name: (each["images"], each["share"]) for name, each in row["found"].items()}
    assert found == {"32": (3, 2 / 3), "12": (4, 0.5)}
    assert row["found"]["12"]["interval"] == pytest.approx((0.1500, 0.8500), abs=1e-4)  # Wilson's of 2 in 4
    assert row["false_interval"] == pytest.approx((0.0456, 0.6994), abs=1e-4)  # and of 1 in 4
    assert row["false"] == 0.25 and row["false_each"] == {"circle-square": 0, "square-triangle": 0.25}
    assert row["segments"] == 3 and row["seen"] == pytest.approx((3 + 3 + 3 + 0) / 4) and row["right_segments"] == 0.75
    assert row["strengths"]["circle-triangle"] == pytest.approx(0.85)


def test_an_edge_within_a_shape_is_neither_right_nor_false() -> None:
    found = graph(bands((0, 2), (2, 4)), pair(0, 1))
    row = summary([score(found, VISIBLE)])
    assert row["one_shape"] == 1 and row["false"] == 0 and row["found"]["32"]["share"] == 0


def test_directions_may_be_reversed_together_only() -> None:
    names = ["circle", "triangle"]
    back = pair(0, 1, direction=(0.0, -1.0))
    assert max(angles(names, back._replace(second_direction=(-DIAGONAL, DIAGONAL))).values()) < 0.1
    assert max(angles(names, back).values()) == pytest.approx(180, abs=0.1)


def test_shuffled_motions_have_no_relation() -> None:
    motions = torch.rand(64, 1, 2, generator=torch.Generator().manual_seed(0)).repeat(1, 3, 1) * 10
    assert max(one.strength for one in shuffled_pairs(motions, 0)) < 0.5
    assert shuffled_pairs(motions[:, :0], 0) == []


@pytest.fixture(scope="module")
def measured(tiny_weights_file: Path) -> Measured:
    patch = pytest.MonkeyPatch()
    patch.setattr(relations, "SAMPLES", 6)
    patch.setattr(relations, "TRUE_IMAGES", 1)
    options = RelationsOptions(samples=3, seed=1, model=str(tiny_weights_file))
    made = relations.compute(options, torch.device("cpu"), lambda step, share: None)
    patch.undo()
    return made


def test_every_row_is_measured(measured: Measured) -> None:
    result = measured.numbers
    rows = {name: row["images"] for name, row in result["rows"].items()}
    assert rows == {"ours": 3, "true futures": 1, "shuffled": 3} and len(result["pictures"]) == 3
    figure = Image.open(io.BytesIO(measured.pictures["relations.png"]))
    assert figure.width > 6 * 300 and figure.height > 2 * 300


def test_tables_come_from_the_json_alone(measured: Measured, tmp_path: Path) -> None:
    text = relations.draw(json.loads(json.dumps(measured.numbers)), tmp_path)
    assert "circle-triangle found" in text and "| **sampled futures** |" in text and "| to reach |" in text


def test_headline(measured: Measured) -> None:
    result = json.loads(json.dumps(measured.numbers))
    row = result["rows"]["ours"]
    row["found"]["32"] = {"images": 4, "share": 0.5, "interval": [0.15, 0.85]}
    row["false"], row["false_interval"] = 0.25, [0.0456, 0.6994]
    assert relations.headline(result).ours == "50.0 (15.0 to 85.0) % / 25.0 (4.6 to 69.9) %"
    del row["found"]["32"]["interval"], row["false_interval"]
    assert relations.headline(result).ours == "50.0 % / 25.0 %"
