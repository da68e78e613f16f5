"""Routes: files to take away. One future, all of them, or a path, as GIF, WebP, APNG, MP4, a PNG sheet or a zip."""

from __future__ import annotations

import io
import json
import math
import zipfile
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from visual_dynamics.api import Frames
from visual_dynamics.cli.output import check_area
from visual_dynamics.errors import UserError
from visual_dynamics.media import encode_animation, encode_png, enlarge, picture_grid
from visual_dynamics.studio.context import (
    Ask,
    Code,
    FullSizeField,
    Here,
    ImageAsk,
    ImageId,
    ModelName,
    check_pixels,
    codes_for,
    moved_pictures,
)
from visual_dynamics.studio.shelf import Entry, Seen

FPS = 2.0
GREY = (150, 150, 150)  # between pictures, on light pages and dark ones
WALL_COLUMNS = 4
MAX_PATH = 32  # images
Form = Literal["gif", "webp", "apng", "mp4", "sheet", "zip"]
TYPES: dict[str, str] = {
    "gif": "image/gif",
    "webp": "image/webp",
    "apng": "image/apng",
    "mp4": "video/mp4",
    "sheet": "image/png",
    "zip": "application/zip",
}
SUFFIXES = {"sheet": "png"}
router = APIRouter(tags=["export"])
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in TYPES.values()},
    }
}
FormField = Annotated[Form, Field(description="Kind of the file; a zip holds every picture, and the codes")]
ScaleField = Annotated[int, Field(ge=1, le=8, description="Enlargement of pixels; none at full size")]


class ExportAsk(ImageAsk):
    """An image, and the motions that make its futures."""

    codes: Annotated[list[Code], Field(min_length=1, max_length=64)]
    form: FormField = "gif"
    scale: ScaleField = 3
    full_size: FullSizeField = False
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"image": "shapes-1", "model": "shapes", "codes": [[0, 1, 0, 0, 0, 0, 0, 0]], "form": "gif"}]
        },
    )


class PathAsk(Ask):
    """Images that follow each other."""

    images: Annotated[list[ImageId], Field(min_length=2, max_length=MAX_PATH, examples=[["shapes-1", "shapes-1-next"]])]
    model: ModelName = "shapes"
    form: FormField = "gif"
    scale: ScaleField = 3
    full_size: FullSizeField = False


@router.post("/export", response_class=Response, responses=FILE)
async def export(request: Request, ask: ExportAsk, studio: Here) -> Response:
    """One future, flipping with its input, or several as a wall that moves in step."""
    entry = studio.shelf.entry(ask.model)
    most = studio.most_pixels(ask.full_size)
    data = await studio.about_image(request, ask, lambda seen: _export(ask, entry, most, seen))
    return _file("futures" if len(ask.codes) > 1 else "future", ask.form, data)


@router.post("/export/path", response_class=Response, responses=FILE)
async def export_path(request: Request, ask: PathAsk, studio: Here) -> Response:
    """The images of a path, one after the other."""
    entry = studio.shelf.entry(ask.model)
    pictures = [studio.pictures.find(name) for name in ask.images]

    def work() -> bytes:
        model = studio.shelf.model(ask.model)
        if ask.full_size:
            check_pixels(len(pictures), pictures[0].pixels, studio.settings.limits.full_size_pixels)
        frames = [model.picture(picture.pixels, ask.full_size) for picture in pictures]
        if len({frame.shape for frame in frames}) > 1:
            raise UserError("the images of a path have one shape: these differ")
        if ask.form == "zip":
            return _zip(frames, {"model": entry.name, "digest": entry.digest})
        scale = _scale(ask, frames)
        return _encoded(ask.form, enlarge(np.stack(frames), scale), frames, scale)

    return _file("path", ask.form, await studio.compute(request, work))


def _export(ask: ExportAsk, entry: Entry, most_pixels: int | None, seen: Seen) -> bytes:
    model = seen.model
    pictures = list(moved_pictures(seen, codes_for(seen, ask.codes), most_pixels))
    still, *frames = (model.picture(picture, ask.full_size) for picture in (seen.pixels, *pictures))  # without alpha
    about = {"model": entry.name, "digest": entry.digest, "codes": ask.codes}
    if ask.form == "zip":
        return _zip([model.with_alpha(still[None], seen.pixels)[0], *pictures], about)
    scale = _scale(ask, [still, *frames])
    if len(frames) == 1:
        clip = enlarge(np.stack([still, frames[0]]), scale)
    else:
        walls = [still] * len(frames), frames
        clip = np.stack([picture_grid(wall, _columns(len(wall)), scale, background=GREY) for wall in walls])
    return _encoded(ask.form, clip, [still, *frames], scale)


def _scale(ask: ExportAsk | PathAsk, pictures: list[Frames]) -> int:
    """By how much pixels are enlarged; refuses what would take minutes to write and much of a machine's memory."""
    scale = 1 if ask.full_size else ask.scale
    check_area(len(pictures), max(pictures[0].shape[:2]), scale)
    return scale


def _encoded(form: Form, clip: Frames, pictures: list[Frames], scale: int) -> bytes:
    """The clip (T, H, W, 3), or the pictures (H, W, 3) on an enlarged sheet."""
    if form == "sheet":
        return encode_png(picture_grid(pictures, _columns(len(pictures)), scale, background=GREY))
    return encode_animation(clip, FPS, f".{form}")


def _columns(count: int) -> int:
    return max(WALL_COLUMNS, math.ceil(math.sqrt(count)))


def _zip(pictures: list[Frames], about: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # PNG is compressed already
        for number, picture in enumerate(pictures):
            name = "input.png" if number == 0 else f"frame_{number:02d}.png"
            archive.writestr(name, encode_png(picture))
        archive.writestr("about.json", json.dumps(about, indent=1))
    return buffer.getvalue()


def _file(stem: str, form: Form, data: bytes) -> Response:
    name = f"{stem}.{SUFFIXES.get(form, form)}"
    return Response(data, media_type=TYPES[form], headers={"Content-Disposition": f'attachment; filename="{name}"'})
