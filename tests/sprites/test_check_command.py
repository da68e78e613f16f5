"""The verb `check`: exit codes, report, contact sheet, and what it says of bad input."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.sprites.conftest import write_sheet
from tests.sprites.test_critic import WAVE, figure, sheet
from visual_dynamics.cli.main import main
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.characters import lay_sheet
from visual_dynamics.sprites.contact import BORDER, MARK, draw_contact
from visual_dynamics.sprites.critic import criticise
from visual_dynamics.sprites.generator import CELL, VIEWS
from visual_dynamics.sprites.palette_files import read_palette


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["check", *arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def faulty() -> Pixels:
    frames = figure(WAVE)
    frames[2] = np.roll(frames[2], 2, 0)
    return frames


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean figure and a faulty one, as cells; the faulty one as other files, too."""
    monkeypatch.chdir(tmp_path)
    for name, frames in (("clean", figure(WAVE)), ("faulty", faulty())):
        Image.fromarray(np.concatenate(list(frames), axis=1)).save(f"{name}.png")
    write_sheet(tmp_path / "tags.json", sheet(faulty(), Tag("wa\nve", 0, 5)))
    Path("tags.aseprite").write_bytes(aseprite_file(faulty(), [100] * 6, (Tag("wave", 0, 5),), "figure"))
    Path("frames").mkdir()
    for number, frame in enumerate(faulty()):
        Image.fromarray(frame).save(f"frames/{number}.png")


def test_exit_codes_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("clean.png", "--cell", "32x32") == 0
    assert capsys.readouterr().out == "clean.png, 6 frames in 1 animation: nothing wrong\n"
    assert run("faulty.png", "--cell", "32x32") == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("anchor: row 0, frame 2: stands 2 px below where it fits")
    assert last == "faulty.png, 6 frames in 1 animation: 1 fault"
    assert list(Path().glob("out*")) == []


