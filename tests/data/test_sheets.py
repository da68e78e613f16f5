"""Sprite sheets: grids and folders of frames become RGBA frames; what is said of those that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from visual_dynamics import images
from visual_dynamics.data import sheets
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet, read_frame_folder, read_grid, read_sheet
from visual_dynamics.errors import UserError

RNG = np.random.default_rng(0)


def sprite(height: int = 6, width: int = 4) -> np.ndarray:
    """Any colours and any alpha, also colours under fully transparent pixels."""
    pixels = RNG.integers(0, 256, (height, width, 4), dtype=np.uint8)
    pixels[0, 0, 3], pixels[1, 1, 3] = 255, 0
    return pixels


def save(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def grid_of(rows: list[list[np.ndarray | None]], columns: int, height: int = 6, width: int = 4) -> np.ndarray:
    picture = np.zeros((len(rows) * height, columns * width, 4), np.uint8)
    for y, row in enumerate(rows):
        for x, frame in enumerate(row):
            if frame is not None:
                picture[y * height : (y + 1) * height, x * width : (x + 1) * width] = frame
    return picture


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as error:
        read_sheet(path, **options)  # type: ignore[arg-type]
    text = str(error.value)
    assert "\n" not in text
    return text


def test_grid_leaves_out_only_the_empty_cells_at_the_end_of_a_row(tmp_path: Path) -> None:
    a, b, c, d = (sprite() for _ in range(4))
    hidden = np.zeros_like(a)
    hidden[..., :3] = 77  # a colour that nobody sees
    rows = [[a, None, b, None], [None, hidden], [c, d]]
    path = save(tmp_path / "hero.png", grid_of(rows, columns=4))
    sheet = read_grid(path, (4, 6), rows_are_animations=True)
    assert np.array_equal(sheet.frames, np.stack([a, np.zeros_like(a), b, c, d]))
    assert sheet.tags == (Tag("row 0", 0, 2), Tag("row 2", 3, 4))
    assert sheet.durations.tolist() == [100] * 5
    assert read_sheet(path, cell=(4, 6)).tags == ()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 5))
def test_grid_cuts_every_size(tmp_path_factory: pytest.TempPathFactory, counts: list[int], h: int, w: int) -> None:
    rows = [[np.full((h, w, 4), 50 * (x + 1) + y, np.uint8) for x in range(count)] for y, count in enumerate(counts)]
    path = save(tmp_path_factory.mktemp("grid") / "g.png", grid_of(rows, 3, h, w))
    frames = [frame for row in rows for frame in row]
    if frames:
        assert np.array_equal(read_grid(path, (w, h)).frames, np.stack(frames))
    else:
        assert "holds no frames" in complaint(path, cell=(w, h))


def test_pictures_of_other_modes_get_alpha(tmp_path: Path) -> None:
    Image.new("RGB", (4, 2), (9, 8, 7)).save(tmp_path / "rgb.png")
    assert read_grid(tmp_path / "rgb.png", (2, 2)).frames.tolist() == [[[[9, 8, 7, 255]] * 2] * 2] * 2
    palette = Image.new("P", (2, 2))
    palette.putpalette([1, 2, 3, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "p.png", transparency=0)
    frame = read_grid(tmp_path / "p.png", (2, 2)).frames[0]
    assert frame[0].tolist() == [[1, 2, 3, 0], [40, 50, 60, 255]]


def test_folder_in_natural_order(tmp_path: Path) -> None:
    names = ["1.png", "2.png", "10.png", "walk 2 b.png", "Walk 10 a.png", "walk 010 b.png"]
    frames = {name: sprite() for name in names}
    for name in reversed(names):
        save(tmp_path / name, frames[name])
    (tmp_path / "notes.txt").write_text("no frame")
    (tmp_path / "._1.png").write_bytes(b"what a Mac leaves on other disks")
    (tmp_path / "old.png").mkdir()
    sheet = read_sheet(tmp_path)
    assert np.array_equal(sheet.frames, np.stack([frames[name] for name in names]))
    assert (sheet.durations == 100).all() and sheet.durations.dtype == np.int64 and sheet.tags == ()


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no frames in" in complaint(tmp_path)
    save(tmp_path / "2.png", sprite())
    save(tmp_path / "10.png", sprite(7, 5))
    words = complaint(tmp_path)
    assert "2.png is 4 x 6 pixels, 10.png is 5 x 7 pixels" in words
    with pytest.raises(UserError, match="cannot read"):
        read_frame_folder(tmp_path / "missing")
    (tmp_path / "2.png").write_bytes(b"\x89PNG no")
    assert "2.png: it is not a readable PNG" in complaint(tmp_path)


def test_grids_that_cannot_be_read(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", np.full((12, 9, 4), 200, np.uint8))
    assert "give the size of its cells" in complaint(path)
    assert "9 x 12 pixels are no multiple of 4 x 6" in complaint(path, cell=(4, 6))
    assert "no multiple" in complaint(path, cell=(9, 5))
    assert "no multiple" in complaint(path, cell=(18, 12))
    assert "at least 1 x 1" in complaint(path, cell=(0, 6))
    assert "no such file" in complaint(tmp_path / "b.png", cell=(4, 6))
    save(tmp_path / "empty.png", np.zeros((12, 8, 4), np.uint8))
    assert "fully transparent" in complaint(tmp_path / "empty.png", cell=(4, 6))
    Image.new("I;16", (4, 6), 40_000).save(tmp_path / "deep.png")
    assert (read_sheet(tmp_path / "deep.png", cell=(4, 6)).frames == (156, 156, 156, 255)).all()  # 40,000 / 257
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert "it is truncated" in complaint(path, cell=(3, 6))
    os.mkfifo(tmp_path / "pipe.png")
    assert "pipe.png: it is not a regular file" in complaint(tmp_path / "pipe.png", cell=(3, 6))


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = save(tmp_path / "wide.png", np.zeros((1, 16_385, 4), np.uint8))
    assert "16385 x 1 pixels is too large" in complaint(wide, cell=(1, 1))
    monkeypatch.setattr(sheets, "MAX_PIXELS", 60)
    for number in range(3):
        save(tmp_path / "frames" / f"{number}.png", sprite())
    assert "3 frames of 4 x 6 pixels are too large" in complaint(tmp_path / "frames")
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 10)
    assert "the file is too large" in complaint(wide, cell=(1, 1))
    monkeypatch.undo()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)  # Pillow's own limit, at twice this an error
    assert "the picture is too large" in complaint(tmp_path / "frames")


@pytest.mark.parametrize(
    ("frames", "durations", "tags"),
    [
        (np.zeros((2, 3, 3, 3), np.uint8), [1, 1], ()),
        (np.zeros((2, 3, 3, 4), np.float32), [1, 1], ()),
        (np.zeros((0, 3, 3, 4), np.uint8), [], ()),
        (np.zeros((2, 3, 3, 4), np.uint8), [1], ()),
        (np.zeros((2, 3, 3, 4), np.uint8), [1, 0], ()),
        (np.zeros((2, 3, 3, 4), np.uint8), [1, 70_000], ()),
        (np.zeros((2, 3, 3, 4), np.uint8), [1.0, 1.5], ()),
        (np.zeros((2, 3, 3, 4), np.uint8), [1, 1], (Tag("run", 1, 2),)),
    ],
)
def test_a_sheet_checks_itself(frames: np.ndarray, durations: list[int], tags: tuple[Tag, ...]) -> None:
    with pytest.raises(ValueError):
        Sheet(frames, np.array(durations), tags)
