"""Anyone's sprite sheets as pairs."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import COMPOSED_LAYOUT, Sheet, read_cell, read_sheets_at
from visual_dynamics.data.sources import over_grey, sheet_pairs
from visual_dynamics.errors import UserError
from visual_dynamics.sprites.lpc import CELL


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
    with pytest.raises(UserError, match=r"no \.json files"):
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
