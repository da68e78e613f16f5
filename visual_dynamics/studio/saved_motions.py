"""The library of named motions, in SQLite; a motion travels as a small JSON file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from visual_dynamics.errors import UserError
from visual_dynamics.web.refusals import Refused

MOST = 1_000  # motions that are kept
SCHEMA = """
CREATE TABLE IF NOT EXISTS motions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    digest TEXT NOT NULL,
    origin TEXT NOT NULL,
    z BLOB NOT NULL,
    created TEXT NOT NULL,
    UNIQUE (digest, name)
)
"""


@dataclass(frozen=True)
class SavedMotion:
    """A motion code with a name, and the model that it belongs to."""

    id: int
    name: str
    model: str
    digest: str  # SHA-256 of the model's file: codes mean nothing to another model
    origin: str  # pair, future, sliders or file
    z: list[float]
    created: str  # UTC, ISO 8601


class SavedMotions:
    """Every call opens the file anew, so any thread may ask; what was answered is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot keep motions in {path}: {error}") from error

    def all(self, digest: str | None = None) -> list[SavedMotion]:
        """The oldest first; of one model, or of all."""
        where, values = ("WHERE digest = ?", (digest,)) if digest else ("", ())
        with self._open() as database:
            rows = database.execute(f"SELECT {COLUMNS} FROM motions {where} ORDER BY id", values).fetchall()
        return [_motion(row) for row in rows]

    def find(self, number: int) -> SavedMotion:
        with self._open() as database:
            row = database.execute(f"SELECT {COLUMNS} FROM motions WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise Refused(404, f"there is no motion {number}")
        return _motion(row)

    def add(self, name: str, model: str, digest: str, origin: str, z: list[float]) -> SavedMotion:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with self._open() as database:
            (count,) = database.execute("SELECT count(*) FROM motions").fetchone()
            if count >= MOST:
                raise Refused(409, f"the library is full: it holds {MOST:,} motions; delete some")
            try:
                cursor = database.execute(
                    "INSERT INTO motions (name, model, digest, origin, z, created) VALUES (?, ?, ?, ?, ?, ?)",
                    (name, model, digest, origin, np.asarray(z, "<f4").tobytes(), created),
                )
            except sqlite3.IntegrityError as error:
                raise Refused(409, f"there is a motion {name!r} already: choose another name") from error
            number = cursor.lastrowid
        assert number is not None
        return self.find(number)

    def remove(self, number: int) -> None:
        with self._open() as database:
            if not database.execute("DELETE FROM motions WHERE id = ?", (number,)).rowcount:
                raise Refused(404, f"there is no motion {number}")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=10)) as database, database:
            yield database


COLUMNS = "id, name, model, digest, origin, z, created"


def _motion(row: tuple[int, str, str, str, str, bytes, str]) -> SavedMotion:
    number, name, model, digest, origin, z, created = row
    return SavedMotion(number, name, model, digest, origin, np.frombuffer(z, "<f4").tolist(), created)
