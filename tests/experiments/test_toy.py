"""The toy world in small: three models trained on few pairs, and a figure from the JSON alone."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from visual_dynamics.evaluation.motion_distribution import kl_divergence
from visual_dynamics.experiments import toy
from visual_dynamics.reporting.base import ExperimentOptions

CPU = torch.device("cpu")


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def result() -> dict:
    progress: list[tuple[str, float]] = []
    patch = pytest.MonkeyPatch()
    patch.setattr(toy, "SEEDS", 2)
    made = toy.compute(ExperimentOptions(samples=4000), CPU, lambda *step: progress.append(step)).numbers
    patch.undo()
    for name in ("deterministic", "prior", "conditional"):
        assert {(f"{name}, seed 0", 1.0), (f"{name}, seed 1", 1.0)} < set(progress)
    return json.loads(json.dumps(made, allow_nan=False))


def test_the_conditional_model_alone_tells_the_objects_apart(result: dict) -> None:
    kl = result["kl"]
    for kind in toy.OBJECTS:
        truth = torch.tensor(result["histograms"]["truth"][kind])
        assert 1.5 * kl_divergence(truth, truth) < kl["floor"][kind] < 0.02  # of another set of true motions
        assert kl["conditional"][kind] < 0.6 * kl["prior"][kind] < 0.1 * kl["deterministic"][kind]
    (cx, cy), (sx, sy) = (result["deviations"]["conditional"][kind] for kind in toy.OBJECTS)
    assert cy > 1.5 * cx and sx > 1.5 * sy
    assert result["deviations"]["prior"]["circle"] == pytest.approx(result["deviations"]["prior"]["square"], abs=0.02)


def test_the_deterministic_model_stands_still(result: dict) -> None:
    for kind in toy.OBJECTS:
        assert max(abs(v) for v in result["means"]["deterministic"][kind]) < 0.1
        assert max(result["deviations"]["deterministic"][kind]) < 1e-4  # one motion, not a distribution


def test_figure_comes_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = toy.draw(result, tmp_path)
    assert "| **(d) conditional model** |" in text and "floor (truth against truth)" in text
    assert "4,000 training pairs, 400 steps of 500" in text
    assert Image.open(tmp_path / "toy.png").size[0] > 800


def test_divergences_by_hand(result: dict) -> None:
    """NumPy on the stored histograms, for each row that has one: the sum over bins, the one outside included."""
    for name in ("prior", "conditional"):
        for kind in toy.OBJECTS:
            p, q = (np.array(result["histograms"][row][kind]).ravel() for row in ("truth", name))
            p, q = (np.round(shares * 160_000) / 160_000 for shares in (p, q))  # six digits are stored
            p, q = (np.append(shares, max(0.0, 1 - shares.sum())) for shares in (p, q))
            q = (q + 1e-6) / (q + 1e-6).sum()
            divergence = sum(one * np.log(one / other) for one, other in zip(p, q, strict=True) if one > 0)
            assert result["kl"][name][kind] == pytest.approx(divergence, abs=1e-6)


def test_mean_and_range_over_seeds(result: dict, tmp_path: Path) -> None:
    one, two = ({"ours": {"circle": circle, "square": 1.0}} for circle in (0.25, 0.75))
    assert toy.over_seeds([one, two]) == {
        "count": 2,
        "mean": {"ours": {"circle": 0.5, "square": 1.0}},
        "range": {"ours": {"circle": [0.25, 0.75], "square": [1.0, 1.0]}},
    }
    low, high = result["seeds"]["range"]["conditional"]["circle"]
    mean = result["seeds"]["mean"]["conditional"]["circle"]
    assert low < mean < high and result["kl"]["conditional"]["circle"] in (low, high)  # of two the first is one end
    line = toy.headline(result)
    assert line.measure.endswith("mean (range) of 2 seeds") and line.ours.startswith(
        f"{mean:.3f} ({low:.3f} to {high:.3f}) /"
    )
    older = {name: part for name, part in result.items() if name != "seeds"}
    assert toy.headline(older).ours.startswith(f"{result['kl']['conditional']['circle']:.3f} /")
    assert "seeds" not in toy.draw(older, tmp_path)


def test_same_seed_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one pair is enough to run."""
    monkeypatch.setattr(toy, "DRAWN", 50)
    monkeypatch.setattr(toy, "SEEDS", 1)
    state = torch.get_rng_state()
    one, again, other = (toy.compute(ExperimentOptions(1, seed), CPU, lambda *_: None).numbers for seed in (3, 3, 4))
    assert one["kl"] == again["kl"] and one["means"] == again["means"] != other["means"]
    assert torch.equal(state, torch.get_rng_state())  # nothing is drawn from the global state


def test_true_motions_have_the_world_law() -> None:
    for kind, deviations in enumerate(toy.DEVIATIONS):
        motions = toy.true_motions(torch.full((20_000,), kind), chance())
        torch.testing.assert_close(motions.std(0), torch.tensor(deviations), rtol=0.02, atol=0)
        assert motions.mean(0).abs().max() < 0.03


def test_the_prior_does_not_see_the_object_and_the_others_do() -> None:
    circles, squares = (toy.one_hot(torch.full((20,), kind)) for kind in (0, 1))
    for name, model in toy.make_models(0, CPU).items():
        same = torch.equal(model.sample(circles, chance()), model.sample(squares, chance()))
        assert same == (name == "prior")


def test_decoder_noise_is_sampled() -> None:
    model = toy.Variational(sees_kind=True)
    for parameter in model.decode.parameters():
        torch.nn.init.zeros_(parameter)
    drawn = model.sample(toy.one_hot(torch.zeros(20_000, dtype=torch.long)), chance())
    torch.testing.assert_close(drawn.std(0), torch.full((2,), toy.SIGMA), rtol=0.02, atol=0)


def test_histogram() -> None:
    motions = torch.tensor([[0.0, 0.0], [2.99, 0.0], [0.0, -2.99], [0.0, 3.5]])
    found = toy.histogram(motions)
    assert found.shape == (61, 61) and found[30, 30] == found[60, 30] == found[30, 0] == 0.25
    assert found.sum() == 0.75  # the last is outside, and counts
    assert kl_divergence(found, found) == pytest.approx(0, abs=0.01)
    nothing_there = torch.zeros_like(found)
    nothing_there[5, 5] = 1.0
    assert kl_divergence(found, nothing_there) == pytest.approx(math.log(1e6) - math.log(4), abs=0.01)
