"""Whether a picture looks like those of the training: the numbers by hand, in the file, and with the shipped models."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import visual_dynamics as vd
from tests.conftest import seeded
from visual_dynamics import api
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.shapes import draw_scenes, images
from visual_dynamics.errors import UserError
from visual_dynamics.images import Box
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model_files import digest_of, find_weights, shipped_models, with_group
from visual_dynamics.sampling.familiarity import (
    COLOURS,
    MARGIN,
    Familiarity,
    colour_numbers,
    describe,
    evenness,
    learn,
    summaries_of,
)
from visual_dynamics.weights import Weights, load_weights, save_copy, with_familiarity


@pytest.fixture
def known(tiny_network: VisualDynamics) -> Familiarity:
    frames = torch.rand(200, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return learn(tiny_network.eval(), frames[:150] / 2, frames[150:] / 2)


def test_summaries_by_hand() -> None:
    maps = seeded(2, 3, 4, 5)
    found = summaries_of(maps)
    values, across, down = maps.numpy(), np.linspace(-1, 1, 5), np.linspace(-1, 1, 4)
    parts = [
        values.mean((2, 3)),
        values.std((2, 3)),
        (values * across).mean((2, 3)),
        (values * down[:, None]).mean((2, 3)),
    ]
    np.testing.assert_allclose(found.numpy(), np.concatenate(parts, 1), atol=1e-6)


def test_the_distance_is_that_of_mahalanobis(tiny_network: VisualDynamics, known: Familiarity) -> None:
    frames = torch.rand(200, 3, 16, 16, generator=torch.Generator().manual_seed(0)) / 2
    summaries = describe(tiny_network, frames).double().numpy()
    seen = summaries[:150]
    covariance = np.cov(seen.T)
    covariance += 1e-4 * covariance.diagonal().mean() * np.eye(len(covariance))
    off = summaries - seen.mean(0)
    expected = np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off)
    np.testing.assert_allclose(known.distances(torch.tensor(summaries)).numpy(), expected, rtol=2e-2)
    assert known.limits[0] == pytest.approx(expected[150:].max(), rel=2e-2)  # 1 in 400 of 50: the largest
    assert known.limits[1:].tolist() == [0, pytest.approx(float(evenness(frames[150:]).max()))]
    known = replace(known, limits=known.limits * torch.tensor([1, 1, 100]))
    strange = known.strangeness(torch.tensor(summaries), frames).numpy()
    np.testing.assert_allclose(strange, expected / expected[150:].max() / MARGIN, rtol=4e-2)
    assert strange[150:].max() == pytest.approx(1 / MARGIN, abs=1e-6)


def test_colours_by_hand() -> None:
    frame = torch.zeros(1, 3, 2, 2)
    frame[0, :, 0, 0], frame[0, :, 1, 1] = torch.tensor([1.0, 0.5, 0.0]), torch.tensor([15, 16, 240]) / 255
    assert colour_numbers(frame)[0].tolist() == [15 * 256 + 8 * 16, 0, 0, 1 * 16 + 15]
    colours = torch.zeros(COLOURS // 8, dtype=torch.uint8)
    colours[0], colours[31 // 8] = 1, 1 << (31 % 8)  # black, and the last of the four pixels
    known = Familiarity(torch.zeros(4), torch.eye(4), torch.tensor([3.0, 0.0, 1.0]), colours)
    assert known.new_colours(frame).tolist() == [1]
    assert known.strangeness(torch.zeros(1, 4), frame).item() == pytest.approx(2 / MARGIN)  # one new colour, where none
    strange = known.strangeness(torch.tensor([[0.0, 0, 0, 2]]), torch.zeros(1, 3, 2, 2))
    assert strange.item() == pytest.approx(4 / 3 / MARGIN)


def test_evenness_by_hand_and_without_bars() -> None:
    frame = torch.zeros(1, 3, 2, 4)
    frame[0, :, 0, 2:], frame[0, 1, 1, 1] = 0.5, 0.2  # 2 of 3 pairs above, 1 of 3 below
    assert evenness(frame).tolist() == [0.5]
    known = Familiarity(torch.zeros(4), torch.eye(4), torch.tensor([1.0, 8, 0.25]), torch.zeros(512, dtype=torch.uint8))
    assert known.strangeness(torch.zeros(1, 4), frame).item() == pytest.approx(2 / MARGIN)
    assert known.strangeness(torch.zeros(1, 4), frame, Box(1, 0, 1, 2)).item() == pytest.approx(8 / 8.5 / MARGIN)


def test_files_keep_it_bit_for_bit_and_all_else_too(
    known: Familiarity, tiny_weights_file: Path, tmp_path: Path
) -> None:
    bare = tiny_weights_file.read_bytes()
    path = tmp_path / "known.safetensors"
    path.write_bytes(with_familiarity(bare, known))
    loaded = load_weights(path)
    assert loaded.familiarity is not None and vars(loaded.familiarity).keys() == vars(known).keys()
    assert all(torch.equal(value, getattr(loaded.familiarity, name)) for name, value in vars(known).items())
    assert with_familiarity(path.read_bytes(), None) == bare
    assert loaded.digest == load_weights(tiny_weights_file).digest == digest_of(bare)
    before, after = load_file(tiny_weights_file), load_file(path)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    save_copy(tmp_path / "copy.safetensors", loaded)
    kept = load_weights(tmp_path / "copy.safetensors").familiarity
    assert kept is not None and torch.equal(kept.factor, known.factor)


@pytest.mark.parametrize("change", ["shape", "nan", "missing", "other network"])
def test_a_damaged_one_is_an_error_of_one_line(
    change: str, known: Familiarity, tiny_weights_file: Path, tmp_path: Path
) -> None:
    tensors = dict(vars(known))
    if change == "shape":
        tensors["limits"] = torch.zeros(2)
    elif change == "nan":
        tensors["mean"] = torch.full_like(known.mean, float("nan"))
    elif change == "missing":
        del tensors["colours"]
    else:
        tensors |= {"mean": torch.zeros(8), "factor": torch.eye(8)}
    path = tmp_path / "damaged.safetensors"
    arrays = {name: value.numpy() for name, value in tensors.items()}
    path.write_bytes(with_group(tiny_weights_file.read_bytes(), "familiar", arrays))
    with pytest.raises(UserError, match="does not hold a whole visual-dynamics model") as error:
        load_weights(path)
    assert "\n" not in str(error.value)


def test_models_without_it_never_warn(tiny_weights_file: Path) -> None:
    model = vd.load(tiny_weights_file)
    assert model.weights.familiarity is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.sample(np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8), n=1)


def test_one_new_colour_where_none_is_allowed_is_unfamiliar(
    tiny_weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strangeness of 1 / 0.5 / 1.05 = 1.9, the least that a new colour can have there."""
    count = describe(tiny_weights.network, torch.zeros(1, 3, 16, 16)).shape[1]
    colours = torch.zeros(COLOURS // 8, dtype=torch.uint8)
    colours[0] = 1  # black
    black = Familiarity(torch.zeros(count), torch.zeros(count, count), torch.tensor([1.0, 0.0, 1.0]), colours)
    model = vd.Model(replace(tiny_weights, familiarity=black))
    monkeypatch.setattr(api, "shipped_models", list)
    picture = np.zeros((16, 16, 3), np.uint8)
    assert model.unfamiliar(model.open(picture)) == ""
    picture[3, 5] = 255
    assert model.unfamiliar(model.open(picture, check=False)).endswith("train one that has (visual-dynamics train)")


# --- the shipped models ---


@pytest.fixture(scope="module")
def shapes() -> vd.Model:
    return vd.load("shapes")


NOISE = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)


