"""The analogy table in small, by a model whose answers are known: its errors by hand, its characters, its figure."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from tests.characters import noise_characters
from visual_dynamics.data import reed as sprites
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.analogies import average_interval, by_families, draw_questions
from visual_dynamics.experiments import analogy
from visual_dynamics.experiments.analogy import ANIMATIONS, AnalogyOptions, Kind, compute, draw, headline
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.reporting.base import Measured
from visual_dynamics.reporting.drawing import GAP, HEAD

CPU = torch.device("cpu")
SPLIT = sprites.Split(np.array([0, 2, 4]), np.array([9]), np.array([3, 5, 6, 7, 8, 10, 11]))
LONE = [6, 7, 8, 10, 11]  # 3 and 5 have a twin in training
SEED, COUNT = 3, 21  # questions an animation


class Adder:
    """A model that knows the answer to a motion: its code is the difference of the two frames, and it adds that."""

    def __init__(self, share: float) -> None:
        self.share = share  # of the motion that it makes

    def encode(self, before: Tensor, after: Tensor) -> Posterior:
        difference = (after - before).flatten(1)
        return Posterior(difference, torch.zeros_like(difference))

    def decode_each(self, frames: Tensor, z: Tensor) -> Tensor:
        return (frames + self.share * z.view_as(frames)).clamp(0, 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    models = {"whole": SimpleNamespace(predictor=Adder(1.0)), "half": SimpleNamespace(predictor=Adder(0.5))}
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(12), folder)
    options = AnalogyOptions(model="whole", poses_model="half", sprites=folder, samples=100, seed=SEED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sprites, "reed_split", lambda: SPLIT)
        patch.setattr(analogy, "load", lambda name, device: models[name])
        return compute(options, CPU, lambda step, share: None)


@pytest.fixture(scope="module")
def result(made: Measured) -> dict:
    return json.loads(json.dumps(made.numbers)) | {"model": "whole"}


def by_hand(kind: Kind, predict: Callable[..., np.ndarray]) -> dict[str, list[float]]:
    """Mean errors by part and animation, from colours alone: predict(before, after, frame) against the truth."""
    characters = noise_characters(12).subset(SPLIT.test.tolist() if kind.twins else LONE)
    colours = characters.palette[characters.frames] / 255  # (characters, 178, 60, 60, 3)
    sexes = characters.attributes[:, sprites.SEX]
    means: dict[str, list[float]] = {"all": [], "within one sex": [], "across": []}
    for animation in ANIMATIONS:
        asked = draw_questions(characters, animation, COUNT, SEED, kind.neighbours, kind.same_weapon)
        errors = {part: [] for part in means}
        for source, target, first, second in zip(asked.source, asked.target, asked.first, asked.second, strict=True):
            made = predict(colours[source, first], colours[source, second], colours[target, first])
            error = float(((made - colours[target, second]) ** 2).sum())
            errors["all"].append(error)
            errors["within one sex" if sexes[source] == sexes[target] else "across"].append(error)
        for part, values in errors.items():
            means[part].append(float(np.mean(values)))
    return means


@pytest.mark.parametrize("kind", [*analogy.MAIN, *analogy.ANY_WEAPON], ids=lambda kind: kind.name)
def test_each_table_by_hand(kind: Kind, result: dict) -> None:
    """Fails if a code is read from the answer, if other characters are measured, or the wrong ones are left out."""
    known = {
        "copy": lambda before, after, frame: frame,
        "ours": lambda before, after, frame: np.clip(frame + after - before, 0, 1),
        "ours, poses": lambda before, after, frame: np.clip(frame + (after - before) / 2, 0, 1),
    }
    found = result["tables"][kind.name]
    for row, predict in known.items():
        for part, values in by_hand(kind, predict).items():
            np.testing.assert_allclose(found[row][part], values, rtol=1e-4)
    assert (len(found) == 8) == (kind.same_weapon and kind.twins)


def test_rows_beside_the_answers(result: dict) -> None:
    for kind in (analogy.NEIGHBOURS, analogy.ANY_TWO):
        found = result["tables"][kind.name]
        assert found["pixel addition"]["all"] == pytest.approx(found["ours"]["all"])  # what this model does
        assert found["ours, z = 0"] == found["ours, poses, z = 0"] == found["copy"]
        np.testing.assert_allclose(found["ours, own motion"]["all"], 0, atol=1e-6)
        assert min(found["ours, poses, own motion"]["all"]) > 1


def test_intervals_are_of_the_average_over_families_of_characters(result: dict) -> None:
    assert result["protocol"] | {"characters": 7, "without_twin": 5, "families": 3} == result["protocol"]
    for kind, rows in result["tables"].items():
        for row, parts in rows.items():
            low, high = result["intervals"][kind][row]["all"]
            assert low <= np.mean(parts["all"]) + 1e-6 and np.mean(parts["all"]) <= high + 1e-6
    characters = noise_characters(12).subset(SPLIT.test.tolist())
    colours = characters.palette[characters.frames] / 255
    asked = [draw_questions(characters, animation, COUNT, SEED) for animation in ANIMATIONS]
    errors = [
        torch.from_numpy(((colours[one.target, one.first] - colours[one.target, one.second]) ** 2).sum((1, 2, 3)))
        for one in asked
    ]
    families = np.array([0, 1, 1, 1, 2, 2, 2])  # of characters 3; 5, 6, 7; 8, 10, 11
    totals = by_families(errors, asked, [np.full(COUNT, True)] * 5, families)
    found = result["intervals"]["neighbouring frames, same weapon"]["copy"]["all"]
    np.testing.assert_allclose(found, average_interval(totals), rtol=1e-5)


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = draw(result, tmp_path)
    assert "| ours, paper | 9.5 | 11.5 | 11.1 | 28.2 | 19.0 | 15.9 |" in text
    assert "| Dis+Cls (Reed et al.) | 13.3 | 24.6 | 17.2 | 18.9 | 40.8 | 23.0 |" in text
    first = text.split("###")[1]  # the table that is read first: no kind of frames stands alone
    for kind in analogy.MAIN:
        for row in ("ours", "ours, poses"):
            assert f"| {kind.name}: {row} |" in first
    assert "ours: whole; ours, poses: half" in text and "without twin: 5" in text


def test_the_headline_shows_what_is_hard_beside_what_is_easy(result: dict) -> None:
    known = json.loads(json.dumps(result))
    for place, kind in enumerate(analogy.MAIN):
        for row, value in (("ours", 10.0 + place), ("ours, poses", 20.0 + place)):
            known["tables"][kind.name][row]["all"] = [value] * 5
            known["intervals"][kind.name][row]["all"] = [value - 1, value + 1]
            if kind in analogy.MAIN[:2]:
                known["tables"][kind.name][f"{row}, own motion"]["all"] = [value / 10] * 5
    assert headline(known).floor == "a motion on its own character: 1.0 / 1.1 (whole); 2.0 / 2.1 (half)"
    del known["tables"][analogy.ANY_TWO.name]["ours, poses, own motion"]
    assert headline(known).floor.endswith("2.0 / not measured (half)")
    assert headline(known).ours == (
        "10.0 (9.0 to 11.0) / 11.0 (10.0 to 12.0) / 12.0 (11.0 to 13.0) (whole); "
        "20.0 (19.0 to 21.0) / 21.0 (20.0 to 22.0) / 22.0 (21.0 to 23.0) (half)"
    )


def test_the_figure_shows_both_kinds_of_frames(made: Measured, result: dict) -> None:
    shown = [(example["animation"], example["part"]) for example in result["examples"]]
    assert shown == [(animation, part) for animation in ANIMATIONS for part in ("within one sex", "across")]
    with Image.open(io.BytesIO(made.pictures["analogy.png"])) as figure:
        assert figure.width > 100 + 2 * 6 * (128 + GAP) and figure.height == HEAD + len(shown) * (128 + GAP)
        pixels = np.array(figure.convert("RGB"))
    characters = noise_characters(12).subset(SPLIT.test.tolist())
    asked = draw_questions(characters, "spellcast", COUNT, SEED, neighbours=False)
    first = int(asked.within_one_sex(characters).argmax())
    assert result["examples"][0] == {
        "animation": "spellcast",
        "part": "within one sex",
        "from": int(characters.numbers[asked.source[first]]),
        "to": int(characters.numbers[asked.target[first]]),
    }
    truth = characters.rgb(int(asked.target[first]), [int(asked.second[first])])[0].permute(1, 2, 0).numpy()
    corner = pixels[HEAD : HEAD + 128, -GAP - 128 : -GAP]  # the last picture of the first row, twice as large
    assert np.array_equal(corner[4:124:2, 4:124:2], truth)


def test_without_sprites_it_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="--sprites"):
        compute(AnalogyOptions(), CPU, lambda step, share: None)
