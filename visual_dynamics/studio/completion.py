"""Routes, as the verb `complete`: a character's sheets in, what it lacks drawn, and all of it as a ZIP."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.bodies import shipped_bodies
from visual_dynamics.sprites.character_files import Bounds, parse_character
from visual_dynamics.sprites.characters import Character, Clips
from visual_dynamics.sprites.complete import DOUBTFUL, Drafts, complete
from visual_dynamics.sprites.completion_files import completion_files, marked
from visual_dynamics.sprites.missing import Part, described, plan
from visual_dynamics.studio.decoding import decode_character
from visual_dynamics.studio.kept import StoredFile, id_of
from visual_dynamics.studio.models import Body, ModelName
from visual_dynamics.studio.models import body as example
from visual_dynamics.studio.pictures import Url, as_url
from visual_dynamics.studio.state import Here, Studio
from visual_dynamics.web import RequestError

MAX_CELL = 256  # pixels a side: the shipped models take 64
ENLARGED, LARGE_CELL = 2, 128  # scale of drafts.png, but for cells of this side or more
DATE = (1980, 1, 1, 0, 0, 0)  # of files in a ZIP: the same result has the same bytes
router = APIRouter(tags=["complete"])

UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "The bytes of the file: a ZIP of sheets (walk.png, idle.png, ...), the PNG of a universal "
        "sheet, or an Aseprite file",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
FileName = Annotated[
    str,
    Query(
        min_length=1,
        max_length=200,
        description="Name of the file. Its ending says what the file is: .zip, .png, .aseprite or .ase",
        examples=["hero.zip"],
    ),
]
CharacterId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,64}$", description="Id of an uploaded character")]
AnimationName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,40}$", examples=["run"])]
BodyName = Literal["male", "muscular", "female", "pregnant", "teen", "child"]
ZIP: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class AnimationShown(BaseModel):
    """An animation that a character has."""

    name: str
    frames: int = Field(description="From all sides together")


class MissingShown(AnimationShown):
    """An animation that a character lacks and that can be drawn."""

    reference: str = Field(description="The body that it is drawn after")


class CharacterShown(BaseModel):
    """What a character has and lacks."""

    id: CharacterId
    name: str
    animations: list[AnimationShown]
    missing: list[MissingShown]
    problem: str = Field(description="Why nothing can be drawn; else empty")
    remarks: list[str] = Field(description="What was not read, and why; and what the drawings may suffer from")


class CompleteBody(Body):
    """Which animations to draw, and how."""

    character: CharacterId
    animations: Annotated[tuple[AnimationName, ...], Field(max_length=64, description="Empty: all that it lacks")] = ()
    model: ModelName = "sprites-lpc-poses"
    body: Annotated[BodyName | None, Field(description="Body type of the reference; by default the most alike")] = None
    layer: Annotated[
        bool | None, Field(description="It is only a layer, a hat say; false: it is whole; null: found out")
    ] = None
    force: Annotated[bool, Field(description="Draw even where known frames come out as badly as standing still")] = (
        False
    )
    model_config = example(character="5f0c3a", animations=["run", "jump"])


class CompletedClip(BaseModel):
    """A new animation from one side, and the same of the reference: frames side by side."""

    view: str
    frames: int
    drawn: Url
    reference: Url
    doubts: list[float] = Field(description="Of each frame: expected error as a share of that of standing still")


class CompletedAnimation(BaseModel):
    """A new animation."""

    name: str
    reference: str
    clips: list[CompletedClip]


class Completed(BaseModel):
    """What was drawn."""

    id: CharacterId = Field(description="Of the result: /api/completed/{id} is its ZIP")
    name: str
    animations: list[CompletedAnimation]
    frames: int
    limit: float = Field(description="Frames with a doubt above it are to be looked at")
    marked: list[str] = Field(description="These frames, the most doubtful first")
    remarks: list[str]


@router.post("/characters", openapi_extra=UPLOAD, status_code=201)
async def upload_character(request: Request, studio: Here, name: FileName) -> CharacterShown:
    """Upload the sheets of a character. Other requests use its id, as long as the studio holds it."""
    plain = _plain(name)

    def keep(data: bytes, character: Character) -> CharacterShown:
        stored = StoredFile(id_of(plain.encode(), data), plain, data)
        found = _shown(stored.id, character)
        studio.characters.keep(stored.id, stored, len(data))
        return found

    return await studio.decode(request, partial(decode_character, name=plain, bounds=_bounds(studio)), keep)


@router.post("/complete")
async def complete_character(request: Request, body: CompleteBody, studio: Here) -> Completed:
    """Draw animations that a character lacks, as drafts, after a bare body that has them."""
    if not studio.models.file(body.model).completes:
        raise RequestError(422, f"model: {body.model} cannot complete a character; choose sprites-lpc-poses, say")
    stored = studio.characters.find(body.character)
    return await studio.compute(request, lambda: _complete(studio, body, stored))


@router.get("/completed/{result}", response_class=Response, responses=ZIP)
def completed_file(studio: Here, result: Annotated[CharacterId, InPath()]) -> Response:
    """A completed character as a ZIP: its own files, the new sheets, CREDITS.txt, drafts.png and drafts.json."""
    file = studio.completed.find(result)
    head = {"Content-Disposition": f'attachment; filename="{file.name}"'}
    return Response(file.data, media_type="application/zip", headers=head)


def _complete(studio: Studio, body: CompleteBody, stored: StoredFile) -> Completed:
    character = parse_character(stored.data, stored.name, _bounds(studio))
    parts = plan(character, shipped_bodies(), body.animations, body.body or "", body.layer)
    remarks = _remarks(character, parts)
    predictor = studio.models.model(body.model).predictor if any(part.steps for part in parts) else None
    checks, drafts = complete(predictor, parts, body.force, remarks.append, studio.queue.report)
    side = max(next(iter(character.clips.values())).shape[1:3])
    scale = 1 if side >= LARGE_CELL else ENLARGED
    data = _zip(completion_files(character, parts, checks, drafts, body.model, scale))
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", character.name).strip("._") or "character"
    result = StoredFile(id_of(data), f"{stem}-complete.zip", data)
    studio.completed.keep(result.id, result, len(data))
    return Completed(
        id=result.id,
        name=result.name,
        animations=[_animation(part, name, drafts) for part in parts for name in part.animations],
        frames=sum(map(len, drafts.clips.values())),
        limit=DOUBTFUL,
        marked=marked(drafts.doubts),
        remarks=remarks,
    )


def _shown(name: str, character: Character) -> CharacterShown:
    parts: list[Part] = []
    problem = ""
    try:
        parts = plan(character, shipped_bodies())
    except UserError as error:  # it may lack nothing
        problem = str(error)
    missing = []
    for part in parts:
        made = {*part.recoloured, *(step.made.key for step in part.steps)}
        frames = _frames({key: part.reference.clips[key] for key in made})
        missing += [MissingShown(name=n, frames=frames[n], reference=part.reference.name) for n in part.animations]
    return CharacterShown(
        id=name,
        name=character.name,
        animations=[AnimationShown(name=name, frames=count) for name, count in _frames(character.clips).items()],
        missing=missing,
        problem=problem,
        remarks=_remarks(character, parts),
    )


def _frames(clips: Clips) -> Counter[str]:
    """Of each animation, from all sides."""
    counts = Counter[str]()
    for (animation, _), frames in clips.items():
        counts[animation] += len(frames)
    return counts


def _remarks(character: Character, parts: list[Part]) -> list[str]:
    """But for the references, which stand beside each animation."""
    return [*character.remarks, *described(parts)[len(parts) :]]


def _bounds(studio: Studio) -> Bounds:
    limits = studio.settings.limits
    return Bounds(limits.unpacked_files, limits.unpacked_bytes, limits.upload_pixels, MAX_CELL)


def _plain(name: str) -> str:
    """The last part of a file's name, without signs that cannot be shown."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return "".join(letter for letter in last if letter.isprintable()) or "character"


def _animation(part: Part, name: str, drafts: Drafts) -> CompletedAnimation:
    clips = [
        CompletedClip(
            view=key[1],
            frames=len(frames),
            drawn=_strip(frames),
            reference=_strip(part.reference.clips[key]),
            doubts=[round(float(doubt), 4) for doubt in drafts.doubts[key]],
        )
        for key, frames in drafts.clips.items()
        if key[0] == name
    ]
    return CompletedAnimation(name=name, reference=part.reference.name, clips=clips)


def _strip(frames: Pixels) -> str:
    """(T, H, W, 4), side by side"""
    return as_url(np.concatenate(list(frames), axis=1))


def _zip(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