def test_few_shapes_are_unfamiliar(shapes: vd.Model) -> None:
    frames = images(draw_scenes(300, 1, "validation"), rendering="smooth").float() / 255  # of another seed
    assert shapes.weights.familiarity is not None
    strange = shapes.weights.familiarity.strangeness(describe(shapes.weights.network, frames), frames)
    assert (strange > 1).float().mean() <= 0.01


def test_a_foreign_picture_gives_one_warning(shapes: vd.Model) -> None:
    with pytest.warns(vd.UnfamiliarPicture, match=r"train one that has \(visual-dynamics train\)$") as caught:
        canvas = shapes.open(NOISE)
        shapes.sample(canvas, n=1)
        shapes.extrapolate(canvas, steps=1)
    assert len(caught) == 1


def test_a_warning_names_the_model_that_knows(shapes: vd.Model) -> None:
    scene = images(draw_scenes(1, 5, "test"), rendering="smooth")[0].permute(1, 2, 0).numpy()
    sprites = vd.load("sprites")
    assert sprites.unfamiliar(sprites.open(scene, check=False)).endswith(": the shipped model shapes has")
    assert shapes.unfamiliar(shapes.open(scene)) == ""
    person = figure_pairs(1, 0, "test").frames[0].permute(1, 2, 0).numpy()
    for model in (shapes, sprites):
        assert model.unfamiliar(model.open(person, check=False)).endswith(": the shipped model people has")


def test_the_shipped_files_have_it_and_published_digests_name_them() -> None:
    results = "".join(path.read_text() for path in (Path(__file__).parents[2] / "docs" / "results").glob("*.json"))
    for name in shipped_models():
        weights = load_weights(find_weights(name))
        assert weights.familiarity is not None and weights.digest in results
