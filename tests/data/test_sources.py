"""What a path holds, and how it is opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.characters import noise_characters
from visual_dynamics.data.reed import pack_characters
from visual_dynamics.data.sources import DataSpec, held_out_words, open_data, recognise
from visual_dynamics.errors import UserError


def write_pairs(folder: Path, count: int) -> Path:
    """The red of the first frame is the number of the pair; the next frame is half transparent."""
    folder.mkdir()
    for number in range(count):
        for which in (1, 2):
            Image.new("RGBA", (8, 8), (number, 0, 0, 255 if which == 1 else 128)).save(
                folder / f"{number}_im{which}.png"
            )
    return folder


def test_kinds_are_recognised(tmp_path: Path) -> None:
    pack_characters(noise_characters(1), tmp_path / "characters")
    (tmp_path / "footage").mkdir()
    (tmp_path / "footage" / "settings.json").write_text('{"format": "visual-dynamics footage 1"}')
    (tmp_path / "composed").mkdir()
    (tmp_path / "composed" / "characters.json").write_text("{}")
    pairs = str(write_pairs(tmp_path / "pairs", 1))
    found = {name: recognise(DataSpec(str(tmp_path / name), 8)) for name in ("characters", "footage", "composed")}
    assert found == {"characters": "characters", "footage": "footage", "composed": "sheets"}
    assert recognise(DataSpec(pairs, 8)) == "pairs" and recognise(DataSpec(pairs, 8, sheets="4x4")) == "sheets"
    assert {recognise(DataSpec(name, 8)) for name in ("shapes", "shapes-texture", "figures")} == {"drawn"}
    with pytest.raises(UserError, match="no data 'nowhere'"):
        recognise(DataSpec("nowhere", 8))


def test_own_pairs_hold_out_a_share_that_no_seed_changes(tmp_path: Path) -> None:
    folder = write_pairs(tmp_path / "pairs", 30)
    seen = []
    for seed in (0, 1):
        spec = DataSpec(str(folder), 8, seed)
        train, held_out = open_data(spec, "train"), open_data(spec, "held-out")
        assert held_out is not None and len(train) == 27 and len(held_out) == 3
        numbers = [set(pairs.frames[:, 0, 0, 0].tolist()) for pairs in (train, held_out)]
        assert numbers[0] | numbers[1] == set(range(30)) and not numbers[0] & numbers[1]
        seen.append(numbers[1])
    assert seen[0] == seen[1]
    assert held_out_words(spec) == "held out: 3 of 30 pairs, picked at random (a test.txt would list them)"
    assert len(open_data(spec, "train", 5)) == 5
    (folder / "train.txt").write_text("1\n2\n")
    assert len(open_data(spec, "train")) == 2 and open_data(spec, "held-out") is None
    assert held_out_words(spec) == "no pairs are held out: there is a train.txt but no test.txt"
    assert held_out_words(DataSpec("shapes", 8)) is None


def test_few_pairs_are_all_for_training(tmp_path: Path) -> None:
    spec = DataSpec(str(write_pairs(tmp_path / "pairs", 4)), 8)
    assert len(open_data(spec, "train")) == 4 and open_data(spec, "held-out") is None
    assert held_out_words(spec) == "no pairs are held out: 4 are too few"


@pytest.mark.parametrize(("background", "grey"), [(0.0, 0), (1.0, 255)])
def test_transparency_shows_the_model_s_background(tmp_path: Path, background: float, grey: int) -> None:
    pairs = open_data(DataSpec(str(write_pairs(tmp_path / "pairs", 2)), 8, background=background), "train")
    assert (pairs.frames[:, 1] == 0).all()
    assert np.abs(pairs.next_frames[:, 1].numpy() - grey * (1 - 128 / 255)).max() <= 0.5


def test_only_footage_is_streamed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be streamed"):
        open_data(DataSpec(str(write_pairs(tmp_path / "pairs", 2)), 8), "train", stream=True)
