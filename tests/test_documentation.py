"""The documentation is run: commands parse, Python blocks work, links lead somewhere."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from tests.footage.scenes import film, moving_square
from tests.golden.cli_reference import PAGE, reference
from visual_dynamics.cli.main import app, device_first, main

ROOT = Path(__file__).parents[1]
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES = [*FRONT, *sorted((ROOT / "docs").glob("*.md")), *(ROOT / "benchmarks").glob("*.md")]


def blocks(page: Path, language: str) -> list[str]:
    found = re.findall(
        r"^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S
    )  # all of them: a block ends as others begin
    return [block for name, block in found if name == language]


def commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "") for line in block.splitlines()]
    found = [re.sub(r"\s+#.*", "", line) for line in lines]
    found = [re.sub(r"^torchrun .*-m visual_dynamics", "visual-dynamics", line) for line in found]
    return sorted({line for line in found if line.startswith("visual-dynamics ")})


@pytest.mark.parametrize("line", commands())
def test_commands_parse(line: str) -> None:
    group = typer.main.get_command(app)
    words = device_first(shlex.split(line)[1:])
    verb, *arguments = words[2:] if words[0] == "--device" else words
    command = group.commands[verb]  # type: ignore[attr-defined]
    command.make_context(verb, arguments)  # raises on what it does not know


def test_the_readme_names_both_commands() -> None:
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in text and f"\n{target}:" in makefile


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_map_names_files_that_exist() -> None:
    (tree,) = (block for block in blocks(ROOT / "README.md", "") if block.startswith("visual_dynamics/"))
    names = re.findall(r"[\w/]+\.py", tree)
    assert len(names) >= 15
    for name in names:
        assert list((ROOT / "visual_dynamics").rglob(name)), name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_files_exist(page: Path) -> None:
    for name in re.findall(r"`((?:\w+/)+[a-z_]+\.py)", page.read_text()):
        assert (ROOT / name).exists() or (ROOT / "visual_dynamics" / name).exists(), name


def test_the_readme_s_python_works(tmp_path: Path) -> None:
    picture = np.full((64, 64, 3), 220, np.uint8)
    picture[20:35, 10:25] = (200, 30, 20)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    names = {"image": tmp_path / "picture.png", "before": picture, "after": np.roll(picture, 3, axis=1)}
    (code,) = blocks(ROOT / "README.md", "python")
    exec(code, names)
    assert names["frames"].shape == (8, 64, 64, 3) and names["frames"].dtype == np.uint8
    assert names["frame"].shape == (64, 64, 3)
    assert names["video"].shape == (9, 64, 64, 3)
    assert names["motion"].mean.shape == names["motion"].variance.shape


def test_the_page_on_the_command_line_is_current() -> None:
    """After a change of options: python -m tests.golden.make_golden command_line"""
    assert PAGE.read_text() == reference()


# --- the tutorial on own footage ---


def test_every_command_of_the_tutorial_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "footage.md"
    film(tmp_path / "clips" / "gym_left.mp4", 14, seed=1)
    film(tmp_path / "clips" / "gym_right.mp4", 14, seed=2)
    film(tmp_path / "clips" / "park.mp4", 9, seed=3)
    film(tmp_path / "clips" / "beach.mp4", 9, seed=4)
    (table,) = blocks(page, "csv")
    (tmp_path / "clips" / "manifest.csv").write_text(table)
    Image.fromarray(moving_square(1)[0]).save(tmp_path / "photo.jpg")
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("visual-dynamics ")]
    assert [command.split()[1] for command in commands] == [
        *("prepare", "train", "train", "train", "sample", "reproduce")
    ]
    for command in commands:
        quick = "--preset tiny --steps 3 --batch 4 --device cpu"
        quick += " --set also_pairs=24" if "--recipe people" in command else ""
        command = re.sub(r"--minutes \S+", quick, command) + " --small" * ("reproduce" in command)
        with pytest.raises(SystemExit) as exit_:
            main(shlex.split(command)[1:])
        assert not exit_.value.code, command
    assert len(list((tmp_path / "out" / "mine").glob("*.png"))) >= 8
    assert (tmp_path / "runs" / "few" / "people.safetensors").exists()
    assert (tmp_path / "out" / "measured" / "video.png").exists()
