"""The analogy table in small: errors against hand-made ones, tables from the JSON alone."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.reed import CLIPS, SEX, WEAPON
from visual_dynamics.errors import UserError
from visual_dynamics.experiments.analogy import AnalogyOptions, answer, compute, draw, draw_questions
from visual_dynamics.reporting.base import Measured
from visual_dynamics.reporting.drawing import GAP, HEAD

CPU = torch.device("cpu")
CHARACTERS = noise_characters(8)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    patch = pytest.MonkeyPatch()
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(*(np.arange(4),) * 3))
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(4), folder)
    result = compute(AnalogyOptions(model="shapes", sprites=folder, samples=10), CPU, lambda step, share: None)
    patch.undo()
    return result


@pytest.fixture(scope="module")
def result(made: Measured) -> dict:
    return json.loads(json.dumps(made.numbers))


def test_four_tables_of_four_rows(result: dict) -> None:
    assert len(result["tables"]) == 4
    for table in result["tables"].values():
        assert set(table) == {"copy", "pixel addition", "ours, z = 0", "ours", "ours, own motion"}
        assert all(len(values) == 5 for row in table.values() for values in row.values())


def test_copying_and_adding_by_hand() -> None:
    characters = noise_characters(4)
    asked = draw_questions(characters, "walk", 20, seed=1)
    errors = answer(load("shapes").predictor, characters, asked)
    colours = characters.palette[characters.frames] / 255  # (4, 178, 60, 60, 3)
    before, after = colours[asked.source, asked.first], colours[asked.source, asked.second]
    frame, truth = colours[asked.target, asked.first], colours[asked.target, asked.second]
    by_hand = {"copy": frame, "pixel addition": np.clip(frame + after - before, 0, 1)}
    for name, predicted in by_hand.items():
        np.testing.assert_allclose(errors[name].numpy(), ((predicted - truth) ** 2).sum(axis=(1, 2, 3)), rtol=1e-4)


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = draw(result, tmp_path)
    assert "| ours, paper | 9.5 | 11.5 | 11.1 | 28.2 | 19.0 | 15.9 |" in text and "| **ours** |" in text
    assert "| Dis+Cls (Reed et al.) | 13.3 | 24.6 | 17.2 | 18.9 | 40.8 | 23.0 |" in text


def test_the_figure_has_a_row_for_each_example(made: Measured, result: dict) -> None:
    shown = [(example["animation"], example["part"]) for example in result["examples"]]
    assert len(shown) == len(set(shown)) >= 5
    with Image.open(io.BytesIO(made.pictures["analogy.png"])) as figure:
        assert figure.width > 100 + 5 * (128 + GAP) and figure.height == HEAD + len(shown) * (128 + GAP)


def test_without_sprites_it_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="--sprites"):
        compute(AnalogyOptions(), CPU, lambda step, share: None)


@pytest.mark.parametrize("animation", ["spellcast", "slash", "shoot"])
def test_neighbours_of_one_clip_and_one_weapon(animation: str) -> None:
    asked = draw_questions(CHARACTERS, animation, 500, seed=0)
    assert len(asked) == 500 and (asked.source != asked.target).all() and (asked.second == asked.first + 1).all()
    weapons = CHARACTERS.attributes[:, WEAPON]
    np.testing.assert_array_equal(weapons[asked.source], weapons[asked.target])
    clips = [clip for clip in CLIPS if clip.animation == animation]
    for first, second in zip(asked.first, asked.second, strict=True):
        assert sum(first in range(178)[c.frames] and second in range(178)[c.frames] for c in clips) == 1
    assert len(set(zip(asked.first, asked.second, strict=True))) == sum(
        len(range(178)[c.frames]) - 1 for c in clips
    )  # every move is asked


def test_any_two_frames_and_any_weapon() -> None:
    asked = draw_questions(CHARACTERS, "walk", 3000, seed=0, neighbours=False, same_weapon=False)
    assert len(set(zip(asked.first, asked.second, strict=True))) == 4 * 9 * 8
    assert len(set(zip(asked.source, asked.target, strict=True))) == 8 * 7
    alike = asked.within_one_sex(CHARACTERS)
    sexes = CHARACTERS.attributes[:, SEX]
    np.testing.assert_array_equal(alike, sexes[asked.source] == sexes[asked.target])
    assert 0.3 < alike.mean() < 0.6


def test_seeds() -> None:
    one, same, other = (draw_questions(CHARACTERS, "walk", 50, seed).first for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_lone_character_has_no_analogies() -> None:
    with pytest.raises(UserError, match="two characters"):
        draw_questions(CHARACTERS.subset([0]), "walk", 5, seed=0)
