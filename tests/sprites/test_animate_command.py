"""The verb `animate`, on its own: files in, files out, and mistakes that write nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from tests.sprites.conftest import BLUE, PICTURE, REFERENCE, hero
from visual_dynamics.cli.animate import animate
from visual_dynamics.cli.results import show
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file
from visual_dynamics.data.sheets import read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.model_files import Header, find_weights, read_header
from visual_dynamics.sprites import sheets
from visual_dynamics.sprites.align import Alignment, Place
from visual_dynamics.sprites.files import encode_sprite_clip

ROOT = Path(__file__).parents[2]
Command = Callable[..., None]


@pytest.fixture
def command(place: Path, black_weights_file: Path) -> Command:
    app = typer.Typer()
    app.command()(animate)

    def command(*words: str) -> None:
        if result := app(["--model", str(black_weights_file), *words], standalone_mode=False):
            show(result)

    return command


@pytest.fixture
def opened() -> list[str]:
    """The names of files that this process opens, from now on."""
    names: list[str] = []
    sys.addaudithook(
        lambda event, given: names.append(Path(given[0]).name) if event == "open" and type(given[0]) is str else None
    )
    return names


def test_sheets_for_other_programs(command: Command) -> None:
    """An Aseprite file comes in and goes out; Godot's and Tiled's lie beside the picture that they name."""
    sheet = read_sheet("hero.json")
    Path("hero.aseprite").write_bytes(aseprite_file(sheet.frames, sheet.durations.tolist(), sheet.tags))
    words = ("--tag", "walk left", "--pose", "1", "--also", "aseprite", "--also", "godot", "--also", "tiled")
    command("hero.aseprite", "other.png", *words, "--out", "new")
    command("hero.json", "other.png", *words, "--out", "same")
    made, same = read_sheet("new/sheet.aseprite"), read_sheet("same/sheet.json")
    assert (made.frames == same.frames).all() and made.tags == same.tags
    assert made.durations.tolist() == same.durations.tolist()
    for name in ("sheet.tres", "sheet.tsx"):
        assert "sheet.png" in Path("new", name).read_text()


def test_the_command(command: Command, capsys: pytest.CaptureFixture[str], black_weights_file: Path) -> None:
    command("hero.json", "other.png", "--tag", "walk left", "--pose", "1", "--out", "new")
    assert capsys.readouterr() == ("3 frames of other.png in new: see comparison.png\n", "")
    assert sorted(path.name for path in Path("new").iterdir()) == [
        "comparison.png",
        "sheet.json",
        "sheet.png",
        *(f"walk-left.{kind}" for kind in ("apng", "gif", "webp")),
    ]
    made = read_sheet("new/sheet.json")
    assert np.array_equal(made.frames[1], PICTURE.frames[0]) and made.tags == (Tag("walk left", 0, 2, "pingpong"),)
    command(*["hero.png", "other.png", "--cell", "12x14", "--out", "grid", "--pose", "0"])
    assert {"row-0.gif", "row-0.webp", "row-0.apng"} < {path.name for path in Path("grid").iterdir()}
    command("hero.json", "other.png", "--tag", "fall", "--guide", str(black_weights_file), "--out", "guided")
    assert len(read_sheet("guided/sheet.json").frames) == 2
    command("hero.png", "other.png", "--cell", "12x14", "--no-rows", "--out", "one")
    assert len(read_sheet("one/sheet.json").frames) == 9 and Path("one/animation.gif").exists()


def test_an_animated_picture_as_the_reference(command: Command) -> None:
    Path("walk.gif").write_bytes(encode_sprite_clip(REFERENCE, ".gif"))
    command("walk.gif", "other.png", "--out", "new")
    made = read_sheet("new/sheet.json")
    assert len(made.frames) == 9 and np.array_equal(made.durations, REFERENCE.durations)
    with pytest.raises(UserError, match="the target has 9 frames without tags, but needs one"):
        command("walk.gif", "walk.gif", "--out", "other")


@pytest.mark.parametrize("words", ["hero.json other.png --tag fall", "hero.png poses.png --cell 12x14"])
def test_each_file_is_opened_once(command: Command, words: str, opened: list[str]) -> None:
    Image.fromarray(np.concatenate(hero(3, BLUE), axis=1)).save("poses.png")
    opened.clear()
    command(*words.split(), "--out", "new", "--force")
    given = words.split()[:2]
    read = [*given, "hero.png"] if "hero.json" in given else given
    assert sorted(name for name in opened if name in {"hero.json", "hero.png", "other.png", "poses.png"}) == sorted(
        read
    )


def test_a_comparison_that_is_too_large(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.media.MAX_AREA", 10_000)
    with pytest.raises(UserError, match="smaller --scale"):
        command("hero.json", "other.png", "--tag", "fall", "--out", "new", "--scale", "16")
    assert not Path("new").exists()


def test_a_model_of_neighbours_makes_each_frame_from_the_one_before(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods: list[str] = []
    monkeypatch.setattr(Header, "knows_neighbours", True)
    real = sheets.animate_sheet
    monkeypatch.setattr(sheets, "animate_sheet", lambda *given: methods.append(given[4]) or real(*given))
    command("hero.json", "other.png", "--tag", "fall", "--loop", "--out", "new")
    assert methods == ["chained"]


def test_which_models_know_neighbours() -> None:
    assert read_header(find_weights("sprites")).knows_neighbours
    assert not read_header(find_weights("sprites-poses")).knows_neighbours


def test_help_tells_what_becomes_of_half_transparent_pixels(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command("--help")
    assert "half alpha and more become opaque" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hero.png other.png", "give the size of its cells"),
        ("hero.png other.png --cell 64", "a size of cells looks like 64x64, not '64'"),
        ("hero.png other.png --cell 0x4", "cells are at least 1 x 1"),
        ("hero.png other.png --cell 13x14", "no multiple of 13 x 14"),
        ("nowhere.png other.png --cell 12x14", "cannot read nowhere.png: there is no such file"),
        ("hero.json nowhere.png", "cannot read nowhere.png: there is no such file"),
        ("hero.json other.png --tag swim", "has no tag 'swim'"),
        ("hero.json other.png --pose 9", "0 to 8, not 9"),
        ("hero.json other.png", "it has 3 tags, 'walk/up', 'walk left', 'fall'"),
        (
            "hero.json other.png --tag fall --loop",
            "--loop needs --guide: without it, every frame",
        ),
        ("hero.json other.png --tag fall --model shapes", "shapes was not trained on a black background"),
        ("hero.json other.png --tag fall --model shapes", "choose sprites, sprites-poses, or one"),
        ("hero.json other.png --tag fall --model sprites --guide sprites", "but sprites is one of neighbouring frames"),
        (
            "hero.json other.png --tag fall --guide none --loop",
            "--loop needs --guide: without it, every frame",
        ),
        ("hero.json other.png --tag fall --guide shapes", "shapes was not trained on a black background"),
        ("hero.json other.png --tag fall --guide sprites", "the guide makes frames of 64 pixels, but the model of 16"),
        ("hero.json wide.png --tag fall", "17 x 14 pixels, but the model takes 16 x 16 at most"),
        ("hero.json tall.png", "12 x 4000 pixels, but the model takes 16 x 16 at most"),
        ("hero.json tall.png", "if the target holds several frames, give the size of one with --cell"),
        ("pipe.json other.png", "cannot read pipe.json: it is not a regular file"),
        ("pipe.png other.png --cell 12x14", "cannot read pipe.png: it is not a regular file"),
        ("hero.json pipe.png", "cannot read pipe.png: it is not a regular file"),
        ("broken.json other.png", "it is not valid JSON"),
        ("hero.json other.png --out .", "is not empty"),
    ],
)
def test_mistakes_write_nothing(command: Command, place: Path, words: str, message: str) -> None:
    Image.fromarray(hero(1, BLUE, 14, 17)[0]).save("wide.png")
    Image.fromarray(np.pad(PICTURE.frames[0], ((0, 3986), (0, 0), (0, 0)))).save("tall.png")
    Path("broken.json").write_text("{")
    os.mkfifo("pipe.json")
    os.mkfifo("pipe.png")
    before = sorted(place.rglob("*"))
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        command("--out", "new", *words.split())
    assert message in str(caught.value) and sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        (Alignment(Place(1, 2, 2), Place(1, 2, 2), error=4.0), ""),
        (
            Alignment(Place(1, -5, 2), Place(1, -5, 2), (-7, 0), (-7, 0), 77.6),
            "sprites aligned for the model, results are brought back: moved 7 px up\n"
            "warning: the model has not learned from sprites like these (its error on the reference's own "
            "motions is 78, usual are 3 to 10): take results as drafts\n",
        ),
        (
            Alignment(Place(2, -12, -4), Place(2, -11, -5), (0, 0), (1, -1)),
            "sprites aligned for the model, results are brought back: enlarged 2 times, reference moved 0 px, "
            "target 1 px down and 1 px left\n",
        ),
    ],
)
def test_what_was_moved_is_told(
    command: Command,
    alignment: Alignment,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("visual_dynamics.sprites.sheets.align", lambda predictor, clips: alignment)
    command("hero.json", "other.png", "--tag", "fall", "--out", "new", "--force")
    assert capsys.readouterr() == ("2 frames of other.png in new: see comparison.png\n", message)
    assert read_sheet("new/sheet.json").frames.shape == (2, 14, 12, 4)
    assert np.array_equal(read_sheet("new/sheet.json").frames[0], PICTURE.frames[0])
    command("hero.json", "other.png", "--tag", "fall", "--out", "plain", "--no-align")
    assert capsys.readouterr().err == ""


def test_no_mush_without_force(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubt is said before anything is drawn."""
    alignment = Alignment(Place(1, 2, 2), Place(1, 2, 2), error=77.6)
    monkeypatch.setattr("visual_dynamics.sprites.sheets.align", lambda predictor, clips: alignment)
    monkeypatch.setattr("visual_dynamics.sprites.sheets.carry", lambda *given: pytest.fail("frames were drawn"))
    with pytest.raises(UserError, match=r"motions is 78, usual.*: train one .* --force"):
        command("hero.json", "other.png", "--tag", "fall", "--out", "new")
    assert not Path("new").exists()


def test_the_reference_in_other_colours_needs_no_model(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visual_dynamics.sprites.sheets.align", lambda *given: pytest.fail("a model was asked"))
    frames = read_sheet("hero.json").frames
    others = frames.copy()
    others[..., :3] = 255 - frames[..., :3][..., [1, 2, 0]]
    others[frames[..., 3] == 0] = 0
    Image.fromarray(others[7]).save("swapped.png")
    command("hero.json", "swapped.png", "--tag", "fall", "--out", "new")
    assert "in other colours: its frames are exact" in capsys.readouterr().err
    assert np.array_equal(read_sheet("new/sheet.json").frames, others[7:])


def test_the_command_loads_quickly() -> None:
    code = (
        "import sys\nimport visual_dynamics.cli.animate\n"
        "print([name for name in ('torch', 'numpy', 'PIL', 'rich', 'av') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
