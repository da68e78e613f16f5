"""The realism experiment in small: who is asked about what, the whole path to a table, figures from the JSON alone."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from tests.characters import noise_characters
from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import realism_table
from visual_dynamics.experiments.realism_table import HeldOut, Inputs, Options
from visual_dynamics.sampling.latents import TrainingPosteriors
from visual_dynamics.sampling.moves import ModelSampler

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Two characters for Flow, two families of two for the judges, and a model of something else."""
    patch = pytest.MonkeyPatch()
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(np.arange(2), np.arange(0), np.arange(2, 6)))
    for name, value in {"TRAINING_INPUTS": (2, 4), "JUDGES": 2, "STEPS": 2, "PART": 5}.items():
        patch.setattr(realism_table, name, value)
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(6), folder)
    told: list[str] = []
    made = realism_table.compute(Options("shapes", folder, samples=6), CPU, lambda what, share: told.append(what))
    patch.undo()
    assert {"futures, Flow", "futures, ours", "judges"} <= set(told)
    return json.loads(json.dumps(made))


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


def test_provenance_is_there(result: dict) -> None:
    assert all(result[name] is not None for name in ("seed", "commit", "weights", "device", "seconds", "protocol"))
    protocol = result["protocol"]
    assert (protocol["characters"], protocol["learned"], protocol["asked"], protocol["families_asked"]) == (4, 4, 6, 1)
    assert protocol["asked_unseen"] == 6


def test_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = realism_table.draw(result, tmp_path)
    assert "| 32x32, people, paper | 29.7 | 41.2 | +11.5 |" in text
    assert "| 64x64, people, paper | 21.0 | 35.7 | +14.7 |" in text
    assert "not people" in text and text.count("64x64, 4 training inputs |") == 3
    assert text.count("64x64, 4 training inputs, snapped |") == 1
    assert Image.open(tmp_path / "realism.png").size[0] > 800
    assert (tmp_path / "realism.md").read_text() == text
    without = copy.deepcopy(result)
    del without["settings"][0]["rows"]["ours"]["unseen"]
    assert "| none |" in realism_table.draw(without, tmp_path)


def test_a_cell_of_the_table(result: dict) -> None:
    known = copy.deepcopy(result)
    known["settings"][0]["rows"]["ours"] |= {"share": 0.4123, "interval": [0.35, 0.478]}
    known["settings"][0]["ours_minus_flow"] = {"mean": 0.1, "interval": [-0.02, 0.2]}
    line = realism_table.realism_figures.table(known).splitlines()[2]
    assert line.endswith("| 41.2 (35.0 to 47.8) | +10.0 (-2.0 to +20.0) |")


def inputs(monkeypatch: pytest.MonkeyPatch, seed: int) -> Inputs:
    """Of 12 characters in 4 families; the first four frames of the last character are those of a training character."""
    monkeypatch.setattr(realism_table, "TRAINING_INPUTS", (50, 150))
    characters = noise_characters(12)
    characters.frames[11, :4] = characters.frames[0, :4]
    numbers = np.array([8, 9, 10, 11, 13, 20, 21, 22, 23, 31, 31])  # families of four, one, four and two
    test = HeldOut(sprites.sprite_pairs(characters.subset(range(1, 12))), torch.from_numpy(numbers))
    return realism_table.draw_inputs(
        sprites.sprite_pairs(characters.subset([0])), test, realism_table.TRAINING_INPUTS[-1], 10_000, seed
    )


def test_no_family_is_both_learned_from_and_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        made = inputs(monkeypatch, seed)
        assert made.learned == 150
        learned, asked = (set(part.tolist()) for part in (made.families[:150], made.families[150:]))
        assert learned and asked and not learned & asked and learned | asked == {2, 3, 5, 7}
        assert (len(made) - 150) % 157 == 0  # all inputs of the other side


def test_inputs_that_training_characters_share_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    made = next(m for m in (inputs(monkeypatch, seed) for seed in range(9)) if 7 in m.families[m.learned :])
    assert (~made.unseen).sum() == 4 and set(made.families[~made.unseen].tolist()) == {7}
    again = inputs(monkeypatch, 0)
    assert torch.equal(again.frames, inputs(monkeypatch, 0).frames)  # the seed decides


