"""Traversal in small: numbers by hand, dimensions that a network ignores, pictures from the JSON alone."""

import base64
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
from visual_dynamics.experiments import traversal_figure, traversal_pictures
from visual_dynamics.experiments.traversal_figure import Images, Options

CPU = torch.device("cpu")


def make(options: Options) -> dict:
    return json.loads(json.dumps(traversal_figure.compute(options, CPU, lambda what, share: None)))


@pytest.fixture(scope="module")
def result(tiny_weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    patch = pytest.MonkeyPatch()
    patch.setattr(traversal_figure, "MEASURED", 6)
    patch.setattr(traversal_figure, "VALUES", 5)
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(*map(np.arange, (1, 1)), np.array([1, 2])))
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(3), folder)
    made = make(Options("shapes", str(tiny_weights_file), folder, samples=3, seed=3))
    patch.undo()
    return made


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
    assert [picture["dimension"] for picture in found["pictures"]][:5] == [row["dimension"] for row in found["rows"]][
        :5
    ]


def test_sheets_show_what_was_measured(result: dict) -> None:
    found = result["sets"]["shapes"]
    assert [picture["dimension"] for picture in found["pictures"]] == [
        *(row["dimension"] for row in found["rows"][:5]),
        4,
    ]
    sheet = np.array(Image.open(io.BytesIO(base64.b64decode(found["pictures"][0]["sheet"]))), dtype=float)
    assert sheet.shape == (3 * 64, 5 * 64, 3)
    change = np.abs(sheet[:, :64] - sheet[:, -64:]).mean() / 255
    assert change == pytest.approx(found["rows"][0]["moved"], rel=0.01)


def test_a_dimension_that_the_network_ignores_moves_nothing() -> None:
    model = load("shapes")
    model.predictor.network.kernel_decoder.from_latent.weight.data[:, 2] = 0
    frame = shapes.shapes_pairs(1, 0, "test", "smooth").batch(torch.tensor([0])).frame
    used = traversal_figure.stored_usage(model.weights.posteriors)
    rows = traversal_figure.vary(model, used, [2, 5], Images(frame, ""), lambda share: None)
    assert rows[0]["moved"] == 0 and rows[1]["moved"] > 0.01


def test_provenance_is_there(result: dict) -> None:
    assert all(result[name] is not None for name in ("seed", "commit", "weights", "device", "seconds", "protocol"))


def test_pictures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = traversal_figure.draw(result, tmp_path)
    assert (tmp_path / "traversal.md").read_text() == text
    assert "4 (inactive)" in text and "(target: at least 20)" in text and "Liberated Pixel Cup" in text
    strip, clip = (Image.open(tmp_path / f"traversal_shapes.{kind}") for kind in ("png", "webp"))
    assert strip.width > 10 * 128 and strip.height > 6 * 128
    assert clip.n_frames == 8 and clip.width > 6 * 128 and clip.height > 3 * 128
    shown = np.array(strip.convert("RGB"))[-6 * 136 :, 8 + 136 + 20 :][:128, :128]  # after the labels: -3, strongest
    sheet = Image.open(io.BytesIO(base64.b64decode(result["sets"]["shapes"]["pictures"][0]["sheet"])))
    assert np.array_equal(shown, np.array(sheet.crop((0, 0, 64, 64)).resize((128, 128), 0)))


def test_what_cannot_be_compared_is_said(result: dict) -> None:
    found = result["sets"]["shapes"] | {"ratio": None}
    words = traversal_pictures.conclusion(found | {"inactive": [], "moved_by_inactive": None}, result["protocol"])
    assert "No dimension is inactive" in words
    words = traversal_pictures.conclusion(found | {"moved_by_inactive": 0.0}, result["protocol"])
    assert "move nothing at all" in words
    assert traversal_pictures.table(found | {"rows": [found["rows"][0] | {"square_dx": None}]}).endswith("|")


def test_a_learned_prior_does_not_rank_dimensions(tiny_weights_file: Path, tmp_path: Path) -> None:
    load(tiny_weights_file).save_copy(tmp_path / "prior.safetensors", learned_prior=True)
    prior, sprites_there = str(tmp_path / "prior.safetensors"), tmp_path
    for options in (Options(prior), Options(str(tiny_weights_file), prior, sprites_there)):
        with pytest.raises(UserError, match=r"prior\.safetensors holds no training posteriors, by which dimensions"):
            make(options)