@pytest.mark.parametrize("name", ["tags.json", "tags.aseprite", "frames"])
def test_every_kind_of_sheet(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["sheet"] == name and report["frames"] == 6 and not report["clean"]
    assert [(fault["check"], fault["frames"]) for fault in report["findings"]] == [("anchor", [2])]


def test_sheets_of_the_generator(capsys: pytest.CaptureFixture[str]) -> None:
    """The same fault in a universal sheet, a folder and its ZIP; a sheet of the wrong size is a note."""
    arms = (8, 10, 12, 14, 16, 15, 13, 11, 9)
    clips = {("walk", view): np.pad(figure(arms), ((0, 0), (16, 16), (16, 16), (0, 0))) for view in VIEWS[4]}
    clips["walk", "left"][3] = np.roll(clips["walk", "left"][3], 3, 0)
    rows = lay_sheet("walk", clips, 9 * CELL)
    Path("hero").mkdir()
    Image.fromarray(rows).save("hero/walk.png")
    Image.new("RGBA", (70, 64), "red").save("hero/hurt.png")
    whole = np.zeros((21 * CELL, 13 * CELL, 4), np.uint8)
    whole[8 * CELL : 12 * CELL, : 9 * CELL] = rows
    Image.fromarray(whole).save("universal.png")
    with zipfile.ZipFile("hero.zip", "w") as archive:
        archive.write("hero/walk.png", "standard/walk.png")
    for name in ("hero", "universal.png", "hero.zip"):
        assert run(name, "--json") == 1
        told = capsys.readouterr()
        (fault,) = json.loads(told.out)["findings"]
        assert (fault["check"], fault["animation"], fault["frames"]) == ("anchor", "walk left", [12])
        assert ("hurt.png" in told.err) == (name == "hero")


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("faulty.png", "--cell", "32x32", "--without", "anchor") == 0
    assert run("clean.png", "--cell", "32x32", "--loop") == 1
    assert "seam: row 0, frames 5, 0" in capsys.readouterr().out
    Path("few.hex").write_text("e6b48c\n2859c8\n")
    assert run("clean.png", "--cell", "32x32", "--palette", "few.hex", "--without", "anchor", "--no-loop") == 1
    assert run("clean.png", "--cell", "32x32", "--palette", "faulty.png") == 0
    assert run("tags.json") == 1
    assert "wa?ve" in capsys.readouterr().out  # a line break would break the line


def test_results_are_written_together_and_replace_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("faulty.png", "--cell", "32x32", "--out", "out") == 1
    assert capsys.readouterr().out.endswith("1 fault; see out/contact.png\n")
    assert sorted(path.name for path in Path("out").iterdir()) == ["contact.png", "report.json"]
    before = Path("out/report.json").read_bytes()
    assert json.loads(before)["findings"][0]["frames"] == [2]
    assert run("clean.png", "--cell", "32x32", "--out", "out") == 2
    assert "not empty" in capsys.readouterr().err and Path("out/report.json").read_bytes() == before
    assert run("clean.png", "--cell", "32x32", "--out", "out", "--overwrite") == 0
    assert json.loads(Path("out/report.json").read_bytes())["clean"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["none.png"], "no such file"),
        (["clean.png"], "size of its cells"),
        (["clean.png", "--cell", "31x32"], "no multiple"),
        (["clean.png", "--cell", "32x32", "--palette", "none.png"], "no such file"),
        (["clean.png", "--cell", "32x32", "--palette", "empty.gpl"], "no colours"),
        (["clean.png", "--cell", "32x32", "--palette", "missing.gpl"], "No such file"),
        (["clean.png", "--cell", "32x32", "--without", "taste"], "taste"),
        (["empty.png", "--cell", "32x32"], "fully transparent"),
        (["cut.aseprite"], "damaged or cut off"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGBA", (64, 32)).save("empty.png")
    Path("empty.gpl").write_text("GIMP Palette\n#\n")
    Path("cut.aseprite").write_bytes(Path("tags.aseprite").read_bytes()[:150])
    assert run(*arguments, "--out", "out") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and words in lines[0]
    assert not Path("out").exists()


def test_palettes_of_three_kinds() -> None:
    Path("a.gpl").write_text("GIMP Palette\nName: x\nColumns: 2\n#\n  1   2   3\tdark\n255 128 0\n")
    Path("b.hex").write_text("010203\r\n#FF8000\r\n")
    Image.fromarray(np.array([[[255, 128, 0, 255], [1, 2, 3, 255], [9, 9, 9, 0]]], np.uint8)).resize((3, 2), 0).save(
        "c.png"
    )
    for name in ("a.gpl", "b.hex", "c.png"):
        assert read_palette(Path(name)).tolist() == [[1, 2, 3], [255, 128, 0]]


def test_the_contact_sheet_frames_what_is_wrong() -> None:
    """Six tiles, the third in a frame of MARK: its perimeter, 3 pixels wide, and no other pixel."""
    frames = sheet(faulty())
    picture = draw_contact(frames, criticise(frames), 4)
    marked = (picture == MARK).all(axis=-1)
    side = 4 * 32
    assert marked.sum() == (side + 2 * BORDER) ** 2 - side**2
    columns = np.flatnonzero(marked.any(axis=0))
    assert columns[0] // (picture.shape[1] // 6) == columns[-1] // (picture.shape[1] // 6) == 2
    assert not (draw_contact(sheet(figure(WAVE)), criticise(sheet(figure(WAVE))), 4) == MARK).all(axis=-1).any()


def test_frames_without_a_tag_come_last_in_the_contact_sheet() -> None:
    tagged = sheet(faulty(), Tag("wave", 3, 5))
    rows = draw_contact(tagged, criticise(tagged), 1).shape[0]
    assert rows == 2 * draw_contact(sheet(faulty()), criticise(sheet(faulty())), 1).shape[0] - 4  # gap
