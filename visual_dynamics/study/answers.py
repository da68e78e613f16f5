"""The answers to a study, in SQLite. An acknowledged answer is on the disk, and none counts twice.

Commits wait for the disk (WAL, synchronous=FULL): a killed process or a power cut loses no acknowledged answer. The
file lies in the study's folder and belongs to that study alone.

Ids of a recruiting service are not stored, only their HMAC-SHA256 with a key of this file.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import re
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError
from visual_dynamics.files import read_json
from visual_dynamics.study.design import OBVIOUS
from visual_dynamics.study.folder import ANSWERS_FORMAT, Study, reason

FILE = "answers.sqlite3"
VERSION = 2  # of the tables
MAX_RATERS = 5_000
MAX_FILE_BYTES = 10**6  # of answers that an HTML file has saved
MAX_MILLISECONDS = 7 * 24 * 3600 * 1000  # a week
RATER = re.compile(r"[0-9a-f]{32}")
WAITING_HOURS = 1  # a rater without an answer gives up the place after them, if others want it
DIGITS = 16  # of a digest that are exported
BUSY_SECONDS = 10.0  # longest wait for another process that writes

_TABLES = """
CREATE TABLE about (study TEXT NOT NULL, token TEXT NOT NULL);
CREATE TABLE raters (
    rater TEXT PRIMARY KEY, session INTEGER NOT NULL, origin TEXT NOT NULL, joined TEXT NOT NULL
);
CREATE TABLE answers (
    rater TEXT NOT NULL REFERENCES raters, trial INTEGER NOT NULL, answer TEXT NOT NULL,
    milliseconds INTEGER NOT NULL, received TEXT NOT NULL, PRIMARY KEY (rater, trial)
);
PRAGMA user_version = 1;
"""
_SINCE_2 = """
CREATE TABLE recruited (digest TEXT PRIMARY KEY, rater TEXT NOT NULL UNIQUE REFERENCES raters ON DELETE CASCADE);
ALTER TABLE about ADD COLUMN key TEXT;
PRAGMA user_version = 2;
"""
_GONE = "origin = 'server' AND joined < ? AND rater NOT IN (SELECT rater FROM answers)"  # joined, and never answered


@dataclass(frozen=True)
class Answer:
    """A rater's answer in a trial, and the time since the clips were first shown."""

    trial: int
    answer: str
    milliseconds: int


@dataclass(frozen=True)
class Rater:
    """Somebody who takes part."""

    id: str
    session: int
    origin: str  # "server" or "file"
    joined: str  # UTC


@dataclass(frozen=True)
class Row:
    """One answer and what it was about."""

    rater: int  # in the order of joining, from 1; never an id with which one could answer
    session: int
    trial: int
    input: int
    method: str
    size: int
    sample: int
    answer: str
    right: str | None  # the right answer, if there is one
    milliseconds: int
    recruited: str = ""  # the first 16 digits of the digest of a recruiting service's id

    @property
    def obvious(self) -> bool:
        return self.method in OBVIOUS


class StudyFullError(UserError):
    """No one else can join."""


