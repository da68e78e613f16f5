"""Copying; neighbours against brute force; flow and warp on textures shifted by a known amount."""

import sys

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor

pytest.importorskip("cv2")

from visual_dynamics import baselines
from visual_dynamics.baselines import Copy, FlowTransfer, FutureSampler, warp
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError

MOVES = [(2.5, -1.5), (-3.0, 2.0), (0.0, 4.0), (1.25, 0.75)]  # dx, dy of the training pairs, pixels, y down


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


def texture(dx: float, dy: float, seed: int = 0) -> Tensor:
    """A smooth random picture, (3, 64, 64) in [0, 1], whose content is moved by (dx, dy)."""
    wide = ndimage.gaussian_filter(np.random.default_rng(seed).random((3, 96, 96)), (0, 2, 2))
    wide = (wide - wide.min()) / np.ptp(wide)
    moved = np.stack([ndimage.shift(channel, (dy, dx), order=3) for channel in wide])
    return torch.tensor(moved[:, 16:80, 16:80]).float().clamp(0, 1)


def eight_bits(frames: list[Tensor]) -> Tensor:
    return (torch.stack(frames) * 255).round().to(torch.uint8)


@pytest.fixture(scope="module")
def textures() -> Pairs:
    """The same frame four times, each time with another motion."""
    return Pairs.of(eight_bits([texture(0, 0)] * len(MOVES)), eight_bits([texture(*move) for move in MOVES]))


def inner(x: Tensor) -> Tensor:
    return x[..., 8:-8, 8:-8]


def test_nearest_as_by_brute_force() -> None:
    chance = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (1500, 3, 8, 8), dtype=torch.uint8, generator=chance)
    queries = torch.rand(6, 3, 8, 8, generator=chance)
    queries[0] = frames[1234].float() / 255
    distances = (frames[None].double() / 255 - queries[:, None].double()).square().sum((2, 3, 4))
    expected = distances.sort(dim=1).indices[:, :10]
    sampler = FlowTransfer(Pairs.of(frames, frames.flip(0)))  # next frames do not count
    assert torch.equal(sampler.nearest(queries), expected)
    assert sampler.nearest(queries)[0, 0] == 1234
    assert torch.equal(sampler.nearest(queries[3:4]), expected[3:4])


def test_nearest_tells_frames_apart_that_differ_in_one_value() -> None:
    """Far below what single precision keeps of a squared length."""
    frames = torch.full((50, 3, 64, 64), 255, dtype=torch.uint8)
    for index in range(50):
        frames[index, 0, 0, 0] = 255 - index
    query = torch.ones(1, 3, 64, 64)
    assert FlowTransfer(Pairs.of(frames, frames), 5).nearest(query)[0].tolist() == [0, 1, 2, 3, 4]


def test_precision_chosen_for_networks_does_not_matter() -> None:
    frames = torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    sampler, query = FlowTransfer(Pairs.of(frames, frames), 5), torch.full((1, 3, 16, 16), 0.5)
    plain = sampler.nearest(query)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(sampler.nearest(query), plain)


@pytest.mark.parametrize("index", range(len(MOVES)))
def test_flow_says_where_pixels_came_from(textures: Pairs, index: int) -> None:
    flow = FlowTransfer(textures, 1).flow(index)
    assert flow.shape == (2, 64, 64)
    expected = -torch.tensor(MOVES[index]).view(2, 1, 1)
    assert (inner(flow) - expected).abs().mean() < 0.05


def test_warp_moves_another_picture_the_same_way(textures: Pairs) -> None:
    sampler = FlowTransfer(textures, 1)
    for index, move in enumerate(MOVES):
        moved = warp(texture(0, 0, seed=5), sampler.flow(index))
        truth = texture(*move, seed=5)
        assert inner(moved - truth).abs().mean() < 0.01
        assert inner(moved - texture(0, 0, seed=5)).abs().mean() > 0.03


def test_warp_by_whole_pixels_is_exact() -> None:
    frame = torch.rand(3, 6, 9)
    flow = torch.stack([torch.full((6, 9), -2.0), torch.full((6, 9), 1.0)])
    expected = frame[:, [1, 2, 3, 4, 5, 5]][:, :, [0, 0, 0, 1, 2, 3, 4, 5, 6]]
    torch.testing.assert_close(warp(frame, flow), expected, atol=1e-5, rtol=0)


