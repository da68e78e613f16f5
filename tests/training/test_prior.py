"""p(z | image): the flow finds a known conditional law, and training stores it in a model's file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

import visual_dynamics as vd
from tests.conftest import seeded
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.conditional_prior import GRID, ConditionalPrior
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.predictor import EncodedImage
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.prior import Examples, PriorConfig, standardised, train_prior, trained
from visual_dynamics.weights import load_weights, weights_bytes

TOY = PriorConfig(steps=800, batch=192, learning_rate=3e-3, width=64, blocks=2)
DEVICE = torch.device("cpu")


def law(kind: int, count: int, seed: int) -> Tensor:
    """z (count, 2). Image 0: z0 ~ N(2, 0.3), z1 is about 1 - z0. Image 1: z0 is about -1 or 1, z1 ~ N(-2, 0.5)."""
    noise, second, side = seeded(3, count, seed=seed)
    if kind == 0:
        first = 2 + 0.3 * noise
        return torch.stack([first, 1 - first + 0.1 * second], 1)
    return torch.stack([side.sign() + 0.15 * noise, -2 + 0.5 * second], 1)


def toy_image(kind: int) -> EncodedImage:
    """All maps have the value of the kind."""
    frame = torch.zeros(3, 8, 8)
    return EncodedImage(frame, (torch.full((1, 4, 8, 8), float(kind)),), frame)


@pytest.fixture(scope="module")
def toy() -> ConditionalPrior:
    """Learned from 4,000 examples whose codes have no noise; dimension 1 of three carries nothing."""
    kinds = torch.arange(4_000) % 2
    codes = torch.where((kinds == 0)[:, None], law(0, 4_000, 1), law(1, 4_000, 2))
    mean, log_variance = torch.zeros(4_000, 3), torch.zeros(4_000, 3)
    mean[:, [0, 2]], log_variance[:, [0, 2]] = codes, -12.0
    segments = kinds[:, None].expand(-1, 4 * GRID**2) + 0.05 * seeded(4_000, 4 * GRID**2, seed=3)
    data = standardised(Examples(Posterior(mean, log_variance), segments.half()))
    velocity, errors = trained(data, TOY, lambda share, words: None)
    assert errors["image"] < 0.8 * errors["no_image"]
    return ConditionalPrior(data.dimensions.int(), data.codes, data.segments, velocity, 3)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_law_of_each_image_is_found(toy: ConditionalPrior, kind: int) -> None:
    z, truth = toy.draw(sample_seeds(0, 2_000), toy_image(kind)), law(kind, 20_000, 5)
    assert (z[:, [0, 2]].mean(0) - truth.mean(0)).abs().max() < 0.1
    assert (z[:, [0, 2]].std(0) - truth.std(0)).abs().max() < 0.1
    assert (z[:, [0, 2]].T.corrcoef() - truth.T.corrcoef()).abs().max() < 0.1
    for column, own in zip((z[:, 0], z[:, 2]), truth.T, strict=True):
        assert ks_2samp(column.numpy(), own.numpy()).statistic < 0.08
    assert abs(z[:, 1].mean()) < 0.07 and abs(z[:, 1].std() - 1) < 0.05  # what carries nothing is N(0, 1)


def test_guidance(toy: ConditionalPrior) -> None:
    """0: both images alike, the mixture of their laws. 2: further from the other image than the law."""
    seeds = sample_seeds(1, 1_000)
    free = [replace(toy, guidance=0.0).draw(seeds, toy_image(kind)) for kind in (0, 1)]
    assert torch.equal(*free)
    both = torch.cat([law(kind, 5_000, 6)[:, 1] for kind in (0, 1)])
    assert ks_2samp(free[0][:, 2].numpy(), both.numpy()).statistic < 0.1
    plain, strong = (replace(toy, guidance=g).draw(seeds, toy_image(1))[:, 2].mean() for g in (1.0, 2.0))
    assert abs(plain + 2) < 0.1 and strong < plain - 0.1


def test_a_code_depends_on_its_seed_alone(toy: ConditionalPrior) -> None:
    seeds, image = sample_seeds(3, 37), toy_image(1)
    together = toy.draw(seeds, image)
    assert torch.equal(torch.cat([toy.draw([seed], image) for seed in seeds]), together)
    assert torch.equal(toy.draw(seeds[5:24], image), together[5:24]) and len(toy.draw([], image)) == 0
    assert not torch.equal(toy.draw(seeds, toy_image(0)), together)
    with pytest.raises(ValueError, match="needs the encoded image"):
        toy.draw(seeds)


# --- in a model's file ---


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """An untrained tiny model that says that it was trained on drawn shapes."""
    torch.manual_seed(1)
    config = TrainingConfig(preset="tiny", latent=None, pairs=48, batch=8, steps=4)
    network = VisualDynamics(config.network)
    posterior = Posterior(seeded(48, 200), torch.full((48, 200), -3.0))
    path = tmp_path / "model.safetensors"
    path.write_bytes(weights_bytes(network, posterior, {"config": config.to_dict(), "step": 4}))
    return path


def learn(path: Path, seed: int = 0) -> None:
    config = PriorConfig(steps=3, batch=16, width=32, blocks=1, seed=seed)
    train_prior(path, config, None, DEVICE, lambda share, words: None)


def test_training_adds_it_to_the_file_and_changes_nothing_else(model_file: Path) -> None:
    before = load_weights(model_file)
    assert before.conditional is None
    learn(model_file)
    after = load_weights(model_file)
    assert after.conditional is not None and after.digest != before.digest
    assert after.training["conditional"]["config"]["steps"] == 3
    assert {name: value for name, value in after.training.items() if name != "conditional"} == before.training
    for name, value in before.network.state_dict().items():
        assert torch.equal(after.network.state_dict()[name], value)
    assert torch.equal(after.posteriors.mean, before.posteriors.mean)
    for seed in (0, 1):
        learn(model_file, seed)
        again = load_weights(model_file).conditional
        assert again is not None
        alike = [torch.equal(value, again.tensors()[name]) for name, value in after.conditional.tensors().items()]
        assert all(alike) == (seed == 0)


def test_it_is_the_default_source_and_survives_copies(model_file: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    stored = vd.load(model_file).sample(image, n=3)
    learn(model_file)
    model = vd.load(model_file)
    frames = model.sample(image, n=3)
    np.testing.assert_array_equal(model.sample(image, n=3, source="conditional"), frames)
    np.testing.assert_array_equal(model.sample(image, n=3, source=model.guided(1)), frames)
    np.testing.assert_array_equal(model.sample(image, n=1), frames[:1])
    np.testing.assert_array_equal(model.sample(image, n=3, source="posteriors"), stored)
    assert not np.array_equal(frames, stored)
    model.save_copy(model_file.with_name("copy.safetensors"))
    np.testing.assert_array_equal(vd.load(model_file.with_name("copy.safetensors")).sample(image, n=3), frames)
    model.save_copy(model_file.with_name("small.safetensors"), eight_bits=True)
    small = vd.load(model_file.with_name("small.safetensors")).weights.conditional
    assert small is not None
    seeds, encoded = sample_seeds(0, 50), model.predictor.encode_image(model.open(image).frame)
    torch.testing.assert_close(small.draw(seeds, encoded), model.source().draw(seeds, encoded), rtol=0, atol=0.05)


def test_posteriors_make_room(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.weights.MAX_BYTES", 60_000)
    monkeypatch.setattr("visual_dynamics.weights.LEAST_POSTERIORS", 4_000)
    learn(model_file)
    assert len(load_weights(model_file).posteriors) == 10


def test_mistakes(model_file: Path) -> None:
    with pytest.raises(vd.UserError, match=r"guidance needs a model with p\(z \| image\)"):
        vd.load(model_file).guided(1)
    with pytest.raises(vd.UserError, match="no latent source 'conditional'"):
        vd.load(model_file).source("conditional")
    kept = model_file.read_bytes()
    with pytest.raises(vd.UserError, match="fewer than 32"):
        train_prior(model_file, PriorConfig(examples=8), None, DEVICE, lambda share, words: None)
    assert model_file.read_bytes() == kept
    learn(model_file)
    with pytest.raises(vd.UserError, match="guidance is from 0 to 10, not -1"):
        vd.load(model_file).guided(-1)
    vd.load(model_file).save_copy(model_file.with_name("light.safetensors"), motion_encoder=False)
    with pytest.raises(vd.UserError, match="without its motion encoder"):
        learn(model_file.with_name("light.safetensors"))