class AnswerStore:
    """The answers to one study; safe for threads."""

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
        """The links of a study on the network need it; a restart does not change it."""
        return str(self._rows("SELECT token FROM about")[0][0])

    def join(self, recruited: str = "") -> Rater:
        """A new rater, in the session with the fewest raters; of a recruiting service's id, the same one each time."""
        digest = self._digest(recruited)
        with self._transaction():
            known = self._rows("SELECT rater FROM recruited WHERE digest = ?", digest)
            if known and (rater := self.rater(known[0][0])):
                return rater
            counted = f"SELECT session, COUNT(*) FROM raters WHERE NOT ({_GONE}) GROUP BY session"
            taken = dict(self._rows(counted, _gone()))
            session = min(range(len(self.study.sessions)), key=lambda number: (taken.get(number, 0), number))
            rater = self._add(Rater(secrets.token_hex(16), session, "server", _now()))
            if recruited:
                self._rows("INSERT INTO recruited VALUES (?, ?)", digest, rater.id)
            return rater

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
        """Store an answer; returns the one that counts: the first for its trial."""
        with self._transaction():
            if self.rater(rater) is None:  # it gave up its place a moment ago
                raise UserError("there is no such rater in this study")
            self._insert(rater, answer)
        sent = self._rows(
            "SELECT trial, answer, milliseconds FROM answers WHERE rater = ? AND trial = ?", rater, answer.trial
        )
        return Answer(*sent[0])

    def add_sessions(self, sessions: Iterable[tuple[str, int, list[Answer]]]) -> int:
        """Add answers from files: all of them, or after any error none; returns the number of new ones."""
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

    def rows(self) -> list[Row]:
        """All answers, rater by rater."""
        study, found = self.study, []
        digests = dict(self._rows("SELECT rater, digest FROM recruited"))
        for number, rater in enumerate(self.raters(), 1):
            for given in self.answers(rater.id):
                clip = study.trial_clip(rater.session, given.trial)
                about = (clip.input, clip.method, clip.size, clip.sample)
                right = study.right_answer(rater.session, given.trial)
                shown = digests.get(rater.id, "")[:DIGITS]
                answer = (given.answer, right, given.milliseconds)
                found.append(Row(number, rater.session, given.trial, *about, *answer, shown))
        return found

    def _digest(self, recruited: str) -> str:
        key = str(self._rows("SELECT key FROM about")[0][0])
        return hmac.new(key.encode(), recruited.encode(), hashlib.sha256).hexdigest()

    def _add(self, rater: Rater) -> Rater:
        count = "SELECT COUNT(*) FROM raters"
        if self._rows(count)[0][0] >= MAX_RATERS:
            self._rows(f"DELETE FROM raters WHERE {_GONE}", _gone())
        if self._rows(count)[0][0] >= MAX_RATERS:
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
                self._execute(_TABLES)
                self._rows("INSERT INTO about VALUES (?, ?)", self.study.id, secrets.token_urlsafe(16))
                version = 1
            if version == 1:
                self._execute(_SINCE_2)
                self._rows("UPDATE about SET key = ?", secrets.token_hex(32))
            elif version != VERSION:
                raise UserError(f"{self.path} is not a file of answers of version {VERSION}")
            if self._rows("SELECT study FROM about") != [(self.study.id,)]:
                raise UserError(f"{self.path} holds the answers to another study: move it away, or use its own folder")

    def _execute(self, statements: str) -> None:
        for statement in statements.strip().rstrip(";").split(";\n"):
            self._connection.execute(statement)

    def _rows(self, statement: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        with self._lock, closing(self._connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; at its end the data are on the disk."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # not after every failure: a full disk may have ended it
                    self._connection.execute("ROLLBACK")
                raise


def read_answers(path: Path, study: Study) -> tuple[str, int, list[Answer]]:
    """Rater, session and answers of one file, for `AnswerStore.add_sessions`."""
    try:
        return _checked_answers(read_json(path, MAX_FILE_BYTES), study)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"cannot take answers from {path}: {reason(error)}") from error


def _checked_answers(data: Any, study: Study) -> tuple[str, int, list[Answer]]:
    if not isinstance(data, dict) or data.get("format") != ANSWERS_FORMAT:
        raise ValueError(f"it is not a file of {ANSWERS_FORMAT['name']} of version {ANSWERS_FORMAT['version']}")
    if data["study"] != study.id:
        raise ValueError("it belongs to another study")
    rater, session = data["rater"], data["session"]
    if not isinstance(rater, str) or not RATER.fullmatch(rater):
        raise ValueError("its rater is not 32 hexadecimal digits")
    if type(session) is not int or not 0 <= session < len(study.sessions):
        raise ValueError(f"its session is not one of the {len(study.sessions)}")
    answers = [Answer(one["trial"], one["answer"], one["milliseconds"]) for one in data["answers"]]
    for one in answers:
        if type(one.trial) is not int or not 0 <= one.trial < len(study.sessions[session]):
            raise ValueError(f"{str(one.trial)[:20]} is not a trial of session {session}")
        if one.answer not in study.choices:
            raise ValueError(f"an answer is {' or '.join(study.choices)}, not {str(one.answer)[:20]}")
        if type(one.milliseconds) is not int or not 0 <= one.milliseconds <= MAX_MILLISECONDS:
            raise ValueError("the time of an answer is in milliseconds, at most a week")
    return rater, session, answers


def to_csv(rows: list[Row]) -> str:
    """One row per answer. Raters are numbered: anyone who knows a rater's id could answer for them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*(field.name for field in fields(Row)), "obvious"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) | {"obvious": int(row.obvious)} for row in rows)
    return text.getvalue()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _gone() -> str:
    """Who joined before and has not answered since is thought to be gone."""
    return (datetime.now(UTC) - timedelta(hours=WAITING_HOURS)).isoformat(timespec="milliseconds")
