"""Routes: the inside of a model. The segments of an image, the kernels of a motion, and which parts move together."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
import torch
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from torch import Tensor

from visual_dynamics.images import Color, Pixels
from visual_dynamics.media import picture_grid
from visual_dynamics.relations.graph import relations_of
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.studio.models import Code, ImageBody, Seed, Seen, SourceName, body
from visual_dynamics.studio.pictures import Url, as_url
from visual_dynamics.studio.state import Here

COLUMNS = 8  # maps side by side
MAP_SIDE = 64  # pixels at which a map is shown
KERNEL_SCALE = 8  # pixels for each number of a kernel
GREY: Color = (128, 128, 128)
DARK, LIGHT = (18, 20, 26), (255, 196, 87)  # colours of 0 and 1 in a map of segments
MINUS, PLUS = (52, 120, 196), (214, 84, 56)  # colours of -1 and 1 in a kernel; 0 is white
RELATED_FUTURES = 64
router = APIRouter(tags=["inside"])


class FamiliarBody(ImageBody):
    """An image."""

    model_config = body(image="shapes-1", model="shapes")


class Familiar(BaseModel):
    """Whether the model has learned from pictures like this one."""

    warning: str = Field(description="A sentence on an image unlike those of the training; empty for others")


class InsideBody(ImageBody):
    """An image, and a motion if its kernels are wanted."""

    z: Code | None = None
    model_config = body(image="shapes-1", model="shapes", z=[0, 1, 0, 0, 0, 0, 0, 0])


class Scale(BaseModel):
    """The segments of an image at one scale, and the kernels that move them, in the same order."""

    side: int = Field(description="Pixels of a map")
    maps: int
    active: int = Field(description="Maps that are not zero everywhere")
    segments: Url
    kernels: Url | None


class Inside(BaseModel):
    """The largest scale first."""

    input: Url
    columns: int
    scales: list[Scale]


class RelationsBody(ImageBody):
    """An image."""

    source: SourceName = None
    seed: Seed = 0
    model_config = body(image="shapes-1", model="shapes")


class Node(BaseModel):
    """A part that moves as one. Places are shares of the image's width."""

    x: float
    y: float
    area: int = Field(description="Pixels at the model's size")
    colour: str = Field(examples=["#c83c34"])
    moves: bool
    dx: float = Field(description="Main direction of its motion, a unit vector, y down")
    dy: float
    mask: Url


class Edge(BaseModel):
    """Two nodes with dependent motions."""

    first: int
    second: int
    strength: Annotated[float, Field(description="Distance correlation, 0 to 1")]
    p: float


class RelationsShown(BaseModel):
    """The graph of an image."""

    input: Url
    nodes: list[Node]
    edges: list[Edge]


@router.post("/familiar")
async def familiar(request: Request, body: FamiliarBody, studio: Here) -> Familiar:
    """A warning where the model has not learned from images like this one. Other requests answer all the same."""
    return await studio.about_image(request, body, lambda seen: Familiar(warning=seen.warning))


@router.post("/inside")
async def inside(request: Request, body: InsideBody, studio: Here) -> Inside:
    """The segments that the model finds in an image, and the kernels of a motion."""
    return await studio.about_image(request, body, partial(_inside, body))


@router.post("/relations")
async def relations(request: Request, body: RelationsBody, studio: Here) -> RelationsShown:
    """Which parts of the image move together, found from 64 of its futures without labels."""
    return await studio.about_image(request, body, partial(_relations, body))


@torch.inference_mode()
def _inside(body: InsideBody, seen: Seen) -> Inside:
    features = [maps[0].cpu() for maps in seen.encoded.features]  # (maps, side, side) each
    kernels: list[Tensor | None] = [None] * len(features)
    if body.z is not None:
        predictor = seen.model.predictor
        codes = seen.codes([body.z]).to(predictor.device)
        kernels = [kernel[0].cpu() for kernel in predictor.network.kernel_decoder(codes)]
    scales = [
        Scale(
            side=maps.shape[-1],
            maps=len(maps),
            active=int((maps.flatten(1).amax(1) > 0).sum()),
            segments=as_url(_segments(maps)),
            kernels=None if kernel is None else as_url(_kernels(kernel)),
        )
        for maps, kernel in zip(features, kernels, strict=True)
    ]
    return Inside(input=seen.still(), columns=COLUMNS, scales=scales)


def _segments(maps: Tensor) -> Pixels:
    """(maps, side, side), at least 0 -> a grid of pictures, each relative to its own largest number."""
    shares = (maps / maps.flatten(1).amax(1).clamp_min(1e-6)[:, None, None]).clamp(0, 1)
    pictures = _coloured(shares, DARK, LIGHT)
    return picture_grid(pictures, COLUMNS, max(1, MAP_SIDE // maps.shape[-1]), gap=2, background=GREY)


def _kernels(kernels: Tensor) -> Pixels:
    """(maps, 5, 5) of either sign -> a grid of pictures, all relative to the largest number."""
    shares = kernels / kernels.abs().amax().clamp_min(1e-6)
    white = (255, 255, 255)
    pictures = np.where(
        shares[..., None].numpy() > 0, _coloured(shares.abs(), white, PLUS), _coloured(shares.abs(), white, MINUS)
    )
    return picture_grid(pictures, COLUMNS, KERNEL_SCALE, gap=2, background=GREY)


def _coloured(shares: Tensor, first: Color, second: Color) -> Pixels:
    """(n, H, W) in [0, 1] -> (n, H, W, 3)"""
    low, high = np.array(first), np.array(second)
    return np.rint(low + shares[..., None].numpy() * (high - low)).astype(np.uint8)


def _relations(body: RelationsBody, seen: Seen) -> RelationsShown:
    model, box = seen.model, seen.placed.box
    frame = seen.encoded.frame
    source = model.source(body.source)  # type: ignore[arg-type]  # checked by its pattern
    codes = source.draw(sample_seeds(body.seed, RELATED_FUTURES), seen.encoded)
    following = model.predictor.decode(seen.encoded, codes)
    found = relations_of(frame, following, body.seed)
    graph = found.graph()
    nodes = []
    for node, mask in zip(graph["nodes"], found.masks, strict=True):
        dx, dy = (node["motion"] or {}).get("direction", (0.0, 0.0))
        x, y = node["centre"]
        nodes.append(
            Node(
                x=(x - box.left + 0.5) / box.width,
                y=(y - box.top + 0.5) / box.width,
                area=node["area"],
                colour="#" + "".join(f"{round(255 * value):02x}" for value in node["colour"]),
                moves=node["moves"],
                dx=dx,
                dy=dy,
                mask=as_url(np.repeat(mask.cpu().numpy()[..., None].astype(np.uint8) * 255, 4, axis=-1)),  # white
            )
        )
    edges = [Edge.model_validate({name: edge[name] for name in Edge.model_fields}) for edge in graph["edges"]]
    return RelationsShown(input=seen.still(), nodes=nodes, edges=edges)
