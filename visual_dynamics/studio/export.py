"""Routes: files. One future, all of them, or a path, as GIF, WebP, APNG, MP4, a PNG sheet or a zip."""

from __future__ import annotations

import io
import json
import math
import zipfile
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field

from visual_dynamics.api import Frames
from visual_dynamics.errors import UserError
from visual_dynamics.media import check_area, encode_animation, encode_png, enlarge, picture_grid
from visual_dynamics.studio.schema import (
    Body,
    Code,
    FullSizeField,
    Here,
    ImageBody,
    ImageId,
    ModelName,
    body,
)
from visual_dynamics.studio.state import ModelFile, Seen

FPS = 2.0
GREY = (150, 150, 150)  # between pictures: on light pages and on dark ones
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


class FileBody(Body):
    """Which kind of file."""

    form: Annotated[Form, Field(description="Kind of the file; a zip holds every picture, and the codes")] = "gif"
    scale: Annotated[int, Field(ge=1, le=8, description="Enlargement of pixels; none at full size")] = 3
    full_size: FullSizeField = False


class ExportBody(ImageBody, FileBody):
    """An image, and the motions that make its futures."""

    codes: Annotated[list[Code], Field(min_length=1, max_length=64)]
    model_config = body(image="shapes-1", model="shapes", codes=[[0, 1, 0, 0, 0, 0, 0, 0]], form="gif")


class PathBody(FileBody):
    """Images that follow each other."""

    images: Annotated[list[ImageId], Field(min_length=2, max_length=MAX_PATH, examples=[["shapes-1", "shapes-1-next"]])]
    model: ModelName = "shapes"


@router.post("/export", response_class=Response, responses=FILE)
async def export_futures(request: Request, body: ExportBody, studio: Here) -> Response:
    """One future in turn with its input, or several side by side, in step."""
    file, most = studio.models.file(body.model), studio.most_pixels(body.full_size)
    data = await studio.about_image(request, body, lambda seen: _export(body, file, most, seen))
    return _response("futures" if len(body.codes) > 1 else "future", body.form, data)


@router.post("/export/path", response_class=Response, responses=FILE)
async def export_path(request: Request, body: PathBody, studio: Here) -> Response:
    """The images of a path, one after the other."""
    file = studio.models.file(body.model)
    pictures = [studio.pictures.find(name) for name in body.images]

    def work() -> bytes:
        model = studio.models.model(body.model)
        canvases = [model.open(picture.pixels) for picture in pictures]
        if body.full_size:
            canvases[0].check_full_size(len(canvases), studio.settings.limits.full_size_pixels)
        frames = [canvas.still(body.full_size) for canvas in canvases]
        if len({frame.shape for frame in frames}) > 1:
            raise UserError("the images of a path have one shape: these differ")
        if body.form == "zip":
            return _zip(frames, {"model": file.name, "digest": file.digest})
        scale = _scale(body, frames)
        return _encoded(body.form, enlarge(np.stack(frames), scale), frames, scale)

    return _response("path", body.form, await studio.compute(request, work))


def _export(body: ExportBody, file: ModelFile, most_pixels: int | None, seen: Seen) -> bytes:
    pictures = list(seen.moved(seen.codes(body.codes), most_pixels))
    if body.form == "zip":
        about = {"model": file.name, "digest": file.digest, "codes": body.codes}
        return _zip([seen.placed.still(body.full_size), *pictures], about)
    every = (seen.placed.still(body.full_size), *pictures)
    still, *frames = (seen.model.open(picture).still(body.full_size) for picture in every)  # without alpha
    scale = _scale(body, [still, *frames])
    if len(frames) == 1:
        clip = enlarge(np.stack([still, frames[0]]), scale)
    else:
        walls = [still] * len(frames), frames
        clip = np.stack([picture_grid(wall, _columns(len(wall)), scale, background=GREY) for wall in walls])
    return _encoded(body.form, clip, [still, *frames], scale)


def _scale(body: FileBody, pictures: list[Frames]) -> int:
    """The enlargement of pixels; an error if the file would take minutes to write and much of a machine's memory."""
    scale = 1 if body.full_size else body.scale
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


def _response(stem: str, form: Form, data: bytes) -> Response:
    name = f"{stem}.{SUFFIXES.get(form, form)}"
    return Response(data, media_type=TYPES[form], headers={"Content-Disposition": f'attachment; filename="{name}"'})
