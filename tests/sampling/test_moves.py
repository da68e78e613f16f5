"""Futures, analogy, extrapolation, traversal: each is what its words say, in terms of the predictor."""

import itertools
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from tests.conftest import seeded
from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.sampling.latents import Prior
from visual_dynamics.sampling.moves import (
    Usage,
    analogy,
    apply_motion,
    each_future,
    extrapolation,
    futures,
    moved,
    path,
    reconstruct,
    traverse,
    usage,
)
from visual_dynamics.sampling.predictor import Predictor

VALUES = torch.linspace(-3, 3, 7)


def test_futures_are_numbered(tiny_network) -> None:
    predictor, frame = Predictor(tiny_network), torch.rand(3, 16, 16)
    eight = futures(predictor, frame, Prior(200), 8, seed=3)
    few = torch.stack(list(each_future(predictor, frame, Prior(200), 3, seed=3)))
    torch.testing.assert_close(few, eight[:3], rtol=1e-5, atol=1e-6)
    assert not torch.equal(futures(predictor, frame, Prior(200), 8, seed=4), eight)


def test_analogy_carries_the_mean_motion(tiny_network) -> None:
    predictor = Predictor(tiny_network)
    before, after, frame = torch.rand(3, 3, 16, 16)
    motion = predictor.encode(before, after).mean
    torch.testing.assert_close(analogy(predictor, before, after, frame), apply_motion(predictor, frame, motion))
    torch.testing.assert_close(reconstruct(predictor, before, after), apply_motion(predictor, before, motion))


def test_extrapolation_repeats_one_motion(tiny_network) -> None:
    predictor, frame, z = Predictor(tiny_network), torch.rand(3, 16, 16), seeded(200)
    clip = torch.stack(list(extrapolation(predictor, frame, z, steps=3)))
    assert clip.shape == (4, 3, 16, 16)
    torch.testing.assert_close(clip[0], frame)
    for now, following in itertools.pairwise(clip):
        torch.testing.assert_close(apply_motion(predictor, now, z), following)


# --- traversal ---


class BrightnessDecoder:
    """Stands for a predictor: dimension 1 lightens the left half, dimension 3 darkens the right; others do nothing."""

    def rest(self, image: Tensor) -> Tensor:
        return torch.zeros(4)

    def encode_image(self, frame: Tensor) -> Tensor:
        return frame

    def decode(self, image: Tensor, z: Tensor) -> Tensor:
        frames = image.repeat(len(z), 1, 1, 1)
        frames[..., :4] += 0.01 * z[:, 1, None, None, None]
        frames[..., 4:] -= 0.02 * z[:, 3, None, None, None]
        return frames


def made_up(pairs: int = 500) -> Posterior:
    """Dimension 1 carries most, 3 less, 0 hardly anything, 2 nothing."""
    mean = seeded(pairs, 4) * torch.tensor([0.05, 0.9, 0.0, 0.5])
    return Posterior(mean, torch.tensor([-0.01, -6.0, 0.0, -1.0]).expand(pairs, 4))


def test_dimensions_are_found_by_their_divergence() -> None:
    posterior = made_up()
    used = usage(posterior)
    expected = kl_divergence(Normal(posterior.mean, (posterior.log_variance / 2).exp()), Normal(0.0, 1.0)).mean(0)
    torch.testing.assert_close(used.nats, expected, rtol=1e-4, atol=1e-6)
    assert used.active == [1, 3] and used.inactive == [0, 2]


def test_the_scale_is_that_of_samples() -> None:
    posterior = made_up(20_000)
    samples = posterior.sample(seeded(20_000, 4, seed=7))
    torch.testing.assert_close(usage(posterior).scale, samples.std(0), rtol=0.02, atol=0)


def test_a_path_varies_one_dimension() -> None:
    codes = path(Usage(torch.zeros(3), torch.tensor([1.0, 0.5, 2.0])), 1, VALUES)
    assert codes.shape == (7, 3) and not codes[:, [0, 2]].any()
    torch.testing.assert_close(codes[:, 1], VALUES / 2)


@pytest.mark.parametrize(("dimension", "change"), [(0, 0.0), (1, 6 * 0.01 / 2), (2, 0.0), (3, 6 * 0.02 / 2)])
def test_only_what_the_decoder_knows_moves_pixels(dimension: int, change: float) -> None:
    decoder, frame = cast(Predictor, BrightnessDecoder()), torch.full((3, 8, 8), 0.5)
    frames = traverse(decoder, frame, path(Usage(torch.zeros(4), torch.ones(4)), dimension, VALUES))
    assert moved(frames) == pytest.approx(change, abs=1e-6)
    assert torch.equal(frames[3], frame)  # 0 in the middle
    assert torch.equal(frames[0], frames[-1]) == (change == 0)


def test_a_real_predictor_decodes_each_code(tiny_network) -> None:
    predictor, frame = Predictor(tiny_network), torch.rand(3, 16, 16)
    steps = path(Usage(torch.zeros(200), torch.ones(200)), 17, VALUES)
    frames = traverse(predictor, frame, steps)
    assert frames.shape == (7, 3, 16, 16)
    rest = predictor.encode(frame, frame).mean  # of a pair in which nothing moves
    torch.testing.assert_close(frames[5], apply_motion(predictor, frame, rest + steps[5]))


def test_a_trained_network_knows_rest() -> None:
    frame = shapes.shapes_pairs(1, 0, "test", "smooth").batch(torch.tensor([0])).frame[0]
    predictor = load("shapes").predictor
    image = predictor.encode_image(frame)
    rested, zero = predictor.decode(image, torch.stack([predictor.rest(image), torch.zeros(8)]))
    assert (rested - frame).abs().mean() < 1 / 255
    assert (zero - frame).abs().mean() > 4 * (rested - frame).abs().mean()  # a mean of all motions
    assert not load("shapes-integer").predictor.rest(image).any()  # it cannot read motion
