"""The judge of the video experiment: who learns from what, who is asked about what, and a method that copies truth."""

import json

import pytest
import torch
from torch import Tensor

from visual_dynamics.data.shards import Take
from visual_dynamics.evaluation import realism
from visual_dynamics.evaluation.realism import Judge
from visual_dynamics.experiments import video_judge
from visual_dynamics.experiments.video_judge import Seen

CPU = torch.device("cpu")
METHODS = ("a", "b")
# scenes with 7, 4, 4, 2 and 1 inputs; the first has two takes
TAKES = [
    Take(scene, f"{scene}, take {number % 2 if scene == 'v' else 0}", torch.empty(0, dtype=torch.int64))
    for scene, count in {"v": 7, "w": 4, "x": 4, "y": 2, "z": 1}.items()
    for number in range(count)
]


def ignore(what: str, share: float) -> None:
    pass


def numbered(takes: list[Take]) -> Seen:
    """Frames that say their input's number: 10 x it, in all pixels; next frames are one and two levels brighter."""
    seen = Seen(METHODS)
    for number, take in enumerate(takes):
        frame = torch.full((3, 16, 16), 10 * number / 255)
        made = {name: (frame + 2 / 255).expand(4, -1, -1, -1) for name in METHODS}
        seen.add(take, frame, frame + 1 / 255, made)
    return seen


def numbers(frames: Tensor) -> list[int]:
    return (frames[:, 0, 0, 0] * 25.5).round().int().tolist()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], list[int]]]:
    """Of each judge the inputs that it learned from and those that it was asked about."""
    pairs: list[tuple[list[int], list[int]]] = []

    def learn(inputs: Tensor, real: Tensor, synthetic: Tensor, seed: int, steps: int) -> Judge:
        assert torch.allclose(real - inputs, torch.tensor(1 / 255)) and steps == video_judge.STEPS
        assert torch.allclose(synthetic - inputs, torch.tensor(2 / 255))
        pairs.append((numbers(inputs), []))
        return Judge()

    def ask(judge: Judge, inputs: Tensor, real: Tensor, synthetic: Tensor, seed: int) -> Tensor:
        pairs[-1][1].extend(numbers(inputs))
        return torch.tensor([number % 3 == 0 for number in numbers(inputs)])

    monkeypatch.setattr(realism, "train_judge", learn)
    monkeypatch.setattr(realism, "fooled", ask)
    return pairs


def test_all_are_asked_about_once_by_judges_of_other_scenes(heard: list[tuple[list[int], list[int]]]) -> None:
    told: list[float] = []
    found = video_judge.judged(numbered(TAKES), False, 0, CPU, lambda what, share: told.append(share))
    assert found is not None and json.loads(json.dumps(found))["split"] == "scene"
    assert len(heard) == len(told) == len(METHODS) * video_judge.JUDGES * 2 and told[-1] == 1
    for learned, asked in heard:
        assert not {TAKES[one].scene for one in learned} & {TAKES[one].scene for one in asked}
        assert sorted(learned + asked) == list(range(len(TAKES)))
    for (_, one), (_, other) in zip(heard[::2], heard[1::2], strict=True):  # the two judges of a line
        assert sorted(one + other) == list(range(len(TAKES)))
    assert sorted(found["halves"]) == [6, 12] and found["inputs"] == 18 and found["takes"] == 6
    assert found["size"] == 16 and found["steps"] == realism.STEPS and found["judges"] == 2
    for name in METHODS:  # an answer comes back to its input
        assert found["rows"][name]["share"] == pytest.approx(6 / 18)
        assert found["rows"][name]["judges"] == pytest.approx([6 / 18] * 2)


def test_halves_are_drawn_by_the_seed() -> None:
    found = []
    for seed in range(20):
        halves = video_judge.in_halves(TAKES, seed)
        again = video_judge.in_halves(TAKES, seed)
        assert halves is not None and again is not None and torch.equal(halves.second, again.second)
        found.append({take.scene for take, second in zip(TAKES, halves.second.tolist(), strict=True) if second})
    assert {frozenset(one) for one in found} == {frozenset("wy"), frozenset("xy")}


def test_a_single_scene_is_halved_by_take(heard: list[tuple[list[int], list[int]]]) -> None:
    takes = TAKES[:7]
    found = video_judge.judged(numbered(takes), False, 0, CPU, ignore)
    assert found is not None and found["split"] == "take" and sorted(found["halves"]) == [3, 4]
    for learned, asked in heard:
        assert not {takes[one].name for one in learned} & {takes[one].name for one in asked}
        assert sorted(learned + asked) == list(range(7))
    assert video_judge.judged(numbered(takes[::2]), False, 0, CPU, ignore) is None
    assert video_judge.judged(numbered(takes[:1]), True, 0, CPU, ignore) is None


def test_who_copies_the_truth_is_taken_for_real_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal pictures score alike, whatever the judge has learned: a toss-up. Who inverts its colours is found out."""
    monkeypatch.setattr(video_judge, "STEPS", 20)
    chance = torch.Generator().manual_seed(0)
    seen = Seen(("truth", "inverted"))
    for number in range(400):
        frame = torch.rand(3, 16, 16, generator=chance) / 4
        truth = (frame + 1 / 255).clamp(0, 1)
        take = Take(str(number % 8), f"{number % 16}", torch.empty(0, dtype=torch.int64))
        seen.add(take, frame, truth, {"truth": truth[None], "inverted": 1 - truth[None]})
    found = video_judge.judged(seen, False, 0, CPU, ignore)
    assert found is not None and found["halves"] == [200, 200]
    row = found["rows"]["truth"]
    assert abs(row["share"] - 0.5) < 4 * 0.5 / 800**0.5  # four standard deviations of 800 tosses
    assert row["interval"][0] < 0.5 < row["interval"][1]
    assert found["rows"]["inverted"]["share"] < 0.05


def test_frames_are_averaged_in_8_bit_colours() -> None:
    seen = Seen(("a",))
    frame = torch.zeros(3, 64, 64)
    frame[:, ::2, ::2] = 100.4 / 255  # one of four pixels: 100 as 8-bit, 25 on average
    seen.add(TAKES[0], frame, frame, {"a": torch.stack([2 + frame, frame])})
    assert seen.shown[0].shape == (3, 3, 32, 32) and seen.shown[0].dtype == torch.uint8
    assert (seen.shown[0][:2] == 25).all() and (seen.shown[0][2] == 255).all()
