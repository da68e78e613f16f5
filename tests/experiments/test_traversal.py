"""Traversal in small: numbers by hand, dimensions that a network ignores, pictures from the JSON alone."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import traversal
from visual_dynamics.experiments.traversal import StartImages, TraversalOptions
from visual_dynamics.reporting.base import Measured
from visual_dynamics.sampling.moves import stored_usage

CPU = torch.device("cpu")


def make(options: TraversalOptions) -> Measured:
    return traversal.compute(options, CPU, lambda step, share: None)


@pytest.fixture(scope="module")
def measured(tiny_weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    patch = pytest.MonkeyPatch()
    patch.setattr(traversal, "MEASURED", 6)
    patch.setattr(traversal, "VALUES", 5)
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(*map(np.arange, (1, 1)), np.array([1, 2])))
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(3), folder)
    tiny = str(tiny_weights_file)
    made = make(TraversalOptions(model="shapes", sprites_model=tiny, sprites=folder, samples=3, seed=3))
    patch.undo()
    return made


@pytest.fixture(scope="module")
def result(measured: Measured) -> dict:
    return json.loads(json.dumps(measured.numbers))


def test_the_strongest_dimensions_move_far_more(result: dict) -> None:
    found = result["sets"]["shapes"]
    assert found["active"] == 7 and found["inactive"] == [4] and found["images"] == 3
    nats = [row["nats"] for row in found["rows"]]
    assert nats == sorted(nats, reverse=True) and [row["dimension"] for row in found["rows"]][-1] == 4
    by_hand = np.mean([row["moved"] for row in found["rows"][:5]]) / found["rows"][-1]["moved"]
    assert found["ratio"] == pytest.approx(by_hand)
    assert found["least_ratio"] == pytest.approx(
        min(row["moved"] for row in found["rows"][:5]) / found["rows"][-1]["moved"]
    )
    assert found["ratio"] > found["least_ratio"] > 20
    for row in found["rows"][:5]:
        assert row["circle_dy"] == pytest.approx(row["triangle_dx"], abs=0.8)  # the world's law
        assert max(abs(row["circle_dy"]), abs(row["square_dx"])) > 1


def test_without_inactive_dimensions_there_is_no_ratio(result: dict) -> None:
    found = result["sets"]["sprites"]
    assert found["images"] == 2  # characters; none twice
    assert (found["ratio"] is None) == (not found["inactive"])


def test_a_dimension_that_the_network_ignores_moves_nothing() -> None:
    model = load("shapes")
    model.predictor.network.kernel_decoder.from_latent.weight.data[:, 2] = 0
    frame = shapes.shapes_pairs(1, 0, "test", "smooth").batch(torch.tensor([0])).frame
    used = stored_usage(model.weights.posteriors)
    rows = traversal.vary(model, used, [2, 5], StartImages(frame, ""), lambda share: None)
    assert rows[0]["moved"] == 0 and rows[1]["moved"] > 0.01


def test_pictures_show_what_was_measured(measured: Measured, result: dict) -> None:
    strip, clip = (Image.open(io.BytesIO(measured.pictures[f"traversal_shapes.{kind}"])) for kind in ("png", "webp"))
    assert strip.width > 9 * 128 and strip.height > 6 * 128
    assert clip.n_frames == 8 and clip.width > 6 * 128 and clip.height > 3 * 128
    shown = np.array(strip.convert("RGB"), dtype=float)[-6 * 136 :][:128]  # the strongest dimension, three images
    columns = [strip.width - (place + 1) * 136 - place // 3 * 20 for place in range(9)]
    pictures = [shown[:, left : left + 128] for left in reversed(columns)]  # three values of each image
    change = np.mean([np.abs(pictures[3 * image] - pictures[3 * image + 2]) for image in range(3)]) / 255
    assert change == pytest.approx(result["sets"]["shapes"]["rows"][0]["moved"], rel=0.01)


def test_tables(result: dict, tmp_path: Path) -> None:
    text = traversal.draw(result, tmp_path)
    assert "4 (inactive)" in text and "(target: at least 20)" in text and "Liberated Pixel Cup" in text


def test_what_cannot_be_compared_is_said(result: dict) -> None:
    found = result["sets"]["shapes"] | {"ratio": None}
    words = traversal.conclusion(found | {"inactive": [], "moved_by_inactive": None}, result["protocol"])
    assert "No dimension is inactive" in words
    words = traversal.conclusion(found | {"moved_by_inactive": 0.0}, result["protocol"])
    assert "move nothing at all" in words
    assert traversal.moved_table(found | {"rows": [found["rows"][0] | {"square_dx": None}]}).endswith("|")


def test_a_learned_prior_does_not_rank_dimensions(tiny_weights_file: Path, tmp_path: Path) -> None:
    load(tiny_weights_file).save_copy(tmp_path / "prior.safetensors", learned_prior=True)
    prior, tiny = str(tmp_path / "prior.safetensors"), str(tiny_weights_file)
    for options in (TraversalOptions(model=prior), TraversalOptions(model=tiny, sprites_model=prior, sprites=tmp_path)):
        with pytest.raises(UserError, match=r"prior\.safetensors holds no training posteriors, which rank"):
            make(options)
