"""How circles, squares and triangles are drawn: arrays in, pixels at 128x128 out.

An object is drawn in a window of its own. Geometry says where each of 8 sub-rows a pixel begins and ends, coverage is
the share of a pixel within, and painting blends the colour into the canvas by that share; a texture first darkens the
colour here and there. The law of the world, and what the two renderings are, stands in shapes.py.

N scenes are given by anchors (N, 3 objects, 2), moved already where they are to be, and sizes (N, 3). Coordinates are
x, y of pixel centres: pixel j covers [j - 0.5, j + 0.5].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Rendering = Literal["integer", "smooth"]

OBJECTS = ("circle", "square", "triangle")  # the index of an object everywhere
CIRCLE, SQUARE, TRIANGLE = range(3)
DRAW_ORDER = (CIRCLE, TRIANGLE, SQUARE)  # bottom to top

SIZE = 128  # pixels a side of the rendered frame
PERIOD = 12  # pixels of a light and a dark stripe together: 6 at 64x64, which no phase blurs away
DARK = 0.4  # colour of a dark stripe, as a share of the light one, which has the object's colour

_SUB = 8  # sub-rows and sub-columns a pixel
_WINDOW = 44  # pixels a side of the window that holds any one shape
_CANVAS = SIZE + 2 * _WINDOW  # pixels a side of the frame with its margin


class Masks(NamedTuple):
    """What each pixel holds of each object, in [0, 1]; objects in the order of `OBJECTS`."""

    visible: Tensor  # float32 (N, 3, size, size): the share of the pixel where the object is seen
    whole: Tensor  # float32 (N, 3, size, size): the share it would cover were nothing drawn over it


def draw_images(
    background: Array,
    colours: Array,
    anchors: Array,
    sizes: Array,
    rendering: Rendering,
    device: torch.device | str = "cpu",
    textured: bool = False,
) -> Tensor:
    """uint8 (N, 3, 128, 128), from colours in [0, 1]: background (N, 3) and objects (N, 3 objects, 3 channels)."""
    ground, colour = (torch.from_numpy(values).float().to(device) for values in (background, colours))
    canvas = ground[:, :, None].repeat(1, 1, _CANVAS * _CANVAS)
    for index in DRAW_ORDER:
        coverage, places = _coverage(index, anchors[:, index], sizes[:, index], rendering, device)
        paint = colour[:, index, :, None]
        if textured:
            paint = paint * _texture(index, anchors[:, index], rendering, places)
        _blend(canvas, places, coverage, paint)
    return (_frame(canvas) * 255).round_().to(torch.uint8)


def draw_masks(anchors: Array, sizes: Array, rendering: Rendering) -> Masks:
    """Masks of 128x128."""
    count = len(sizes)
    visible, whole = (torch.zeros(count, 3, SIZE, SIZE) for _ in range(2))
    for index in DRAW_ORDER:
        canvas = torch.zeros(count, 1, _CANVAS * _CANVAS)
        coverage, places = _coverage(index, anchors[:, index], sizes[:, index], rendering)
        _blend(canvas, places, coverage, torch.ones(count, 1, 1))
        alpha = _frame(canvas)  # (N, 1, 128, 128)
        visible *= 1 - alpha
        visible[:, index] = whole[:, index] = alpha[:, 0]
    return Masks(visible, whole)


# --- painting: a window of coverage is blended into a canvas with a margin, so that no shape needs clipping ---


def _blend(canvas: Tensor, places: Tensor, coverage: Tensor, paint: Tensor) -> None:
    """Paint over the canvas (n, channels, pixels) at places (n, window pixels).

    Paint is one colour a shape, (n, channels, 1), or one a pixel, (n, channels, window pixels).
    """
    where = places[:, None, :].expand(-1, canvas.shape[1], -1)
    under = canvas.gather(2, where)
    canvas.scatter_(2, where, torch.lerp(under, paint.expand_as(under), coverage[:, None, :]))


def _texture(index: int, anchors: Array, rendering: Rendering, places: Tensor) -> Tensor:
    """What share of an object's colour the pixels at places (n, window pixels) have: (n, 1, window pixels), DARK to 1.

    Averages over whole pixels: stripes are as smooth as edges, and sharp where the anchor is a whole number.
    """
    x, y = torch.from_numpy(_round(anchors) if rendering == "integer" else anchors).to(places.device).split(1, 1)
    across, down = _wave(places % _CANVAS - _WINDOW - x), _wave(places // _CANVAS - _WINDOW - y)
    wave = (across * down, down, across)[index]  # checkers, horizontal stripes, vertical stripes
    return ((1 + DARK) / 2 + (1 - DARK) / 2 * wave).float()[:, None, :]


def _wave(pixels: Tensor) -> Tensor:
    """Means of a square wave over pixels so far from the anchor's, where a stripe begins: 1 in it, -1 in the next."""
    half = PERIOD / 2
    end, begin = (half - (border.remainder(PERIOD) - half).abs() for border in (pixels + 1, pixels))  # its integral
    return end - begin


def _frame(canvas: Tensor) -> Tensor:
    """(n, channels, canvas pixels) -> (n, channels, 128, 128)"""
    inside = slice(_WINDOW, _WINDOW + SIZE)
    return canvas.unflatten(2, (_CANVAS, _CANVAS))[:, :, inside, inside]


