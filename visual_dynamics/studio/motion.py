"""Routes: motion by hand. Dimensions of z that carry motion, live decoding, and the library of named motions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import torch
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from visual_dynamics.errors import UserError
from visual_dynamics.sampling.moves import path, stored_usage
from visual_dynamics.studio.arrows import arrows_between, in_words
from visual_dynamics.studio.context import (
    MAX_LATENT,
    Ask,
    Code,
    Here,
    ImageAsk,
    ImageId,
    ModelName,
    Number,
    Studio,
    Url,
    codes_for,
    moved,
    still,
)
from visual_dynamics.studio.pictures import as_url
from visual_dynamics.studio.saved_motions import SavedMotion
from visual_dynamics.studio.shelf import Seen
from visual_dynamics.web.refusals import Refused

MAX_DIMENSIONS = 16  # that have a slider
ENDS = (-1.5, 1.5)  # deviations at which a dimension is shown
FILE_FORMAT, FILE_VERSION = "visual-dynamics-motion", 1
router = APIRouter(tags=["motion"])

Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$"),
    Field(examples=["jump"]),
]
MotionId = Annotated[int, Path(ge=1, le=2**53, description="Id of a saved motion")]


class Dimension(BaseModel):
    """A dimension of z, and what it does to the image."""

    dimension: int
    nats: float = Field(description="How much it tells of a motion")
    scale: float = Field(description="Its deviation over training pairs: the unit of a slider")
    words: str = Field(examples=["up and down"])
    low: Url
    high: Url
    arrows: list[tuple[float, float, float, float]] = Field(description="x, y, dx, dy as shares of the width")


class Dimensions(BaseModel):
    """All that sliders need."""

    input: Url
    latent: int
    rest: list[float] = Field(description="A code that keeps the image still, as far as the model knows one")
    dimensions: list[Dimension]


class DecodeAsk(ImageAsk):
    """An image and motion codes."""

    codes: Annotated[list[Code], Field(min_length=1, max_length=32)]
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"image": "shapes-1", "model": "shapes", "codes": [[0, 1, 0, 0, 0, 0, 0, 0]]}]},
    )


class Decoded(BaseModel):
    """The image moved by each code."""

    urls: list[Url]


class SaveAsk(Ask):
    """A motion to keep: its code, or a pair to read it from."""

    name: Name
    model: ModelName = "shapes"
    origin: Literal["future", "sliders"] = "sliders"
    z: Code
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "jump", "model": "shapes", "z": [0, 1, 0, 0, 0, 0, 0, 0]}]},
    )


class PairAsk(Ask):
    """Two frames of one size, and a name for the motion between them."""

    name: Name
    model: ModelName = "shapes"
    before: ImageId
    after: Annotated[ImageId, Field(examples=["shapes-1-next"])]


class Saved(BaseModel):
    """A motion of the library."""

    id: int
    name: str
    model: str
    digest: str
    origin: str
    z: list[float]
    created: datetime


class ApplyAsk(Ask):
    """The image to move."""

    image: ImageId
    strength: Annotated[float, Field(ge=0, le=3, allow_inf_nan=False)] = 1.0


class Applied(BaseModel):
    """An image and what a motion makes of it."""

    input: Url
    url: Url
    z: list[float]


class MotionFile(Ask):
    """A motion as a file."""

    format: Literal["visual-dynamics-motion"]
    version: Literal[1]
    name: Name
    model: Annotated[str, Field(max_length=200)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the model's file")]
    z: Annotated[list[Number], Field(min_length=1, max_length=MAX_LATENT)]


@router.post("/dimensions")
async def dimensions(request: Request, ask: ImageAsk, studio: Here) -> Dimensions:
    """The dimensions of z that carry motion, the strongest first, and what each does to the image."""
    return await studio.about_image(request, ask, _dimensions)


@router.post("/decode")
async def decode(request: Request, ask: DecodeAsk, studio: Here) -> Decoded:
    """The image moved by given motion codes. The image is encoded once, so that a slider is followed live."""

    def work(seen: Seen) -> Decoded:
        return Decoded(urls=moved(seen, codes_for(seen, ask.codes), fast=len(ask.codes) == 1))

    return await studio.about_image(request, ask, work)


@router.get("/motions")
def motions(studio: Here, model: ModelName | None = None) -> list[Saved]:
    """The library, or what of it belongs to one model."""
    digest = studio.shelf.entry(model).digest if model is not None else None
    return [_saved(motion) for motion in studio.saved.all(digest)]


@router.post("/motions", status_code=201)
def save(ask: SaveAsk, studio: Here) -> Saved:
    """Keep a motion code under a name."""
    return _keep(studio, ask.name, ask.model, ask.origin, ask.z)


@router.post("/motions/pair", status_code=201)
async def save_pair(request: Request, ask: PairAsk, studio: Here) -> Saved:
    """Keep the motion between two frames under a name."""
    studio.shelf.entry(ask.model)
    before, after = studio.pictures.find(ask.before), studio.pictures.find(ask.after)
    z = await studio.compute(
        request, lambda: studio.shelf.model(ask.model).encode(before.pixels, after.pixels).mean.tolist()
    )
    return _keep(studio, ask.name, ask.model, "pair", z)


@router.post("/motions/import", status_code=201)
def bring(ask: MotionFile, studio: Here) -> Saved:
    """Keep a motion that was exported here or elsewhere; the model it belongs to must be one of this studio's."""
    for entry in studio.shelf.entries.values():
        if entry.digest == ask.digest:
            return _keep(studio, ask.name, entry.name, "file", ask.z)
    raise Refused(409, f"the motion was made with a model {ask.model!r} that this studio does not have")


