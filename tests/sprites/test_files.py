"""Sheets are read back bit for bit by the package, clips by Pillow, frame by frame."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.sprites.conftest import write_sheet
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet, read_grid, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.sprites import files as sprite_files
from visual_dynamics.sprites.files import encode_sprite_clip, sheet_files

RNG = np.random.default_rng(0)
BLACK, RED = (0, 0, 0, 255), (200, 30, 40, 255)


def walker(count: int = 5) -> np.ndarray:
    """A red box with a black outline, as opaque as the outline, that walks to the right; one frame is empty."""
    frames = np.zeros((count, 16, 20, 4), np.uint8)
    for t, frame in enumerate(frames):
        frame[3:12, 1 + 2 * t : 9 + 2 * t] = BLACK
        frame[4:11, 2 + 2 * t : 8 + 2 * t] = RED
    frames[2] = 0
    return frames


def noise(count: int, height: int = 9, width: int = 7) -> np.ndarray:
    """Every colour, every alpha, also colours under fully transparent pixels."""
    frames = RNG.integers(0, 256, (count, height, width, 4), dtype=np.uint8)
    frames[:, ::2, :, 3] = 0
    return frames


def sheet_of(frames: np.ndarray, *tags: Tag, step: int = 10) -> Sheet:
    return Sheet(frames, step * np.arange(3, len(frames) + 3), tags)


def read_clip(data: bytes) -> tuple[np.ndarray, list[float], int | None]:
    """Frames (T, H, W, 4), invisible pixels all 0; milliseconds of each; rounds (0: for ever)."""
    frames, durations = [], []
    with Image.open(io.BytesIO(data)) as image:
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            frames.append(np.array(image.convert("RGBA")))
            durations.append(image.info.get("duration", 0))
        rounds = image.info.get("loop")
    seen = np.stack(frames)
    seen[seen[..., 3] == 0] = 0
    return seen, durations, rounds


def visible(frames: np.ndarray, suffix: str) -> np.ndarray:
    """What a reader of the clip should see."""
    seen = frames.copy()
    if suffix == ".gif":
        seen[..., 3] = np.where(frames[..., 3] >= 128, 255, 0)
    seen[seen[..., 3] == 0] = 0
    return seen


@pytest.mark.parametrize(
    "tags",
    [
        (),
        (Tag("walk", 0, 2, "pingpong"), Tag("hit", 3, 6, "reverse")),
        (Tag('a "b"\n\\ é', 1, 3, "pingpong_reverse"), Tag("", 2, 5), Tag("", 2, 5)),
    ],
    ids=["no tags", "one after another", "overlapping"],
)
def test_sheets_come_back_bit_for_bit(tmp_path: Path, tags: tuple[Tag, ...]) -> None:
    sheet = sheet_of(noise(7), *tags)
    write_sheet(tmp_path / "new" / "hero.png", sheet)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["hero.json", "hero.png"]
    again = read_sheet(tmp_path / "new" / "hero.json")
    assert np.array_equal(again.frames, sheet.frames)
    assert np.array_equal(again.durations, sheet.durations)
    assert again.tags == sheet.tags


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 6), max_size=4), st.integers(0, 3), st.integers(1, 5), st.integers(1, 5))
def test_every_layout_comes_back(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], untagged: int, height: int, width: int
) -> None:
    ends = np.cumsum([0, *lengths]).tolist()
    count = max(1, ends[-1] + untagged)
    tags = [Tag(str(first), first, end - 1) for first, end in pairwise(ends)]
    sheet = sheet_of(noise(count, height, width), *tags)
    path = tmp_path_factory.getbasetemp() / "layout.json"
    write_sheet(path, sheet)
    again = read_sheet(path)
    assert np.array_equal(again.frames, sheet.frames) and again.tags == sheet.tags


def test_tags_are_rows_that_can_be_read_without_the_json(tmp_path: Path) -> None:
    frames = walker()
    write_sheet(tmp_path / "hero", sheet_of(frames, Tag("a", 0, 0), Tag("b", 1, 4)))
    sheet = read_grid(tmp_path / "hero.png", (20, 16), rows_are_animations=True)
    assert np.array_equal(sheet.frames, frames)
    assert sheet.tags == (Tag("row 0", 0, 0), Tag("row 1", 1, 4))


def fields(value: Any) -> Any:
    """The types of everything in a JSON, lists by their first entry."""
    if isinstance(value, dict):
        return {name: fields(one) for name, one in value.items()}
    return [fields(value[0])] if isinstance(value, list) else type(value)


BOX = {"x": int, "y": int, "w": int, "h": int}
SIZE = {"w": int, "h": int}
FRAME = {"frame": BOX, "rotated": bool, "trimmed": bool, "spriteSourceSize": BOX, "sourceSize": SIZE, "duration": int}
TAG = {"name": str, "from": int, "to": int, "direction": str, "color": str}
META = {"app": str, "version": str, "image": str, "format": str, "size": SIZE, "scale": str, "frameTags": [TAG]}


def test_fields_and_types_are_those_of_aseprite() -> None:
    sheet = sheet_of(noise(3), Tag("walk", 0, 1), Tag("hit", 2, 2))
    written = json.loads(sheet_files("hero", sheet)["hero.json"])
    assert fields(written) == {"frames": [{"filename": str, **FRAME}], "meta": META}
    assert list(written["frames"][0]) == ["filename", *FRAME] and list(written["meta"]) == list(META)
    assert [one["filename"] for one in written["frames"]] == [f"hero {k}.png" for k in range(3)]
    meta = written["meta"]
    assert meta["image"] == "hero.png" and meta["format"] == "RGBA8888" and meta["scale"] == "1"
    assert meta["size"] == {"w": 14, "h": 18} and meta["frameTags"][0]["color"] == "#000000ff"
    assert written["frames"][2]["frame"] == {"x": 0, "y": 9, "w": 7, "h": 9}


def test_sheets_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hero.json").mkdir()
    with pytest.raises(UserError, match="nothing was changed"):
        write_sheet(tmp_path / "hero.png", sheet_of(noise(2)))
    assert not (tmp_path / "hero.png").exists()
    monkeypatch.setattr(sprite_files, "MAX_PIXELS", 100)
    with pytest.raises(UserError, match="too large"):
        write_sheet(tmp_path / "other", sheet_of(noise(2)))


def test_long_rows_are_broken(tmp_path: Path) -> None:
    frames = np.full((5, 1, 6000, 4), 9, np.uint8)
    write_sheet(tmp_path / "long", sheet_of(frames, Tag("a", 0, 3), Tag("b", 4, 4)))
    assert read_sheet(tmp_path / "long.json").frames.shape == frames.shape
    with Image.open(tmp_path / "long.png") as picture:
        assert picture.size == (12_000, 3)


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png", ".apng", ".GIF"])
def test_clips_with_alpha(suffix: str) -> None:
    for frames in (walker(), noise(4), walker()[:2], noise(1)):
        sheet = sheet_of(frames)
        seen, durations, rounds = read_clip(encode_sprite_clip(sheet, suffix))
        assert np.array_equal(seen, visible(frames, suffix.lower()))
        if len(frames) > 1:
            assert durations == sheet.durations.tolist()
            assert rounds == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([".gif", ".webp", ".png"]))
def test_any_clip_with_alpha(seed: int, suffix: str) -> None:
    """Few colours, black among them, and frames that are empty, full, or equal to the one before."""
    rng = np.random.default_rng(seed)
    count, height, width = rng.integers(1, 6), rng.integers(1, 9), rng.integers(1, 9)
    colors = np.vstack([[[0, 0, 0]], rng.integers(0, 256, (4, 3))]).astype(np.uint8)
    alphas = rng.choice(np.array([0, 0, 0, 255, 255, 127, 128], np.uint8), (count, height, width, 1))
    frames = np.concatenate([colors[rng.integers(0, 5, (count, height, width))], alphas], axis=-1)
    frames[rng.integers(count), ..., 3] = rng.choice([0, 255])
    if count > 1 and rng.random() < 0.5:
        frames[1] = frames[0]
    sheet = sheet_of(frames)
    seen, durations, _ = read_clip(encode_sprite_clip(sheet, suffix))
    wanted = visible(frames, suffix)
    if len(seen) == 1:
        assert (wanted == seen).all()
    else:  # picture by picture, ten milliseconds each: equal neighbours may be one
        steps = [(np.array(times) / 10).astype(int) for times in (durations, sheet.durations)]
        assert np.array_equal(np.repeat(seen, steps[0], axis=0), np.repeat(wanted, steps[1], axis=0))


def test_a_solid_box_moves_over_nothing() -> None:
    """What is left of each frame after cropping has no alpha."""
    frames = np.zeros((4, 12, 12, 4), np.uint8)
    for t in range(4):
        frames[t, 4:8, 2 * t : 2 * t + 4] = RED
    for suffix in (".webp", ".png", ".gif"):
        assert np.array_equal(read_clip(encode_sprite_clip(sheet_of(frames), suffix))[0], frames)


def test_gif_with_many_colours() -> None:
    frames = noise(2, 40, 40)
    frames[:, 1, 1] = RED
    seen, _, _ = read_clip(encode_sprite_clip(sheet_of(frames), ".gif"))
    assert np.array_equal(seen[..., 3], visible(frames, ".gif")[..., 3])
    there = seen[..., 3] == 255
    assert len(np.unique(seen[there], axis=0)) <= 255
    assert np.abs(seen[there].astype(int) - visible(frames, ".gif")[there])[:, :3].mean() < 25


def test_gif_by_another_decoder() -> None:
    """Frames do not pile up, and black stays."""
    av = pytest.importorskip("av")
    frames = walker()
    with av.open(io.BytesIO(encode_sprite_clip(sheet_of(frames), ".gif"))) as clip:
        seen = np.stack([frame.to_ndarray(format="rgba") for frame in clip.decode(video=0)])
    assert np.array_equal(seen[..., 3], frames[..., 3])
    assert np.array_equal(seen[seen[..., 3] > 0], frames[frames[..., 3] > 0])


def test_gif_keeps_its_pace() -> None:
    durations = np.array([33, 33, 33, 33, 33, 33, 5])
    _, seen, _ = read_clip(encode_sprite_clip(Sheet(noise(7), durations), ".gif"))
    assert np.abs(np.cumsum(seen[:6]) - np.cumsum(durations[:6])).max() <= 5
    assert seen[6] == 20  # browsers slow anything shorter down


def test_a_tag_is_played_in_its_direction() -> None:
    sheet = sheet_of(noise(5))
    seen, durations, _ = read_clip(encode_sprite_clip(sheet, ".png", Tag("a", 1, 3, "pingpong_reverse")))
    assert np.array_equal(seen, visible(sheet.frames[[3, 2, 1, 2]], ".png"))
    assert durations == [60, 50, 40, 50]


def test_clips_that_cannot_be_written() -> None:
    for suffix in (".mp4", ""):
        with pytest.raises(UserError, match=r"choose one of \.gif"):
            encode_sprite_clip(sheet_of(noise(2)), suffix)
    with pytest.raises(UserError, match="16384 x 1 picture as WEBP"):
        encode_sprite_clip(sheet_of(noise(2, 1, 16_384)), ".webp")
