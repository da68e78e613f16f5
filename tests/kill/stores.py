"""Motions and votes that were acknowledged before a process was killed, or the disk was full."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.kill.work import forked
from tests.study.conftest import CHOICE, write_study
from visual_dynamics.studio.motion_library import Library
from visual_dynamics.study.answers import Answer, AnswerStore
from visual_dynamics.study.folder import read_study

ENOUGH = 1_000  # motions, or votes, in one process


def motions(folder: Path, number: int) -> Iterator[str]:
    library = Library(folder / "studio.sqlite")
    while True:
        for saved in library.all()[:-900]:  # there is room for 1,000
            library.remove(saved.id)
        for k in range(ENOUGH):
            yield library.add(f"motion {number}.{k}", "shapes", "0" * 64, "sliders", [number, k, 0.5]).name


def kept_motions(folder: Path) -> set[str]:
    return {saved.name for saved in Library(folder / "studio.sqlite").all() if saved.z[2] == 0.5}


def votes(folder: Path, number: int) -> Iterator[str]:
    store = AnswerStore(folder, read_study(folder))
    while True:
        rater = store.join()
        for trial in range(len(store.study.sessions[rater.session])):
            kept = store.record(rater.id, Answer(trial, "left", trial))
            yield f"{rater.id} {kept.trial} {kept.answer}"


def kept_votes(folder: Path) -> set[str]:
    store = AnswerStore(folder, read_study(folder), create=False)
    found = {f"{rater.id} {one.trial} {one.answer}" for rater in store.raters() for one in store.answers(rater.id)}
    store.close()
    return found


def acknowledged(work: Callable[[], Iterator[str]], log: Path, after: float, limit: Callable[[], object]) -> set[str]:
    """What a process said to have stored before it was killed, or ended by itself."""
    told, tell = os.pipe()

    def until_killed() -> None:
        for count, name in enumerate(work()):
            os.write(tell, f"{name}\n".encode())
            if count == ENOUGH // 2:
                return

    child = forked(until_killed, log, limit)
    os.close(tell)
    found, end = b"", time.monotonic() + after
    os.set_blocking(told, False)
    code = None
    while code is None:  # read on: a full pipe would stop it
        with suppress(BlockingIOError):
            found += os.read(told, 1 << 20)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        ready, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ready else None
        time.sleep(0.001)
    with suppress(BlockingIOError):
        found += os.read(told, 1 << 20)
    os.close(told)
    return set(found.decode().split("\n")[:-1])


def killed_stores(
    name: str, folder: Path, kills: int, draw: random.Random, limits: list[Callable[[], object]] | None = None
) -> dict[str, Any]:
    """Each in a process of its own; a new folder now and then. With `limits`, on a full disk."""
    work, kept = (motions, kept_motions) if name == "motions" else (votes, kept_votes)
    total, problems = 0, Counter[str]()
    for number in range(kills):
        place = folder / f"{name}{number // 10}"
        if not place.exists():
            place.mkdir(parents=True) if name == "motions" else write_study(place, CHOICE)
        limit = limits[number] if limits else lambda: None
        after = draw.uniform(0.05, 1.5)
        found = acknowledged(lambda place=place, k=number: work(place, k), folder / "log", after, limit)  # type: ignore[misc]
        problems["acknowledged, and lost"] += len(found - kept(place))
        total += len(found)
    return {"kills": kills, "acknowledged": total, "problems": +problems}
