"""The verb `studio`: its messages, and a studio that it starts."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from tests.studio.malformed import good
from visual_dynamics.cli.main import main
from visual_dynamics.connections import link, listen
from visual_dynamics.studio.motion_library import Library


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["studio", *arguments])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and printed.count("\n") == 1
    return printed


def test_without_the_extra_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'visual-dynamics[studio]'" in mistake(capsys)


def test_mistakes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "studio.sqlite").write_bytes(b"no database, but long enough to be read as one" * 100)
    assert "token" in mistake(capsys, "--token", "short")
    assert "cannot keep motions" in mistake(capsys, "--store", str(tmp_path / "file"))
    assert "cannot keep motions" in mistake(capsys, "--store", str(tmp_path))
    assert "no model" in mistake(capsys, "--store", str(tmp_path / "new"), "--model", "nothing")
    assert "no address of a proxy" in mistake(capsys, "--proxy", "proxy.example")
    assert "cannot serve" in mistake(capsys, "--store", str(tmp_path / "new"), "--host", "203.0.113.7")


def test_the_link_can_be_opened() -> None:
    with listen("0.0.0.0", 0) as everywhere:
        shown = link(everywhere, "secret")
    assert shown.endswith("/?token=secret") and "//0.0.0.0" not in shown


def test_the_library_survives_a_restart(tmp_path: Path) -> None:
    kept = Library(tmp_path / "studio.sqlite").add("jump", "shapes", "0" * 64, "future", [0.5, -1.25])
    assert Library(tmp_path / "studio.sqlite").all() == [kept]


def test_it_serves_its_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "visual_dynamics", "studio", "--port", "0", "--store", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            address = process.stdout.readline().split()[4]
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert b"Visual Dynamics" in answer.read()
            upload = urllib.request.Request(f"{address}api/images", good(np.random.default_rng(0)))
            with urllib.request.urlopen(upload, timeout=60) as answer:  # decoded by a process that it starts
                assert answer.status == 201
        finally:
            process.terminate()
    assert (tmp_path / "studio.sqlite").exists()
