"""Running the command line in a folder of its own, in this process or another."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from visual_dynamics.cli.main import main
from visual_dynamics.cli.options import Machine
from visual_dynamics.cli.results import Output

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "visual_dynamics"]
TINY_OPTIONS = "--preset tiny --pairs 32 --batch 8 --device cpu"
TINY_RUN = [*TINY_OPTIONS.split(), "--set", "log_every=2", "--set", "checkpoint_every=2", "--set", "kl_warmup=4"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Answer]
Fails = Callable[..., str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test starts in a folder of its own that holds a picture and the frame after it."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr(Machine, "device", None)  # restored after the test: --device is kept by the process
    monkeypatch.setattr(Output, "as_json", False)  # as is --json
    monkeypatch.chdir(folder)
    frame = np.full((20, 30, 3), 40, np.uint8)
    frame[5:13, 6:14] = (220, 60, 90)
    Image.fromarray(frame).save("picture.png")
    Image.fromarray(np.roll(frame, 2, axis=1)).save("after.png")
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        code = exit_.value.code
        return Answer(code if isinstance(code, int) else 0 if code is None else 1, *capsys.readouterr())

    return run


@pytest.fixture
def tiny(tiny_weights_file: Path) -> list[str]:
    return ["--model", str(tiny_weights_file)]


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All that lies in a folder, with sizes and times."""
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def one_line(answer: Answer) -> str:
    assert answer.code == 2, answer
    assert re.fullmatch(r"error: [^\n]+\n", answer.err), answer.err
    assert "Traceback" not in answer.err and answer.out == ""
    return answer.err


@pytest.fixture
def fails(run: Run, place: Path) -> Fails:
    def fails(*arguments: object) -> str:
        before = listing(place)
        line = one_line(run(*arguments))
        assert listing(place) == before
        return line

    return fails


def subprogram(*arguments: object, limit: int | None = None, **options: object) -> Answer:
    """A process of its own; with `limit`, any file larger than `limit` bytes fails as on a full disk."""
    command = [*PROGRAM, *(str(argument) for argument in arguments)]
    if limit is not None:
        code = (
            "import resource, signal, sys\nfrom visual_dynamics.cli.main import main\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\nmain(sys.argv[1:])"
        )
        command = [sys.executable, "-c", code, *command[3:]]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def picture(path: str) -> np.ndarray:
    return np.array(Image.open(path))
