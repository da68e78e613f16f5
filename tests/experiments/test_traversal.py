"""Traversal in small: numbers by hand, dimensions that a network ignores, pictures from the JSON alone."""

import io
import json
from dataclasses import replace
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
from visual_dynamics.weights import save_copy

CPU = torch.device("cpu")


def make(options: TraversalOptions) -> Measured:
    return traversal.compute(options, CPU, lambda step, share: None)


QUIET = 4  # of z: nearly inactive in the model that is measured here


@pytest.fixture(scope="module")
def quiet_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of Shapes, with one dimension of z that moves next to nothing and is not stored."""
    model = load("shapes")
    model.predictor.network.kernel_decoder.from_latent.weight.data[:, QUIET] *= 1e-3
    stored = model.weights.posteriors
    kept = stored.dimensions != QUIET
    fewer = replace(
        stored,
        dimensions=stored.dimensions[kept],
        mean=stored.mean[:, kept].contiguous(),
        log_variance=stored.log_variance[:, kept].contiguous(),
        scales=stored.scales[:, kept].contiguous(),
    )
    path = tmp_path_factory.mktemp("quiet") / "quiet.safetensors"
    save_copy(path, replace(model.weights, posteriors=fewer))
    return path


@pytest.fixture(scope="module")
def measured(quiet_model: Path, tiny_weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    patch = pytest.MonkeyPatch()
    patch.setattr(traversal, "MEASURED", 6)
    patch.setattr(traversal, "VALUES", 5)
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(*map(np.arange, (1, 1)), np.array([1, 2])))
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(3), folder)
    tiny = str(tiny_weights_file)
    made = make(TraversalOptions(model=str(quiet_model), sprites_model=tiny, sprites=folder, samples=3, seed=3))
    patch.undo()
    return made


@pytest.fixture(scope="module")
def result(measured: Measured) -> dict:
    return json.loads(json.dumps(measured.numbers))


def test_the_strongest_dimensions_move_far_more(result: dict) -> None:
    found = result["sets"]["shapes"]
    assert found["active"] == 7 and found["inactive"] == [QUIET] and found["images"] == 3
    nats = [row["nats"] for row in found["rows"]]
    assert nats == sorted(nats, reverse=True) and [row["dimension"] for row in found["rows"]][-1] == QUIET
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


PIXELS = np.array([[9.0, 5.0, 3.0, 1.0, 2.0, 4.0], [7.0, 3.0, 1.0, 3.0, 2.0, 2.0]])  # two images, six dimensions


def test_ratios_worked_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three active dimensions (8, 4, 2 on average), three inactive ones (2, 2, 3)."""
    monkeypatch.setattr(traversal, "STRONGEST", 2)
    found = traversal.summary(PIXELS, 3, np.ones(6), np.array([0, 1]))
    assert found["moved_by_strongest"] == 6 and found["moved_by_inactive"] == 2 and found["moved_by_all"] == 2.5
    assert (found["ratio"], found["least_ratio"], found["ratio_to_all"]) == (3, 2, 6 / 2.5)
    first = traversal.summary(PIXELS, 3, np.ones(6), np.array([0, 0]))  # the first image, drawn twice
    assert first["ratio"] == 7 / 2 and first["ratio_to_all"] == 7 / 3.5
    none = traversal.summary(PIXELS, 6, np.ones(6), np.array([0, 1]))
    assert none["ratio"] is None and none["moved_by_inactive"] is None and none["ratio_to_all"] == 6 / 2.5


def test_each_measured_dimension_stands_for_its_share_of_all() -> None:
    """Two active dimensions, and one of ten inactive ones that was measured."""
    assert traversal.weighted_median(np.array([5.0, 7.0, 1.0]), np.array([1.0, 1.0, 10.0])) == 1
    assert traversal.weighted_median(np.array([5.0, 7.0, 1.0]), np.array([1.0, 1.0, 2.0])) == 3  # 1, 1, 5, 7
    chance = np.random.default_rng(0)
    for count in (1, 2, 7, 10):
        values = chance.random(count)
        assert traversal.weighted_median(values, np.full(count, 3.0)) == pytest.approx(np.median(values))


def test_intervals_are_over_images(result: dict) -> None:
    found = result["sets"]["shapes"]
    assert set(found["intervals"]) == {*(key for key in found if "moved_by" in key or "ratio" in key)}
    for key, (low, high) in found["intervals"].items():
        assert low < found[key] < high
    assert found["ratio_to_all"] == pytest.approx(
        np.mean([row["moved"] for row in found["rows"][:5]]) / np.median([row["moved"] for row in found["rows"]])
    )


def test_the_headline_says_how_many_dimensions_are_inactive(result: dict, tmp_path: Path) -> None:
    shown = {"sets": {"shapes": result["sets"]["shapes"]}, "protocol": result["protocol"]}
    words = traversal.headline(shown).ours
    assert " over the median of 1 inactive, " in words and words.endswith(" over the median of all 8")
    assert words in traversal.draw(shown, tmp_path)
    found = shown["sets"]["shapes"] | {"inactive": [], "active": 8, "ratio": None, "moved_by_inactive": None}
    assert traversal.headline(shown | {"sets": {"shapes": found}}).ours.startswith("none is inactive, ")
    older = {key: value for key, value in found.items() if key not in ("intervals", "ratio_to_all")}
    assert "not measured over the median of all 8" in traversal.headline(shown | {"sets": {"shapes": older}}).ours


def test_a_dimension_that_the_network_ignores_moves_nothing() -> None:
    model = load("shapes")
    model.predictor.network.kernel_decoder.from_latent.weight.data[:, 2] = 0
    frame = shapes.shapes_pairs(1, 0, "test", "smooth").batch(torch.tensor([0])).frame
    used = stored_usage(model.weights.posteriors)
    rows, pixels = traversal.vary(model, used, [2, 5], StartImages(frame, ""), lambda share: None)
    assert rows[0]["moved"] == 0 and rows[1]["moved"] > 0.01
    assert pixels.shape == (1, 2) and pixels[0, 1] == pytest.approx(rows[1]["moved"])


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
