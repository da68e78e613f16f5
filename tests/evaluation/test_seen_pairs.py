"""What judges see of a pair, and what they and distances of sets say, on sets whose answer is known."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("cv2")

from visual_dynamics.evaluation import seen_pairs
from visual_dynamics.evaluation.judge import Judging
from visual_dynamics.evaluation.seen_pairs import SeenPair, judge_pairs, pair_features, see, set_distances

CPU = torch.device("cpu")


def test_judges_see_averages_of_8_bit_colours() -> None:
    frame = torch.zeros(3, 64, 64)
    frame[:, ::2, ::2] = 100.4 / 255  # one of four pixels: 100 as 8-bit, 25 on average
    seen = see(frame, frame + 7 / 255, [2 + frame])
    assert seen.plain.shape == (3, 3, 32, 32) and seen.plain.dtype == torch.uint8
    assert [float(one.float().mean()) for one in seen.plain] == [25, 32, 255]
    assert [float(one.float().mean()) for one in seen.blind] == [25, 25, 255]


def moved(count: int, seed: int, by: int) -> tuple[Tensor, Tensor]:
    """Smooth pictures, uint8, and the same, `by` pixels to the right."""
    chance = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 8, 8, generator=chance)
    frames = torch.nn.functional.interpolate(coarse, size=(32, 32), mode="bicubic").clamp(0, 1)
    frames = (255 * frames).round().to(torch.uint8)
    return frames, frames.roll(by, 3)


@pytest.fixture(scope="module")
def seen() -> list[SeenPair]:
    """True pairs move by 2; one method copies, the other moves as the truth does."""
    pairs = zip(*(x.float() / 255 for x in moved(40, 0, 2)), strict=True)
    return [see(frame, truth, [frame, truth]) for frame, truth in pairs]


def test_the_truth_is_nearer_to_other_true_pairs_than_copies_are(seen: list[SeenPair]) -> None:
    """The prediction that is the truth has the floor's own distance, which is near 0."""
    scenes = ["a", "b"] * 20
    found = set_distances(
        seen, scenes, pair_features(*moved(60, 1, 2)), ["a", "b", "c"] * 20, ("truth", "copy", "right")
    )
    for kind in ("random network", "flow histogram"):
        rows = found[kind]
        assert rows["right"] == rows["truth"] and rows["copy"]["frechet"] > 2 * rows["truth"]["frechet"]
        assert rows["copy"]["kernel"] > 10 * abs(rows["truth"]["kernel"])
        low, high = rows["copy"]["interval"]
        assert low <= rows["copy"]["kernel"] <= high


def test_judges_of_pairs(seen: list[SeenPair], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two judges of four groups of ten; "first" fools one judge, "copy" none, "right" one in the first two groups."""
    groups, shown = [str(number // 10) for number in range(40)], []

    def judged(given: Tensor, methods: tuple[str, ...], fold: Tensor, *_: object) -> dict[str, Tensor]:
        assert fold.bincount().tolist() == [10] * 4
        shown.append(given)
        answers = {name: torch.zeros(2, 40, dtype=torch.bool) for name in methods}
        answers["right"][0, :20], answers["first"][0] = True, True
        return answers

    monkeypatch.setattr(seen_pairs, "judge_folds", judged)
    found = judge_pairs(seen, ("first", "copy", "right"), groups, Judging(6, 2, 3), 0, CPU, lambda step, share: None)
    assert found is not None and (found["folds"], found["groups"], found["inputs"], found["size"]) == (4, 4, 40, 32)
    assert torch.equal(shown[0][5], seen[5].plain) and torch.equal(shown[1][5], seen[5].blind)
    for name in ("plain", "blind"):
        rows, more = found[name]["rows"], found[name]["difference"]
        assert [row["share"] for row in rows.values()] == [0.5, 0, 0.25]
        # of the last two methods; over groups: none to all are of the first two
        assert more == {"mean": 0.25, "interval": (0.0, 0.5)}
    assert judge_pairs(seen, ("copy", "right"), ["one"] * 40, Judging(6, 1, 3), 0, CPU, print) is None
