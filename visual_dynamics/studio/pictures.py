"""The pictures of a studio: uploads in a cache, and samples to begin with.

The samples are scenes of the Shapes world, plain and textured, drawn people, and sprites that walk.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from PIL import Image, ImageDraw
from pydantic import BaseModel, Field
from torch import Tensor

from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.shapes import clear_scenes, images
from visual_dynamics.images import Color, Pixels, shrink
from visual_dynamics.media import encode_png
from visual_dynamics.studio.kept import Kept, id_of

THUMBNAIL, SPRITE_THUMBNAIL = 256, 1024  # pixels of the longer side

ImageId = Annotated[
    str, Field(pattern=r"^[a-z0-9-]{1,64}$", description="Id of an upload or of a sample", examples=["shapes-1"])
]
Url = Annotated[str, Field(description="A PNG as a data URL", examples=["data:image/png;base64,iVBORw0KGgo="])]


class PictureShown(BaseModel):
    """A picture of the studio."""

    id: str
    width: int
    height: int
    url: Url


def shown(picture: StoredPicture) -> PictureShown:
    height, width = picture.pixels.shape[:2]
    return PictureShown(id=picture.id, width=width, height=height, url=picture.url)


@dataclass(frozen=True)
class StoredPicture:
    """A picture and its id."""

    id: str
    pixels: Pixels  # uint8 (H, W, 3), or (H, W, 4) with alpha
    url: str  # its thumbnail

    @property
    def bytes(self) -> int:
        """That it holds in memory."""
        return self.pixels.nbytes + len(self.url)


def stored(name: str, pixels: Pixels) -> StoredPicture:
    owned = pixels if pixels.flags.owndata else pixels.copy()  # a view would hold the whole that it is a part of
    thumbnail = shrink(owned, THUMBNAIL if owned.shape[-1] == 3 else SPRITE_THUMBNAIL)
    return StoredPicture(name, owned, as_url(thumbnail))


class Pictures:
    """Pictures by id: samples stay, the least recently used uploads are dropped."""

    def __init__(self, samples: dict[str, Pixels], max_bytes: int) -> None:
        self.samples = {name: stored(name, pixels) for name, pixels in samples.items()}
        self._kept = Kept[StoredPicture](max_bytes, "no image {} is here, or no longer: upload it")

    def keep(self, pixels: Pixels) -> StoredPicture:
        picture = stored(id_of(repr(pixels.shape).encode(), pixels.tobytes()), pixels)
        return self._kept.keep(picture.id, picture, picture.bytes)

    def find(self, name: str) -> StoredPicture:
        return self.samples[name] if name in self.samples else self._kept.find(name)


def as_url(pixels: Pixels) -> str:
    """A picture (H, W, 3 or 4) as a data URL."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()


# --- samples

SEED = 0
SCENES, SIDE = 4, 128  # pictures of each kind, pixels per side
PEOPLE = (4, 5, 1, 8)  # drawn pairs that show a person well
CELL = 60  # pixels per side of a sprite's frame
STEPS = 8  # frames of a walk


@dataclass(frozen=True)
class Figure:
    """The colours of a sprite."""

    skin: Color
    hair: Color
    shirt: Color
    trousers: Color


FIGURES = {
    "figure-blue": Figure((244, 208, 176), (214, 170, 72), (66, 104, 190), (70, 74, 80)),
    "figure-red": Figure((236, 188, 150), (92, 58, 34), (196, 60, 52), (60, 66, 110)),
    "figure-green": Figure((172, 120, 84), (30, 28, 34), (70, 150, 90), (110, 84, 60)),
}
SHEET, SHEET_OF = "walk-sheet", "figure-red"


def draw_samples() -> dict[str, Pixels]:
    """Name -> picture, uint8 (H, W, 3), or (H, W, 4) with alpha. "NAME-next" is the frame after "NAME"."""
    scenes = clear_scenes(SCENES, SEED)
    samples: dict[str, Pixels] = {}
    for kind, textured in (("shapes", False), ("texture", True)):
        before, after = (images(scenes, moved, "smooth", SIDE, textured=textured) for moved in (False, True))
        samples |= _numbered(kind, before, after)
    people = figure_pairs(max(PEOPLE) + 1, SEED, "test", SIDE)
    samples |= _numbered("person", people.frames[list(PEOPLE)], people.next_frames[list(PEOPLE)])
    samples |= {name: draw_figure(figure, 0) for name, figure in FIGURES.items()}
    samples[f"{SHEET_OF}-next"] = draw_figure(FIGURES[SHEET_OF], 2)
    samples[SHEET] = np.concatenate([draw_figure(FIGURES[SHEET_OF], step) for step in range(STEPS)], axis=1)
    return samples


def samples_like(data: str, sprites: bool) -> list[str]:
    """The names of the samples that look like the data on which a model was trained."""
    if sprites:
        return [*FIGURES, f"{SHEET_OF}-next", SHEET]
    kind = {"shapes": "shapes", "shapes-texture": "texture"}.get(data, "person")
    return [*(f"{kind}-{number}" for number in range(1, SCENES + 1)), f"{kind}-1-next"]


def _numbered(kind: str, before: Tensor, after: Tensor) -> dict[str, Pixels]:
    """Pictures (n, 3, S, S), and what the first becomes: a pair to read a motion from."""
    pictures = {f"{kind}-{number}": picture for number, picture in enumerate(before, 1)} | {f"{kind}-1-next": after[0]}
    return {name: np.ascontiguousarray(picture.permute(1, 2, 0).numpy()) for name, picture in pictures.items()}


def draw_figure(figure: Figure, step: int) -> Pixels:
    """A person who walks to the right, at one step of a cycle: uint8 (CELL, CELL, 4)."""
    swing = math.sin(2 * math.pi * step / STEPS)  # of the limbs in front, -1 to 1
    bob = round(abs(swing))  # the body sinks as the legs part
    canvas = Image.new("RGBA", (CELL, CELL))
    pen = ImageDraw.Draw(canvas)
    middle, hip, shoulder = CELL // 2, 38 + bob, 25 + bob

    def limb(top: int, length: int, angle: float, color: Color, width: int) -> None:
        end = (middle + length * math.sin(angle), top + length * math.cos(angle))
        pen.line([(middle, top), end], (*color, 255), width)

    shade = 0.75  # of the limbs behind
    limb(shoulder, 13, -0.7 * swing, _darker(figure.skin, shade), 4)
    limb(hip, 16 - bob, -0.6 * swing, _darker(figure.trousers, shade), 6)
    limb(hip, 16 - bob, 0.6 * swing, figure.trousers, 6)
    pen.rectangle([middle - 6, shoulder - 2, middle + 5, hip + 1], (*figure.shirt, 255))
    pen.ellipse([middle - 8, shoulder - 18, middle + 8, shoulder - 2], (*figure.skin, 255))
    pen.pieslice([middle - 9, shoulder - 19, middle + 8, shoulder - 3], 150, 330, (*figure.hair, 255))
    pen.rectangle([middle + 4, shoulder - 10, middle + 5, shoulder - 8], (20, 20, 24, 255))
    limb(shoulder, 13, 0.7 * swing, figure.skin, 4)
    return np.array(canvas)


def _darker(color: Color, share: float) -> Color:
    red, green, blue = (round(value * share) for value in color)
    return red, green, blue
