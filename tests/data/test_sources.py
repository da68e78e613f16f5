"""What a path holds, and how it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from tests.poses import write_waving
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.reed import pack_characters
from visual_dynamics.data.shapes import shapes_pairs
from visual_dynamics.data.sheets import COMPOSED_LAYOUT, Sheet, read_cell, read_sheets_at
from visual_dynamics.data.sources import (
    DataSpec,
    DataSplit,
    open_data,
    over_grey,
    recognise,
    sheet_pairs,
    validation_words,
)
from visual_dynamics.errors import UserError
from visual_dynamics.sprites.lpc import CELL


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
    assert recognise(DataSpec(str(write_waving(tmp_path / "poses.npz")), 8)) == "drawn"
    with pytest.raises(UserError, match="no data 'nowhere'"):
        recognise(DataSpec("nowhere", 8))


def test_textured_shapes_are_the_plain_ones_with_texture() -> None:
    plain, textured = (open_data(DataSpec(name, 64, 3), "train", 4) for name in ("shapes", "shapes-texture"))
    expected = shapes_pairs(4, 3, textured=True)
    assert torch.equal(textured.frames, expected.frames) and torch.equal(textured.next_frames, expected.next_frames)
    changed = (textured.frames != plain.frames).any(1).float().mean((1, 2))
    assert changed.min() > 0.01 and changed.max() < 0.5  # of the pixels: the ground keeps its colour


def test_a_pose_file_draws_people_of_all_splits(tmp_path: Path) -> None:
    """As data, or given with the data `figures`: the same pairs."""
    path = str(write_waving(tmp_path / "poses.npz"))
    for split in get_args(DataSplit):
        found, same = (open_data(spec, split, 5) for spec in (DataSpec(path, 16), DataSpec("figures", 16, poses=path)))
        assert found is not None and same is not None and len(found) == 5
        assert torch.equal(found.frames, same.frames) and torch.equal(found.next_frames, same.next_frames)
        drawn = open_data(DataSpec("figures", 16), split, 5)
        assert drawn is not None and not torch.equal(found.frames, drawn.frames)
    (tmp_path / "bad.npz").write_text("words")
    with pytest.raises(UserError, match="cannot read poses from"):
        open_data(DataSpec(str(tmp_path / "bad.npz"), 16), "train")


def test_a_share_of_own_pairs_is_for_validation_and_no_seed_changes_it(tmp_path: Path) -> None:
    folder = write_pairs(tmp_path / "pairs", 30)
    seen = []
    for seed in (0, 1):
        spec = DataSpec(str(folder), 8, seed)
        train, validation = open_data(spec, "train"), open_data(spec, "validation")
        assert validation is not None and len(train) == 27 and len(validation) == 3
        numbers = [set(pairs.frames[:, 0, 0, 0].tolist()) for pairs in (train, validation)]
        assert numbers[0] | numbers[1] == set(range(30)) and not numbers[0] & numbers[1]
        seen.append(numbers[1])
    assert seen[0] == seen[1]
    assert validation_words(spec) == (
        "validation: 3 of 30 pairs, picked at random and not trained on (a validation.txt would list them)"
    )
    assert len(open_data(spec, "train", 5)) == 5
    assert open_data(spec, "test") is None
    assert validation_words(DataSpec("shapes", 8)) is None


def test_lists_say_what_own_pairs_are_for(tmp_path: Path) -> None:
    folder = write_pairs(tmp_path / "pairs", 40)
    spec = DataSpec(str(folder), 8)

    def numbers(split: DataSplit) -> set[int]:
        pairs = open_data(spec, split)
        return set() if pairs is None else set(pairs.frames[:, 0, 0, 0].tolist())

    (folder / "train.txt").write_text(" ".join(map(str, range(20))))
    train, validation = numbers("train"), numbers("validation")
    assert len(validation) == 2 and train | validation == set(range(20)) and not train & validation
    assert not numbers("test")
    (folder / "test.txt").write_text("30 31")
    assert (numbers("train"), numbers("validation"), numbers("test")) == (train, validation, {30, 31})
    (folder / "validation.txt").write_text("25")
    assert (numbers("train"), numbers("validation"), numbers("test")) == (set(range(20)), {25}, {30, 31})
    (folder / "train.txt").unlink()
    assert (numbers("validation"), numbers("test")) == ({25}, {30, 31})
    with pytest.raises(UserError, match=r"has a validation\.txt but no train\.txt"):
        open_data(spec, "train")
    (folder / "validation.txt").unlink()
    assert not numbers("validation")


def test_few_pairs_are_all_for_training(tmp_path: Path) -> None:
    spec = DataSpec(str(write_pairs(tmp_path / "pairs", 4)), 8)
    assert len(open_data(spec, "train")) == 4 and open_data(spec, "validation") is None
    assert validation_words(spec) == "no pairs are for validation: 4 are too few"


@pytest.mark.parametrize(("background", "grey"), [(0.0, 0), (1.0, 255)])
def test_transparency_shows_the_model_s_background(tmp_path: Path, background: float, grey: int) -> None:
    pairs = open_data(DataSpec(str(write_pairs(tmp_path / "pairs", 2)), 8, background=background), "train")
    assert (pairs.frames[:, 1] == 0).all()
    assert np.abs(pairs.next_frames[:, 1].numpy() - grey * (1 - 128 / 255)).max() <= 0.5


def test_only_footage_is_streamed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be streamed"):
        open_data(DataSpec(str(write_pairs(tmp_path / "pairs", 2)), 8), "train", stream=True)


# --- anyone's sprite sheets as pairs ---


def made_sheet(count: int = 5, height: int = 6, width: int = 4, tags: tuple[Tag, ...] = ()) -> Sheet:
    frames = np.random.default_rng(0).integers(0, 256, (count, height, width, 4), dtype=np.uint8)
    return Sheet(frames, np.full(count, 100, np.int64), tags)


def test_pairs_stay_within_tags() -> None:
    tagged = made_sheet(5, tags=(Tag("walk", 0, 2), Tag("jump", 3, 4)))
    pairs = sheet_pairs([tagged, made_sheet(3)], "neighbours", 8, 0.0)
    assert list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
        (3, 4),
        (5, 6),
        (6, 7),
    ]
    assert len(sheet_pairs([tagged], "any", 8, 0.0)) == 6 + 2


def test_frames_stand_in_the_middle_of_the_background() -> None:
    frames = np.zeros((1, 2, 4, 4), np.uint8)
    frames[0, 0, :, :] = [200, 100, 0, 255]
    frames[0, 1, :, :] = [200, 100, 0, 51]  # a fifth
    room = over_grey(frames, 8, background=1.0)
    assert room.shape == (1, 3, 8, 8)
    assert room[0, :, 3, 2].tolist() == [200, 100, 0] and room[0, :, 4, 5].tolist() == [244, 224, 204]
    assert (room[0, :, :3] == 255).all() and (room[0, :, :, :2] == 255).all()


def test_grids_aseprite_and_frames(tmp_path: Path) -> None:
    Image.fromarray(made_sheet(1, 12, 8).frames[0] | np.uint8(1)).save(tmp_path / "b.png")
    Image.fromarray(made_sheet(1, 12, 8).frames[0] | np.uint8(1)).save(tmp_path / "a.png")
    sheets = read_sheets_at(tmp_path, "4x6")
    assert len(sheets) == 2 and sheets[0].frames.shape == (4, 6, 4, 4) and len(sheets[0].tags) == 2
    (folder,) = read_sheets_at(tmp_path, "frames")
    assert folder.frames.shape == (2, 12, 8, 4)
    with pytest.raises(UserError, match=r"no \.json or \.aseprite"):
        read_sheets_at(tmp_path, "aseprite")


@pytest.mark.parametrize("words", ["64", "64x", "ax4", "64x64x4", "-1x4", "1e3x4"])
def test_a_size_of_cells_looks_like_64x64(words: str) -> None:
    with pytest.raises(UserError, match="looks like 64x64"):
        read_cell(words)
    assert read_cell("64x48") == (64, 48)


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(UserError, match="4 x 6 pixels do not fit into the model's 5 x 5"):
        sheet_pairs([made_sheet()], "neighbours", 5, 0.0)
    with pytest.raises(UserError, match="no two frames"):
        sheet_pairs([made_sheet(1)], "neighbours", 8, 0.0)
    with pytest.raises(UserError, match="no sprite sheets at"):
        read_sheets_at(Path("nowhere"), "4x6")


def test_composed_characters_are_cut_as_they_were_made() -> None:
    assert f"{CELL}x{CELL}" == COMPOSED_LAYOUT


def test_pairs_from_standing_frames_need_packed_characters(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="between=any\\+starts is for packed characters"):
        open_data(DataSpec("shapes", 16, between="any+starts"), "train", 4)