def test_one_neighbour_gives_its_own_next_frame(textures: Pairs) -> None:
    pairs = textures.subset(torch.tensor([0]))
    sample = FlowTransfer(pairs, 1).sample(texture(0, 0), [7])[0]
    assert inner(sample - texture(*MOVES[0])).abs().mean() < 0.01


def test_seeds_choose_among_all_neighbours_and_nothing_else_does(textures: Pairs) -> None:
    sampler: FutureSampler = FlowTransfer(textures, 4)
    frame = texture(0, 0)
    many = sampler.sample(frame, range(40))
    assert many.shape == (40, 3, 64, 64)
    assert len({picture.numpy().tobytes() for picture in many}) == 4
    assert torch.equal(sampler.sample(frame, [31, 2]), many[[31, 2]])
    assert torch.equal(FlowTransfer(textures, 4).sample(frame, [5])[0], many[5])
    assert sampler.sample(frame, []).shape == (0, 3, 64, 64)


def test_pairs_that_share_their_frames_are_as_good_as_pairs_that_do_not(textures: Pairs) -> None:
    store = torch.cat([textures.next_frames, textures.frames[:1]])  # the four share their first frame
    shared = FlowTransfer(Pairs(store, torch.full((4,), 4), torch.arange(4)), 3)
    apart = FlowTransfer(textures, 3)
    frames = torch.stack([texture(0, 0), texture(1, 1, seed=2)])
    assert torch.equal(shared.nearest(frames), apart.nearest(frames))
    assert all(torch.equal(shared.flow(index), apart.flow(index)) for index in range(4))
    with pytest.raises(UserError, match=r"training frames are \(3, 64, 64\)"):
        shared.sample(torch.rand(3, 32, 32), [0])


def test_one_future_of_each_of_many_frames(textures: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, seeds = FlowTransfer(textures, 4), [3, 1, 4, 1, 5]
    frames = torch.stack([texture(0, 0, seed=seed) for seed in range(5)])
    expected = torch.cat([sampler.sample(frame, [seed]) for frame, seed in zip(frames, seeds, strict=True)])
    monkeypatch.setattr(baselines, "QUERIES", 2)
    assert torch.equal(sampler.sample_each(frames, seeds), expected)
    assert sampler.sample_each(frames[:0], []).shape == (0, 3, 64, 64)
    with pytest.raises(ValueError, match="5 frames need as many seeds"):
        sampler.sample_each(frames, [0])


def test_flows_are_measured_once_and_not_hoarded(textures: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = FlowTransfer(textures, 1)
    assert sampler.flow(0) is sampler.flow(0)
    monkeypatch.setattr(baselines, "KEPT_FLOWS", 2)
    for index in range(4):
        sampler.flow(index)
    assert list(sampler._flows) == [2, 3]


def test_mistakes_are_errors(textures: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"10 neighbours .* 4 pairs"):
        FlowTransfer(textures)
    with pytest.raises(UserError, match="training frames are"):
        FlowTransfer(textures, 1).sample(torch.rand(3, 32, 32), [0])
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UserError, match=r"visual-dynamics\[video\]"):
        FlowTransfer(textures, 1)


def test_a_larger_frame_is_moved_at_its_size_and_then_averaged() -> None:
    """A checkerboard of single large pixels, moved by one small pixel, two large ones: nothing is lost, nor blurred."""
    small = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(3))
    flow = FlowTransfer(Pairs.of(eight_bits([small]), eight_bits([small])), neighbours=1)
    flow._flows[0] = torch.tensor([1.0, 0.0])[:, None, None].expand(2, 32, 32)
    large = small.repeat_interleave(2, 1).repeat_interleave(2, 2)
    made = flow.sample(large, [0])
    assert made.shape == (1, 3, 32, 32)
    assert torch.allclose(made[0, :, :, :-1], small[:, :, 1:], atol=1e-6)
    flow._flows[0] = torch.tensor([0.5, 0.0])[:, None, None].expand(2, 32, 32)
    half = flow.sample(large, [0])[0]  # one large pixel: the mean of two neighbours, as they were
    assert torch.allclose(half[:, :, :-1], (small[:, :, :-1] + small[:, :, 1:]) / 2, atol=1e-6)
