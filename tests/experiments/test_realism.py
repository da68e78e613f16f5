"""The realism experiment in small: who answers on what, the whole path to a table, figures from the JSON alone."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

pytest.importorskip("cv2")

from tests.characters import noise_characters
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, realism
from visual_dynamics.experiments.realism import Judged, RealismOptions
from visual_dynamics.reporting.base import run_experiment

CPU = torch.device("cpu")


class Seen(NamedTuple):
    """What a run used."""

    inputs: Judged
    futures: list[dict[str, Tensor]]  # that judges saw: as predicted, and snapped
    known: Pairs  # Flow's
    result: dict


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Two characters for Flow, two families of two for the judges, and a model of something else."""
    patch, used, futures = pytest.MonkeyPatch(), {}, []
    flow, judge_settings = realism.FlowTransfer, realism.judge_settings

    def kept_flow(known: Pairs) -> Any:
        used["known"] = known
        return flow(known)

    def kept(inputs: Judged, made: dict[str, Tensor], *more: Any) -> Any:
        used["inputs"] = inputs
        futures.append(made)
        return judge_settings(inputs, made, *more)

    patch.setattr(realism, "FlowTransfer", kept_flow)
    patch.setattr(realism, "judge_settings", kept)
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(np.arange(2), np.arange(0), np.arange(2, 6)))
    for name, value in {"FULL": realism.Judging((2, 4), 2, 2), "PART": 5}.items():
        patch.setattr(realism, name, value)
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(6), folder)
    steps: list[str] = []
    options = RealismOptions(samples=6, model="shapes", sprites=folder)
    made = realism.compute(options, CPU, lambda step, share: steps.append(step))
    patch.undo()
    assert {"futures, Flow", "futures, ours", "judges"} <= set(steps)
    return Seen(futures=futures, result=json.loads(json.dumps(made.numbers)), **used)


@pytest.fixture(scope="module")
def result(seen: Seen) -> dict:
    return seen.result


def frames_of(numbers: range) -> set[bytes]:
    characters = noise_characters(6).subset(numbers)
    return {frame.numpy().tobytes() for frame in sprites.sprite_pairs(characters, size=64).store}


def test_flow_knows_training_characters_and_judges_see_test_characters(seen: Seen) -> None:
    assert {frame.numpy().tobytes() for frame in seen.known.store} == frames_of(range(2))
    assert {frame.numpy().tobytes() for frame in seen.inputs.frames} <= frames_of(range(2, 6))
    for family, frame in zip(seen.inputs.families.tolist(), seen.inputs.frames, strict=True):
        assert frame.numpy().tobytes() in frames_of(range(2, 4) if family == 0 else range(4, 6))


def test_both_methods_are_snapped_to_the_colours_of_the_input(seen: Seen) -> None:
    def colours(frame: Tensor) -> set[tuple[int, ...]]:
        return set(map(tuple, frame.flatten(1).T.tolist()))

    own = [colours(frame) for frame in seen.inputs.frames]
    for made, within in zip(seen.futures, (False, True), strict=True):
        for name in ("Flow", "ours"):
            assert all((colours(frame) <= mine) == within for frame, mine in zip(made[name], own, strict=True)), name


def test_every_setting_and_row_is_there(result: dict) -> None:
    settings = [(s["size"], s["inputs"], s["snapped"]) for s in result["settings"]]
    assert settings == [(size, count, snapped) for snapped in (False, True) for size in (32, 64) for count in (2, 4)]
    for setting in result["settings"]:
        assert set(setting["rows"]) == {"Flow", "ours"}
        for row in setting["rows"].values():
            for part in (row, row["unseen"]):
                assert len(part["judges"]) == 2 and np.mean(part["judges"]) == pytest.approx(part["share"])
                assert all(0 <= low <= high <= 1 for low, high in (part["interval"], part["wilson"]))
        gap = setting["rows"]["ours"]["share"] - setting["rows"]["Flow"]["share"]
        assert setting["ours_minus_flow"]["mean"] == pytest.approx(gap)


def test_the_protocol_counts_inputs_and_families(result: dict) -> None:
    protocol = result["protocol"]
    assert (protocol["characters"], protocol["learned"], protocol["asked"], protocol["families_asked"]) == (4, 4, 6, 1)
    assert protocol["asked_unseen"] == 6


def test_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = realism.draw(result, tmp_path)
    assert "| 32x32, people, paper | 29.7 | 41.2 | +11.5 |" in text
    assert "| 64x64, people, paper | 21.0 | 35.7 | +14.7 |" in text
    assert "not people" in text and text.count("64x64, 4 training inputs |") == 3
    assert text.count("64x64, 4 training inputs, snapped |") == 1
    assert Image.open(tmp_path / "realism.png").size[0] > 800
    without = copy.deepcopy(result)
    del without["settings"][0]["rows"]["ours"]["unseen"]
    assert "| none |" in realism.draw(without, tmp_path)


def test_a_cell_of_the_table(result: dict) -> None:
    known = copy.deepcopy(result)
    known["settings"][0]["rows"]["ours"] |= {"share": 0.4123, "interval": [0.35, 0.478]}
    known["settings"][0]["ours_minus_flow"] = {"mean": 0.1, "interval": [-0.02, 0.2]}
    line = realism.share_table(known).splitlines()[2]
    assert line.endswith("| 41.2 (35.0 to 47.8) | +10.0 (-2.0 to +20.0) |")


