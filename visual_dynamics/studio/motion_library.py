"""The library of named motions: a store in SQLite, and its routes. A motion travels as a small JSON file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi import Path as FromPath
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, StringConstraints

from visual_dynamics.errors import UserError
from visual_dynamics.studio.models import (
    MAX_LATENT,
    Body,
    Code,
    ImageBody,
    ModelName,
    Number,
    Seen,
    Strength,
    body,
    read_motion,
)
from visual_dynamics.studio.pictures import ImageId, Url, as_url
from visual_dynamics.studio.state import Here, Studio
from visual_dynamics.web import RequestError

MOST = 1_000  # motions in a library
COLUMNS = "id, name, model, digest, origin, z, created"
TABLE = """
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
router = APIRouter(tags=["motion"])

Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$"),
    Field(examples=["jump"]),
]
MotionId = Annotated[int, FromPath(ge=1, le=2**53, description="Id of a saved motion")]


class SavedMotion(BaseModel):
    """A motion code with a name, and the model that it belongs to."""

    id: int
    name: str
    model: str
    digest: str = Field(description="Digest of the model: codes mean nothing to another one")
    origin: str = Field(description="pair, future, sliders or file")
    z: list[float]
    created: datetime = Field(description="UTC")


class Library:
    """Every call opens the file anew: any thread may call. After a call the data are on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute(TABLE)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot keep motions in {path}: {error}") from error

    def all(self, digest: str | None = None) -> list[SavedMotion]:
        """The oldest first; of one model, or of all."""
        where, values = ("WHERE digest = ?", (digest,)) if digest else ("", ())
        with self._open() as database:
            rows = database.execute(f"SELECT {COLUMNS} FROM motions {where} ORDER BY id", values).fetchall()
        return [_from_row(row) for row in rows]

    def find(self, number: int) -> SavedMotion:
        with self._open() as database:
            row = database.execute(f"SELECT {COLUMNS} FROM motions WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise RequestError(404, f"there is no motion {number}")
        return _from_row(row)

    def add(self, name: str, model: str, digest: str, origin: str, z: list[float]) -> SavedMotion:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with self._open() as database:
            (count,) = database.execute("SELECT count(*) FROM motions").fetchone()
            if count >= MOST:
                raise RequestError(409, f"the library is full: it holds {MOST:,} motions; delete some")
            try:
                cursor = database.execute(
                    "INSERT INTO motions (name, model, digest, origin, z, created) VALUES (?, ?, ?, ?, ?, ?)",
                    (name, model, digest, origin, np.asarray(z, "<f4").tobytes(), created),
                )
            except sqlite3.IntegrityError as error:
                raise RequestError(409, f"there is a motion {name!r} already: choose another name") from error
            number = cursor.lastrowid
        assert number is not None
        return self.find(number)

    def remove(self, number: int) -> None:
        with self._open() as database:
            if not database.execute("DELETE FROM motions WHERE id = ?", (number,)).rowcount:
                raise RequestError(404, f"there is no motion {number}")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=10)) as database, database:
            yield database


def _from_row(row: tuple[int, str, str, str, str, bytes, str]) -> SavedMotion:
    values = dict(zip(COLUMNS.split(", "), row, strict=True))
    return SavedMotion.model_validate(values | {"z": np.frombuffer(row[5], "<f4").tolist()})


# --- routes


class SaveBody(Body):
    """A motion code to keep."""

    name: Name
    model: ModelName = "shapes"
    origin: Literal["future", "sliders"] = "sliders"
    z: Code
    model_config = body(name="jump", model="shapes", z=[0, 1, 0, 0, 0, 0, 0, 0])


class SavePairBody(Body):
    """Two frames of one size, and a name for the motion between them."""

    name: Name
    model: ModelName = "shapes"
    before: ImageId
    after: Annotated[ImageId, Field(examples=["shapes-1-next"])]


class ApplyBody(Body):
    """The image to move."""

    image: ImageId
    strength: Strength = 1.0


class Applied(BaseModel):
    """An image, and the same image moved."""

    input: Url
    url: Url
    z: list[float]


class MotionFile(Body):
    """A motion as a file."""

    format: Literal["visual-dynamics-motion"]
    version: Literal[1]
    name: Name
    model: Annotated[str, Field(max_length=200)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the model's file")]
    z: Annotated[list[Number], Field(min_length=1, max_length=MAX_LATENT, fail_fast=True)]


@router.get("/motions")
def list_motions(studio: Here, model: ModelName | None = None) -> list[SavedMotion]:
    """The library, or the motions of one model."""
    return studio.motions.all(studio.models.file(model).digest if model is not None else None)


@router.post("/motions", status_code=201)
def save(body: SaveBody, studio: Here) -> SavedMotion:
    """Keep a motion code under a name."""
    return _keep(studio, body.name, body.model, body.origin, body.z)


@router.post("/motions/pair", status_code=201)
async def save_pair(request: Request, body: SavePairBody, studio: Here) -> SavedMotion:
    """Keep the motion between two frames under a name."""
    studio.models.file(body.model)
    before, after = studio.pictures.find(body.before), studio.pictures.find(body.after)
    z, _, _ = await studio.compute(
        request, lambda: read_motion(studio.models.model(body.model), before.pixels, after.pixels)
    )
    return _keep(studio, body.name, body.model, "pair", z)


@router.post("/motions/import", status_code=201)
def import_file(body: MotionFile, studio: Here) -> SavedMotion:
    """Keep a motion from a file; the studio must have the model it belongs to."""
    for file in studio.models.files.values():
        if file.digest == body.digest:
            return _keep(studio, body.name, file.name, "file", body.z)
    raise RequestError(409, f"the motion was made with a model {body.model!r} that this studio does not have")


@router.get("/motions/{number}/file", response_model=MotionFile)
def export_file(number: MotionId, studio: Here) -> JSONResponse:
    """A motion as a file, to keep or to send."""
    motion = studio.motions.find(number)
    content = {"format": "visual-dynamics-motion", "version": 1, "name": motion.name, "model": motion.model}
    headers = {"Content-Disposition": f'attachment; filename="motion-{number}.json"'}
    return JSONResponse(content | {"digest": motion.digest, "z": motion.z}, headers=headers)


@router.post("/motions/{number}/apply")
async def apply(request: Request, number: MotionId, body: ApplyBody, studio: Here) -> Applied:
    """An image moved by a saved motion."""
    motion = studio.motions.find(number)
    name = next((file.name for file in studio.models.files.values() if file.digest == motion.digest), None)
    if name is None:
        raise RequestError(409, f"the motion belongs to a model {motion.model!r} that this studio no longer has")

    def work(seen: Seen) -> Applied:
        codes = body.strength * seen.codes([motion.z])
        return Applied(input=seen.still(), url=as_url(next(seen.moved(codes))), z=codes[0].tolist())

    return await studio.about_image(request, ImageBody(image=body.image, model=name), work)


@router.delete("/motions/{number}", status_code=204)
def delete(number: MotionId, studio: Here) -> Response:
    """Delete a motion."""
    studio.motions.remove(number)
    return Response(status_code=204)


def _keep(studio: Studio, name: str, model: str, origin: str, z: list[float]) -> SavedMotion:
    file = studio.models.file(model)
    if len(z) != file.config.latent:
        raise RequestError(422, f"z: the codes of {model} have {file.config.latent:,} numbers, not {len(z):,}")
    return studio.motions.add(name, model, file.digest, origin, z)
