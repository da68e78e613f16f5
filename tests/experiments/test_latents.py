"""Statistics of z against made-up posteriors whose answer is known; the table in small, drawn from the JSON alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from tests.characters import noise_characters
from tests.conftest import seeded
from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.experiments import latents
from visual_dynamics.experiments.latents import (
    LatentsOptions,
    component_shares,
    dominating_components,
    intervals,
    non_zero,
)

CPU = torch.device("cpu")


def make(options: LatentsOptions) -> dict:
    return json.loads(json.dumps(latents.compute(options, CPU, lambda step, share: None).numbers))


@pytest.fixture(scope="module")
def result(tiny_weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    patch = pytest.MonkeyPatch()
    patch.setattr(latents, "SLOW_DRAWS", 20)
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(*map(np.arange, (1, 1)), np.array([1, 2])))
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(3), folder)
    made = make(LatentsOptions(40, 3, False, str(tiny_weights_file), str(tiny_weights_file), folder))
    patch.undo()
    return made


def test_both_models_are_measured(result: dict) -> None:
    assert list(result["sets"]) == ["Shapes", "Sprites"]
    for found in result["sets"].values():
        assert found["pairs"] == 40 and found["latent"] == 200
        assert len(found["nats"]) == len(found["z_mean"]["centre"]) == len(found["z_logvar"]["deviation"]) == 200
        assert found["active"] + len(found["inactive"]) == 200
        assert found["active"] == sum(value > 0.01 for value in found["nats"])
        assert found["nats_in_all"] == pytest.approx(sum(found["nats"]), rel=1e-3)
        assert found["non_zero_by_threshold"]["0.1"] == found["non_zero"]
        assert sum(found["component_shares"]) == pytest.approx(1, abs=1e-3) and 0 < found["components"] < 40


def test_numbers_by_hand(result: dict, tiny_weights_file: Path) -> None:
    model = load(tiny_weights_file)
    pairs = shapes.shapes_pairs(40, 3, "test", "smooth", 16).batch(torch.arange(40))
    each = [model.predictor.encode(*pair) for pair in zip(*pairs, strict=True)]  # one at a time
    mean, log_variance = (torch.stack(values) for values in zip(*each, strict=True))
    found = result["sets"]["Shapes"]
    expected = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0)).mean(0)
    np.testing.assert_allclose(found["nats"], expected, atol=2e-5)
    np.testing.assert_allclose(found["z_mean"]["centre"], mean.mean(0), atol=2e-5)
    np.testing.assert_allclose(found["z_logvar"]["deviation"], log_variance.numpy().std(0), atol=2e-5)
    assert found["non_zero"] == int((mean.square().mean(0) > 0.01).sum())


def test_tables_and_figure_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    result["sets"]["Sprites"]["z_logvar"]["centre"][5] = -20.0
    text = latents.draw(result, tmp_path)
    found = result["sets"]
    each = [(one["non_zero"], *one["intervals"]["non_zero"]) for one in found.values()]
    counts = " | ".join(f"{count} ({low:.0f} to {high:.0f})" for count, low, high in each)
    assert f"| non-zero elements in z_mean | 299 | 54 | 978 | {counts} |" in text
    assert "| dominating PCA components | 5 | 5 | 47 |" in text and " above 0.1, " in text
    assert "1 of its log-variances lie at the motion encoder's limit" in text
    assert Image.open(tmp_path / "latents.png").width > 900


def test_the_shipped_model_uses_all_dimensions() -> None:
    found = make(LatentsOptions(samples=16))["sets"]["Shapes"]
    assert found["inactive"] == [] and found["active"] == found["non_zero"] == 8


def test_a_model_without_posteriors_is_measured_alike(result: dict, tiny_weights_file: Path, tmp_path: Path) -> None:
    load(tiny_weights_file).save_copy(tmp_path / "prior.safetensors", learned_prior=True)
    found = make(LatentsOptions(40, 3, model=str(tmp_path / "prior.safetensors")))["sets"]["Shapes"]
    assert found["nats"] == result["sets"]["Shapes"]["nats"]


def of_rank(rank: int, dimensions: int = 40, pairs: int = 300) -> Tensor:
    """z_mean that varies in `rank` directions alike, far from the origin."""
    directions = torch.linalg.qr(seeded(dimensions, rank, seed=1, dtype=torch.float64)).Q
    weights = torch.linalg.qr(seeded(pairs, rank + 1, seed=2, dtype=torch.float64)).Q
    weights = torch.linalg.qr(weights - weights.mean(0)).Q[:, :rank]  # centred and orthogonal: equal variances
    return weights @ directions.T + 7


@pytest.mark.parametrize("rank", [1, 4, 10])
def test_components_of_known_rank(rank: int) -> None:
    mean = of_rank(rank)
    assert dominating_components(mean) == rank  # all alike: up to rank 19 none can be missed
    assert dominating_components(mean, share=0.5) == int(np.ceil(rank / 2))
    np.testing.assert_allclose(component_shares(mean)[:rank], 1 / rank, rtol=1e-9)


def test_components_against_numpy() -> None:
    mean = seeded(200, 30, seed=3) * torch.linspace(0.1, 3, 30) + seeded(30)
    values = mean.double().numpy()
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    covariance = np.linalg.eigvalsh(np.cov(values.T))[::-1]
    for variances in (singular**2, covariance):
        shares = variances / variances.sum()
        np.testing.assert_allclose(component_shares(mean), shares, rtol=1e-9)
        assert dominating_components(mean) == np.searchsorted(shares.cumsum(), 0.95) + 1


def test_what_never_varies_has_no_component() -> None:
    assert dominating_components(torch.full((20, 5), 3.0)) == 0


def test_non_zero_elements() -> None:
    pairs = 1000
    mean = torch.zeros(pairs, 6)
    mean[:, 1] = 0.11  # always a little
    mean[:, 2] = 0.09
    mean[0, 3] = 3.0  # once: a root mean square of 0.095
    mean[:20, 4] = -3.0  # at times: 0.42
    mean[:, 5] = torch.linspace(-1, 1, pairs)
    assert non_zero(mean) == 3
    assert [non_zero(mean, threshold) for threshold in (0.0, 0.05, 0.3, 5)] == [5, 5, 2, 0]
    assert non_zero(mean[torch.randperm(pairs)]) == non_zero(-mean) == 3


def test_counts_have_intervals_over_pairs() -> None:
    """The second dimension varies in one pair of three; without this pair it is zero."""
    mean = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 5.0]])
    found = latents.count_intervals(mean, None, 400)
    assert found["non_zero"] == (1, 2)
    assert found["components"][0] < found["components"][1] == 2
    assert "intervals" not in latents.measure(load("shapes"), "shapes", few_pairs(), lambda share: None, draws=0)


def test_pairs_of_a_family_are_drawn_together() -> None:
    """Alone, the last pair is often missed, and then the second dimension is zero; here all pairs are one family."""
    mean = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 5.0]])
    assert latents.count_intervals(mean, torch.tensor([7, 7, 7]), 50)["non_zero"] == (2, 2)
    assert latents.count_intervals(mean, torch.tensor([7, 7, 3]), 400)["non_zero"] == (1, 2)


def test_sprites_are_of_test_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    characters = noise_characters(10)
    monkeypatch.setattr(sprites, "reed_split", lambda: sprites.Split(*map(np.arange, (2, 0)), np.array([3, 5, 9])))
    sprites.pack_characters(characters, tmp_path / "packed")
    pairs, families = latents.sprite_pairs(tmp_path / "packed", 200, 1, 64)
    assert len(pairs) == 200 and set(families.tolist()) == {0, 1, 2}  # of 3, 5 and 9

    def as_bytes(pairs: Pairs, places: Tensor) -> set[tuple[bytes, bytes]]:
        frames, after = pairs.read(places)
        return {(one.numpy().tobytes(), two.numpy().tobytes()) for one, two in zip(frames, after, strict=True)}

    for family, number in enumerate((3, 5, 9)):
        own = sprites.sprite_pairs(characters.subset([number]), size=64)
        assert as_bytes(pairs, (families == family).nonzero()[:, 0]) <= as_bytes(own, torch.arange(157))


def few_pairs() -> Pairs:
    return shapes.shapes_pairs(2, 0, "test", "smooth", 64)


def test_intervals_are_mean_and_deviation() -> None:
    values = seeded(50, 4, seed=5) * 3 - 1
    centre, deviation = intervals(values).values()
    np.testing.assert_allclose(centre, values.numpy().mean(0), rtol=1e-5)
    np.testing.assert_allclose(deviation, values.numpy().std(0), rtol=1e-5)


def test_mistakes_are_errors() -> None:
    for function in (intervals, non_zero, component_shares, dominating_components):
        for wrong in (torch.zeros(5), torch.zeros(0, 5), torch.full((3, 2), torch.nan)):
            with pytest.raises(ValueError):
                function(wrong)
