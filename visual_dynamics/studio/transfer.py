"""Routes: the motion of a pair applied to another image, and whole animations of sprites."""

from __future__ import annotations

import base64
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from visual_dynamics.data.aseprite import parse_layout
from visual_dynamics.data.sheets import Sheet, cut_grid, cut_layout
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.files import encode_sprite_clip, sheet_files
from visual_dynamics.sprites.matches import GUIDES, check_size, find_matches
from visual_dynamics.sprites.sheets import Animation, animate_sheet
from visual_dynamics.studio.models import Body, ModelName, body, read_motion
from visual_dynamics.studio.pictures import ImageId, StoredPicture, Url, as_url
from visual_dynamics.studio.state import Here, Studio
from visual_dynamics.web import RequestError

MAX_FRAMES = 32  # of an animation
MAX_CELLS = 1_024  # of a sheet
MAX_CELL = 1_024  # pixels
MAX_LAYOUT = 1_000_000  # letters of an Aseprite JSON
router = APIRouter(tags=["transfer"])
TYPES = {"gif": "image/gif", "webp": "image/webp", "apng": "image/apng", "png": "image/png", "json": "application/json"}


class TransferBody(Body):
    """`before` is to `after` as `target` is to the result."""

    model: ModelName = "shapes"
    before: ImageId
    after: ImageId
    target: ImageId
    model_config = body(model="shapes", before="shapes-1", after="shapes-1-next", target="shapes-2")


class Transferred(BaseModel):
    """The reference and the result, as the model sees them."""

    before: Url
    after: Url
    target: Url
    result: Url
    z: list[float]


class AnimateBody(Body):
    """A sheet of one character, in equal cells or with its layout, and one frame of another character."""

    model: ModelName = "sprites-poses"
    reference: ImageId
    target: ImageId
    cell_width: Annotated[int, Field(ge=1, le=MAX_CELL, description="Of the sheet's cells, in pixels")] = 64
    cell_height: Annotated[int, Field(ge=1, le=MAX_CELL)] = 64
    row: Annotated[int | None, Field(ge=0, le=MAX_CELL, description="Row of the sheet to follow; or all")] = None
    layout: Annotated[
        str | None,
        Field(
            max_length=MAX_LAYOUT,
            description="The JSON that Aseprite wrote beside the sheet, as a text: in place of cells and rows",
        ),
    ] = None
    tag: Annotated[str | None, Field(max_length=200, description="Of the layout: the animation to follow")] = None
    pose: Annotated[
        int, Field(ge=0, le=MAX_CELLS, description="Start pose: the frame of the row, tag or sheet that the target is")
    ] = 0
    loop: Annotated[bool, Field(description="The animation is a cycle")] = False
    guided: Annotated[bool, Field(description="Use the model of the next frame as a guide: slower, steadier")] = True
    model_config = body(reference="walk-sheet", target="figure-blue", cell_width=60, cell_height=60, guided=False)


class File(BaseModel):
    """A file of the result."""

    name: str
    url: str = Field(description="Its content as a data URL")


class Animated(BaseModel):
    """The frames of the reference and those of the result, one for one."""

    reference: list[Url]
    frames: list[Url]
    durations: list[int] = Field(description="Milliseconds")
    warning: str
    files: list[File]


@router.post("/transfer")
async def transfer(request: Request, body: TransferBody, studio: Here) -> Transferred:
    """Apply the motion between two frames to another image."""
    studio.models.file(body.model)
    before, after, target = (studio.pictures.find(name) for name in (body.before, body.after, body.target))

    def work() -> Transferred:
        model = studio.models.model(body.model)
        z, first, second = read_motion(model, before.pixels, after.pixels)
        seen = studio.models.seen(body.model, target)
        return Transferred(
            before=as_url(first.still()),
            after=as_url(second.still()),
            target=seen.still(),
            result=as_url(next(seen.moved(seen.codes([z])))),
            z=z,
        )

    return await studio.compute(request, work)


@router.post("/animate")
async def animate(request: Request, body: AnimateBody, studio: Here) -> Animated:
    """Apply a whole animation of a sprite to another character."""
    if not studio.models.file(body.model).of_sprites:
        raise RequestError(422, f"model: {body.model} is not for sprites; choose one that is")
    reference, target = studio.pictures.find(body.reference), studio.pictures.find(body.target)
    return await studio.compute(request, lambda: _animate(studio, body, reference, target))


def _animate(studio: Studio, body: AnimateBody, reference: StoredPicture, target: StoredPicture) -> Animated:
    moving = _sheet(body, _with_alpha(reference.pixels))
    standing = Sheet(_with_alpha(target.pixels)[None], np.array([100]))
    tag = body.tag if body.row is None else f"row {body.row}"
    if tag is None and len(moving.tags) == 1:
        tag = moving.tags[0].name
    matches = find_matches(moving, standing, tag, body.pose)
    count = sum(match.last - match.first + 1 for match in matches)
    if count > MAX_FRAMES:
        part = "row" if body.layout is None else "tag"
        raise UserError(f"{count} frames are too many for one animation: choose a {part} with at most {MAX_FRAMES}")
    predictor = studio.models.model(body.model).predictor
    check_size(moving, standing, predictor.size, whole=False)
    guide = GUIDES.get(body.model) if body.guided else None
    leading = studio.models.model(guide).predictor if guide else None
    loop = body.loop and body.guided
    return _shown(animate_sheet(predictor, moving, standing, matches, loop=loop, guide=leading))


def _sheet(body: AnimateBody, picture: Pixels) -> Sheet:
    """The frames of a picture (H, W, 4): by its layout, or in equal cells, one tag for each row."""
    if body.layout is None:
        width, height = body.cell_width, body.cell_height
        _check_cells((picture.shape[0] // height) * (picture.shape[1] // width))
        return cut_grid(picture, (width, height), rows_are_animations=True, name="the reference")
    layout = parse_layout(body.layout.encode("utf-8", "replace"), "the layout")
    _check_cells(len(layout.boxes))
    return cut_layout(picture, layout, "the layout")


def _check_cells(count: int) -> None:
    if count > MAX_CELLS:
        raise UserError(f"{count:,} frames are too many for a sheet: at most {MAX_CELLS:,}")


def _shown(animation: Animation) -> Animated:
    sheet = animation.sheet
    files = sheet_files("sheet", sheet)
    files |= {f"animation.{kind}": encode_sprite_clip(sheet, f".{kind}") for kind in ("gif", "webp", "apng")}
    unlike = animation.alignment is not None and animation.alignment.unlike
    return Animated(
        reference=[as_url(frame) for frame in animation.reference.frames],
        frames=[as_url(frame) for frame in sheet.frames],
        durations=sheet.durations.tolist(),
        warning="The model has not learned from sprites like these: take the result as a draft." if unlike else "",
        files=[File(name=name, url=_file_url(name, data)) for name, data in files.items()],
    )


def _file_url(name: str, data: bytes) -> str:
    return f"data:{TYPES[name.rpartition('.')[2]]};base64,{base64.b64encode(data).decode()}"


def _with_alpha(pixels: Pixels) -> Pixels:
    """(H, W, 3 or 4) -> (H, W, 4)"""
    if pixels.shape[-1] == 4:
        return pixels
    return np.concatenate([pixels, np.full((*pixels.shape[:2], 1), 255, np.uint8)], axis=-1)
