"""One folder that another program may read and write through us, and nothing else: no `..`, no link out of it.

What is read is copied into a private folder first, within limits, so that nobody can exchange it meanwhile.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from visual_dynamics.data.aseprite import read_layout
from visual_dynamics.errors import UserError
from visual_dynamics.images import open_image

MAX_BYTES = 100_000_000  # of a file, and of all files of a folder together
MAX_PIXELS = 16_000_000  # of a picture
MAX_FILES = 500  # of a folder, with those of the folders in it
CREDITS = ("CREDITS.txt", "CREDITS.csv", "credits.txt", "credits.csv")  # go with a character that lies beside them
NEW_NAME = re.compile(r"\w[\w .-]{0,78}\w|\w")
NO_PICTURES = {".json", ".aseprite", ".ase", ".zip", ".safetensors", ".txt", ".csv"}  # verbs open others as pictures
NO_LINK, NO_WAIT, BINARY = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class AllowedFolder:
    """Paths in it are given from it, or absolute."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(f"{root} is no folder: give --folder one that exists")
        self.root = root.resolve()

    def take(self, name: str, into: Path) -> Path:
        """A copy of a file, or of a folder, in a private folder, under the same name."""
        path = self._inside(name)
        copy = into / path.relative_to(self.root)
        if path.is_dir():
            self._copy_folder(path, copy, name)
            return copy
        self._take_file(path, copy, name)
        others = [read_layout(copy).image] if path.suffix.lower() == ".json" else []
        for other in (*others, *(credit for credit in CREDITS if path.with_name(credit).exists())):
            self._take_file(self._inside(str(path.with_name(other))), copy.with_name(other), other)
        return copy

    def check_new(self, name: str) -> None:
        """An error if results cannot go into a new folder of that name."""
        if not NEW_NAME.fullmatch(name):
            raise UserError(f"a result goes into a new folder with a plain name, such as futures-1; not {name[:80]!a}")
        if os.path.lexists(self.root / name):
            raise UserError(f"{name} is there already, and results replace nothing: give another name")

    def free_name(self, stem: str) -> str:
        """ "sample-1", or the next number that is free."""
        return next(name for k in range(1, 1_000_000) if not os.path.lexists(self.root / (name := f"{stem}-{k}")))

    def put(self, made: Path, name: str) -> list[str]:
        """Copy a private folder into a new one of that name. Returns the names of the files."""
        self.check_new(name)
        target = self.root / name
        names = [path.relative_to(made).as_posix() for path in sorted(made.rglob("*")) if path.is_file()]
        try:
            target.mkdir()  # an error if somebody has made a file, folder or link of that name meanwhile
            with _held(target) as held:
                place = target if held is None else Path()
                for folder in dict.fromkeys(p for each in names for p in reversed(Path(each).parents[:-1])):
                    os.mkdir(place / folder, dir_fd=held)
                for each in names:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | BINARY
                    with os.fdopen(os.open(place / each, flags, 0o644, dir_fd=held), "wb") as file:
                        file.write((made / each).read_bytes())
        except OSError as error:
            raise UserError(f"cannot write {name}: {error.strerror or error}") from error
        return names

    def _inside(self, name: str) -> Path:
        """The file or folder that a name stands for, without links in its path."""
        shown = ascii(name[:200])
        if ".." in Path(name).parts or "\0" in name:
            raise UserError(f"{shown} is no path in the allowed folder: it has .. or a zero byte in it")
        if not Path(os.path.normpath(self.root / name)).is_relative_to(self.root):
            raise UserError(f"{shown} is outside the allowed folder")
        try:
            path = (self.root / name).resolve(strict=True)
        except FileNotFoundError as error:
            raise UserError(f"cannot read {shown}: there is no such file in the allowed folder") from error
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            raise UserError(f"cannot read {shown}: {getattr(error, 'strerror', None) or 'a loop of links'}") from error
        if not path.is_relative_to(self.root):
            raise UserError(f"{shown} is a link out of the allowed folder")
        return path

    def _take_file(self, path: Path, copy: Path, name: str) -> None:
        self._copy(path, copy, name, MAX_BYTES)
        if path.suffix.lower() not in NO_PICTURES:
            with open_image(copy, name, max_pixels=MAX_PIXELS):
                pass

    def _copy_folder(self, path: Path, copy: Path, name: str) -> None:
        left, count = MAX_BYTES, 0
        copy.mkdir(parents=True, exist_ok=True)
        for place, folders, files in os.walk(path):  # links to folders are not followed
            folders[:] = [each for each in folders if not each.startswith(".")]
            count += len(folders) + len(files)
            if count > MAX_FILES:
                raise UserError(f"{name} holds too much: at most {MAX_FILES} files and folders")
            for each in sorted(files):
                if not each.startswith("."):
                    within = Path(place, each).relative_to(self.root)
                    left -= self._copy(
                        self._inside(str(within)), copy / Path(place, each).relative_to(path), name, left
                    )

    def _copy(self, path: Path, copy: Path, name: str, limit: int) -> int:
        """Copy a regular file whose path has no links, also if somebody exchanges it meanwhile. Returns its size."""
        try:
            if not stat.S_ISREG(path.lstat().st_mode):  # opening a device may have an effect, and a pipe waits
                raise UserError(f"cannot read {name}: it is not a regular file")
            handle = os.open(path, os.O_RDONLY | NO_LINK | NO_WAIT | BINARY)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                if not os.path.samestat(status, path.lstat()) or path.resolve() != path:
                    raise UserError(f"cannot read {name}: it changes while it is read")
                data = file.read(limit + 1) if status.st_size <= limit else b""
        except OSError as error:
            raise UserError(f"cannot read {name}: {error.strerror or error}") from error
        if max(len(data), status.st_size) > limit:
            raise UserError(f"{name} is too large: at most {MAX_BYTES // 10**6} MB")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        return len(data)


@contextmanager
def _held(folder: Path) -> Iterator[int | None]:
    """A handle on a folder, which keeps to it when its name is given to another; None on systems without such."""
    if os.open not in os.supports_dir_fd:
        yield None
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | NO_LINK)
    try:
        yield handle
    finally:
        os.close(handle)
