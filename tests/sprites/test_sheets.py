"""Sheets in, sheets and clips out: which frames are animated from which, what is written, which errors are raised."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.sprites.conftest import BLUE, DOWN, LEFT, PICTURE, RED, REFERENCE, UP, hero, sheet
from visual_dynamics.cli.animate import CLIPS, draw_comparison, file_names, write_animation
from visual_dynamics.cli.pictures import ResultFolder
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.sampling.palette import palette_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.matches import ClipMatch, find_matches, other_starts, read_target
from visual_dynamics.sprites.sheets import Animation, animate_sheet

EACH = (ClipMatch(0, 3, 0, 0, (UP,)), ClipMatch(4, 6, 4, 1, (LEFT,)), ClipMatch(7, 8, 7, 2, (DOWN,)))


@pytest.fixture
def predictor(tiny_network) -> Predictor:
    return Predictor(tiny_network)


def animate(
    predictor: Predictor, reference: Sheet, target: Sheet, pose: int | None = None, **options: Any
) -> Animation:
    return animate_sheet(predictor, reference, target, find_matches(reference, target, None, pose), **options)


# --- which frames from which ---


@pytest.mark.parametrize(
    ("tag", "pose", "match"),
    [
        (None, 0, ClipMatch(0, 3, 0, 0, (UP,))),
        (None, 2, ClipMatch(0, 3, 2, 0, (UP,))),
        (None, 5, ClipMatch(4, 6, 5, 0, (LEFT,))),
        ("walk left", None, ClipMatch(4, 6, 4, 0, (LEFT,))),
        ("walk left", 2, ClipMatch(4, 6, 6, 0, (LEFT,))),
    ],
)
def test_a_picture_is_animated_with_the_tag_asked_for_or_that_of_its_pose(tag, pose, match: ClipMatch) -> None:
    assert find_matches(REFERENCE, PICTURE, tag, pose) == [match]


def test_start_poses_to_try_are_the_first_frames_of_other_tags() -> None:
    frames = hero()
    frames[7] = 0  # an empty cell
    reference = sheet(frames, UP, LEFT, DOWN)
    assert np.array_equal(other_starts(reference, EACH[0]), frames[[4]])
    assert np.array_equal(other_starts(reference, EACH[1]), frames[[0]])
    assert other_starts(sheet(frames), ClipMatch(0, 8, 0, 0, ())).shape == (0, *frames.shape[1:])


def test_a_sheet_without_tags_is_one_clip() -> None:
    assert find_matches(sheet(hero()), PICTURE, pose=4) == [ClipMatch(0, 8, 4, 0, ())]


def test_tags_that_share_the_pose_are_one_clip() -> None:
    all_of_it, hit, other = Tag("attack", 1, 6), Tag("hit", 2, 3), Tag("other", 7, 8)
    reference = sheet(hero(), all_of_it, hit, other)
    assert find_matches(reference, PICTURE, pose=2) == [ClipMatch(1, 6, 2, 0, (all_of_it, hit))]
    assert find_matches(reference, PICTURE, "hit") == [ClipMatch(2, 3, 2, 0, (hit,))]
    with pytest.raises(UserError, match="frame 0 of the reference has no tag: choose another --pose, or a --tag"):
        find_matches(reference, PICTURE, pose=0)
    with pytest.raises(UserError, match="where in the reference the target's frame belongs: it has 3 tags, 'attack', "):
        find_matches(reference, PICTURE)
    backwards = sheet(hero(), Tag("late", 4, 8), Tag("early", 0, 3))
    with pytest.raises(UserError, match="it has 2 tags, 'late', 'early'"):
        find_matches(backwards, PICTURE)
    from_the_start = sheet(hero(), Tag("all", 0, 8), Tag("start", 0, 3))
    assert find_matches(from_the_start, PICTURE) == [ClipMatch(0, 8, 0, 0, from_the_start.tags)]


def test_a_frame_for_each_tag_by_name_or_in_order() -> None:
    poses = hero(3, BLUE)
    assert find_matches(REFERENCE, sheet(poses)) == [*EACH]
    assert find_matches(REFERENCE, sheet(poses), "walk left") == [EACH[1]]
    named = sheet(poses, Tag("fall", 0, 0), Tag("walk left", 1, 2), Tag("swim", 2, 2))
    clips = [ClipMatch(4, 6, 5, 1, (LEFT,)), ClipMatch(7, 8, 8, 0, (DOWN,))]
    assert find_matches(REFERENCE, named, pose=1) == clips
    one = sheet(hero(1, BLUE), Tag("fall", 0, 0))
    assert find_matches(REFERENCE, one) == [ClipMatch(7, 8, 7, 0, (DOWN,))]
    assert find_matches(REFERENCE, one, "walk left") == [ClipMatch(4, 6, 4, 0, (LEFT,))]


@pytest.mark.parametrize(
    ("target", "where", "words"),
    [
        (PICTURE, {"tag": "swim"}, "the reference has no tag 'swim': it has 'walk/up', 'walk left', 'fall'"),
        (PICTURE, {"tag": "fall", "pose": 2}, "the pose is one of the 2 frames of 'fall', 0 to 1, not 2"),
        (PICTURE, {"pose": 9}, "the pose is one of the 9 frames of the reference, 0 to 8, not 9"),
        (PICTURE, {"pose": -1}, "not -1"),
        (sheet(hero(3)), {"pose": 2}, "the pose is one of the 2 frames of 'fall'"),
        (sheet(hero(2)), {}, "has 2 frames without tags, but needs one, or 3, one for each tag of the refer"),
        (sheet(hero(2), Tag("swim", 0, 1)), {}, "has no frame for a tag of the reference: it has 'swim'"),
        (sheet(hero(2), Tag("fall", 0, 1)), {"tag": "walk/up"}, "has no frame for tag 'walk/up': it has 'fall'"),
        (PICTURE, {}, "say with --tag, or --pose, where in the reference the target's frame belongs: it has 3"),
        (sheet(0 * hero(1)), {"tag": "fall"}, "the target is empty"),
        (sheet(np.concatenate([hero(2), 0 * hero(1)])), {}, "frame 2 of the target is empty"),
    ],
)
def test_targets_that_fit_nothing(target: Sheet, where: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        find_matches(REFERENCE, target, **where)
    assert words in str(caught.value)


def test_references_that_cannot_be_followed() -> None:
    blinking = hero()
    blinking[5] = 0
    reference = sheet(blinking, UP, LEFT, DOWN)
    assert find_matches(reference, PICTURE, "fall")  # the empty frame is in another tag
    with pytest.raises(UserError, match="frame 5 of the reference is empty"):
        find_matches(reference, PICTURE, "walk left")
    twice = sheet(hero(), Tag("a", 0, 3), Tag("a", 4, 8))
    with pytest.raises(UserError, match="has 2 tags 'a'"):
        find_matches(twice, PICTURE, "a")
    with pytest.raises(UserError, match=r"'t23', 3 more$"):
        find_matches(sheet(hero(), *(Tag(f"t{k}", 0, 8) for k in range(27))), PICTURE, "a")


# --- the sheet ---


@pytest.mark.parametrize("target_size", [(14, 12), (16, 16), (10, 16)], ids=str)
def test_all_clips_of_a_sheet(predictor: Predictor, target_size: tuple[int, int]) -> None:
    target = hero(3, BLUE, *target_size)
    made = animate(predictor, REFERENCE, sheet(target), pose=1)
    assert made.given == (1, 5, 8) and made.sheet.tags == (UP, LEFT, DOWN)
    assert made.sheet.frames.shape == (9, *target_size, 4)
    assert np.array_equal(made.sheet.durations, REFERENCE.durations)
    assert np.array_equal(made.reference.frames, REFERENCE.frames)
    assert np.array_equal(made.sheet.frames[list(made.given)], target)
    assert {tuple(color) for color in palette_of(made.sheet.frames)} <= {BLUE, BLUE[::-1]}


def test_frames_share_the_palette_of_all_that_are_used(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        "visual_dynamics.sprites.sheets.animate",
        lambda predictor, frames, target, *rest: [seen.append(rest[3]), np.repeat(target[None], len(frames), 0)][1],
    )
    target = sheet(
        np.concatenate([hero(1, BLUE), hero(1), hero(1, (9, 9, 9))]), Tag("fall", 0, 0), Tag("walk/up", 1, 2)
    )
    animate(predictor, REFERENCE, target)
    assert [sorted(map(tuple, colors.tolist())) for colors in seen] == [sorted([RED, RED[::-1], BLUE, BLUE[::-1]])] * 2


def test_a_part_of_the_reference_is_counted_from_0(predictor: Predictor) -> None:
    named = sheet(hero(2, BLUE), Tag("fall", 0, 0), Tag("walk left", 1, 1))
    made = animate(predictor, REFERENCE, named)
    assert made.sheet.tags == (Tag("walk left", 0, 2, "pingpong"), Tag("fall", 3, 4))
    assert np.array_equal(made.sheet.durations, REFERENCE.durations[4:])
    assert np.array_equal(made.reference.frames, REFERENCE.frames[4:])
    assert np.array_equal(made.sheet.frames[[0, 3]], named.frames[[1, 0]])


def test_options_are_passed_on(predictor: Predictor) -> None:
    frames = hero()
    frames[0, 4, 4] = 255  # no longer the target in other colours
    reference = sheet(frames)
    direct, chained = (animate(predictor, reference, PICTURE, method=method) for method in ("direct", "chained"))
    assert not np.array_equal(direct.sheet.frames, chained.sheet.frames)
    assert direct.alignment is not None and animate(predictor, reference, PICTURE, aligned=False).alignment is None


# --- files ---


def read_clip(path: Path) -> tuple[np.ndarray, list[float]]:
    with Image.open(path) as image:
        frames, durations = [], []
        for number in range(image.n_frames):
            image.seek(number)
            frames.append(np.array(image.convert("RGBA")))
            durations.append(image.info["duration"])
    seen = np.stack(frames)
    seen[seen[..., 3] == 0] = 0
    return seen, durations


def test_what_is_written_can_be_read_back(tmp_path: Path) -> None:
    result = sheet(hero(9, BLUE), UP, LEFT, DOWN)
    with ResultFolder(tmp_path / "out", False) as folder:
        write_animation(folder, Animation(result, REFERENCE, (0, 4)), 2)
    clips = [f"{name}.{kind}" for name in ("walk-up", "walk-left", "fall") for kind in ("gif", "webp", "apng")]
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == sorted(["sheet.png", "sheet.json", "comparison.png", *clips])
    again = read_sheet(tmp_path / "out" / "sheet.json")
    assert np.array_equal(again.frames, result.frames) and again.tags == result.tags
    assert np.array_equal(again.durations, result.durations)
    for kind in ("gif", "webp", "apng"):
        frames, durations = read_clip(tmp_path / "out" / f"walk-left.{kind}")
        assert np.array_equal(frames, result.frames[[4, 5, 6, 5]])
        assert durations == result.durations[[4, 5, 6, 5]].tolist()


def test_without_tags_there_is_one_clip(tmp_path: Path) -> None:
    with ResultFolder(tmp_path, True) as folder:
        write_animation(folder, Animation(sheet(hero(3)), sheet(hero(3)), (0,)), 1)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted([*(f"animation.{kind}" for kind in CLIPS), "comparison.png", "sheet.json", "sheet.png"])


def test_names_of_files() -> None:
    names = ["walk", "Walk", "a/b\\c", "../..", "", "walk-2", "walk", "über 1", ".hidden", "x" * 200]
    files = file_names(names)
    assert files[:6] == ["walk", "Walk-2", "a-b-c", "animation", "animation-2", "walk-2-2"]
    assert files[6:9] == ["walk-3", "über-1", "hidden"] and len(files[9]) == 80
    assert len({name.lower() for name in files}) == len(names)


def test_the_comparison_has_a_pair_of_rows_for_each_tag_and_breaks_long_ones() -> None:
    def shape(reference: Sheet, result: Sheet, scale: int) -> tuple[int, ...]:
        return draw_comparison(Animation(result, reference, (0,)), scale).shape

    row, column = 2 * 14 + 16 + 4, 2 * 12 + 4
    assert shape(REFERENCE, REFERENCE, 2) == (4 + 6 * row, 4 + 4 * column, 3)
    small = sheet(hero(9, BLUE, 12, 11), UP, LEFT, DOWN)
    assert shape(REFERENCE, small, 2) == (4 + 6 * row, 4 + 4 * column, 3)
    long = sheet(np.repeat(hero(1), 30, axis=0))
    assert shape(long, long, 2) == (4 + 6 * row, 4 + 13 * column, 3)


def test_the_comparison_shows_both() -> None:
    picture = draw_comparison(Animation(sheet(hero(2, BLUE)), sheet(hero(2)), (0,)), 1)
    rows = [4, 4 + 14 + 16 + 4]
    for top, color in zip(rows, (RED, BLUE), strict=True):
        assert picture[top + 11, 4 + 3].tolist() == [*color] and picture[top, 4].tolist() == [150, 150, 150]


# --- targets ---


def test_how_targets_are_read(place: Path) -> None:
    poses = hero(3, BLUE)
    Image.fromarray(np.concatenate(poses, axis=1)).save("row.png")
    Image.fromarray(np.concatenate(poses, axis=0)).save("column.png")
    whole = read_target(Path("row.png"), None, REFERENCE)
    assert whole.frames.shape == (1, 14, 36, 4) and not whole.tags
    larger_cell = read_target(Path("other.png"), (16, 16), REFERENCE)
    assert np.array_equal(larger_cell.frames, PICTURE.frames) and not larger_cell.tags
    for name in ("row.png", "column.png"):
        in_order = read_target(Path(name), (12, 14), REFERENCE)
        assert np.array_equal(in_order.frames, poses) and not in_order.tags
    rows = read_target(Path("hero.png"), (12, 14), REFERENCE)
    assert [tag.name for tag in rows.tags] == ["row 0", "row 1", "row 2"] and np.array_equal(rows.frames, hero())
    assert not read_target(Path("hero.png"), (12, 14), REFERENCE, rows_are_animations=False).tags
    assert read_target(Path("hero.json"), None, REFERENCE).tags == REFERENCE.tags


def test_targets_that_cannot_be_read(place: Path) -> None:
    Path("text.png").write_text("no picture")
    Image.new("RGBA", (12, 14)).save("nothing.png")
    os.mkfifo("pipe.png")
    for name, cell, words in [
        ("text.png", None, "not a readable PNG"),
        ("text.png", (12, 14), "not a readable PNG"),
        ("nothing.png", None, "fully transparent"),
        ("hero.png", (7, 14), "no multiple of 7 x 14"),
        ("nowhere", None, "no such file"),
        ("pipe.png", None, "not a regular file"),
        ("pipe.png", (12, 14), "not a regular file"),
        (".", None, "no frames|differ in size"),
    ]:
        with pytest.raises(UserError, match=words):
            read_target(Path(name), cell, REFERENCE)
