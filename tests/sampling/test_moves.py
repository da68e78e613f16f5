"""Futures, analogy, extrapolation: each is what its words say, in terms of the predictor."""

import itertools

import torch

from tests.conftest import seeded
from visual_dynamics.sampling.analogy import analogy, apply_motion, reconstruct
from visual_dynamics.sampling.extrapolation import extrapolate
from visual_dynamics.sampling.futures import futures
from visual_dynamics.sampling.latents import Prior
from visual_dynamics.sampling.predictor import Predictor


def test_futures_are_numbered(tiny_network) -> None:
    predictor, frame = Predictor(tiny_network), torch.rand(3, 16, 16)
    eight = futures(predictor, frame, Prior(200), 8, seed=3)
    torch.testing.assert_close(
        futures(predictor, frame, Prior(200), 3, seed=3, first=5), eight[5:], rtol=1e-5, atol=1e-6
    )
    assert not torch.equal(futures(predictor, frame, Prior(200), 8, seed=4), eight)


def test_analogy_carries_the_mean_motion(tiny_network) -> None:
    predictor = Predictor(tiny_network)
    before, after, frame = torch.rand(3, 3, 16, 16)
    motion = predictor.encode(before, after).mean
    torch.testing.assert_close(analogy(predictor, before, after, frame), apply_motion(predictor, frame, motion))
    torch.testing.assert_close(reconstruct(predictor, before, after), apply_motion(predictor, before, motion))


def test_extrapolation_repeats_one_motion(tiny_network) -> None:
    predictor, frame, z = Predictor(tiny_network), torch.rand(3, 16, 16), seeded(200)
    clip = extrapolate(predictor, frame, z, steps=3)
    assert clip.shape == (4, 3, 16, 16)
    torch.testing.assert_close(clip[0], frame)
    for now, following in itertools.pairwise(clip):
        torch.testing.assert_close(apply_motion(predictor, now, z), following)
