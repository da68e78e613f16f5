"""The models of a studio, pictures as models see them, and the types of requests to a model.

Only the one thread of the queue loads models and encodes pictures: no lock is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.errors import UserError
from visual_dynamics.images import Box, Pixels
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.model_files import Header, digest_of, find_weights, read_header, shipped_models
from visual_dynamics.sampling.canvas import Canvas
from visual_dynamics.sampling.predictor import EncodedImage
from visual_dynamics.sampling.threads import one_thread
from visual_dynamics.sprites.align import Place, put, standing_place, take
from visual_dynamics.studio.pictures import ImageId, StoredPicture, as_url
from visual_dynamics.web import RequestError

MODELS = 3  # in memory: about 100 MB each
ENCODED = 64  # pictures as a model sees them: 0.7 MB each ...
CANVAS_BYTES = 128_000_000  # ... and their pixels, all together
FIRST_MODEL, FIRST_SAMPLE = "shapes", "shapes-1"  # the page begins with these
MAX_LATENT = 100_000  # numbers of a motion code
LARGEST_SEED = 2**53 - 1  # JavaScript counts exactly up to here
Z_BOUND = 100.0  # codes have mean 0 and standard deviation 1

ModelName = Annotated[str, Field(min_length=1, max_length=200, description="See /api/models", examples=["shapes"])]
SourceName = Annotated[
    str | None,
    Field(
        pattern="^(conditional|posteriors|learned|prior)$",
        description="Where z comes from; by default the first that the model has: p(z | image), training posteriors, "
        "a mixture fitted to them, N(0, I)",
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
        fail_fast=True,  # one error, and not one of each number
        description="A motion code z: as many numbers as the model's `latent`",
        examples=[[0.5, -1, 0, 0, 0, 0, 0, 0.8]],
    ),
]
Strength = Annotated[
    float, Field(ge=0, le=3, allow_inf_nan=False, description="z is multiplied by it; 1 is as sampled")
]
FullSizeField = Annotated[bool, Field(description="Results have the size of the image: its own pixels, moved")]


def body(**example: JsonValue) -> ConfigDict:
    """The configuration of a request body: an unknown name is an error."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]} if example else None)


class Body(BaseModel):
    """The body of a request."""

    model_config = body()

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, data: Any) -> Any:
        """One error for all unknown names: to collect those of a hundred thousand takes seconds."""
        if isinstance(data, dict) and (unknown := data.keys() - cls.model_fields.keys()):
            raise ValueError(f"there is no value called {min(unknown)[:40]!r}")
        return data


class ImageBody(Body):
    """A request about one image, to one model."""

    image: ImageId
    model: ModelName = FIRST_MODEL


@dataclass(frozen=True)
class ModelFile:
    """What is known of a model before it is loaded."""

    name: str
    path: Path

    @cached_property
    def digest(self) -> str:
        return digest_of(self.path.read_bytes())

    @cached_property
    def header(self) -> Header:
        return read_header(self.path)

    @property
    def config(self) -> NetworkConfig:
        return self.header.config

    @property
    def sources(self) -> list[str]:
        """Where z may come from; the first is the default."""
        there = {"conditional": self.header.knows_images, "posteriors": bool(self.header.posteriors)}
        return [*(name for name, known in there.items() if known), "learned", "prior"]

    @property
    def of_sprites(self) -> bool:
        return self.config.background == 0

    @property
    def completes(self) -> bool:
        """Whether it knows any two poses of a sprite, as it takes to complete a character."""
        return self.of_sprites and not self.header.knows_neighbours

    @property
    def data(self) -> str:
        """What it was trained on, "shapes" for example; empty if the file does not say so."""
        config = self.header.training.get("config", {})
        return str(config.get("data", "")) if isinstance(config, dict) else ""

    @property
    def about(self) -> str:
        """What the model does, by its card."""
        card = self.path.with_suffix(".md")
        lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
        start = "| what it does |"
        text = next((line.removeprefix(start).strip(" |") for line in lines if line.startswith(start)), "")
        return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class PlacedCanvas:
    """A canvas; a sprite stands on it where the model knows sprites, as in `animate`."""

    canvas: Canvas
    place: Place | None  # of the sprite in the model's frame; None: unmoved
    shape: tuple[int, int]  # of the picture

    @property
    def box(self) -> Box:
        """Where the picture lies in the model's frame."""
        return self.canvas.box if self.place is None else Box(self.place.top, self.place.left, *self.shape)

    def own_cell(self, sprites: Pixels) -> Pixels:
        """Results (n, H, W, 3 or 4) of the canvas as results of the picture."""
        return sprites if self.place is None else take(sprites, self.place, self.shape)

    def still(self, full_size: bool = False) -> Pixels:
        """The picture itself, in the size of the results."""
        return self.own_cell(self.canvas.with_alpha(self.canvas.still(full_size))[None])[0]