def _coverage(
    index: int, anchors: Array, sizes: Array, rendering: Rendering, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Coverage (n, window pixels) in [0, 1] of one object and the places of those pixels in the flattened canvas."""
    # Top left pixel of the window: 2 above and left of anything drawn, never beyond the margin of the canvas.
    corner = np.clip(np.floor(anchors - _REACH[index] * sizes[:, None]) - 2, -_WINDOW, SIZE)
    sub_rows = corner[:, 1, None] - 0.5 + (np.arange(_WINDOW * _SUB) + 0.5) / _SUB  # (n, 352): their middles
    shape = (_INTEGER if rendering == "integer" else _SMOOTH)[index]
    left, right, weight = shape(anchors[:, 0, None], anchors[:, 1, None], sizes[:, None], sub_rows)
    left, right = (edge - corner[:, 0, None] + 0.5 for edge in (left, right))  # now from the window's left border
    column = torch.arange(_WINDOW, dtype=torch.float32, device=device)
    first, last, share = (
        torch.from_numpy(np.ascontiguousarray(np.broadcast_to(v, sub_rows.shape), dtype=np.float32)).to(device)[
            :, :, None
        ]
        for v in (left, right, weight)
    )
    covered = (last - column).clamp_(0, 1).sub_((first - column).clamp_(0, 1)).mul_(share)  # (n, 352, 44)
    coverage = covered.view(-1, _WINDOW, _SUB, _WINDOW).mean(2)
    x, y = torch.from_numpy(corner.astype(np.int64) + _WINDOW).to(device).split(1, 1)
    offsets = torch.arange(_WINDOW, device=device)
    places = ((y + offsets)[:, :, None] * _CANVAS + (x + offsets)[:, None, :]).flatten(1)
    return coverage.flatten(1), places


# --- geometry: where each sub-row of a shape begins and ends, and how much of the sub-row's height is inside ---
# x, y: the anchor (n, 1); size (n, 1); rows (n, 352): middles of the sub-rows. Returns left, right, weight.

_REACH = np.array([[0.5, 0.5], [0.0, 0.0], [0.5, 1.0]])  # how far an object lies left of and above its anchor, in sizes
Spans = tuple[Array, Array, NDArray[Any]]
Shape = Callable[[Array, Array, Array, Array], Spans]


def _inside(rows: Array, top: Array, bottom: Array) -> Array:
    """The share of each sub-row's height that lies between top and bottom."""
    half = 0.5 / _SUB
    return np.clip((np.minimum(rows + half, bottom) - np.maximum(rows - half, top)) * _SUB, 0, 1)


def _smooth_circle(x: Array, y: Array, size: Array, rows: Array) -> Spans:
    half = np.sqrt(np.maximum((size / 2) ** 2 - (rows - y) ** 2, 0))
    return x - half, x + half, np.ones_like(rows)


def _smooth_square(x: Array, y: Array, size: Array, rows: Array) -> Spans:
    left, top = x - 0.5, y - 0.5
    return left, left + size, _inside(rows, top, top + size)


def _smooth_triangle(x: Array, y: Array, size: Array, rows: Array) -> Spans:
    half = np.maximum(y - rows, 0) / 2
    return x - half, x + half, _inside(rows, y - size, y)


def _integer_circle(x: Array, y: Array, size: Array, rows: Array) -> Spans:
    # The midpoint circle of radius 8r on the 8x finer grid, its centre line doubled: i, j = 0, 1, ... count sub-pixels
    # away from the centre, (i, j) is inside where i^2 + j^2 - max(i, j) < (8r)^2, and each row j wants its largest i.
    x, y, radius = _round(x), _round(y), _SUB * _round(size / 2)
    j = np.floor(np.abs(rows - y) * _SUB)
    rest = radius**2 - 1 - j**2
    steep = np.floor(np.sqrt(np.maximum(rest + j, 0)))  # i <= j
    flat = np.floor(0.5 + np.sqrt(np.maximum(rest + 0.25, 0)))  # i > j
    half = (np.where(flat > j, flat, steep) + 1) / _SUB
    return x - half, x + half, j <= radius


def _integer_square(x: Array, y: Array, size: Array, rows: Array) -> Spans:
    return _smooth_square(_round(x), _round(y), _round(size), rows)


def _integer_triangle(x: Array, y: Array, size: Array, rows: Array) -> Spans:
    # Each corner is rounded on its own. A sub-row t below the top spans the sub-columns that the edges, half a sub-row
    # further down, round to.
    left, right, top = _round(x - size / 2), _round(x + size / 2), _round(y - size)
    x, y = _round(x), _round(y)
    t = np.floor((rows - top) * _SUB)
    down = np.clip((t + 0.5) / (_SUB * (y - top)), 0, 1)  # 0 at the top edge, 1 at the apex
    first = np.floor(_SUB * (left + (x - left) * down) + 0.5) / _SUB
    last = np.ceil(_SUB * (right + (x - right) * down) - 0.5) / _SUB
    return first, last + 1 / _SUB, (t >= 0) & (t <= _SUB * (y - top))


_SMOOTH: tuple[Shape, ...] = (_smooth_circle, _smooth_square, _smooth_triangle)
_INTEGER: tuple[Shape, ...] = (_integer_circle, _integer_square, _integer_triangle)


def _round(values: Array) -> Array:
    return np.floor(values + 0.5)


def points_inside(index: int, anchor: Array, size: float, points: Array) -> NDArray[np.bool_]:
    """Which points of a grid, x and y from points (P,), lie in one object at its true place: (P, P)."""
    x, y, sizes = (np.full((1, 1), value) for value in (anchor[0], anchor[1], size))
    left, right, weight = _SMOOTH[index](x, y, sizes, points[None])
    return (points >= left.T) & (points < right.T) & (weight.T > 0.5)
