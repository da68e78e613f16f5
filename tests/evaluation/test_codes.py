"""Stored codes: whose scenes they are, which scenes they are carried to, errors and noise by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.evaluation import codes
from visual_dynamics.evaluation.codes import (
    StoredMeans,
    carried_codes,
    carried_errors,
    log_variance_floor,
    stored_means,
    stored_scenes,
)
from visual_dynamics.sampling.latents import TrainingPosteriors


class Still:
    """Predicts no motion, and remembers what it was shown."""

    size = 64

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def decode_each(self, frames: Tensor, z: Tensor) -> Tensor:
        self.seen.append(frames)
        return frames


@pytest.mark.parametrize("name", ["shapes", "shapes-ae"])
def test_stored_codes_move_the_scenes_that_they_are_of(name: str) -> None:
    model = load(name)
    scenes, found = stored_scenes(model.weights, 4), stored_means(model.weights, 4)
    assert scenes is not None and found.shape == (4, model.predictor.network.config.latent)
    errors = carried_errors(model.predictor, found, scenes, scenes)
    assert errors["reconstruction"] < 10 < 100 < errors["copy"]


def test_codes_without_noise_are_stored_means() -> None:
    stored = load("shapes").weights.posteriors
    means, seeds = stored.posterior(torch.arange(len(stored))).mean, [3, 4, 3]
    first, second, again = StoredMeans(stored).draw(seeds)
    assert torch.equal(first, again) and not torch.equal(first, second)
    for seed, code in zip(seeds, (first, second), strict=False):
        assert torch.equal(code, means[int(np.random.default_rng(seed).integers(len(stored)))])


def test_the_scenes_of_other_data_are_not_known() -> None:
    assert stored_scenes(load("shapes-texture").weights, 4) is None


def test_errors_by_hand() -> None:
    """A network that moves nothing: all errors are those of no motion, on the target with the source's motion."""
    sources, targets = shapes.draw_scenes(3, 0), shapes.draw_scenes(3, 1, "test")
    predictor = Still()
    found = carried_errors(predictor, torch.zeros(3, 8), sources, targets)  # type: ignore[arg-type]
    moved = replace(targets, motions=sources.motions)
    frames, next_frames = (shapes.images(moved, m, "smooth").double() / 255 for m in (False, True))
    each = (frames - next_frames).square().sum((1, 2, 3))
    assert found["analogy"] == found["copy"] == pytest.approx(float(each.mean()), rel=1e-5)
    assert found["intervals"]["copy"] == pytest.approx((float(each.min()), float(each.max())), rel=1e-5)  # of three
    own = [shapes.images(sources, m, "smooth").double() / 255 for m in (False, True)]
    assert found["reconstruction"] == pytest.approx(float((own[0] - own[1]).square().sum((1, 2, 3)).mean()), rel=1e-5)


def test_codes_are_carried_to_test_scenes_that_they_are_not_of(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[shapes.Scenes, shapes.Scenes]] = []

    def spy(predictor: object, z: Tensor, sources: shapes.Scenes, targets: shapes.Scenes) -> dict[str, float]:
        calls.append((sources, targets))
        assert len(z) == len(sources) == len(targets) == 5
        return {}

    monkeypatch.setattr(codes, "carried_errors", spy)
    found = carried_codes({"ours": load("shapes"), "AE": load("shapes-ae")}, seed=0, count=5)
    assert list(found) == ["ours", "ours, codes of test scenes", "AE"]  # the AE has no motion encoder
    training = set(map(bytes, np.ascontiguousarray(shapes.draw_scenes(shapes.TRAIN_PAIRS, 0).anchors)))
    test = shapes.draw_scenes(10, 1, "test")
    for (sources, targets), stored in zip(calls, (True, False, True), strict=True):
        np.testing.assert_array_equal(targets.anchors, test.anchors[5:])
        assert stored or np.array_equal(sources.anchors, test.anchors[:5])
        of, to = ({bytes(anchors) for anchors in scenes.anchors} for scenes in (sources, targets))
        assert not to & training and not to & of
        assert of <= training if stored else not of & training


def test_the_log_variances_at_the_bound_are_counted() -> None:
    stored = TrainingPosteriors(
        dimensions=torch.tensor([0, 2, 3], dtype=torch.int32),
        mean=torch.zeros(2, 3, dtype=torch.uint8),
        log_variance=torch.tensor([[0, 10, 0], [0, 30, 255]], dtype=torch.uint8),
        scales=torch.tensor([[0.0, 0, 0], [1, 1, 1], [-20, -9, -20], [1e-8, 0.1, 0.05]]),
        latent=5,
    )
    assert log_variance_floor(stored) == {"least_log_variance": [-20, 0, -8, -20, 0], "at_bound": 2}
    assert log_variance_floor(TrainingPosteriors.none(2)) == {"least_log_variance": [0, 0], "at_bound": 0}