def test_halves_hold_about_as_many_characters() -> None:
    numbers = torch.from_numpy(sprites.reed_split().test)
    for seed in range(5):
        learning = torch.isin(numbers // 4, realism_table.half_of_families(numbers, seed))
        assert 48 <= learning.sum() <= 50


def test_ours_is_what_the_predictor_samples(tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(tiny_weights_file)
    one = ModelSampler(model.predictor, TrainingPosteriors(model.weights.posteriors))
    frames, seeds = torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(0)), [7, 3, 9, 1, 2**60]
    monkeypatch.setitem(realism_table.BATCH, "cpu", 2)
    many = realism_table.posterior_sampler(model, CPU)(frames, seeds).clamp(0, 1)
    expected = torch.cat([one.sample(frame, [seed]) for frame, seed in zip(frames, seeds, strict=True)])
    torch.testing.assert_close(many, expected, atol=1e-4, rtol=0)


def test_both_kinds_of_frames_are_made_smaller_by_averaging() -> None:
    frames = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    expected = frames.float().unflatten(3, (32, 2)).unflatten(2, (32, 2)).mean((3, 5))
    assert (realism_table.at_size(frames, 32, CPU) * 255 - expected).abs().max() <= 0.5001
    assert torch.equal(realism_table.at_size(frames, 64, CPU), frames.float() / 255)


def test_snapped_frames_have_the_colours_of_their_own_input() -> None:
    flat = torch.tensor([[0, 0, 0], [200, 0, 0]], dtype=torch.uint8)[:, :, None, None].expand(2, 3, 16, 16).clone()
    flat[0, :, 3] = 90
    known = Inputs(flat, flat, torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool), 1)
    made = torch.full((2, 3, 16, 16), 60, dtype=torch.uint8)
    snapped = realism_table.snapped_futures(known, {"ours": made})["ours"]
    assert snapped.dtype == torch.uint8
    assert (snapped[0] == 90).all()  # nearer than black
    assert torch.equal(snapped[1], flat[1])  # all it has


def test_judges_of_one_setting_differ_in_what_they_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []

    def learn(frames: torch.Tensor, real: torch.Tensor, synthetic: torch.Tensor, seed: int, steps: int) -> int:
        assert torch.equal(frames, real) and torch.equal(frames, synthetic)
        seen.append(set(frames[:, 0, 0, 0].tolist()))
        return seed

    monkeypatch.setattr(realism_table.realism, "train_judge", learn)
    monkeypatch.setattr(realism_table.realism, "fooled", lambda judge, x, *_: x[:, 0, 0, 0] == judge)
    frames = torch.arange(30.0).view(30, 1, 1, 1).expand(30, 3, 2, 2)
    small, large = (realism_table.ask_judges(frames, frames, frames, 20, count, 3, 3, seed=0) for count in (5, 10))
    assert small.shape == large.shape == (3, 10)
    assert [len(chosen) for chosen in seen] == [5, 5, 5, 10, 10, 10] and max(set.union(*seen)) < 20
    assert seen[0] != seen[1] and all(few < many for few, many in zip(seen[:3], seen[3:], strict=True))


def test_mistakes_are_told(tmp_path: Path, tiny_weights_file: Path) -> None:
    with pytest.raises(UserError, match="--sprites"):
        realism_table.compute(Options("shapes"), CPU, lambda what, share: None)
    with pytest.raises(UserError, match="frames of 16 pixels"):
        realism_table.compute(Options(str(tiny_weights_file), tmp_path), CPU, lambda what, share: None)
    characters = noise_characters(4)
    pairs = sprites.sprite_pairs(characters)
    with pytest.raises(UserError, match="1000 inputs to learn from"):
        realism_table.draw_inputs(pairs, HeldOut(pairs, torch.from_numpy(characters.numbers)), 1000, 5, 0)
