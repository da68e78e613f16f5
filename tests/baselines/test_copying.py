import torch

from visual_dynamics.baselines.copying import Copy
from visual_dynamics.baselines.sampler import FutureSampler


def test_every_sample_is_the_frame() -> None:
    sampler: FutureSampler = Copy()
    frame = torch.rand(3, 5, 7)
    samples = sampler.sample(frame, [4, 9])
    assert samples.shape == (2, 3, 5, 7)
    assert torch.equal(samples[0], frame)
    assert torch.equal(samples[1], frame)


def test_samples_can_be_changed_without_touching_the_frame() -> None:
    frame = torch.ones(3, 2, 2)
    Copy().sample(frame, [0, 1]).zero_()
    assert frame.sum() == 12


def test_no_seeds() -> None:
    assert Copy().sample(torch.rand(3, 5, 7), []).shape == (0, 3, 5, 7)
