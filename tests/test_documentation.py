"""The documentation is run: commands parse, Python blocks work, links lead somewhere."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

from tests.footage.scenes import film, moving_square
from tests.golden.cli_reference import PAGE, reference
from tests.golden.freeze import recorded
from visual_dynamics.cli.main import app, divided, main
from visual_dynamics.cli.reproduce import parse_settings as experiment_settings
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.training.config import configure
from visual_dynamics.training.config import parse_settings as training_settings
from visual_dynamics.training.recipes import find_recipe

ROOT = Path(__file__).parents[1]
CARDS = sorted((ROOT / "visual_dynamics" / "models").glob("*.md"))
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES = [*FRONT, *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / "benchmarks").glob("*.md"), *CARDS]
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each: all of them, because a block ends as others begin."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S)


def blocks(page: Path, language: str) -> list[str]:
    return [block for name, block in all_blocks(page) if name == language]


def lines() -> list[str]:
    """What the blocks of all pages say to a shell: continued lines joined, without comments."""
    shell = [block for page in PAGES for language, block in all_blocks(page) if language != "python"]
    whole = [line.removeprefix("$ ") for block in shell for line in block.replace("\\\n", " ").splitlines()]
    return sorted({re.sub(r"\s+#.*", "", line) for line in whole})


def commands() -> list[str]:
    found = [re.sub(r"^(srun )?torchrun .*-m visual_dynamics", "visual-dynamics", line) for line in lines()]
    return [line for line in found if line.startswith("visual-dynamics ")]


def inline_commands() -> list[str]:
    found = {
        " ".join(words.split())
        for page in PAGES
        for words in re.findall(r"`(visual-dynamics\s[^`]+)`", page.read_text())
    }
    return sorted(re.sub(r"[\[\]]", "", words) for words in found - {"visual-dynamics VERB --help"})


def command_of(line: str) -> tuple[str, Any, list[str]]:
    """The verb of a line, its command, and what follows it."""
    _, words = divided(shlex.split(line)[1:])
    path, command = [], typer.main.get_command(app)
    while hasattr(command, "commands"):
        path.append(words.pop(0))
        command = command.commands[path[-1]]
    return " ".join(path), command, words


@pytest.mark.parametrize("line", commands())
def test_commands_parse(line: str) -> None:
    verb, command, words = command_of(line)
    given = command.make_context(verb, words).params  # raises on what it does not know
    if verb == "train":
        base = find_recipe(given["recipe"]).stages[0] if given["recipe"] else None
        chosen = {"augment": tuple(given["augment"])} if given["augment"] else {}
        configure(chosen | training_settings(given["settings"] or []), base)
    if verb == "reproduce":
        assert given["name"] in ("all", *EXPERIMENTS)
        experiment_settings(given["settings"] or [])


@pytest.mark.parametrize("line", inline_commands())
def test_commands_in_sentences_have_known_verbs_and_options(line: str) -> None:
    verb, command, words = command_of(line)
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known
    if verb == "reproduce" and words[0] != "NAME":
        assert words[0] in ("all", *EXPERIMENTS)


def test_other_lines_for_a_shell_name_what_exists() -> None:
    """make, pip and python; commands of the program itself are parsed, see above."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text(), re.M)
    assert sorted(table) == sorted(extras)
    checked = 0
    for line in lines():
        first, *words = shlex.split(line) if line.startswith(("make ", "pip ", "python ")) else [""]
        if first == "make":
            assert words[0] in targets, line
        elif first == "pip":
            wanted = re.search(r"\[(.+)\]", line)
            assert words[0] == "install" and (not wanted or set(wanted[1].split(",")) <= extras), line
        elif first == "python" and words[0].endswith(".py"):
            assert (ROOT / words[0]).exists(), line
        checked += bool(first)
    assert checked >= 5


