"""The documentation is run: commands parse, Python blocks work, links lead somewhere."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from visual_dynamics.cli.main import app, device_first
from visual_dynamics.cli.reference import PAGE, reference

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
    """After a change of options: python -m visual_dynamics.cli.reference"""
    assert PAGE.read_text() == reference()
