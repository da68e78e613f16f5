"""The judge on a tiny world whose answer is known."""

import math

import pytest
import torch
from torch import Tensor

from visual_dynamics.evaluation import judge
from visual_dynamics.evaluation.intervals import wilson_interval
from visual_dynamics.evaluation.judge import fooled, fooled_share, train_judge

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
    one, two = judge._augment([ramp, ramp + 1000], torch.Generator().manual_seed(0))
    assert torch.equal(one + 1000, two) and torch.equal(one[:, 0], one[:, 2])
    middles = one[:, 0, 7, 7].long()  # the border does not reach here: whole pixels of a moved or mirrored ramp
    moved = {(int(m) // 16 - 7, int(m) % 16) for m in middles}
    assert {dy for dy, _ in moved} == {-1, 0, 1} and {x for _, x in moved} == {6, 7, 8, 9}
    steps = one[:, 0, 7, 8] - one[:, 0, 7, 7]
    assert set(steps.tolist()) == {1.0, -1.0} and 16 < (steps < 0).sum() < 48


def test_every_input_is_used_before_any_is_used_again() -> None:
    batches = list(judge._batches(10, steps=4, batch=5, chance=torch.Generator().manual_seed(0)))
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
    monkeypatch.setattr("visual_dynamics.evaluation.judge.CHUNK", 64)
    assert (whole == fooled(judge, frames, real, other, seed=1)).double().mean() > 0.99


def test_a_judge_gone_astray_is_no_judge_that_finds_no_difference() -> None:
    world = squares(4, 5)
    judge = train_judge(*world, seed=0, steps=1)
    torch.nn.init.constant_(judge.score.weight, math.nan)
    with pytest.raises(FloatingPointError, match="not finite"):
        fooled(judge, *world, seed=0)


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


def test_judges_of_one_setting_differ_in_what_they_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []

    def learn(frames: Tensor, real: Tensor, synthetic: Tensor, seed: int, steps: int) -> int:
        assert torch.equal(frames, real) and torch.equal(frames, synthetic)
        seen.append(set(frames[:, 0, 0, 0].tolist()))
        return seed

    monkeypatch.setattr(judge, "train_judge", learn)
    monkeypatch.setattr(judge, "fooled", lambda judge, x, *_: x[:, 0, 0, 0] == 22 + judge)
    frames = torch.arange(30.0).view(30, 1, 1, 1).expand(30, 3, 2, 2)
    small, large = (judge.judge_rest(frames, frames, frames, 20, count, 3, 3, seed=0) for count in (5, 10))
    for answers in (small, large):  # on inputs 20 to 29; judge 0 is fooled on 22, the next on 23, then 24
        assert [row.nonzero().flatten().tolist() for row in answers] == [[2], [3], [4]] and answers.shape == (3, 10)
    assert [len(chosen) for chosen in seen] == [5, 5, 5, 10, 10, 10] and max(set.union(*seen)) < 20
    assert seen[0] != seen[1] and all(few < many for few, many in zip(seen[:3], seen[3:], strict=True))


# --- judges of folds ---

METHODS = ("a", "b")
# groups with 7, 4, 4, 2 and 1 inputs
GROUPS = [name for name, count in {"v": 7, "w": 4, "x": 4, "y": 2, "z": 1}.items() for _ in range(count)]


def numbered(count: int) -> Tensor:
    """Frames that say their input's number: 10 x it, in all pixels; next frames are one and two levels brighter."""
    frames = (10 * torch.arange(count))[:, None] + torch.tensor([0, 1, 2, 2])  # (N, 2 + M)
    return frames.to(torch.uint8)[:, :, None, None, None].expand(-1, -1, 3, 16, 16)


def numbers(frames: Tensor) -> list[int]:
    return (frames[:, 0, 0, 0] * 25.5).round().int().tolist()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], list[int]]]:
    """Of each judge the inputs that it learned from and those that it answered on."""
    pairs: list[tuple[list[int], list[int]]] = []

    def learn(inputs: Tensor, real: Tensor, synthetic: Tensor, seed: int, steps: int) -> None:
        assert torch.allclose(real - inputs, torch.tensor(1 / 255)) and steps == 9
        assert torch.allclose(synthetic - inputs, torch.tensor(2 / 255))
        pairs.append((numbers(inputs), []))

    def answer(trained: None, inputs: Tensor, real: Tensor, synthetic: Tensor, seed: int) -> Tensor:
        pairs[-1][1].extend(numbers(inputs))
        return torch.tensor([number % 3 == 0 for number in numbers(inputs)])

    monkeypatch.setattr(judge, "train_judge", learn)
    monkeypatch.setattr(judge, "fooled", answer)
    return pairs


