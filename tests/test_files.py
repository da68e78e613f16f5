"""A write either happens or leaves everything as it was."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_atomically, write_together


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.bin"
    write_atomically(path, b"first")
    assert path.read_bytes() == b"first"
    write_atomically(path, b"second, longer")
    assert path.read_bytes() == b"second, longer"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]
    assert path.stat().st_mode & 0o777 == 0o644


def _full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _FullFile:
    """Stands for an open file on a full disk."""

    def __init__(self, handle: int, _mode: str) -> None:
        self.handle = handle

    def __enter__(self) -> "_FullFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    write: Callable[..., None] = _full_disk


@pytest.mark.parametrize("step", ["fsync", "fdopen", "replace"])
def test_a_full_disk_leaves_the_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "weights.bin"
    write_atomically(path, b"previous")
    if step == "replace":
        monkeypatch.setattr(Path, "replace", _full_disk)
    else:
        monkeypatch.setattr(os, step, _FullFile if step == "fdopen" else _full_disk)
    with pytest.raises(
        UserError, match=r"cannot write .*weights\.bin: No space left on device; nothing was changed"
    ) as error:
        write_atomically(path, b"next")
    monkeypatch.undo()
    assert "\n" not in str(error.value)
    assert path.read_bytes() == b"previous"
    assert [entry.name for entry in tmp_path.iterdir()] == ["weights.bin"]


def test_an_interrupted_write_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file.bin", b"data")
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, signal, sys
from pathlib import Path
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))
try:
    write_atomically(Path(sys.argv[1]), bytes(1_000_000))
except UserError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="file size limits are a Unix matter")
def test_a_write_that_really_fails_half_way(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    write_atomically(path, b"previous")
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith(f"cannot write {path}: ")
    assert len(done.stdout.splitlines()) == 1
    assert path.read_bytes() == b"previous"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.bin"]


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "plain").write_bytes(b"file")
    for path in (tmp_path / "folder", tmp_path / "plain" / "below.bin", tmp_path / ("long" * 100)):
        with pytest.raises(UserError, match="cannot write"):
            write_atomically(path, b"data")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "plain"]


def test_folders_made_for_files_that_are_not_written_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", _full_disk)
    (tmp_path / "old").mkdir()
    for name in ("file.bin", "in/two/file.bin"):
        for folder in (tmp_path / "old", tmp_path / "new" / "below"):
            with pytest.raises(UserError, match="nothing was changed"):
                write_together(folder, {name: b"data"})
            assert list(tmp_path.rglob("*")) == [tmp_path / "old"]


@pytest.mark.parametrize("denied", [os.W_OK, os.X_OK], ids=["no writing", "no entering"])
def test_a_folder_that_cannot_be_written_is_no_place_for_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: int
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    # In place of permissions, which do not bind root.
    monkeypatch.setattr(os, "access", lambda path, mode: path != locked or not mode & denied)
    for path in (locked, locked / "new" / "below"):
        with pytest.raises(UserError, match=r"cannot write into .*locked: permission denied"):
            check_folder(path)
    check_folder(tmp_path / "new" / "below")
