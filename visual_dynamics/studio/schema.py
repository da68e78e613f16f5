"""What all routes share: the studio behind the application, and the types of values in requests and responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import torch
from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from visual_dynamics.studio.queue import Queue, run_in_queue
from visual_dynamics.studio.samples import draw_samples
from visual_dynamics.studio.state import Models, Pictures, Seen, Settings, StoredPicture

if TYPE_CHECKING:
    from visual_dynamics.studio.library import Library

T = TypeVar("T")
MAX_LATENT = 100_000  # numbers of a motion code
LARGEST_SEED = 2**53 - 1  # JavaScript counts exactly up to here
FIRST_MODEL, FIRST_SAMPLE = "shapes", "shapes-1"  # the page begins with these
Z_BOUND = 100.0  # codes have mean 0 and standard deviation 1

ImageId = Annotated[
    str, Field(pattern=r"^[a-z0-9-]{1,64}$", description="Id of an upload or of a sample", examples=["shapes-1"])
]
ModelName = Annotated[str, Field(min_length=1, max_length=200, description="See /api/models", examples=["shapes"])]
SourceName = Annotated[
    str | None,
    Field(
        pattern="^(posteriors|learned|prior)$",
        description="Where z comes from: training posteriors (default), a mixture fitted to them, or N(0, I)",
        examples=["posteriors"],
    ),
]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED, description="The same seed gives the same pictures", examples=[0])]
Number = Annotated[float, Field(ge=-Z_BOUND, le=Z_BOUND, allow_inf_nan=False)]
Code = Annotated[
    list[Number],
    Field(
        min_length=1,
        max_length=MAX_LATENT,
        description="A motion code z: as many numbers as the model's `latent`",
        examples=[[0.5, -1, 0, 0, 0, 0, 0, 0.8]],
    ),
]
Strength = Annotated[
    float, Field(ge=0, le=3, allow_inf_nan=False, description="z is multiplied by it; 1 is as sampled")
]
FullSizeField = Annotated[bool, Field(description="Results have the size of the image: its own pixels, moved")]
Url = Annotated[str, Field(description="A PNG as a data URL", examples=["data:image/png;base64,iVBORw0KGgo="])]


def body(**example: JsonValue) -> ConfigDict:
    """The configuration of a request body: an unknown name is an error."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]} if example else None)


class Body(BaseModel):
    """The body of a request."""

    model_config = body()


class ImageBody(Body):
    """A request about one image, to one model."""

    image: ImageId
    model: ModelName = FIRST_MODEL


class PictureShown(BaseModel):
    """A picture of the studio."""

    id: str
    width: int
    height: int
    url: Url


def shown(picture: StoredPicture) -> PictureShown:
    height, width = picture.pixels.shape[:2]
    return PictureShown(id=picture.id, width=width, height=height, url=picture.url)


class Studio:
    """Models, pictures, motions and the queue."""

    def __init__(self, settings: Settings, library: Library) -> None:
        self.settings, self.library = settings, library
        self.queue = Queue(settings.limits.queue_length, settings.limits.queue_per_client)
        self.models = Models(settings.models, settings.device, self.queue.check)
        self.pictures = Pictures(draw_samples(), settings.limits.image_bytes)

    def warm_up(self) -> None:
        """Load the first model while people look at the page: the first results come at once."""

        def work() -> None:
            seen = self.models.seen(FIRST_MODEL, self.pictures.samples[FIRST_SAMPLE])
            list(seen.moved(torch.zeros(1, seen.model.predictor.network.config.latent)))

        self.queue.add("studio", "", work)

    def most_pixels(self, full_size: bool) -> int | None:
        """Of all pictures of a response at full size; None for results of the model's size."""
        return self.settings.limits.full_size_pixels if full_size else None

    async def compute(self, request: Request, work: Callable[[], T]) -> T:
        """Do the work of a request in the queue."""
        return await run_in_queue(self.queue, request, work)

    async def about_image(self, request: Request, body: ImageBody, work: Callable[[Seen], T]) -> T:
        """Work on an image as the model sees it. An unknown name is an error before the queue."""
        self.models.file(body.model)
        picture = self.pictures.find(body.image)
        return await self.compute(request, lambda: work(self.models.seen(body.model, picture)))


def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


Here = Annotated[Studio, Depends(_studio)]