def test_requests_in_the_page_on_the_studio_fit_its_api() -> None:
    paths = recorded("openapi")["paths"]
    requests = [line for line in lines() if line.startswith("curl ")]
    assert len(requests) >= 7
    for line in requests:
        words = shlex.split(line)
        (url,) = (word for word in words if word.startswith("$studio/"))
        route, _, query = url.removeprefix("$studio").partition("?")
        body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
        template = next(path for path in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), route))
        described = paths[template]["post" if body or "--data-binary" in words else "get"]
        known = {parameter["name"] for parameter in described.get("parameters", ()) if parameter["in"] == "query"}
        assert {part.partition("=")[0] for part in query.split("&") if part} <= known, line
        if body:
            schema = described["requestBody"]["content"]["application/json"]["schema"]
            schema = recorded("openapi")["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert set(schema.get("required", ())) <= set(body) <= set(schema["properties"]), line


def test_the_table_of_routes_is_whole() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    rows = re.findall(r"^\| (`(?:GET|POST|DELETE).+?) \|", page, re.M)
    named = {path.partition("?")[0] for row in rows for path in re.findall(r"/api/[\w/{}-]+", row)}
    assert {re.sub(r"\{\w+\}", "{}", path) for path in recorded("openapi")["paths"]} == {
        re.sub(r"\{\w+\}", "{}", path) for path in named
    }


def test_the_readme_names_both_commands() -> None:
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in text and f"\n{target}:" in makefile


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {
        slug if slugs.index(slug) == place else f"{slug}-{slugs[:place].count(slug)}"
        for place, slug in enumerate(slugs)
    }


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", CODE.sub("", page.read_text())):
        if "://" not in target:
            found = page.parent / target if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


def test_the_map_names_files_that_exist() -> None:
    (tree,) = (block for block in blocks(ROOT / "README.md", "") if block.startswith("visual_dynamics/"))
    names = re.findall(r"[\w/]+\.py", tree)
    assert len(names) >= 15
    for name in names:
        assert list((ROOT / "visual_dynamics").rglob(name)), name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_named_files_exist(page: Path) -> None:
    for name in re.findall(r"`((?:\w+/)+[a-z_]+\.py)", page.read_text()):
        assert (ROOT / name).exists() or (ROOT / "visual_dynamics" / name).exists(), name


PYTHON = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.parametrize("page", PYTHON, ids=named)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as a reader would; `image`, `before` and `after` are the reader's."""
    monkeypatch.chdir(tmp_path)
    picture = np.full((64, 64, 3), 220, np.uint8)
    picture[20:35, 10:25] = (200, 30, 20)
    Image.fromarray(picture).save("picture.png")
    names: dict[str, Any] = {"image": "picture.png", "before": picture, "after": np.roll(picture, 3, axis=1)}
    for code in blocks(page, "python"):
        exec(code, names)
    if page.name == "README.md":
        assert names["frames"].shape == (8, 64, 64, 3) and names["frames"].dtype == np.uint8
        assert names["frame"].shape == (64, 64, 3)
        assert names["video"].shape == (9, 64, 64, 3)
        assert names["motion"].mean.shape == names["motion"].variance.shape


def test_the_page_on_the_command_line_is_current() -> None:
    """After a change of options: python -m tests.golden.make_golden command_line"""
    assert PAGE.read_text() == reference()


# --- pages whose commands are run ---


def test_the_first_futures_are_those_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for line in "".join(blocks(ROOT / "docs" / "first-futures.md", "")).splitlines() if line]
    assert [command.split()[1] for command in commands] == ["demo", "sample", "analogy", "extrapolate", "traverse"]
    for command in commands:
        with pytest.raises(SystemExit) as exit_:
            main(shlex.split(command)[1:])
        assert not exit_.value.code, command
    for made, shown in (("futures/futures", "futures"), ("analogy/analogy", "analogy"), ("clip/clip", "clip")):
        with (
            Image.open(tmp_path / "out" / f"{made}.png") as ours,
            Image.open(ROOT / "docs" / "images" / f"first-{shown}.png") as theirs,
        ):
            assert ours.size == theirs.size
            assert np.abs(np.asarray(ours.convert("RGB"), int) - np.asarray(theirs.convert("RGB"))).mean() < 1


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