def test_judges_answer_once_on_each_input_of_folds_they_did_not_learn_from(
    heard: list[tuple[list[int], list[int]]],
) -> None:
    """Fault: a judge is trained on the fold that it judges."""
    count, shares, fold = len(GROUPS), [], judge.in_folds(GROUPS, 3, 0)
    assert fold is not None
    found = judge.judge_folds(numbered(count), METHODS, fold, judge.Judging(3, 2, 9), 0, shares.append)
    assert len(heard) == len(shares) == len(METHODS) * 2 * 3 and shares[-1] == 1
    for learned, answered in heard:
        assert not {GROUPS[one] for one in learned} & {GROUPS[one] for one in answered}
        assert sorted(learned + answered) == list(range(count))
    for start in range(0, len(heard), 3):  # the three judges of a row
        assert sorted(one for _, answered in heard[start : start + 3] for one in answered) == list(range(count))
    for name in METHODS:  # an answer comes back to its input
        assert found[name].tolist() == [[number % 3 == 0 for number in range(count)]] * 2


def test_folds_are_even_and_drawn_by_the_seed() -> None:
    found = []
    for seed in range(20):
        fold, again = (judge.in_folds(GROUPS, 3, seed) for _ in range(2))
        assert fold is not None and again is not None and torch.equal(fold, again)
        for name in set(GROUPS):
            assert len({int(own) for own, group in zip(fold, GROUPS, strict=True) if group == name}) == 1
        assert sorted(fold.bincount().tolist()) == [5, 6, 7]
        found.append(tuple(fold.tolist()))
    assert len(set(found)) > 1  # groups of equal size change places
    many = judge.in_folds(GROUPS, 6, 0)
    assert many is not None and sorted(many.bincount().tolist()) == [1, 2, 4, 4, 7]  # no more folds than groups
    assert judge.in_folds(["v"] * 3, 6, 0) is None


def test_copies_of_the_truth_are_taken_for_real_half_of_the_time() -> None:
    """Equal pictures score alike, whatever the judge has learned. Inverted colours are found out."""
    chance = torch.Generator().manual_seed(0)
    frame = torch.randint(0, 64, (400, 3, 16, 16), generator=chance, dtype=torch.uint8)
    shown = torch.stack([frame, frame + 1, frame + 1, 255 - frame], 1)
    fold = judge.in_folds([f"{number % 8}" for number in range(400)], 2, 0)
    assert fold is not None and fold.bincount().tolist() == [200, 200]
    found = judge.judge_folds(shown, ("truth", "inverted"), fold, judge.Judging(2, 2, 20), 0, lambda share: None)
    share = float(found["truth"].double().mean())
    assert abs(share - 0.5) < 4 * 0.5 / 800**0.5  # four standard deviations of 800 tosses
    assert float(found["inverted"].double().mean()) < 0.05


def test_blind_judges_see_no_change_below_eight_levels() -> None:
    shown = torch.full((3, 3, 2, 2), 100, dtype=torch.uint8)
    shown[1, 0, 0, 0], shown[1, 1, 0, 0] = 107, 99  # noise
    shown[1, 2, 1, 1], shown[1, 0, 1, 1] = 92, 101  # one channel changes enough: all three are seen
    shown[2, 0, 0, 1] = 255
    found = judge.without_noise(shown)
    assert torch.equal(found[0], shown[0]) and torch.equal(found[2], shown[2])
    assert (found[1, :, 0] == 100).all() and torch.equal(found[1, :, 1], shown[1, :, 1])


def test_a_judge_that_is_blind_for_noise_cannot_tell_by_noise() -> None:
    """The truth is the input with noise on it, and the prediction the input alone."""
    chance = torch.Generator().manual_seed(1)
    frame = torch.randint(20, 200, (120, 3, 16, 16), generator=chance, dtype=torch.uint8)
    noisy = frame + torch.randint(0, 7, frame.shape, generator=chance, dtype=torch.uint8)
    shown = torch.stack([frame, noisy, frame], 1)
    fold = torch.arange(120) % 2
    shares = []
    for seen in (shown, torch.stack([judge.without_noise(one) for one in shown])):
        answers = judge.judge_folds(seen, ("copy",), fold, judge.Judging(2, 1, 40), 0, lambda share: None)
        shares.append(float(answers["copy"].double().mean()))
    assert shares[0] < 0.05 and abs(shares[1] - 0.5) < 4 * 0.5 / 120**0.5