@router.get("/motions/{number}/file", response_model=MotionFile)
def take(number: MotionId, studio: Here) -> JSONResponse:
    """A motion as a file, to keep or to send."""
    motion = studio.saved.find(number)
    content = {"format": FILE_FORMAT, "version": FILE_VERSION, "name": motion.name, "model": motion.model}
    headers = {"Content-Disposition": f'attachment; filename="motion-{number}.json"'}
    return JSONResponse(content | {"digest": motion.digest, "z": motion.z}, headers=headers)


@router.post("/motions/{number}/apply")
async def apply(request: Request, number: MotionId, ask: ApplyAsk, studio: Here) -> Applied:
    """An image moved by a saved motion."""
    motion = studio.saved.find(number)
    entry = next((entry for entry in studio.shelf.entries.values() if entry.digest == motion.digest), None)
    if entry is None:
        raise Refused(409, f"the motion belongs to a model {motion.model!r} that this studio no longer has")

    def work(seen: Seen) -> Applied:
        codes = ask.strength * codes_for(seen, [motion.z])
        return Applied(input=still(seen), url=moved(seen, codes)[0], z=codes[0].tolist())

    return await studio.about_image(request, ImageAsk(image=ask.image, model=entry.name), work)


@router.delete("/motions/{number}", status_code=204)
def delete(number: MotionId, studio: Here) -> Response:
    """Forget a motion."""
    studio.saved.remove(number)
    return Response(status_code=204)


def _keep(studio: Studio, name: str, model: str, origin: str, z: list[float]) -> Saved:
    entry = studio.shelf.entry(model)
    if len(z) != entry.config.latent:
        raise Refused(422, f"z: the codes of {model} have {entry.config.latent:,} numbers, not {len(z):,}")
    return _saved(studio.saved.add(name, model, entry.digest, origin, z))


def _saved(motion: SavedMotion) -> Saved:
    return Saved.model_validate(vars(motion))


def _dimensions(seen: Seen) -> Dimensions:
    model = seen.model
    used = stored_usage(model.weights.posteriors)
    chosen = used.active[:MAX_DIMENSIONS]
    if not chosen:
        raise UserError("no dimension of z carries motion in this model")
    rest = model.predictor.rest(seen.encoded)
    codes = rest + torch.cat([path(used, dimension, torch.tensor(ENDS)) for dimension in chosen])
    frames = model.predictor.decode(seen.encoded, codes).cpu()  # (2 * dimensions, 3, S, S)
    urls = [as_url(picture) for picture in model.with_alpha(model.finish(frames, seen.box), seen.pixels)]
    found = []
    for place, dimension in enumerate(chosen):
        arrows = arrows_between(frames[2 * place], frames[2 * place + 1])
        box = seen.box
        shares = [
            ((a.x - box.left) / box.width, (a.y - box.top) / box.width, a.dx / box.width, a.dy / box.width)
            for a in arrows
        ]
        found.append(
            Dimension(
                dimension=dimension,
                nats=float(used.nats[dimension]),
                scale=float(used.scale[dimension]),
                words=in_words(arrows),
                low=urls[2 * place],
                high=urls[2 * place + 1],
                arrows=shares,
            )
        )
    return Dimensions(input=still(seen), latent=len(used.scale), rest=rest.tolist(), dimensions=found)