def test_shares_and_their_difference_by_hand() -> None:
    """Two judges, five inputs to answer on in three families; the first two inputs were learned from."""
    families, unseen = torch.tensor([9, 9, 0, 0, 0, 1, 2]), torch.tensor([True, True, True, False, False, False, True])
    nothing = torch.zeros(7, 3, 16, 16, dtype=torch.uint8)
    answers = {
        "Flow": torch.tensor([[True, False, False, False, False], [True, True, False, False, False]]),
        "ours": torch.tensor([[True, True, True, False, True], [True, True, False, True, True]]),
    }
    found = realism.summary(answers, Judged(nothing, nothing, families, unseen, 2), seed=0)
    rows = found["rows"]
    assert (rows["Flow"]["share"], rows["ours"]["share"]) == pytest.approx((0.3, 0.8))
    assert (rows["Flow"]["unseen"]["share"], rows["ours"]["unseen"]["share"]) == pytest.approx((0.5, 1.0))
    assert rows["ours"]["judges"] == pytest.approx((0.8, 0.8))
    assert found["ours_minus_flow"]["mean"] == pytest.approx(0.5)
    # by family: Flow has 1.5 of 3, 0 of 1, 0 of 1; with the first alone 0.5, without it 0
    np.testing.assert_allclose(rows["Flow"]["interval"], (0, 0.5))
    np.testing.assert_allclose(found["ours_minus_flow"]["interval"], (1 / 3, 1))


def test_the_headline_shows_both_halves_and_who_wins(result: dict) -> None:
    known = copy.deepcopy(result)
    for setting in known["settings"]:
        ahead, behind = ("ours", "Flow") if setting["snapped"] else ("Flow", "ours")
        setting["rows"][ahead] |= {"share": 0.2, "interval": [0.1, 0.3]}
        setting["rows"][behind] |= {"share": 0.02, "interval": [0.01, 0.03]}
        setting["ours_minus_flow"]["interval"] = [0.1, 0.3] if setting["snapped"] else [-0.3, -0.1]
    many, few = "20.0 (10.0 to 30.0) / 20.0 (10.0 to 30.0)", "2.0 (1.0 to 3.0) / 2.0 (1.0 to 3.0)"
    line = realism.headline(known)
    assert line.ours == f"as predicted {few}; snapped {many} (a judge)"
    assert line.floor == f"Flow: as predicted {many} (Flow wins); snapped {few} (ours wins)"
    known["settings"][-1]["ours_minus_flow"]["interval"] = [-0.1, 0.3]
    assert realism.headline(known).floor.endswith("(neither wins)")


def inputs(seed: int) -> Judged:
    """Of 12 characters in 4 families; the first four frames of the last character are those of a training character."""
    characters = noise_characters(12)
    characters.frames[11, :4] = characters.frames[0, :4]
    numbers = np.array([8, 9, 10, 11, 13, 20, 21, 22, 23, 31, 31])  # families of four, one, four and two
    test = replace(characters.subset(range(1, 12)), numbers=numbers)
    return realism.draw_inputs(sprites.sprite_pairs(characters.subset([0]), size=64), test, 150, 10_000, seed)


def test_each_input_has_a_future_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def method(frames: Tensor, seeds: list[int]) -> Tensor:
        asked.extend(seeds)
        return frames

    monkeypatch.setattr(realism, "PART", 2)
    given = inputs(0)
    made = realism.sample_futures(method, given, 3, CPU, "ours", lambda step, share: None)
    assert torch.equal(made, given.frames) and len(asked) == len(set(asked)) == len(given.frames)


def test_no_family_is_both_learned_from_and_asked_about() -> None:
    for seed in range(3):
        made = inputs(seed)
        assert made.learned == 150
        learned, asked = (set(part.tolist()) for part in (made.families[:150], made.families[150:]))
        assert learned and asked and not learned & asked and learned | asked == {2, 3, 5, 7}
        assert (len(made.frames) - 150) % 157 == 0  # all inputs of the other side


def test_inputs_that_training_characters_share_are_known() -> None:
    made = next(m for m in (inputs(seed) for seed in range(9)) if 7 in m.families[m.learned :])
    assert (~made.unseen).sum() == 4 and set(made.families[~made.unseen].tolist()) == {7}
    again = inputs(0)
    assert torch.equal(again.frames, inputs(0).frames)  # the seed decides


def test_halves_hold_about_as_many_characters() -> None:
    numbers = torch.from_numpy(sprites.reed_split().test)
    for seed in range(5):
        learning = torch.isin(numbers // 4, realism.half_of_families(numbers, seed))
        assert 48 <= learning.sum() <= 50


def test_snapped_frames_have_the_colours_of_their_own_input() -> None:
    flat = torch.tensor([[0, 0, 0], [200, 0, 0]], dtype=torch.uint8)[:, :, None, None].expand(2, 3, 16, 16).clone()
    flat[0, :, 3] = 90
    found = realism.snapped(torch.full((2, 3, 16, 16), 60, dtype=torch.uint8), flat)
    assert found.dtype == torch.uint8
    assert (found[0] == 90).all()  # nearer than black
    assert torch.equal(found[1], flat[1])  # all it has


def test_mistakes_are_reported(tmp_path: Path, tiny_weights_file: Path) -> None:
    with pytest.raises(UserError, match="--sprites"):
        realism.compute(RealismOptions(model="shapes"), CPU, lambda step, share: None)
    with pytest.raises(UserError, match="frames of 16 pixels"):
        given = {"model": str(tiny_weights_file), "sprites": tmp_path}
        run_experiment(EXPERIMENTS, "realism", given, tmp_path / "out", CPU)
    characters = noise_characters(4)
    with pytest.raises(UserError, match="1000 inputs to learn from"):
        realism.draw_inputs(sprites.sprite_pairs(characters), characters, 1000, 5, 0)
