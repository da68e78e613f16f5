"""The Shapes experiment in small: the whole path from a model to a table, and figures from the JSON alone."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from visual_dynamics.data import shapes
from visual_dynamics.experiments.shapes import ShapesOptions, compute, draw

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    patch = pytest.MonkeyPatch()
    patch.setattr(shapes, "TRAIN_PAIRS", 50)
    steps: list[str] = []
    folder = tmp_path_factory.mktemp("pairs")
    pairs = shapes.shapes_pairs(12, seed=3, split="test", size=128)
    for number, (frame, following) in enumerate(zip(pairs.frames, pairs.next_frames, strict=True), 1):
        for name, picture in (("im1", frame), ("im2", following)):
            Image.fromarray(picture.permute(1, 2, 0).numpy()).save(folder / f"{number}_{name}.png")
    options = ShapesOptions(samples=20, pairs=folder)
    made = compute(options, CPU, lambda step, share: steps.append(step)).numbers
    patch.undo()
    assert "ours (smooth)" in steps
    return json.loads(json.dumps(made))


def test_every_row_and_column_is_there(result: dict) -> None:
    for name in ("generated", "whole_pixels", "authors"):
        rows = result["sets"][name]["rows"]
        autoencoder = "AE" if name == "generated" else "AE (trained on sub-pixel places)"
        ours = ["ours, z from N(0, I)", "ours, z from the learned prior", "ours"]
        assert list(rows) == ["copy", "Flow", autoencoder, *ours, "floor"]
        for row in rows.values():
            assert set(row) == {"circles", "squares", "triangles", "circles_triangles"}


def test_a_code_moves_its_own_scene_and_another(result: dict) -> None:
    found = result["analogies"]
    assert 0 < found["reconstruction"] < found["copy"] / 2
    assert 0 < found["analogy"] < found["copy"] / 2


def test_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = draw(result, tmp_path)
    assert "| **ours** |" in text and "| ours, paper | 1.70 | 2.48 | 1.14 | 2.46 |" in text and "floor" in text
    assert Image.open(tmp_path / "shapes_generated.png").size[0] > 800
