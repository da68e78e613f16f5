"""visual-dynamics prepare."""

from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import Refused, Run
from tests.sprites import noise_characters
from visual_dynamics.data.sprites import pack_characters, read_characters
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.data import training_pairs

LAYERS = Path(__file__).parents[4] / "shared" / "data" / "lpc"


@pytest.mark.skipif(not LAYERS.exists(), reason="the layers are not here")
def test_composed_characters_are_training_data(run: Run, tmp_path: Path) -> None:
    answer = run("prepare", "lpc", LAYERS, "--out", tmp_path / "lpc", "--count", 2)
    assert answer.code == 0 and "2 characters" in answer.out
    assert "Liberated Pixel Cup" in (tmp_path / "lpc" / "CREDITS.txt").read_text()
    assert len(training_pairs(TrainingConfig(data=str(tmp_path / "lpc"), preset="sprites"))) == 2 * 157


@pytest.mark.skipif(not LAYERS.exists(), reason="the layers are not here")
def test_composing_again_replaces_its_own_result_only(run: Run, refused: Refused, place: Path) -> None:
    words = ("prepare", "lpc", LAYERS, "--count", 1, "--out")
    (place / "foreign").mkdir()
    for name in ("0000.png", "CREDITS.txt", "characters.json"):
        (place / "foreign" / name).write_text('{"characters": ["Ann"]}')
        assert "foreign is not empty, and holds no earlier result: give --overwrite" in refused(*words, "foreign")
    answer = run(*words, "foreign", "--overwrite")
    assert answer.code == 0 and answer.out.startswith("1 character in foreign;")
    (place / "empty").mkdir()
    for folder in ("foreign", "empty", "new"):
        assert run(*words, folder, "--seed", 1).code == 0


def test_packing_replaces_its_own_result_only(run: Run, refused: Refused, place: Path) -> None:
    pack_characters(noise_characters(1), place / "one")
    (place / "two").mkdir()
    (place / "two" / "palette.npy").write_text("mine")
    assert "two is not empty" in refused("prepare", "sprites", "one", "--out", "two")
    assert run("prepare", "sprites", "one", "--out", "two", "--overwrite").out == "1 character in two\n"
    assert run("prepare", "sprites", "one", "--out", "two").code == 0


def test_packing_packed_sprites_changes_nothing(run: Run, tmp_path: Path) -> None:
    pack_characters(noise_characters(2), tmp_path / "one")
    assert run("prepare", "sprites", tmp_path / "one", "--out", tmp_path / "two").code == 0
    assert (read_characters(tmp_path / "two").frames == read_characters(tmp_path / "one").frames).all()


def test_mistakes(refused: Refused, place: Path) -> None:
    (place / "empty").mkdir()
    assert "no sprites in empty" in refused("prepare", "sprites", "empty", "--out", "new")
    assert "layer" in refused("prepare", "lpc", "empty", "--out", "new")
    assert "nowhere" in refused("prepare", "lpc", "nowhere", "--out", "new")
