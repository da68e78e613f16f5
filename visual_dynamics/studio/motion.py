"""Routes for sliders: the dimensions of z that carry motion, with arrows that show what each moves, and live decoding.

Letters in shape comments: S side of a frame in pixels, B blocks, D displacements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.sampling.moves import path, stored_usage
from visual_dynamics.studio.models import Code, ImageBody, Seen, body
from visual_dynamics.studio.pictures import Url, as_url
from visual_dynamics.studio.state import Here

MAX_DIMENSIONS = 16  # with a slider
ENDS = (-1.5, 1.5)  # standard deviations at which a dimension is shown
router = APIRouter(tags=["motion"])


class Dimension(BaseModel):
    """A dimension of z, and what it does to the image."""

    dimension: int
    nats: float = Field(description="Information about the motion")
    scale: float = Field(description="Standard deviation over training pairs: the unit of a slider")
    words: str = Field(description="What moves, and along which axis", examples=["left–right, at the bottom left"])
    low: Url
    high: Url
    arrows: Sequence[tuple[float, float, float, float]] = Field(description="x, y, dx, dy as shares of the width")


class Dimensions(BaseModel):
    """All that sliders need."""

    input: Url
    latent: int
    rest: list[float] = Field(description="A code that keeps the image still, as far as the model knows one")
    dimensions: list[Dimension]


class DecodeBody(ImageBody):
    """An image and motion codes."""

    codes: Annotated[list[Code], Field(min_length=1, max_length=32)]
    model_config = body(image="shapes-1", model="shapes", codes=[[0, 1, 0, 0, 0, 0, 0, 0]])


class Decoded(BaseModel):
    """The image moved by each code."""

    urls: list[Url]


@router.post("/dimensions")
async def dimensions(request: Request, body: ImageBody, studio: Here) -> Dimensions:
    """The dimensions of z that carry motion, the strongest first, and what each does to the image."""
    return await studio.about_image(request, body, _dimensions)


@router.post("/decode")
async def decode(request: Request, body: DecodeBody, studio: Here) -> Decoded:
    """The image moved by given motion codes. The image is encoded once: a slider shows its result at once."""

    def work(seen: Seen) -> Decoded:
        codes = seen.codes(body.codes)
        return Decoded(
            urls=[as_url(each) for each in ([seen.preview(codes)] if len(codes) == 1 else seen.moved(codes))]
        )

    return await studio.about_image(request, body, work)


def _dimensions(seen: Seen) -> Dimensions:
    model, box = seen.model, seen.placed.box
    used = stored_usage(model.weights.posteriors)
    chosen = used.active[:MAX_DIMENSIONS]
    if not chosen:
        raise UserError("no dimension of z carries motion in this model")
    rest = model.predictor.rest(seen.encoded)
    codes = rest + torch.cat([path(used, dimension, torch.tensor(ENDS)) for dimension in chosen])
    frames = model.predictor.decode(seen.encoded, codes).cpu()  # (2 * dimensions, 3, S, S)
    urls = [as_url(picture) for picture in seen.finish(frames)]
    found = []
    for place, dimension in enumerate(chosen):
        pixels = arrows_between(frames[2 * place], frames[2 * place + 1])
        arrows = [
            Arrow((a.x - box.left) / box.width, (a.y - box.top) / box.width, a.dx / box.width, a.dy / box.width)
            for a in pixels
        ]
        found.append(
            Dimension(
                dimension=dimension,
                nats=float(used.nats[dimension]),
                scale=float(used.scale[dimension]),
                words=in_words(arrows, box.height / box.width),
                low=urls[2 * place],
                high=urls[2 * place + 1],
                arrows=arrows,
            )
        )
    return Dimensions(input=seen.still(), latent=len(used.scale), rest=rest.tolist(), dimensions=found)


# --- arrows: motion between two frames, by matching blocks

BLOCK, STEP = 12, 8  # pixels: side of a block, and distance to the next
REACH = 7  # longest displacement, in pixels
CHANGE = 0.02  # a block changes if its mean difference of colours is larger
SHORTEST = 0.8  # pixels of an arrow
AXES = ("left–right", "diagonal ↗", "up–down", "diagonal ↘")  # by eighths of a turn
GOOD_SHARE = 0.25  # of the length of all arrows; an axis with less is not named


class Arrow(NamedTuple):
    """The start of a block and its displacement, y down; in pixels, or in shares of the width."""

    x: float
    y: float
    dx: float
    dy: float


def arrows_between(before: Tensor, after: Tensor) -> list[Arrow]:
    """From one frame (3, S, S) to another: the displacement of least squared error for each block that changes."""
    size = before.shape[-1]
    block, step = min(BLOCK, size // 2), min(STEP, max(1, size // 4))
    shifts = [(dx, dy) for dy in range(-REACH, REACH + 1) for dx in range(-REACH, REACH + 1)]
    padded = F.pad(after[None], [REACH] * 4, mode="replicate")[0]
    windows = [padded[:, REACH + dy : REACH + dy + size, REACH + dx : REACH + dx + size] for dx, dy in shifts]
    differences = torch.stack([(window - before).square().mean(0) for window in windows])  # (D, S, S)
    errors = F.avg_pool2d(differences, block, step)  # (D, rows, columns)
    errors += 1e-6 * torch.tensor([math.hypot(*shift) for shift in shifts])[:, None, None]  # of equals the shortest
    changed = F.avg_pool2d((after - before).abs().mean(0)[None], block, step)[0] > CHANGE  # (rows, columns)
    best = errors.argmin(0)
    arrows = []
    for row, column in changed.nonzero().tolist():
        dx, dy = shifts[int(best[row, column])]
        if math.hypot(dx, dy) >= SHORTEST:
            arrows.append(Arrow(column * step + block / 2, row * step + block / 2, dx, dy))
    return arrows


def in_words(arrows: list[Arrow], height: float) -> str:
    """The main axes of motion, the largest first, and where in the picture. Arrows and height are in widths."""
    total = sum(math.hypot(arrow.dx, arrow.dy) for arrow in arrows)
    if not total:
        return "shape or colour"
    lengths = dict.fromkeys(AXES, 0.0)
    x = y = 0.0
    for arrow in arrows:
        length = math.hypot(arrow.dx, arrow.dy) / total
        eighth = round(math.atan2(-arrow.dy, arrow.dx) / (math.pi / 4))  # 0 is to the right, 2 up
        lengths[AXES[eighth % 4]] += length
        x, y = x + length * arrow.x, y + length * arrow.y / height
    axes = [axis for axis in sorted(AXES, key=lambda axis: -lengths[axis]) if lengths[axis] >= GOOD_SHARE]
    places = _third(y, "top", "bottom"), _third(x, "left", "right")
    where = " ".join(filter(None, places)) or "centre"
    return f"{', '.join(axes)}, at the {where}"


def _third(place: float, low: str, high: str) -> str:
    return low if place < 1 / 3 else high if place > 2 / 3 else ""
