"""Routes: models, images, futures of an image, the next step from one of them, and all of these as files."""

from __future__ import annotations

import io
import json
import math
import zipfile
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from visual_dynamics.api import Frames
from visual_dynamics.errors import UserError
from visual_dynamics.media import check_area, encode_animation, encode_png, enlarge, picture_grid
from visual_dynamics.sampling.latents import LatentSource, sample_seeds
from visual_dynamics.sampling.poke import CODES, PokedCodes, in_frame, poked_codes
from visual_dynamics.studio.decoding import LONGEST_SIDE, decode_upload
from visual_dynamics.studio.models import (
    Body,
    Code,
    FullSizeField,
    ImageBody,
    ModelFile,
    ModelName,
    Seed,
    Seen,
    SourceName,
    Strength,
    body,
)
from visual_dynamics.studio.pictures import (
    ImageId,
    PictureShown,
    Url,
    as_url,
    samples_like,
    shown,
)
from visual_dynamics.studio.state import Here

MAX_COUNT, MAX_FIRST, MAX_PIXEL = 32, 100_000, 100_000.0
Pixel = Annotated[float, Field(ge=-MAX_PIXEL, le=MAX_PIXEL, allow_inf_nan=False)]
router = APIRouter(tags=["futures"])

UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "The bytes of a PNG, JPEG, WebP, GIF or BMP picture; of an animation its first frame",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Exact = Annotated[
    bool,
    Query(description=f"Keep every pixel, of a sheet for example; else a longer side than {LONGEST_SIDE:,} is reduced"),
]


class ModelShown(BaseModel):
    """A model of the studio."""

    name: str
    about: str
    digest: str = Field(description="SHA-256 of its file, but for what that holds of training pictures")
    size: int = Field(description="Longer side of the results, in pixels")
    latent: int = Field(description="Numbers of a motion code z")
    sources: list[str] = Field(description="Where z may come from; the first is the default")
    sprites: bool = Field(description="Whether it is for sprites, drawn on black")
    reads_motion: bool = Field(description="Whether it can read the motion of a pair")
    completes: bool = Field(description="Whether it can complete a character: it knows any two poses of sprites")
    samples: list[str] = Field(description="Images of the studio that suit it")


class PokeBody(Body):
    """What is at a place of the image goes by a motion; all in pixels of the image, y down."""

    x: Pixel
    y: Pixel
    dx: Pixel
    dy: Pixel
    codes: Annotated[int, Field(ge=1, le=CODES, description="That are tried")] = CODES
    model_config = body(x=60, y=70, dx=0, dy=5, codes=CODES)


class FuturesBody(ImageBody):
    """Which futures."""

    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 8
    first: Annotated[int, Field(ge=0, le=MAX_FIRST, description="Number of the first one: 8 for eight more")] = 0
    seed: Seed = 0
    source: SourceName = None
    strength: Strength = 1.0
    full_size: FullSizeField = False
    poke: Annotated[PokeBody | None, Field(description="Only futures in which a part moves like this")] = None
    model_config = body(image="shapes-1", model="shapes", count=4)


class Future(BaseModel):
    """One sampled future."""

    number: int
    z: Code
    url: Url


class Futures(BaseModel):
    """An image and its futures, all of one size."""

    input: Url
    futures: list[Future]
    fitting: float | None = Field(default=None, description="Effective number of the tried codes that fit a poke")


class ContinueBody(ImageBody):
    """An image and a motion code."""

    z: Code
    full_size: FullSizeField = False
    model_config = body(image="shapes-1", model="shapes", z=[0, 1, 0, 0, 0, 0, 0, 0])


@router.get("/models")
def list_models(studio: Here) -> list[ModelShown]:
    """The models of the studio."""
    return [
        ModelShown(
            name=file.name,
            about=file.about,
            digest=file.digest,
            size=file.config.size,
            latent=file.config.latent,
            sources=file.sources,
            sprites=file.of_sprites,
            reads_motion=file.header.encodes_motion,
            completes=file.completes,
            samples=samples_like(file.data, file.of_sprites),
        )
        for file in studio.models.files.values()
    ]


