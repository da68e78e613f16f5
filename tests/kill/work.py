"""Work in processes that are killed, or find a full disk, and are started again."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.footage.scenes import contents, film
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.loop import RunFolder, train

CONFIG = TrainingConfig(
    preset="tiny", latent=None, pairs=64, batch=16, steps=40, log_every=2, checkpoint_every=4, kl_warmup=10, warmup=4
)
TOLD = 2  # exit status after an error in a sentence


def forked(work: Callable[[], object], log: Path, limit: Callable[[], object] = lambda: None) -> int:
    """A process that does the work; its number. It exits with 0, or with TOLD after a UserError of one line."""
    if child := os.fork():
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        limit()
        work()
        code = 0
    except UserError as error:
        code = TOLD if len(str(error).splitlines()) == 1 else 1
    except BaseException:
        with suppress(OSError):
            log.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def ended(child: int, after: float | None = None) -> int:
    """How a process ended: by itself, or killed after some seconds."""
    end = None if after is None else time.monotonic() + after
    while end is None or time.monotonic() < end:
        found, status = os.waitpid(child, 0 if end is None else os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Work:
    """Something that can be interrupted and started again; `folder` is for all that it makes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.log = folder, folder / "traceback"
        self.problems: Counter[str] = Counter()
        self.begin()
        started = time.monotonic()
        self.whole = folder / "whole"  # what an unbroken run makes
        if code := self.ended(self.whole):
            raise RuntimeError(f"the unbroken run ended with {code}: {self._words()}")
        self.seconds = time.monotonic() - started

    def begin(self) -> None:
        """Make what the work needs."""

    def go_on(self, place: Path) -> None:
        raise NotImplementedError

    def check_between(self, place: Path) -> None:
        """After an interruption."""

    def check_end(self, place: Path) -> None:
        raise NotImplementedError

    def ended(self, place: Path, after: float | None = None, limit: Callable[[], object] = lambda: None) -> int:
        return ended(forked(lambda: self.go_on(place), self.log, limit), after)

    def check(self, holds: bool, words: str) -> None:
        self.problems[words] += not holds

    def run(self, kills: int, draw: random.Random) -> dict[str, Any]:
        """Runs that are killed so often in all."""
        done = runs = 0
        while done < kills:
            place, code = self.folder / f"run{runs}", -signal.SIGKILL
            while code == -signal.SIGKILL:
                code = self.ended(place, draw.uniform(0, 0.6 * self.seconds) if done < kills else None)
                done += code == -signal.SIGKILL
                self.check_between(place)
            self.check(code == 0, f"it ended with {code}: {self._words()}")
            self.check_end(place)
            runs += 1
        return {"kills": done, "runs": runs, "problems": +self.problems}

    def fill_disk(self, limits: list[Callable[[], object]]) -> dict[str, Any]:
        told = 0
        for number, limit in enumerate(limits):
            place = self.folder / f"full{number}"
            code = self.ended(place, limit=limit)
            self.check(code in (0, TOLD), f"with a full disk it ended with {code}: {self._words()}")
            told += code == TOLD
            self.check_between(place)
            code = self.ended(place)
            self.check(code == 0, f"after a full disk it ended with {code}: {self._words()}")
            self.check_end(place)
        return {"places": len(limits), "errors": told, "problems": +self.problems}

    def _words(self) -> str:
        return self.log.read_text()[-2_000:] if self.log.exists() else "an error in a sentence"


class Training(Work):
    step = -1

    def go_on(self, place: Path) -> None:
        begun = (place / "config.json").is_file()
        if not begun and place.is_dir():
            (place / "run.lock").unlink(missing_ok=True)  # killed before it had begun
        train(None if begun else CONFIG, place, torch.device("cpu"))

    def check_between(self, place: Path) -> None:
        if not (place / "weights.safetensors").exists():
            return
        step = RunFolder.weights_step(_At(place))  # type: ignore[arg-type]
        self.check(step is not None, "weights that were there are not readable any more")
        if place.name == getattr(self, "place", ""):
            self.check(step >= self.step, "weights were replaced by those of an earlier step")
        self.place, self.step = place.name, step or 0

    def check_end(self, place: Path) -> None:
        for name in ("state.safetensors", "weights.safetensors"):
            one, other = load_file(place / name), load_file(self.whole / name)
            equal = one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
            self.check(equal, f"{name} differs from that of the unbroken run")
        for key in ("loss", "held_out_error"):
            found, expected = ([line for line in self.log_of(each) if key in line] for each in (place, self.whole))
            self.check(found == expected, f"lines with {key} are missing, or others")
        pictures = [sorted(path.name for path in (each / "pictures").iterdir()) for each in (place, self.whole)]
        self.check(pictures[0] == pictures[1], "validation pictures are missing")
        left = [path.name for path in place.rglob("*.part")]
        self.check(not left, f"unfinished files are left: {left}")

    def log_of(self, place: Path) -> list[dict[str, Any]]:
        timed = ("seconds", "pairs_per_second")
        lines = (json.loads(line) for line in (place / "log.jsonl").read_text().splitlines())
        return [{name: value for name, value in line.items() if name not in timed} for line in lines]


class _At:
    """As much of a run's folder as `weights_step` looks at: it is not locked."""

    def __init__(self, path: Path) -> None:
        self.path = path


class Prepare(Work):
    def begin(self) -> None:
        if code := ended(forked(self.draw_clips, self.log)):  # encoders leave threads behind
            raise RuntimeError(f"drawing clips ended with {code}")

    def draw_clips(self) -> None:
        for number in range(3):
            film(self.folder / "clips" / f"{number}.mp4", 10, number)

    def go_on(self, place: Path) -> None:
        prepare_videos(self.folder / "clips", place, Settings(size=32))

    def check_end(self, place: Path) -> None:
        self.check(contents(place) == contents(self.whole), "the folder differs from that of an unbroken run")