def open_placed(model: Model, pixels: Pixels, like: PlacedCanvas | None = None) -> PlacedCanvas:
    """A picture for a model; with `like` in the same place, as the second frame of a pair."""
    canvas, (height, width), place = model.open(pixels, check=False), pixels.shape[:2], None
    if canvas.sprite is not None and like is None:
        place = standing_place(pixels, model.size)
    elif canvas.sprite is not None and like and like.shape == (height, width):
        place = like.place
    if place is not None:
        canvas = model.open(put(pixels[None], place, model.size)[0], check=False)
    return PlacedCanvas(canvas, place, (height, width))


def read_motion(model: Model, before: Pixels, after: Pixels) -> tuple[list[float], PlacedCanvas, PlacedCanvas]:
    """The motion code of a pair, and both frames."""
    first = open_placed(model, before)
    second = open_placed(model, after, like=first)
    return model.encode(first.canvas, second.canvas).mean.tolist(), first, second


@dataclass(frozen=True)
class Seen:
    """A picture as a model sees it, encoded."""

    model: Model
    placed: PlacedCanvas
    encoded: EncodedImage

    @cached_property
    def warning(self) -> str:
        """A sentence on a picture that is unlike those that the model learned from; "" for others."""
        return self.model.unfamiliar(self.placed.canvas)

    @property
    def bytes(self) -> int:
        """Of its pixels; what a model makes of them is small."""
        canvas = self.placed.canvas
        return canvas.pixels.nbytes + (0 if canvas.alpha is None else canvas.alpha.nbytes)

    def codes(self, codes: list[list[float]]) -> Tensor:
        """Motion codes (n, latent) for this model."""
        latent = self.model.predictor.network.config.latent
        if any(len(code) != latent for code in codes):
            raise UserError(f"the motion code does not belong to this model: it needs {latent:,} numbers")
        return torch.tensor(codes, dtype=torch.float32)

    def moved(self, codes: Tensor, most_pixels: int | None = None) -> Iterator[Pixels]:
        """The picture moved by each code (n, latent), (H, W, 3 or 4); at its own size if `most_pixels` bounds that."""
        predictor = self.model.predictor
        canvas = self.placed.canvas
        if most_pixels is None or canvas.unscaled:
            yield from self.finish(predictor.decode(self.encoded, codes))
            return
        canvas.check_full_size(len(codes), most_pixels)
        frames = (predictor.decode(self.encoded, code)[0] for code in codes.split(1))  # a cancelled job ends soon
        yield from canvas.futures(frames, full_size=True)

    def preview(self, code: Tensor) -> Pixels:
        """`moved` by one code (1, latent), fast."""
        with one_thread():
            return self.finish(self.model.predictor.preview(self.encoded, code))[0]

    def still(self, full_size: bool = False) -> str:
        """The picture itself, in the size of the results, as a data URL."""
        return as_url(self.placed.still(full_size))

    def finish(self, frames: Tensor) -> Pixels:
        """Frames of the network (n, 3, S, S) as pictures (n, H, W, 3), or (n, H, W, 4) of sprites."""
        return self.placed.own_cell(self.placed.canvas.with_alpha(self.placed.canvas.pictures(frames)))


class Models:
    """Models by name. They are loaded when a request needs them, and the most recently used stay in memory."""

    def __init__(self, others: tuple[str, ...], device: str, check: Callable[[], None]) -> None:
        """check: called before each part of a network works; it may raise, to end the work."""
        self.device, self.check = device, check
        self.files = {name: ModelFile(name, find_weights(name)) for name in shipped_models()}
        for other in others:
            path = find_weights(other)
            name = path.stem if path.stem != "weights" else path.parent.name
            if name in self.files:
                raise UserError(f"two models are called {name}: rename {path}")
            self.files[name] = ModelFile(name, path)
        for file in self.files.values():
            _ = file.config  # a broken file is an error now
        self._loaded: OrderedDict[str, Model] = OrderedDict()
        self._seen: OrderedDict[tuple[str, str], Seen] = OrderedDict()

    def file(self, name: str) -> ModelFile:
        if name not in self.files:
            raise RequestError(404, f"no model {name!r}: there are {', '.join(self.files)}")
        return self.files[name]

    def model(self, name: str) -> Model:
        model = self._loaded.pop(name, None) or self._load(name)
        self._loaded[name] = model
        while len(self._loaded) > MODELS:
            dropped, _ = self._loaded.popitem(last=False)
            for key in [key for key in self._seen if key[0] == dropped]:
                del self._seen[key]
        return model

    def seen(self, name: str, picture: StoredPicture) -> Seen:
        """The picture as the model sees it. The latest are cached: only decoding is left to do."""
        model, key = self.model(name), (name, picture.id)
        seen = self._seen.pop(key, None)
        if seen is None:
            placed = open_placed(model, picture.pixels)
            frame = placed.canvas.at(model.predictor.picture_size)
            seen = Seen(model, placed, model.predictor.encode_image(frame))
        self._seen[key] = seen
        size = sum(each.bytes for each in self._seen.values())
        while len(self._seen) > 1 and (len(self._seen) > ENCODED or size > CANVAS_BYTES):
            _, oldest = self._seen.popitem(last=False)
            size -= oldest.bytes
        return seen

    def _load(self, name: str) -> Model:
        model = load(self.file(name).path, self.device)
        for part in model.predictor.network.children():
            part.register_forward_pre_hook(lambda *_: self.check())
        return model
