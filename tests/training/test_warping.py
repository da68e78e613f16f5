"""A network that moves the frame's own pixels: it trains, resumes, is stored, and samples at the size it is given."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import seeded
from visual_dynamics.api import Model
from visual_dynamics.model.image_encoder import resize
from visual_dynamics.sampling.canvas import open_canvas
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import extrapolation
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.loop import train
from visual_dynamics.training.trainer import Trainer, training_pairs, validation_pairs
from visual_dynamics.weights import load_weights, save_copy

CPU = torch.device("cpu")
RUN = TrainingConfig(
    data="figures",
    augment=("zoom=2", "shift=1", "displace=4"),
    preset="tiny",
    latent=8,
    warp=2,
    pyramid=2.0,
    pairs=48,
    batch=8,
    steps=10,
    log_every=1,
    checkpoint_every=4,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "warp"
    train(RUN, folder, CPU)
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return Model(load_weights(run / "weights.safetensors"))


def log(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if "second" not in name} for line in lines]


def test_trains_on_frames_of_twice_the_size_with_all_terms_of_the_loss(run: Path) -> None:
    pairs, validation = training_pairs(RUN), validation_pairs(RUN)
    assert pairs.size == (32, 32) and validation is not None and validation.size == (32, 32)
    pair, view, _ = Trainer(RUN, pairs, CPU, Processes(), compiled=False).batch(0)
    assert pair.frame.shape == view.frame.shape == (8, 3, 32, 32)
    last = [record for record in log(run) if "loss" in record][-1]
    terms = last["squared_error"] / (2 * RUN.sigma**2) + RUN.pyramid * last["pyramid_error"]
    assert last["loss"] == pytest.approx(RUN.kl_weight_at(9, 0.9) * last["kl"] + terms, rel=1e-4)


def test_stopped_and_resumed_is_the_same_bit_for_bit(run: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    train(RUN, tmp_path / "run", CPU, asked_to_stop=lambda: steps.append(1) or len(steps) == 6)
    assert log(tmp_path / "run")[-1]["step"] == 6
    train(None, tmp_path / "run", CPU)
    for name in ("state.safetensors", "weights.safetensors"):
        one, other = load_file(tmp_path / "run" / name), load_file(run / name)
        assert all(torch.equal(one[key], other[key]) for key in one), name


def test_a_plain_run_logs_no_pyramid(tmp_path: Path) -> None:
    train(replace(RUN, warp=0, pyramid=0.0, steps=1), tmp_path / "plain", CPU)
    assert not any("pyramid_error" in record for record in log(tmp_path / "plain"))


def test_is_stored_and_made_smaller(model: Model, tmp_path: Path) -> None:
    assert model.weights.network.config.warp == 2
    save_copy(tmp_path / "small.safetensors", model.weights, eight_bits=True)
    small = Model(load_weights(tmp_path / "small.safetensors")).predictor
    frame, z = torch.rand(3, 32, 32), seeded(3, 8)
    one, other = (each.decode(each.encode_image(frame), z) for each in (model.predictor, small))
    torch.testing.assert_close(one, other, rtol=0, atol=0.02)


@pytest.mark.parametrize("side", [16, 32])
def test_one_seed_one_picture(model: Model, side: int) -> None:
    network, frame, z = model.weights.network, torch.rand(3, side, side), seeded(9, 8)
    results = [
        each.decode(each.encode_image(frame), z) for each in (Predictor(network, batch_size=n) for n in (1, 4, 9))
    ]
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    with torch.no_grad():
        difference = network.decode(network.encode_image(frame[None]), network.kernel_decoder(z), frame[None])
    torch.testing.assert_close(results[0], (resize(frame, 16) + difference).clamp(0, 1), rtol=0, atol=1e-4)
    each = model.predictor.decode_each(frame.expand(9, -1, -1, -1), z)
    torch.testing.assert_close(results[0], each, rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match="needs a frame"):
        model.predictor.encode_image(torch.rand(3, 24, 24))


def test_a_large_picture_is_warped_at_twice_the_size(model: Model) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (44, 31, 3), np.uint8)
    canvas = open_canvas(picture, 16, 1.0)
    assert canvas.at(32).shape == (3, 32, 32) and canvas.at(16) is canvas.frame
    inside = slice(canvas.box.left, canvas.box.left + canvas.box.width)
    averaged = resize(canvas.at(32), 16)[..., inside]
    torch.testing.assert_close(averaged, canvas.frame[..., inside], rtol=0, atol=1.5 / 255)
    fine, coarse = (model.predictor.encode_image(canvas.at(side)) for side in (32, 16))
    z = model.source().draw(sample_seeds(0, 3))
    expected = canvas.pictures(model.predictor.decode(fine, z))
    assert np.array_equal(model.sample(canvas, n=3), expected)
    assert not np.array_equal(canvas.pictures(model.predictor.decode(coarse, z)), expected)
    first = next(extrapolation(model.predictor, canvas.at(32), z[0], 1))
    assert torch.equal(first[..., inside], averaged)
    assert model.extrapolate(canvas, steps=2).shape == (3, 16, 11, 3)


def test_a_small_picture_is_warped_at_its_own_size() -> None:
    canvas = open_canvas(np.zeros((20, 20, 3), np.uint8), 16, 1.0)
    assert canvas.at(32) is canvas.frame
    sprite = open_canvas(np.zeros((12, 12, 3), np.uint8), 16, 0.0)
    assert sprite.unscaled and sprite.at(32) is sprite.frame
