"""Windows and macOS lack some of what Linux has: the main path does without it, and names every encoding."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import TINY_RUN
from tests.footage.scenes import film
from tests.pictures import RGB, saved
from visual_dynamics.weights import load_weights

ROOT = Path(__file__).parents[1]
WITHOUT = """
import mmap, os, signal, sys, warnings

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None  # importing it fails
for name in (
    *("fork", "forkpty", "link", "sysconf", "sysconf_names", "getuid", "geteuid", "getgid", "getegid", "getpgid"),
    *("setsid", "killpg", "getloadavg", "sched_getaffinity", "sched_setaffinity", "statvfs", "mkfifo", "nice"),
    *("chown", "wait3", "wait4", "posix_fallocate", "posix_fadvise", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"),
):
    delattr(os, name)
os.supports_dir_fd = set()
# torch for Linux imports MAP_PRIVATE and MAP_SHARED.
kept = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN"}
for module, prefix, keep in ((signal, "SIG", kept), (mmap, "MAP_", {"MAP_PRIVATE", "MAP_SHARED"}), (mmap, "PROT_", ())):
    for name in [each for each in dir(module) if each.startswith(prefix) and each not in keep]:
        delattr(module, name)


def no_proc(event, given):
    if event == "open" and str(given[0]).startswith("/proc/"):
        raise FileNotFoundError(2, "there is no /proc", given[0])


sys.addaudithook(no_proc)
warnings.filterwarnings("error", category=EncodingWarning, module=r"visual_dynamics\\b")
if stop := int(os.environ.get("STOP", 0)):
    from visual_dynamics.cli import train

    show, heard = train.TrainingBar.show, []

    def interrupt(bar, moment):
        show(bar, moment)
        if moment.step == stop and not heard:
            heard.append(stop)
            signal.raise_signal(signal.SIGINT)

    train.TrainingBar.show = interrupt
from visual_dynamics.cli.main import main

main()
"""


def without(folder: Path, *arguments: object, stop: int = 0, code: int = 0) -> str:
    """What a process without POSIX's own functions says on stderr."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "STOP": str(stop)}
    command = [sys.executable, "-X", "warn_default_encoding", "-c", WITHOUT, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_sampling_does_without_posix(tmp_path: Path, tiny_weights_file: Path) -> None:
    (tmp_path / "picture.png").write_bytes(saved(RGB, "PNG"))
    without(tmp_path, "sample", "picture.png", "--model", tiny_weights_file, "-n", 2, "--clip", "mp4", "--clip", "gif")
    assert (tmp_path / "out" / "sample" / "futures.mp4").exists()


def test_training_stops_and_goes_on_without_posix(tmp_path: Path) -> None:
    said = without(tmp_path, "train", "run", *TINY_RUN, "--steps", 6, stop=3, code=130)
    assert "go on with: visual-dynamics train run --resume" in said
    assert load_weights(tmp_path / "run" / "weights.safetensors").training["step"] == 3
    without(tmp_path, "train", "run", "--resume", "--device", "cpu")
    assert load_weights(tmp_path / "run" / "weights.safetensors").training["step"] == 6


def test_videos_are_prepared_without_posix(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    for seed in (1, 2):
        film(tmp_path / "clips" / f"{seed}.mp4", seed=seed)
    options = ("--size", 32, "--crop", "centre", "--workers", 1, "--held-out", 0.4)
    without(tmp_path, "prepare", "videos", "clips", "--out", "data", *options)
    without(tmp_path, "train", "run", *TINY_RUN, "--steps", 2, "--data", "data", "--set", "stream=true")
    assert (tmp_path / "run" / "weights.safetensors").exists()


def test_every_text_file_names_its_encoding() -> None:
    """The usual one of Windows is another in every country."""
    unnamed = r"""\.(read_text|write_text)\((?!.*utf-8)|\.open\("[awr]t?"\)|\.open\(\) as"""
    for path in (ROOT / "visual_dynamics").rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            assert not re.search(unnamed, line), f"{path}: {line}"