@router.get("/samples")
def list_samples(studio: Here) -> list[PictureShown]:
    """Images to begin with, drawn by the project itself."""
    return [shown(picture) for picture in studio.pictures.samples.values()]


@router.post("/images", openapi_extra=UPLOAD, status_code=201)
async def upload(request: Request, studio: Here, exact: Exact = False) -> PictureShown:
    """Upload a picture. Other requests use its id, as long as the cache of the studio holds the picture."""
    limit = studio.settings.limits.upload_pixels
    decode = partial(decode_upload, max_pixels=limit, exact=exact)
    return await studio.decode(request, decode, lambda _, pixels: shown(studio.pictures.keep(pixels)))


@router.post("/futures")
async def sample_futures(request: Request, body: FuturesBody, studio: Here) -> Futures:
    """Sample plausible next frames. Future k of a seed is the same for any `count` and `first`."""
    most = studio.most_pixels(body.full_size)

    def work(seen: Seen) -> Futures:
        source = seen.model.source(body.source)  # type: ignore[arg-type]  # checked by its pattern
        poked = _poked(seen, source, body.poke, body.seed) if body.poke else None
        source = poked or source
        codes = body.strength * source.draw(sample_seeds(body.seed, body.count, body.first), seen.encoded)
        found = zip(codes.tolist(), seen.moved(codes, most), strict=True)
        futures = [Future(number=k, z=z, url=as_url(picture)) for k, (z, picture) in enumerate(found, body.first)]
        return Futures(
            input=seen.still(body.full_size), futures=futures, fitting=round(poked.effective, 1) if poked else None
        )

    return await studio.about_image(request, body, work)


def _poked(seen: Seen, source: LatentSource, poke: PokeBody, seed: int) -> PokedCodes:
    """As `Model.poke`, of a picture where the studio has placed it."""
    wanted = in_frame(((poke.x, poke.y), (poke.dx, poke.dy)), seen.placed.shape, seen.placed.box)
    return poked_codes(seen.model.predictor, seen.encoded, source, wanted, seed, poke.codes)


@router.post("/continue", status_code=201)
async def take_step(request: Request, body: ContinueBody, studio: Here) -> PictureShown:
    """The image moved by a motion, kept as a new image: a step on the path through possible futures."""

    def work(seen: Seen) -> PictureShown:
        (picture,) = seen.moved(seen.codes([body.z]), studio.most_pixels(body.full_size))
        return shown(studio.pictures.keep(picture))

    return await studio.about_image(request, body, work)


# --- files: GIF, WebP, APNG, MP4, a PNG sheet or a zip

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
files = APIRouter(tags=["export"])
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


@files.post("/export", response_class=Response, responses=FILE)
async def export_futures(request: Request, body: ExportBody, studio: Here) -> Response:
    """One future in turn with its input, or several side by side, in step."""
    file, most = studio.models.file(body.model), studio.most_pixels(body.full_size)
    data = await studio.about_image(request, body, lambda seen: _export(body, file, most, seen))
    return _response("futures" if len(body.codes) > 1 else "future", body.form, data)


@files.post("/export/path", response_class=Response, responses=FILE)
async def export_path(request: Request, body: PathBody, studio: Here) -> Response:
    """The images of a path, one after the other."""
    file = studio.models.file(body.model)
    pictures = [studio.pictures.find(name) for name in body.images]

    def work() -> bytes:
        model = studio.models.model(body.model)
        canvases = [model.open(picture.pixels, check=False) for picture in pictures]
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
    pictures = [seen.placed.still(body.full_size), *seen.moved(seen.codes(body.codes), most_pixels)]
    if body.form == "zip":
        return _zip(pictures, {"model": file.name, "digest": file.digest, "codes": body.codes})
    still, *frames = (
        seen.model.open(picture, check=False).still(body.full_size) for picture in pictures
    )  # without alpha
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
    name = f"{stem}.{'png' if form == 'sheet' else form}"
    return Response(data, media_type=TYPES[form], headers={"Content-Disposition": f'attachment; filename="{name}"'})
