"""The judge on a tiny world whose answer is known, and its intervals against values worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from visual_dynamics.evaluation import realism
from visual_dynamics.evaluation.realism import cluster_interval, fooled, fooled_share, train_judge, wilson_interval

LEARNED, ASKED = 150, 300


def squares(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Frames (N, 3, 16, 16) of a coloured square, and two independent draws of where it goes: a pixel or none."""
    chance = torch.Generator().manual_seed(seed)
    grid = torch.arange(16)
    corner = torch.randint(3, 9, (2, count), generator=chance)
    colour = torch.rand(count, 3, 1, 1, generator=chance) * 0.7 + 0.3

    def picture(moved: Tensor) -> Tensor:
        rows, columns = (((grid >= c[:, None]) & (grid < c[:, None] + 5)) for c in (corner[0], corner[1] + moved))
        return colour * (rows[:, :, None] & columns[:, None, :])[:, None]

    draws = (torch.randint(-1, 2, (count,), generator=chance) for _ in range(2))
    return (picture(torch.zeros(count, dtype=torch.long)), *(picture(moved) for moved in draws))


def rate(spoil: float, steps: int = 60) -> float:
    """How often a judge of synthetic frames, another draw with noise of this size upon it, is fooled on new inputs."""

    def world(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        frames, real, other = squares(count, seed)
        noise = torch.rand(real.shape, generator=torch.Generator().manual_seed(seed + 9))
        return frames, real, other + spoil * noise

    judge = train_judge(*world(LEARNED, 1), seed=0, steps=steps)
    return float(fooled(judge, *world(ASKED, 2), seed=0).double().mean())


def test_a_visible_artefact_hardly_fools_it() -> None:
    assert rate(spoil=0.1) < 0.05


def test_another_draw_of_the_same_world_fools_it_half_of_the_time() -> None:
    assert rate(spoil=0.0) == pytest.approx(0.5, abs=0.08)


def test_the_seed_decides_everything_and_leaves_the_global_state_alone() -> None:
    world = squares(20, 3)
    before = torch.get_rng_state()
    one, same, other = (train_judge(*world, seed=seed, steps=3).state_dict() for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_frames_of_an_input_are_mirrored_and_shifted_alike() -> None:
    ramp = torch.arange(256.0).view(1, 1, 16, 16).expand(64, 3, 16, 16)
    one, two = realism._augment([ramp, ramp + 1000], torch.Generator().manual_seed(0))
    assert torch.equal(one + 1000, two) and torch.equal(one[:, 0], one[:, 2])
    middles = one[:, 0, 7, 7].long()  # the border does not reach here: whole pixels of a moved or mirrored ramp
    moved = {(int(m) // 16 - 7, int(m) % 16) for m in middles}
    assert {dy for dy, _ in moved} == {-1, 0, 1} and {x for _, x in moved} == {6, 7, 8, 9}
    steps = one[:, 0, 7, 8] - one[:, 0, 7, 7]
    assert set(steps.tolist()) == {1.0, -1.0} and 16 < (steps < 0).sum() < 48


def test_every_input_is_used_before_any_is_used_again() -> None:
    batches = list(realism._batches(10, steps=4, batch=5, chance=torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [5] * 4
    assert sorted(torch.cat(batches[:2]).tolist()) == sorted(torch.cat(batches[2:]).tolist()) == list(range(10))


def test_equal_pictures_are_a_toss_up_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, real, other = squares(ASKED, 4)
    judge = train_judge(frames, real, other, seed=0, steps=1)
    assert float(fooled(judge, frames, real, real, seed=1).double().mean()) == pytest.approx(0.5, abs=0.08)
    distinct = (real != other).flatten(1).any(1)
    whole = fooled(judge, frames, real, other, seed=1)
    assert torch.equal(
        whole[distinct], fooled(judge, frames, real, other, seed=2)[distinct]
    )  # the order decides nothing
    monkeypatch.setattr(realism, "CHUNK", 64)
    assert (whole == fooled(judge, frames, real, other, seed=1)).double().mean() > 0.99


def test_a_judge_gone_astray_is_no_judge_that_finds_no_difference() -> None:
    world = squares(4, 5)
    judge = train_judge(*world, seed=0, steps=1)
    torch.nn.init.constant_(judge.score.weight, math.nan)
    with pytest.raises(FloatingPointError, match="not finite"):
        fooled(judge, *world, seed=0)


def test_wilson_as_in_the_literature() -> None:
    assert wilson_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson_interval(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson_interval(1.0, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)


def test_clusters_count_as_many_as_they_are() -> None:
    """40 clusters of 25 equal values are worth 40 values, not 1,000."""
    each = torch.arange(40) % 2
    values, clusters = each.repeat_interleave(25).double(), torch.arange(40).repeat_interleave(25) * 3 + 7
    low, high = cluster_interval(values, clusters)
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(40), rel=0.1)
    alone = cluster_interval(values, torch.arange(1000))
    assert alone[1] - alone[0] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(1000), rel=0.1)
    assert cluster_interval(values, clusters) == (low, high)  # the seed decides


def test_shares_of_several_judges() -> None:
    answers = torch.tensor([[True, False, False, False], [True, True, False, False]])
    found = fooled_share(answers, torch.tensor([0, 0, 1, 1]))
    assert found.share == 0.375 and found.judges == (0.25, 0.5)
    assert found.wilson == wilson_interval(0.375, 4) and found.interval == (0.0, 0.75)
    assert fooled_share(answers).interval == found.wilson
    never = fooled_share(torch.zeros(3, 50, dtype=torch.bool), torch.arange(50) // 5)
    assert never.share == 0 and never.interval == never.wilson == wilson_interval(0, 50)


def test_mistakes_are_told() -> None:
    frames = torch.rand(4, 3, 16, 16)
    with pytest.raises(ValueError, match="at least 16 pixels"):
        train_judge(*[torch.rand(4, 3, 8, 8)] * 3, seed=0)
    with pytest.raises(ValueError, match="next frames are"):
        train_judge(frames, frames, frames[:3], seed=0)
    with pytest.raises(ValueError, match="floats"):
        train_judge(frames, frames, (frames * 255).to(torch.uint8), seed=0)
    with pytest.raises(ValueError, match="no inputs"):
        train_judge(frames[:0], frames[:0], frames[:0], seed=0)
    with pytest.raises(ValueError, match="answers are bool"):
        fooled_share(torch.rand(2, 3))
    with pytest.raises(ValueError, match="values and clusters"):
        cluster_interval(torch.rand(3), torch.arange(2))
