"""The verb `complete`: every layout in and out, and mistakes that write nothing."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from PIL import Image

from tests.sprites.conftest import REFERENCE as UNLIKE_LPC
from tests.sprites.test_complete import Adding
from visual_dynamics.cli.complete import complete_character
from visual_dynamics.cli.results import show
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file
from visual_dynamics.data.sheets import read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.bodies import shipped_bodies
from visual_dynamics.sprites.character_files import read_character, read_tag
from visual_dynamics.sprites.characters import ROWS, Clips, lay_sheet
from visual_dynamics.sprites.files import sheet_files
from visual_dynamics.sprites.generator import ANIMATIONS, CELL

Command = Callable[..., int]
MALE = shipped_bodies()[0].clips
VIEWS = ("up", "left", "down", "right")


def swapped(*animations: str) -> Clips:
    """The male body in other colours."""
    return {
        key: np.ascontiguousarray(frames[..., [2, 0, 1, 3]]) for key, frames in MALE.items() if key[0] in animations
    }


def in_hat(clips: Clips) -> Clips:
    """With something of its own: no palette swap."""
    worn = {key: frames.copy() for key, frames in clips.items()}
    for frames in worn.values():
        frames[:, 12:16, 28:36] = (10, 200, 10, 255)
    return worn


def sheet(animation: str, clips: Clips, width: int = 0) -> Pixels:
    return lay_sheet(animation, clips, width or ANIMATIONS[animation][0] * CELL)


def write_folder(folder: Path, clips: Clips, width: int = 0, names: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for animation in dict.fromkeys(name for name, _ in clips):
        Image.fromarray(sheet(animation, clips, width)).save(folder / f"{(names or {}).get(animation, animation)}.png")
    return folder


def picture(path: Path) -> Pixels:
    return np.array(Image.open(path).convert("RGBA"))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("visual_dynamics.sprites.complete.CHECKED", 2)
    monkeypatch.setattr("visual_dynamics.cli.complete.load_model", lambda name: SimpleNamespace(predictor=Adding()))
    app = typer.Typer()
    app.command()(complete_character)
    return lambda *words: show(app(list(words), standalone_mode=False))


def test_a_folder_keeps_its_files_and_gets_the_sheets_that_it_lacks(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(Path("hero"), swapped("walk", "combat_idle"))
    Path("hero/credits.txt").write_text("drawn by me")
    Path("hero/walk_128.png").write_bytes(b"something else")
    command("hero", "--animations", "run, climb", "--out", "new")
    output = capsys.readouterr()
    assert output.out == "38 frames of hero in new, 0 of them marked: see drafts.png\n"
    assert "not used, as no animation has such a name: walk_128.png" in output.err
    for path in Path("hero").iterdir():
        assert (Path("new") / path.name).read_bytes() == path.read_bytes()
    truth = swapped("run", "climb")
    for animation in ("run", "climb"):
        assert np.array_equal(picture(Path("new", f"{animation}.png")), sheet(animation, truth))
    assert "drawn by me" in Path("new/CREDITS.txt").read_text()
    numbers = json.loads(Path("new/drafts.json").read_text())
    assert numbers["references"][0]["recoloured"] == 5 and numbers["doubts"]["climb up"] == [0] * 6
    assert not Path("new/jump.png").exists()


def test_without_animations_all_are_drawn_that_it_lacks(command: Command) -> None:
    write_folder(Path("hero"), swapped("walk"))
    command("hero", "--out", "new")
    assert {path.stem for path in Path("new").glob("*.png")} == {*ANIMATIONS, "drafts"}


def test_a_zip_export_keeps_its_names_and_its_width(command: Command) -> None:
    """Its sheets are 13 cells wide, some have other names, and those of missing animations may be there, but empty."""
    write_folder(Path("standard"), swapped("walk", "halfslash"), 832, {"halfslash": "1h_halfslash"})
    Image.new("RGBA", (832, 256)).save("standard/run.png")
    with zipfile.ZipFile("export.zip", "w") as archive:
        for path in Path("standard").iterdir():
            archive.write(path)
        archive.writestr("character.json", '{"bodyType": "male", "selections": {}}')
        archive.writestr("credits/credits.txt", "body: by somebody")
        archive.writestr("custom/wheelchair.png", b"not read")
    command("export.zip", "--animations", "run,combat_idle", "--out", "new")
    truth = swapped("run", "combat_idle")
    assert np.array_equal(picture(Path("new/standard/run.png")), sheet("run", truth, 832))
    assert np.array_equal(picture(Path("new/standard/combat.png")), sheet("combat_idle", truth, 832))
    for name in ("standard/walk.png", "standard/1h_halfslash.png", "custom/wheelchair.png", "credits/credits.txt"):
        assert Path("new", name).read_bytes() == zipfile.ZipFile("export.zip").read(name)
    assert "body: by somebody" in Path("new/CREDITS.txt").read_text()
    again = read_character(Path("new"))
    assert again.body == "male" and set(again.animations) == {"walk", "halfslash", "run", "combat_idle"}


@pytest.mark.parametrize("rows", [21, 54, 56])
def test_a_universal_sheet_grows_only_where_it_must(command: Command, rows: int) -> None:
    canvas = np.zeros((CELL * rows, 832, 4), np.uint8)
    for animation in ("walk", "slash"):
        laid = sheet(animation, swapped("walk", "slash"), 832)
        canvas[CELL * ROWS[animation] :][: len(laid)] = laid
    canvas[CELL * 54 :] = 7  # larger cells
    Image.fromarray(canvas).save("hero.png")
    command("hero.png", "--animations", "thrust", "--out", "small")
    command("hero.png", "--animations", "run", "--out", "large")
    small, large = picture(Path("small/hero.png")), picture(Path("large/hero.png"))
    thrust, run = (sheet(name, swapped(name), 832) for name in ("thrust", "run"))
    canvas[CELL * 4 : CELL * 8] = thrust
    assert np.array_equal(small, canvas)
    canvas[CELL * 4 : CELL * 8] = 0
    assert large.shape[0] == CELL * max(rows, 54) and np.array_equal(large[CELL * 38 : CELL * 42], run)
    large[CELL * 38 : CELL * 42] = 0
    assert np.array_equal(large[: len(canvas)], canvas) and not large[len(canvas) :].any()


@pytest.mark.parametrize("suffix", ["json", "aseprite"])
def test_tags_are_added_as_they_are_named(command: Command, suffix: str) -> None:
    clips = swapped("walk")
    frames = np.concatenate([clips["walk", view] for view in VIEWS])
    tags = tuple(Tag(f"Walk/{view.title()}", 9 * k, 9 * k + 8) for k, view in enumerate(VIEWS))
    if suffix == "json":
        from visual_dynamics.data.sheets import Sheet

        for name, data in sheet_files("hero", Sheet(frames, np.full(36, 80), tags)).items():
            Path(name).write_bytes(data)
    else:
        Path("hero.aseprite").write_bytes(aseprite_file(frames, [80] * 36, tags))
    command(f"hero.{suffix}", "--animations", "sit", "--out", "new")
    made = read_sheet(Path(f"new/hero.{suffix}"))
    assert made.tags[:4] == tags and [tag.name for tag in made.tags[4:]] == [f"sit/{view.title()}" for view in VIEWS]
    assert (
        np.array_equal(made.frames[:36][..., 3], frames[..., 3]) and made.durations.tolist() == [80] * 36 + [100] * 12
    )
    seen = frames[..., 3] > 0
    assert np.array_equal(made.frames[:36][seen], frames[seen])
    truth = np.concatenate([swapped("sit")["sit", view] for view in VIEWS])
    assert np.array_equal(made.frames[36:][truth[..., 3] > 0], truth[truth[..., 3] > 0])


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("Walk/Down", ("walk", "down", "{}/Down")),
        ("combat-idle north", ("combat_idle", "up", "{} north")),
        ("left_run", ("run", "left", "left_{}")),
        ("1h_slash", ("1h_slash", "", "{}")),
        ("combat", ("combat_idle", "", "{}")),
        ("down", ("down", "", "{}")),
    ],
)
def test_names_of_tags(name: str, read: tuple[str, str, str]) -> None:
    assert read_tag(name) == read


def test_a_hat_becomes_a_hat(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    walk = {key: np.zeros_like(frames) for key, frames in swapped("walk").items()}
    write_folder(Path("hat/male"), in_hat(walk))
    command("hat/male", "--animations", "sit", "--out", "new")
    made = picture(Path("new/sit.png"))
    assert {tuple(colour) for colour in made.reshape(-1, 4) if colour[3]} == {(10, 200, 10, 255)}
    err = capsys.readouterr().err
    assert "male is taken for a layer" in err and "sit: after the male body" in err


def test_a_reference_of_ones_own(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(Path("hero"), in_hat(swapped("walk")))
    write_folder(Path("other"), {key: frames for key, frames in MALE.items() if key[0] in ("walk", "sit")})
    command("hero", "--reference", "other", "--out", "new")
    assert "sit: after other" in capsys.readouterr().err
    assert (
        not Path("new/jump.png").exists() and "other\nIts authors are not known" in Path("new/CREDITS.txt").read_text()
    )


def test_a_reference_of_another_shape_is_said(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    giant = {key: np.roll(frames, 12, axis=2) for key, frames in in_hat(swapped("walk")).items()}
    write_folder(Path("hero"), giant)
    command("hero", "--whole", "--animations", "climb", "--body", "child", "--out", "new", "--force")
    assert "has another shape" in capsys.readouterr().err  # no child climbs: the next best is taken


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere", "cannot read nowhere: there is no such file or folder"),
        ("hero --animations swim", "no reference has swim: there are spellcast"),
        ("hero --animations walk", "hero has walk, which is not drawn again"),
        ("hero --animations slash", "hero has slash, which is not drawn again"),  # of the wrong size, but there
        ("hero --body giant", "no reference is of body type 'giant': male"),
        ("hero --out hero --overwrite", "results do not go into the folder of the character"),
        ("hero --out .", "is not empty"),
        ("hero --model sprites", "sprites knows neighbouring frames only"),
        ("hero --model shapes", "shapes was not trained on a black background"),
        ("hero --reference nowhere", "cannot read nowhere"),
        ("hero --reference unlike.json", "no reference has an animation in common with hero, which has walk"),
        ("whole", "whole lacks no animation of"),
        ("wrong", "nothing can be drawn from wrong: none of spellcast.png"),
        ("wrong", "walk.png is kept, but not used: it is 1728 x 768 pixels, not 576 x 256; cells of 192 px?"),
        ("blank", "nothing can be drawn from blank: all its sheets are empty"),
        ("items.zip", "export it split by animation"),
        ("damaged.zip", "damaged.zip is no readable ZIP"),
        ("outside.zip", "outside.zip holds a file outside of itself"),
        ("small.png", "no universal sheet, which is 832 pixels wide and at least 1344 high, but 64 x 64"),
        ("wide.png", "wide.png is wider than 13 cells: below row 21 its cells are larger ones"),
        ("untagged.aseprite", "untagged.aseprite has no tags"),
        ("torn", "walk.png in torn"),
        ("onlyrun --animations jump --reference hero", "no reference has jump"),
    ],
)
def test_mistakes_write_nothing(command: Command, tmp_path: Path, words: str, message: str) -> None:
    write_folder(Path("hero"), in_hat(swapped("walk")))
    Image.new("RGBA", (100, 100), "red").save("hero/slash.png")
    write_folder(Path("onlyrun"), swapped("run"))
    if "whole" in words:
        write_folder(Path("whole"), swapped(*ANIMATIONS))
    for name, size in (("wrong", (1728, 768)), ("blank", (576, 256))):
        Path(name).mkdir()
        Image.new("RGBA", size, (9, 9, 9, 255 * (name == "wrong"))).save(f"{name}/walk.png")
    Path("torn").mkdir()
    Path("torn/walk.png").write_bytes(b"\x89PNG\r\n\x1a\n torn")
    for name, inside in (("items.zip", "items/hat.png"), ("outside.zip", "../walk.png")):
        with zipfile.ZipFile(name, "w") as archive:
            archive.write("hero/walk.png", inside)
            archive.writestr("credits/credits.txt", "")
    Path("damaged.zip").write_bytes(b"PK\x03\x04")
    Image.new("RGBA", (64, 64)).save("small.png")
    Image.new("RGBA", (1536, 2112)).save("wide.png")
    Path("untagged.aseprite").write_bytes(aseprite_file(MALE["walk", "up"], [100] * 9, ()))
    for name, data in sheet_files("unlike", UNLIKE_LPC).items():
        Path(name).write_bytes(data)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        command("--out", "new", *words.split())
    assert message in str(caught.value)
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_a_missing_walk_is_no_hindrance(command: Command) -> None:
    write_folder(Path("hero"), swapped("slash"))
    command("hero", "--animations", "walk", "--out", "new")
    assert np.array_equal(picture(Path("new/walk.png")), sheet("walk", swapped("walk")))
