"""Routes: a motion carried over from a pair to another image, and whole animations of sprites."""

from __future__ import annotations

import base64
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from visual_dynamics.cli.animate import GUIDES
from visual_dynamics.data.aseprite import parse_layout
from visual_dynamics.data.sheets import Sheet, cut_grid, cut_layout
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.animate import Animation, Options, animate_files, check_size, find_clips
from visual_dynamics.sprites.files import encode_sprite_clip, sheet_files
from visual_dynamics.studio.context import (
    Ask,
    Here,
    ImageId,
    ModelName,
    Studio,
    Url,
    codes_for,
    moved,
    still,
)
from visual_dynamics.studio.pictures import Picture, as_url
from visual_dynamics.web.refusals import Refused

MAX_FRAMES = 32  # of an animation
MAX_CELLS = 1_024  # of a sheet
MAX_CELL = 1_024  # pixels
MAX_LAYOUT = 1_000_000  # letters of an Aseprite JSON
router = APIRouter(tags=["transfer"])
TYPES = {"gif": "image/gif", "webp": "image/webp", "apng": "image/apng", "png": "image/png", "json": "application/json"}


class TransferAsk(Ask):
    """`before` is to `after` as `target` is to the result."""

    model: ModelName = "shapes"
    before: ImageId
    after: ImageId
    target: ImageId
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"model": "shapes", "before": "shapes-1", "after": "shapes-1-next", "target": "shapes-2"}]
        },
    )


class Transferred(BaseModel):
    """The reference and the result, as the model sees them."""

    before: Url
    after: Url
    target: Url
    result: Url
    z: list[float]


class AnimateAsk(Ask):
    """A sheet of a character that moves, in equal cells or with its layout, and one frame of another character."""

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
        int, Field(ge=0, le=MAX_CELLS, description="Frame of the row or tag (or sheet) whose pose the target has")
    ] = 0
    loop: Annotated[bool, Field(description="The animation is a cycle")] = False
    guided: Annotated[bool, Field(description="Let the model of what comes next show the way: slower, steadier")] = True
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "reference": "walk-sheet",
                    "target": "figure-blue",
                    "cell_width": 60,
                    "cell_height": 60,
                    "guided": False,
                }
            ]
        },
    )


class File(BaseModel):
    """A file to take away."""

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
async def transfer(request: Request, ask: TransferAsk, studio: Here) -> Transferred:
    """Carry the motion between two frames over to another image."""
    studio.shelf.entry(ask.model)
    before, after, target = (studio.pictures.find(name) for name in (ask.before, ask.after, ask.target))

    def work() -> Transferred:
        model = studio.shelf.model(ask.model)
        z = model.encode(before.pixels, after.pixels).mean.tolist()
        pair = (model.with_alpha(model.picture(picture.pixels)[None], picture.pixels)[0] for picture in (before, after))
        pictures = [as_url(picture) for picture in pair]
        seen = studio.shelf.seen(ask.model, target)
        result = moved(seen, codes_for(seen, [z]))[0]
        return Transferred(before=pictures[0], after=pictures[1], target=still(seen), result=result, z=z)

    return await studio.compute(request, work)


@router.post("/animate")
async def animate(request: Request, ask: AnimateAsk, studio: Here) -> Animated:
    """Carry a whole animation of a sprite over to another character."""
    if not studio.shelf.entry(ask.model).of_sprites:
        raise Refused(422, f"model: {ask.model} is not for sprites; choose one that is")
    reference, target = studio.pictures.find(ask.reference), studio.pictures.find(ask.target)
    return await studio.compute(request, lambda: _animate(studio, ask, reference, target))


def _animate(studio: Studio, ask: AnimateAsk, reference: Picture, target: Picture) -> Animated:
    moving = _sheet(ask, _with_alpha(reference.pixels))
    standing = Sheet(_with_alpha(target.pixels)[None], np.array([100]))
    tag = ask.tag if ask.row is None else f"row {ask.row}"
    if tag is None and len(moving.tags) == 1:
        tag = moving.tags[0].name
    options = Options(tag=tag, pose=ask.pose, loop=ask.loop and ask.guided)
    clips = find_clips(moving, standing, options)
    count = sum(clip.last - clip.first + 1 for clip in clips)
    if count > MAX_FRAMES:
        part = "row" if ask.layout is None else "tag"
        raise UserError(f"{count} frames are too many for one animation: choose a {part} with at most {MAX_FRAMES}")
    predictor = studio.shelf.model(ask.model).predictor
    check_size(moving, standing, predictor.size, whole=False)
    guide = GUIDES.get(ask.model) if ask.guided else None
    leading = studio.shelf.model(guide).predictor if guide else None
    return _shown(animate_files(predictor, moving, standing, options, leading))


def _sheet(ask: AnimateAsk, picture: Pixels) -> Sheet:
    """The frames of a picture (H, W, 4): as its layout tells, or in equal cells, each row of which has a tag."""
    if ask.layout is None:
        width, height = ask.cell_width, ask.cell_height
        _check_cells((picture.shape[0] // height) * (picture.shape[1] // width))
        return cut_grid(picture, (width, height), rows_are_animations=True, name="the reference")
    layout = parse_layout(ask.layout.encode("utf-8", "replace"), "the layout")
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
