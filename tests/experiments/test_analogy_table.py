"""The analogy table in small: errors against hand-made ones, tables from the JSON alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.analogies import draw_analogies
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, analogy_table

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    patch = pytest.MonkeyPatch()
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(*(np.arange(4),) * 3))
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(4), folder)
    options = analogy_table.Options(model="shapes", sprites=folder, samples=10)
    made = analogy_table.compute(options, CPU, lambda what, share: None)
    patch.undo()
    return json.loads(json.dumps(made))


def test_four_tables_of_four_rows(result: dict) -> None:
    assert len(result["tables"]) == 4
    for table in result["tables"].values():
        assert set(table) == {"copy", "pixel addition", "ours, z = 0", "ours", "ours, own motion"}
        assert all(len(values) == 5 for row in table.values() for values in row.values())


def test_provenance_is_there(result: dict) -> None:
    assert all(result[name] is not None for name in ("seed", "commit", "weights", "device", "seconds", "protocol"))


def test_copying_and_adding_by_hand() -> None:
    characters = noise_characters(4)
    asked = draw_analogies(characters, "walk", 20, seed=1)
    from visual_dynamics.api import load

    errors = analogy_table.answer(load("shapes"), analogy_table.Frames(characters, 64), asked, CPU)
    colours = characters.palette[characters.frames] / 255  # (4, 178, 60, 60, 3)
    before, after = colours[asked.source, asked.first], colours[asked.source, asked.second]
    frame, truth = colours[asked.target, asked.first], colours[asked.target, asked.second]
    by_hand = {"copy": frame, "pixel addition": np.clip(frame + after - before, 0, 1)}
    for name, predicted in by_hand.items():
        np.testing.assert_allclose(errors[name].numpy(), ((predicted - truth) ** 2).sum(axis=(1, 2, 3)), rtol=1e-4)


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = EXPERIMENTS["analogy"].draw(result, tmp_path)
    assert "| ours, paper | 9.5 | 11.5 | 11.1 | 28.2 | 19.0 | 15.9 |" in text and "| **ours** |" in text
    assert "| Dis+Cls (Reed et al.) | 13.3 | 24.6 | 17.2 | 18.9 | 40.8 | 23.0 |" in text
    assert (tmp_path / "analogy.md").read_text() == text


def test_the_figure_comes_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    shown = [(example["animation"], example["part"]) for example in result["examples"]]
    assert len(shown) == len(set(shown)) >= 5
    EXPERIMENTS["analogy"].draw(result, tmp_path)
    with Image.open(tmp_path / "analogy.png") as figure:
        assert figure.size == (250 + 5 * (128 + 8), 32 + len(shown) * (128 + 8))
    EXPERIMENTS["analogy"].draw(result | {"examples": []}, tmp_path / "without")
    assert not (tmp_path / "without" / "analogy.png").exists()


def test_without_sprites_it_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="--sprites"):
        analogy_table.compute(analogy_table.Options(), CPU, lambda what, share: None)
