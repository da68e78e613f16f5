"""Small studies: noise in place of pictures, or drawn by a tiny model; and a server in a process of its own."""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from visual_dynamics.media import encode_png
from visual_dynamics.study.answers import AnswerStore
from visual_dynamics.study.design import Design, plan_sessions
from visual_dynamics.study.folder import FILE, Study, name_clips, picture_path, read_study

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
CHOICE = Design("choice", ("ours", "flow"), (8, 16), inputs=8, trials=8, sessions=4, obvious=2)
REALISTIC = Design("realistic", ("ours", "real"), (16,), inputs=4, trials=4, samples=3, sessions=6, obvious=2)

KEYS = ["ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowLeft", "ArrowRight"] * 2
ANSWERS = ["left" if key == "ArrowLeft" else "right" for key in KEYS]
READY = ".answer[aria-disabled=false]:visible"


def write_study(folder: Path, design: Design, frames: int = 2, frame_time: int | None = 60) -> Study:
    """A study whose clips are noise, played fast."""
    source = {"design": {"methods": design.methods}}
    study = name_clips(design, plan_sessions(design), source, frames, frame_time=frame_time)
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for name, clip in study.clips.items():
        strip = draw.integers(0, 256, (clip.size, frames * clip.size, 3), dtype=np.uint8)
        picture_path(folder, name).write_bytes(encode_png(strip))
    (folder / FILE).write_bytes(study.to_json())
    return study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_study(tmp_path / "study", CHOICE)
    return tmp_path / "study"


class Server:
    """`study serve` as people run it."""

    def __init__(self, folder: Path, port: int = 0, log: Path | None = None) -> None:
        command = [sys.executable, "-m", "visual_dynamics", "study", "serve", str(folder), "--port", str(port)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        stderr = None if log is None else log.open("w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
        assert self.process.stdout
        printed = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", printed)
        assert found, printed
        self.url, self.port = found[0], int(found[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(folder: Path, port: int = 0, log: Path | None = None) -> Server:
        started.append(Server(folder, port, log))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def answer(page: "Page", keys: list[str]) -> None:
    for key in keys:
        page.wait_for_selector(READY)
        before = page.text_content("#count")
        page.keyboard.press(key)
        page.wait_for_function(
            "before => !document.getElementById('end').hidden"
            " || document.getElementById('count').textContent !== before",
            arg=before,
        )


def fill_disk(store: AnswerStore) -> None:
    """From now on SQLite finds no room for another page, as on a full disk."""
    (pages,) = store._rows("PRAGMA page_count")[0]
    store._rows(f"PRAGMA max_page_count = {pages}")
    with contextlib.suppress(sqlite3.OperationalError):
        while True:  # what fits into the last page
            store.join()


def free_disk(store: AnswerStore) -> None:
    store._rows("PRAGMA max_page_count = 1000000")


def stored(folder: Path) -> list[tuple[int, str]]:
    rows = AnswerStore(folder, read_study(folder), create=False).rows()
    assert len({row.rater for row in rows}) == 1
    return [(row.trial, row.answer) for row in rows]
