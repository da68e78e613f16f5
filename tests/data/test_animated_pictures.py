"""GIF, WebP and PNG of several frames: one animation with its times, as a reference and as training data."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import GifImagePlugin, Image

from visual_dynamics.data import sheets
from visual_dynamics.data.sheets import is_animation, read_frame_folder, read_grid, read_sheet, read_sheets_at
from visual_dynamics.errors import UserError

KINDS = ("gif", "webp", "png", "apng")
TIMES = [40, 250, 90]


def frames(count: int = 3, height: int = 6, width: int = 4) -> np.ndarray:
    """A square that moves over nothing: a frame must be cleared before the next one."""
    made = np.zeros((count, height, width, 4), np.uint8)
    for number, frame in enumerate(made):
        frame[number : number + 2, 1:3] = (200, 10 + number, 30, 255)
    return made


def save(path: Path, pictures: np.ndarray, times: list[int] | int = 100, **options: object) -> Path:
    """`times`: of all frames, or one for each."""
    path.parent.mkdir(exist_ok=True)
    kind = {".apng": "PNG"}.get(path.suffix, path.suffix[1:].upper())
    options |= {"lossless": True} if kind == "WEBP" else {"disposal": 2 if kind == "GIF" else 1}
    first, *others = map(Image.fromarray, pictures)
    first.save(path, kind, save_all=True, append_images=others, duration=times, **options)
    return path


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(UserError, match=r"^[^\n]*$") as error:
        read_sheet(path, **options)  # type: ignore[arg-type]
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_animated_picture_is_one_animation(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path / f"walk.{kind}", frames(), TIMES)
    for sheet in (read_sheet(path), read_sheet(path, (4, 6), rows_are_animations=True)):
        assert np.array_equal(np.where(sheet.frames[..., 3:] > 0, sheet.frames, 0), frames())
        assert sheet.durations.tolist() == TIMES and sheet.tags == ()
    words = "walk.* into cells: it is an animation, 3 frames of 4 x 6 pixels, which needs no cells"
    with pytest.raises(UserError, match=words):
        read_grid(path, (2, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_frame_is_a_picture(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path / f"still.{kind}", frames(1))
    assert "give the size of its cells" in complaint(path)
    assert len(read_grid(path, (2, 3)).frames) == 2  # a row of two cells; the other is empty
    assert not is_animation(path)


def test_the_picture_for_programs_that_know_no_animations_is_no_frame(tmp_path: Path) -> None:
    path = save(tmp_path / "walk.png", frames(4), TIMES, default_image=True)
    assert np.array_equal(read_sheet(path).frames, frames(4)[1:]) and read_sheet(path).durations.tolist() == TIMES


def test_frames_without_a_time_last_as_long_as_usual(tmp_path: Path) -> None:
    assert read_sheet(save(tmp_path / "walk.gif", frames(), 0)).durations.tolist() == [100] * 3
    assert read_sheet(save(tmp_path / "walk.gif", frames(), 100_000)).durations.tolist() == [65_535] * 3


def test_pages_that_are_no_frames(tmp_path: Path) -> None:
    first, second = map(Image.fromarray, frames(2))
    first.save(tmp_path / "pages.tif", save_all=True, append_images=[second])
    assert len(read_grid(tmp_path / "pages.tif", (4, 6)).frames) == 1


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "walk.gif", frames())
    monkeypatch.setattr(sheets, "MAX_FRAMES", 3)
    assert len(read_sheet(path).frames) == 3
    monkeypatch.setattr(sheets, "MAX_FRAMES", 2)
    assert "walk.gif: it has more than 2 frames" in complaint(path)
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"walk\.gif: its frames are too large together"):
        sheets.read_frames(path, max_pixels=3 * 24 - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_ones_are_an_error(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path / f"walk.{kind}", frames())
    whole = path.read_bytes()
    for share in (0.2, 0.5, 0.8):
        path.write_bytes(whole[: int(share * len(whole))])
        assert re.search("it is (not a readable PNG|damaged|truncated)", complaint(path))


def test_a_gif_whose_frames_outgrow_it(tmp_path: Path) -> None:
    parts = [b"GIF89a", struct.pack("<HHBBB", 4, 6, 0x70, 0, 0)]
    for width in (4, 9):
        parts += GifImagePlugin.getdata(Image.new("P", (width, 6)), (0, 0), include_color_table=1)
    (tmp_path / "walk.gif").write_bytes(b"".join([*parts, b";"]))
    assert "its frames differ in size: 4 x 6 pixels, 9 x 6 pixels" in complaint(tmp_path / "walk.gif")


def test_as_training_data(tmp_path: Path) -> None:
    for number, kind in enumerate(("gif", "webp", "apng"), 2):
        save(tmp_path / "clips" / f"{number}.{kind}", frames(number), 100)
    assert [len(sheet.frames) for sheet in read_sheets_at(tmp_path / "clips", "frames")] == [2, 3, 4]
    (alone,) = read_sheets_at(tmp_path / "clips" / "3.webp", "frames")
    assert len(alone.frames) == 3
    (cells,) = read_sheets_at(save(tmp_path / "walk.png", frames()), "4x6")
    assert len(cells.frames) == 3 and cells.tags == ()


def test_an_animation_among_frames_is_not_cut_to_its_first(tmp_path: Path) -> None:
    save(tmp_path / "0.png", frames(1))
    save(tmp_path / "1.gif", frames())
    for read in (read_frame_folder, lambda path: read_sheets_at(path, "frames")):
        with pytest.raises(UserError, match=r"1\.gif as one picture: it is an animation of 3 frames"):
            read(tmp_path)
