"""Routes: models, images, futures of an image, and going on from one of them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.studio.context import (
    Code,
    FullSizeField,
    Here,
    ImageAsk,
    Seed,
    Shown,
    SourceName,
    Url,
    codes_for,
    moved_pictures,
    shown,
    still,
)
from visual_dynamics.studio.pictures import as_url
from visual_dynamics.studio.samples import samples_for
from visual_dynamics.studio.shelf import Seen
from visual_dynamics.studio.uploads import FORMATS_TOLD, LONGEST_SIDE, decode_upload

MAX_COUNT, MAX_FIRST = 32, 100_000
router = APIRouter(tags=["futures"])
_uploads = CapacityLimiter(16)  # read at a time: their bytes are in memory
_decoders = CapacityLimiter(2)  # of them decoded

UPLOAD = {
    "requestBody": {
        "required": True,
        "description": f"The bytes of a {FORMATS_TOLD} picture; of an animation its first frame",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

Exact = Annotated[
    bool,
    Query(description=f"Keep every pixel of a sheet; else more than {LONGEST_SIDE:,} a side are averaged down"),
]


class ModelShown(BaseModel):
    """A model of the studio."""

    name: str
    about: str
    digest: str = Field(description="SHA-256 of its file")
    size: int = Field(description="Longer side of the frames that come out, in pixels")
    latent: int = Field(description="Numbers of a motion code z")
    sources: list[str] = Field(description="Where z may come from; the first is the usual one")
    sprites: bool = Field(description="Whether it is for sprites, drawn on black")
    reads_motion: bool = Field(description="Whether it can read the motion of a pair")
    samples: list[str] = Field(description="Images of the studio that suit it")


class FuturesAsk(ImageAsk):
    """Which futures."""

    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 8
    first: Annotated[int, Field(ge=0, le=MAX_FIRST, description="Number of the first one: 8 for eight more")] = 0
    seed: Seed = 0
    source: SourceName = None
    strength: Annotated[
        float, Field(ge=0, le=3, allow_inf_nan=False, description="z is multiplied by it; 1 is as sampled")
    ] = 1.0
    full_size: FullSizeField = False
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"image": "shapes-1", "model": "shapes", "count": 4}]}
    )


class Future(BaseModel):
    """One sampled future."""

    number: int
    z: Code
    url: Url


class Futures(BaseModel):
    """An image and its futures, all of one size."""

    input: Url
    futures: list[Future]


class MotionAsk(ImageAsk):
    """An image and a motion code."""

    z: Code
    full_size: FullSizeField = False
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"image": "shapes-1", "model": "shapes", "z": [0, 1, 0, 0, 0, 0, 0, 0]}]},
    )


@router.get("/models")
def models(studio: Here) -> list[ModelShown]:
    """The models of the studio."""
    return [
        ModelShown(
            name=entry.name,
            about=entry.about,
            digest=entry.digest,
            size=entry.config.size,
            latent=entry.config.latent,
            sources=entry.sources,
            sprites=entry.of_sprites,
            reads_motion=entry.reads_motion,
            samples=samples_for(entry.name, entry.of_sprites),
        )
        for entry in studio.shelf.entries.values()
    ]


@router.get("/samples")
def samples(studio: Here) -> list[Shown]:
    """Images to begin with, drawn by the project itself."""
    return [shown(picture) for picture in studio.pictures.samples.values()]


@router.post("/images", openapi_extra=UPLOAD, status_code=201)
async def upload(request: Request, studio: Here, exact: Exact = False) -> Shown:
    """Upload a picture: its id stands for it in other requests, as long as the studio has room for it."""
    limit = studio.settings.limits.upload_pixels
    async with _uploads:
        data = await request.body()
        pixels = await to_thread.run_sync(decode_upload, data, limit, exact, limiter=_decoders)
        return await to_thread.run_sync(lambda: shown(studio.pictures.keep(pixels)))


@router.post("/futures")
async def futures(request: Request, ask: FuturesAsk, studio: Here) -> Futures:
    """Sample plausible next frames. Future k of a seed is the same, however many are asked for."""
    return await studio.about_image(request, ask, partial(_futures, ask, studio.most_pixels(ask.full_size)))


@router.post("/continue", status_code=201)
async def go_on(request: Request, ask: MotionAsk, studio: Here) -> Shown:
    """The image moved by a motion, kept as a new image: a step on the path through possible futures."""

    def work(seen: Seen) -> Shown:
        (picture,) = moved_pictures(seen, codes_for(seen, [ask.z]), studio.most_pixels(ask.full_size))
        return shown(studio.pictures.keep(picture))

    return await studio.about_image(request, ask, work)


def _futures(ask: FuturesAsk, most_pixels: int | None, seen: Seen) -> Futures:
    source = seen.model.source(ask.source)  # type: ignore[arg-type]  # checked by its pattern
    codes = ask.strength * source.draw(sample_seeds(ask.seed, ask.count, ask.first))
    pictures = moved_pictures(seen, codes, most_pixels)
    return Futures(
        futures=[
            Future(number=ask.first + place, z=code, url=as_url(picture))
            for place, (code, picture) in enumerate(zip(codes.tolist(), pictures, strict=True))
        ],
        input=still(seen, ask.full_size),
    )
