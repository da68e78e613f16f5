"""Routes: models, images, futures of an image, and the next step from one of them."""

from __future__ import annotations

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, read_picture, resized
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.studio.samples import samples_for
from visual_dynamics.studio.schema import (
    Code,
    FullSizeField,
    Here,
    ImageBody,
    PictureShown,
    Seed,
    SourceName,
    Strength,
    Url,
    body,
    shown,
)
from visual_dynamics.studio.state import Seen, as_url

MAX_COUNT, MAX_FIRST = 32, 100_000
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # of uploads
LONGEST_SIDE = 2_048  # of stored pictures; larger ones are averaged down
router = APIRouter(tags=["futures"])
_uploads = CapacityLimiter(16)  # at a time: their bytes are in memory
_decoders = CapacityLimiter(2)  # at a time, in threads

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
    digest: str = Field(description="SHA-256 of its file")
    size: int = Field(description="Longer side of the results, in pixels")
    latent: int = Field(description="Numbers of a motion code z")
    sources: list[str] = Field(description="Where z may come from; the first is the default")
    sprites: bool = Field(description="Whether it is for sprites, drawn on black")
    reads_motion: bool = Field(description="Whether it can read the motion of a pair")
    samples: list[str] = Field(description="Images of the studio that suit it")


class FuturesBody(ImageBody):
    """Which futures."""

    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 8
    first: Annotated[int, Field(ge=0, le=MAX_FIRST, description="Number of the first one: 8 for eight more")] = 0
    seed: Seed = 0
    source: SourceName = None
    strength: Strength = 1.0
    full_size: FullSizeField = False
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
            reads_motion=file.reads_motion,
            samples=samples_for(file),
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
    async with _uploads:
        data = await request.body()
        pixels = await to_thread.run_sync(decode_upload, data, limit, exact, limiter=_decoders)
        return await to_thread.run_sync(lambda: shown(studio.pictures.keep(pixels)))


def decode_upload(data: bytes, max_pixels: int, exact: bool = False) -> Pixels:
    """The pixels of an upload, (H, W, 3), or (H, W, 4) with alpha; large ones are reduced unless `exact`."""
    if not data:
        raise UserError("the upload is empty: send the bytes of a picture as the body")
    picture = read_picture(data, "the picture", FORMATS, max_pixels)
    pixels = picture.colours if picture.alpha is None else picture.rgba
    longer = max(pixels.shape[:2])
    if exact or longer <= LONGEST_SIDE:
        return pixels
    height, width = (max(2, round(side * LONGEST_SIDE / longer)) for side in pixels.shape[:2])
    return resized(pixels, height, width)


@router.post("/futures")
async def sample_futures(request: Request, body: FuturesBody, studio: Here) -> Futures:
    """Sample plausible next frames. Future k of a seed is the same for any `count` and `first`."""
    most = studio.most_pixels(body.full_size)

    def work(seen: Seen) -> Futures:
        source = seen.model.source(body.source)  # type: ignore[arg-type]  # checked by its pattern
        codes = body.strength * source.draw(sample_seeds(body.seed, body.count, body.first))
        found = zip(codes.tolist(), seen.moved(codes, most), strict=True)
        futures = [Future(number=k, z=z, url=as_url(picture)) for k, (z, picture) in enumerate(found, body.first)]
        return Futures(input=seen.still(body.full_size), futures=futures)

    return await studio.about_image(request, body, work)


@router.post("/continue", status_code=201)
async def take_step(request: Request, body: ContinueBody, studio: Here) -> PictureShown:
    """The image moved by a motion, kept as a new image: a step on the path through possible futures."""

    def work(seen: Seen) -> PictureShown:
        (picture,) = seen.moved(seen.codes([body.z]), studio.most_pixels(body.full_size))
        return shown(studio.pictures.keep(picture))

    return await studio.about_image(request, body, work)
