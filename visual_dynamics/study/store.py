"""Answers in SQLite: one that was acknowledged is on the disk, and none counts twice.

Commits wait for the disk (WAL, synchronous=FULL), so that neither a killed process nor a power cut takes an answer
back. The file lies in the study's folder and knows which study it belongs to.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from visual_dynamics.errors import UserError
from visual_dynamics.study.study_file import Study

FILE = "answers.sqlite3"
VERSION = 1  # of the tables
MAX_RATERS = 5_000
MAX_MILLISECONDS = 7 * 24 * 3600 * 1000  # who comes back after a week has not thought about one answer
RATER = re.compile(r"[0-9a-f]{32}")
BUSY_SECONDS = 10.0  # to wait for another process that writes

_TABLES = f"""
CREATE TABLE about (study TEXT NOT NULL, token TEXT NOT NULL);
CREATE TABLE raters (
    rater TEXT PRIMARY KEY, session INTEGER NOT NULL, origin TEXT NOT NULL, joined TEXT NOT NULL
);
CREATE TABLE answers (
    rater TEXT NOT NULL REFERENCES raters, trial INTEGER NOT NULL, answer TEXT NOT NULL,
    milliseconds INTEGER NOT NULL, received TEXT NOT NULL, PRIMARY KEY (rater, trial)
);
PRAGMA user_version = {VERSION};
"""


@dataclass(frozen=True)
class Answer:
    """What a rater said in a trial of their session, and how long it took from the first sight of the clips."""

    trial: int
    answer: str
    milliseconds: int


@dataclass(frozen=True)
class Rater:
    """Somebody who joined; the origin is "server" or "file"."""

    id: str
    session: int
    origin: str
    joined: str  # UTC


class StudyFullError(UserError):
    """No one else can join."""


class Store:
    """The answers to one study; may be used by many threads at once."""

    def __init__(self, folder: Path, study: Study, create: bool = True) -> None:
        self.path, self.study = folder / FILE, study
        if not create and not self.path.is_file():
            raise UserError(f"there are no answers in {folder} yet")
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare()
        except sqlite3.Error as error:
            raise UserError(f"cannot use {self.path}: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @property
    def token(self) -> str:
        """What a link needs when the study is open to the network; the same after a restart."""
        return str(self._rows("SELECT token FROM about")[0][0])

    def join(self) -> Rater:
        """A new rater, in the session that the fewest have joined."""
        with self._transaction():
            taken = dict(self._rows("SELECT session, COUNT(*) FROM raters GROUP BY session"))
            session = min(range(len(self.study.sessions)), key=lambda number: (taken.get(number, 0), number))
            return self._add(Rater(secrets.token_hex(16), session, "server", _now()))

    def rater(self, rater: str) -> Rater | None:
        found = self._rows("SELECT rater, session, origin, joined FROM raters WHERE rater = ?", rater)
        return Rater(*found[0]) if found else None

    def raters(self) -> list[Rater]:
        """In the order in which they joined."""
        rows = self._rows("SELECT rater, session, origin, joined FROM raters ORDER BY joined, rowid")
        return [Rater(*row) for row in rows]

    def answers(self, rater: str) -> list[Answer]:
        rows = self._rows("SELECT trial, answer, milliseconds FROM answers WHERE rater = ? ORDER BY trial", rater)
        return [Answer(*row) for row in rows]

    def record(self, rater: str, answer: Answer) -> Answer:
        """Keep an answer for good; returns the one that counts, which is the first that was sent for its trial."""
        with self._transaction():
            self._insert(rater, answer)
        sent = self._rows(
            "SELECT trial, answer, milliseconds FROM answers WHERE rater = ? AND trial = ?", rater, answer.trial
        )
        return Answer(*sent[0])

    def add_sessions(self, sessions: Iterable[tuple[str, int, list[Answer]]]) -> int:
        """All answers of raters who answered elsewhere, or on any mistake none of them; returns how many were new."""
        new = 0
        with self._transaction():
            for rater, session, answers in sessions:
                known = self.rater(rater)
                if known and known.session != session:
                    raise UserError(f"rater {rater[:8]} has answered session {known.session}, not {session}")
                if not known:
                    self._add(Rater(rater, session, "file", _now()))
                new += sum(self._insert(rater, answer) for answer in answers)
        return new

    def _add(self, rater: Rater) -> Rater:
        if self._rows("SELECT COUNT(*) FROM raters")[0][0] >= MAX_RATERS:
            raise StudyFullError(f"this study has its {MAX_RATERS:,} raters: no one else can join")
        self._rows("INSERT INTO raters VALUES (?, ?, ?, ?)", rater.id, rater.session, rater.origin, rater.joined)
        return rater

    def _insert(self, rater: str, answer: Answer) -> int:
        given = (rater, answer.trial, answer.answer, answer.milliseconds, _now())
        insert = "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"
        return len(self._rows(insert, *given))

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        with self._transaction():
            version = self._rows("PRAGMA user_version")[0][0]
            if version == 0 and not self._rows("SELECT name FROM sqlite_master"):
                for statement in _TABLES.strip().rstrip(";").split(";\n"):
                    self._connection.execute(statement)
                self._rows("INSERT INTO about VALUES (?, ?)", self.study.id, secrets.token_urlsafe(16))
            elif version != VERSION:
                raise UserError(f"{self.path} is not a file of answers of version {VERSION}")
            if self._rows("SELECT study FROM about") != [(self.study.id,)]:
                raise UserError(f"{self.path} holds the answers to another study: move it away, or use its own folder")

    def _rows(self, statement: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; what it holds is on the disk when it ends."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
