"""What all routes share: the studio behind the application, and the kinds of values that requests hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar

import torch
from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sampling.full_size import FullSize
from visual_dynamics.studio.line import Line, in_line
from visual_dynamics.studio.pictures import Picture, Pictures, as_url
from visual_dynamics.studio.samples import draw_samples
from visual_dynamics.studio.saved_motions import SavedMotions
from visual_dynamics.studio.settings import Settings
from visual_dynamics.studio.shelf import Seen, Shelf

T = TypeVar("T")
MAX_LATENT = 100_000  # numbers of a motion code
LARGEST_SEED = 2**53 - 1  # that JavaScript counts exactly
FIRST_MODEL, FIRST_SAMPLE = "shapes", "shapes-1"  # with which a page begins
Z_BOUND = 100.0  # codes lie around 0 with deviation 1

ImageId = Annotated[
    str,
    Field(pattern=r"^[a-z0-9-]{1,64}$", description="Id of an upload or of a sample", examples=["shapes-1"]),
]
ModelName = Annotated[str, Field(min_length=1, max_length=200, description="See /api/models", examples=["shapes"])]
SourceName = Annotated[
    str | None,
    Field(
        pattern="^(posteriors|learned|prior)$",
        description="Where z comes from: training posteriors (usual), a mixture fitted to them, or N(0, I)",
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
FullSizeField = Annotated[bool, Field(description="Results have the size of the image: its own pixels, moved")]
Url = Annotated[str, Field(description="A PNG as a data URL", examples=["data:image/png;base64,iVBORw0KGgo="])]


class Ask(BaseModel):
    """The body of a request; a misspelt name is an error."""

    model_config = ConfigDict(extra="forbid")


class ImageAsk(Ask):
    """A request about one image, to one model."""

    image: ImageId
    model: ModelName = FIRST_MODEL


class Shown(BaseModel):
    """A picture of the studio."""

    id: str
    width: int
    height: int
    url: Url


def shown(picture: Picture) -> Shown:
    return Shown(id=picture.id, width=picture.width, height=picture.height, url=picture.url)


class Studio:
    """Models, pictures, motions and the line of work."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.line = Line(settings.limits.line_length, settings.limits.line_per_client)
        self.shelf = Shelf(settings.models, settings.device, self.line.check)
        self.saved = SavedMotions(settings.database)
        self.pictures = Pictures(draw_samples(), settings.limits.image_bytes)

    def warm_up(self) -> None:
        """Load the first model while people look at the page: what they ask for first comes at once."""

        def work() -> None:
            seen = self.shelf.seen(FIRST_MODEL, self.pictures.samples[FIRST_SAMPLE])
            moved(seen, torch.zeros(1, seen.model.predictor.network.config.latent))

        self.line.join("studio", "", work)

    def most_pixels(self, full_size: bool) -> int | None:
        """Of all pictures of an answer at full size; None where that is not asked for."""
        return self.settings.limits.full_size_pixels if full_size else None

    async def compute(self, request: Request, work: Callable[[], T]) -> T:
        """Work for a request, in its turn."""
        return await in_line(self.line, request, work)

    async def about_image(self, request: Request, ask: ImageAsk, work: Callable[[Seen], T]) -> T:
        """Work on an image as the model sees it. Whatever does not exist is told before the line is joined."""
        self.shelf.entry(ask.model)
        picture = self.pictures.find(ask.image)
        return await self.compute(request, lambda: work(self.shelf.seen(ask.model, picture)))


def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


Here = Annotated[Studio, Depends(_studio)]


def codes_for(seen: Seen, codes: list[list[float]]) -> Tensor:
    """Motion codes (n, latent) for the model that sees the image."""
    latent = seen.model.predictor.network.config.latent
    if any(len(code) != latent for code in codes):
        raise UserError(f"the motion code does not belong to this model: it needs {latent:,} numbers")
    return torch.tensor(codes, dtype=torch.float32)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For work so short that threads gain nothing, and on a busy machine wait long for each other."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def moved(seen: Seen, codes: Tensor, fast: bool = False) -> list[str]:
    """The image moved by each code (n, latent), as data URLs; sprites keep their alpha. `fast`: a single code."""
    if not fast:
        return [as_url(picture) for picture in moved_pictures(seen, codes)]
    with _one_thread():
        decoded = seen.model.predictor.preview(seen.encoded, codes)
    return [as_url(picture) for picture in _with_alpha(seen, decoded)]


def moved_pictures(seen: Seen, codes: Tensor, most_pixels: int | None = None) -> Iterator[Pixels]:
    """The image moved by each code (n, latent): (H, W, 3 or 4); with `most_pixels` (in all) at the image's own size."""
    predictor = seen.model.predictor
    if most_pixels is None or seen.model.keeps_size(seen.pixels):
        yield from _with_alpha(seen, predictor.decode(seen.encoded, codes))
        return
    check_pixels(len(codes), seen.pixels, most_pixels)
    large = FullSize(seen.model.picture(seen.pixels, full_size=True), seen.encoded.frame, seen.box)
    for code in codes.split(1):  # one by one, so that what nobody waits for any more ends soon
        yield large.future(predictor.decode(seen.encoded, code)[0])


def check_pixels(count: int, pixels: Pixels, most: int) -> None:
    """Refuse so many pictures of that size where they are too large for one answer."""
    height, width = pixels.shape[:2]
    if count * height * width > most:
        told = f"{count} pictures of {width} x {height} pixels are too large (at most {most // 10**6} million in all)"
        raise UserError(f"{told}: choose fewer, or a smaller picture")


def _with_alpha(seen: Seen, decoded: Tensor) -> Pixels:
    """Frames of the network (n, 3, S, S) as pictures (n, H, W, 3), or (n, H, W, 4) of sprites."""
    return seen.model.with_alpha(seen.model.finish(decoded, seen.box), seen.pixels)


def still(seen: Seen, full_size: bool = False) -> str:
    """The image itself, in the size of the results, as a data URL."""
    if full_size and not seen.model.keeps_size(seen.pixels):
        return as_url(seen.model.picture(seen.pixels, full_size=True))
    return as_url(seen.model.with_alpha(seen.still[None], seen.pixels)[0])
