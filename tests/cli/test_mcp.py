"""The verb mcp: a client lists and calls every tool, and gets at one folder alone."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cli.conftest import ROOT, Fails, Run, listing
from tests.cli.test_json import sheets
from tests.cli.test_mistakes import crafted_png
from tests.sprites.test_complete_command import swapped, write_folder
from visual_dynamics.cli import pictures
from visual_dynamics.cli.allowed_folder import MAX_BYTES, MAX_FILES, AllowedFolder
from visual_dynamics.cli.results import Output, Result
from visual_dynamics.errors import UserError

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp", reason="MCP is not installed: pip install 'visual-dynamics[mcp]'")

TOOLS = {"sample", "apply", "animate", "complete", "check", "models"}


def talk(server: Any, script: Callable[[Any], Awaitable[None]]) -> None:
    async def session() -> None:
        async with mcp.Client(server) as client:
            await script(client)

    anyio.run(session)


def over_stdio(folder: Path) -> Any:
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    arguments = ["-m", "visual_dynamics", "mcp", "--folder", str(folder)]
    return mcp.StdioServerParameters(command=sys.executable, args=arguments, env=environment)


def in_this_process(folder: Path) -> Any:
    from visual_dynamics.cli.mcp_tools import make_server

    return make_server(AllowedFolder(folder))


def test_a_client_lists_and_calls_every_tool(place: Path, tiny_weights_file: Path) -> None:
    shutil.copy(tiny_weights_file, place / "tiny.safetensors")
    sheets(place)
    write_folder(place / "people" / "hero", swapped("walk", "combat_idle"))
    tiny = {"model": "tiny.safetensors"}
    calls = {
        "sample": {"image": "picture.png", "count": 2, **tiny},
        "apply": {"before": "picture.png", "after": str(place / "after.png"), "image": "picture.png", **tiny},
        "animate": {"reference": "sheet.png", "target": "target.png", "cell": "16x16", "pose": 0, "out": "moving"},
        "complete": {"character": "people/hero", "animations": "climb"},
        "check": {"sheet": "sheet.png", "cell": "16x16"},
    }
    before = listing(place)

    async def script(client: Any) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed.keys() == TOOLS
        assert all(tool.description and tool.annotations.destructive_hint is False for tool in listed.values())
        heard: list[tuple[float, str]] = []

        async def hear(done: float, total: float | None, words: str | None) -> None:
            heard.append((done, words or ""))

        for tool, given in calls.items():
            answer = await client.call_tool(tool, given, progress_callback=hear)
            assert not answer.is_error, answer.content[0].text
            values = json.loads(answer.content[0].text)
            assert values["folder"] == given.get("out", f"{tool}-1") and values["see"] in values["files"]
            assert sorted(values["files"]) == sorted(
                path.relative_to(place / values["folder"]).as_posix()
                for path in (place / values["folder"]).rglob("*")
                if path.is_file()
            )
            assert "visual-dynamics-" not in answer.content[0].text  # the private folder
            shown = Image.open(io.BytesIO(base64.b64decode(answer.content[1].data)))
            assert shown.format == "PNG" and max(shown.size) <= 512
            assert heard == sorted(heard) and (heard or tool not in ("sample", "check")), tool
            heard.clear()
        again = await client.call_tool("sample", calls["sample"])
        assert json.loads(again.content[0].text)["folder"] == "sample-2"
        known = json.loads((await client.call_tool("models")).content[0].text)["models"]
        assert "shapes" in [model["name"] for model in known]

    talk(over_stdio(place), script)
    after = listing(place)
    made = {"sample-1", "sample-2", "apply-1", "moving", "complete-1", "check-1"}
    assert {name for name in after if Path(name).parts[:1] and Path(name).parts[0] not in made} == set(before) - {"."}
    assert Image.open(place / "moving" / "comparison.png").size


def test_what_is_refused_is_one_sentence_and_writes_nothing(place: Path, tmp_path: Path, tiny: list[str]) -> None:
    secret = tmp_path / "secret.png"
    shutil.copy(place / "picture.png", secret)
    (place / "link.png").symlink_to(secret)
    (place / "door").symlink_to(tmp_path)
    (place / "gone").symlink_to(tmp_path / "nothing")
    (place / "taken").mkdir()
    (place / "loop").symlink_to(place / "loop")
    os.mkfifo(place / "pipe.png")
    (place / "huge.png").touch()
    os.truncate(place / "huge.png", MAX_BYTES + 1)
    (place / "wide.png").write_bytes(crafted_png(5_000, 5_000))
    picture = "picture.png"
    refused = [
        ({"image": str(secret)}, "outside the allowed folder"),
        ({"image": "/dev/zero"}, "outside the allowed folder"),
        ({"image": "../secret.png"}, "no path in the allowed folder"),
        ({"image": "taken/../../secret.png"}, "no path in the allowed folder"),
        ({"image": f"{place}/../secret.png"}, "no path in the allowed folder"),
        ({"image": "a\0b"}, "zero byte"),
        ({"image": "link.png"}, "link out of the allowed folder"),
        ({"image": "door/secret.png"}, "link out of the allowed folder"),
        ({"image": "loop"}, "loop of links|Too many levels"),
        ({"image": "pipe.png"}, "not a regular file"),
        ({"image": "huge.png"}, "too large: at most 100 MB"),
        ({"image": "wide.png"}, "5000 x 5000 pixels is too large .*16 million"),
        ({"image": "nowhere.png"}, "no such file"),
        ({"image": "x" * 5_000}, "File name too long"),
        ({"image": picture, "model": str(tiny[1])}, "outside the allowed folder"),
        ({"image": picture, "model": "someone/model"}, "no such file"),  # nothing is fetched
        ({"image": picture, "count": 65}, "count: Input should be less than or equal to 64"),
        ({"image": picture, "seed": -1}, "seed: Input should be"),
        ({"image": 3}, "image: Input should be a valid string"),
        ({}, "image: Field required"),
        *(
            ({"image": picture, "out": out}, "plain name")
            for out in ("../new", "/tmp/new", "a/b", ".hidden", "..", "x\n")
        ),
        *(({"image": picture, "out": out}, "is there already") for out in ("taken", "door", "gone", picture)),
    ]
    before = listing(tmp_path)

    async def script(client: Any) -> None:
        for given, words in refused:
            answer = await client.call_tool("sample", given)
            assert answer.is_error, given
            text = answer.content[0].text
            assert re.search(words, text), (given, text)
            assert "\n" not in text and len(text) < 400 and not text.startswith("Error executing")

    talk(in_this_process(place), script)
    assert listing(tmp_path) == before


def test_a_link_that_is_put_in_the_place_of_the_result(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    def swap(*given: object, out: Path, **options: object) -> Result:
        out.mkdir()
        shutil.copy("picture.png", out / "futures.png")
        (place / "new").symlink_to(outside)
        return Result("", {"folder": out, "see": "futures.png"})

    monkeypatch.setattr(pictures, "sample", swap)

    async def script(client: Any) -> None:
        answer = await client.call_tool("sample", {"image": "picture.png", "out": "new"})
        assert answer.is_error and "new is there already" in answer.content[0].text

    talk(in_this_process(place), script)
    assert list(outside.iterdir()) == [] and Output.heard is None


def test_a_folder_that_is_exchanged_while_results_are_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment: between making the folder and writing into it."""
    (tmp_path / "made").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "made" / "file").write_text("result")
    make = Path.mkdir

    def swap(path: Path, *given: Any, **options: Any) -> None:
        make(path, *given, **options)
        path.rename(place / "moved")
        path.symlink_to(tmp_path / "outside")

    monkeypatch.setattr(Path, "mkdir", swap)
    with pytest.raises(UserError, match="cannot write new"):
        AllowedFolder(place).put(tmp_path / "made", "new")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_file_that_is_exchanged_for_a_link_while_it_is_read(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    (place / "deep").mkdir()
    (place / "deep" / "file.txt").write_text("mine")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file.txt").write_text("secret")
    open_file = os.open

    def swap(path: Any, *given: Any, **options: Any) -> int:
        if Path(path).name == "file.txt":
            (place / "deep").rename(place / "aside")
            (place / "deep").symlink_to(tmp_path / "deep")
        return open_file(path, *given, **options)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(UserError, match="changes while it is read"):
        AllowedFolder(place).take("deep/file.txt", tmp_path / "private")
    assert not list((tmp_path / "private").rglob("*.txt"))


def test_folders_of_files(place: Path, tmp_path: Path) -> None:
    allowed = AllowedFolder(place)
    (place / "hero" / "standard").mkdir(parents=True)
    (place / "hero" / "walk.png").write_text("a")
    (place / "hero" / "standard" / "run.png").write_text("b")
    (place / "hero" / ".hidden").write_text("c")
    (place / "hero" / "same.png").symlink_to(place / "hero" / "walk.png")
    copy = allowed.take("hero", tmp_path / "one")
    files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert files == {"walk.png", "standard/run.png", "same.png"} and not (copy / "same.png").is_symlink()
    (tmp_path / "secret").write_text("secret")
    (place / "hero" / "out.png").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="link out of the allowed folder"):
        allowed.take("hero", tmp_path / "two")
    (place / "hero" / "out.png").unlink()
    for name in ("one", "two"):
        (place / "hero" / name).touch()
        os.truncate(place / "hero" / name, MAX_BYTES // 2)
    with pytest.raises(UserError, match="hero is too large"):
        allowed.take("hero", tmp_path / "three")
    (place / "many").mkdir()
    for number in range(MAX_FILES + 1):
        (place / "many" / str(number)).touch()
    with pytest.raises(UserError, match="many holds too much"):
        allowed.take("many", tmp_path / "four")


def test_files_beside_a_file(place: Path, tmp_path: Path) -> None:
    allowed = AllowedFolder(place)
    (place / "CREDITS.txt").write_text("me")
    frame = {"frame": {"x": 0, "y": 0, "w": 8, "h": 8}, "duration": 100}
    (place / "hero.json").write_text(json.dumps({"frames": [frame], "meta": {"image": "picture.png"}}))
    copy = allowed.take("hero.json", tmp_path / "one")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["CREDITS.txt", "hero.json", "picture.png"]
    (place / "picture.png").unlink()
    (place / "picture.png").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(UserError, match="link out of the allowed folder"):
        allowed.take("hero.json", tmp_path / "two")


def test_mistakes_on_the_command_line(fails: Fails, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nowhere is no folder" in fails("mcp", "--folder", "nowhere")
    assert "picture.png is no folder" in fails("mcp", "--folder", "picture.png")
    assert "leave --json out" in run("mcp", "--folder", ".", "--json").out
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'visual-dynamics[mcp]'" in fails("mcp", "--folder", ".")
