"""The Shapes world: a circle, a square and a triangle that move, drawn from a seed. All lengths in pixels at 128.

The law, measured on 6,908 of the authors' pairs (128x128, 8 bits):

- background: each channel uniform in [0.7, 1]. Object: one dominant channel uniform in [0.7, 1], two weak ones uniform
  in [0, 0.3]; the dominant channels of the three objects are a random permutation of red, green, blue;
- size (diameter, side, width and height): uniform in [25.6, 38.4] = 0.2 to 0.3 of the frame, each object on its own;
- anchor (the circle's centre, the square's top left corner, the triangle's apex, which points down): normal in x and y,
  mean half the frame, deviation 19.2 = 0.15 of the frame, nothing rejected: shapes may be cut by the frame or hidden;
- motion: c and s uniform in [-10, 10]. Circle (0, c), square (s, 0), triangle (c, -c), with y pointing down;
- drawn in the order circle, triangle, square. The authors' drawing takes whole numbers: anchors and triangle corners
  are rounded after the motion is added, and so are the square's side and the circle's radius; edges are smoothed by
  8x8 sub-samples. "integer" repeats that: circles and squares to the bit, triangle edges within 4 of 64 sub-samples.
  "smooth" draws the true sub-pixel positions instead.

Shapes+Texture is the same world with horizontal stripes on squares, vertical ones on triangles and checkers on circles.
The paper gives no more than that; widths and colours are ours. The pattern hangs on the anchor and moves with it.

Coordinates are x, y of pixel centres: pixel j covers [j - 0.5, j + 0.5].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.data.pair import Pairs, resize_frames

Array = NDArray[np.float64]
Split = Literal["train", "test"]
Rendering = Literal["integer", "smooth"]

OBJECTS = ("circle", "square", "triangle")  # the index of an object everywhere
CIRCLE, SQUARE, TRIANGLE = range(3)
DRAW_ORDER = (CIRCLE, TRIANGLE, SQUARE)  # bottom to top

TRAIN_PAIRS = 20_000
TEST_PAIRS = 500
SIZE = 128  # pixels a side of the rendered frame
MOTION_RANGE = (-10.0, 10.0)
SIZE_RANGE = (0.2 * SIZE, 0.3 * SIZE)
ANCHOR_MEAN = SIZE / 2 - 1  # half the frame, counting pixels from 1
ANCHOR_DEVIATION = 0.15 * SIZE
STRONG = (0.7, 1.0)  # background and dominant channels
WEAK = (0.0, 0.3)
PERIOD = 12  # pixels of a light and a dark stripe together: 6 at 64x64, which no phase blurs away
DARK = 0.4  # colour of a dark stripe, as a share of the light one, which has the object's colour

_STREAMS = {"train": 0, "test": 1}
_MOTION_STREAM = 2
_DRAWS = 24  # uniform numbers a scene: 3 background + 1 permutation + 9 colours + 3 sizes + 6 anchors + 2 motions
_PERMUTATIONS = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])  # object -> its channel

_SUB = 8  # sub-rows and sub-columns a pixel
_WINDOW = 44  # pixels a side of the window that holds any one shape
_CANVAS = SIZE + 2 * _WINDOW  # pixels a side of the frame with its margin
_CHUNK = 32  # scenes drawn at once: some 30 MB


@dataclass(frozen=True)
class Scenes:
    """N scenes and their motions; arrays with the objects in the order of `OBJECTS`."""

    background: Array  # (N, 3) colours in [0, 1]
    colours: Array  # (N, 3 objects, 3 channels) in [0, 1]
    anchors: Array  # (N, 3, 2): x, y of circle centre, square's top left pixel, triangle apex, before the motion
    sizes: Array  # (N, 3)
    motions: Array  # (N, 3, 2): dx, dy

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def centres(self) -> Array:
        """(N, 3, 2): the middle of each object's bounding box, before the motion."""
        middle = self.anchors.copy()
        middle[:, SQUARE] += self.sizes[:, SQUARE, None] / 2 - 0.5
        middle[:, TRIANGLE, 1] -= self.sizes[:, TRIANGLE] / 2
        return middle

    def subset(self, indices: NDArray[np.int64] | Tensor | slice | list[int]) -> Scenes:
        """The chosen scenes, in the order given; an index may repeat."""
        chosen = indices if isinstance(indices, slice) else np.asarray(indices)
        return Scenes(**{name: values[chosen] for name, values in vars(self).items()})

    def with_new_motions(self, seed: int) -> Scenes:
        """The same images, other futures. Many futures of image i: `subset([i] * many).with_new_motions(seed)`."""
        draws = np.random.default_rng(np.random.SeedSequence([seed, _MOTION_STREAM])).random((len(self), 2))
        return replace(self, motions=_motions(draws))


class Masks(NamedTuple):
    """What each pixel holds of each object, in [0, 1]; objects in the order of `OBJECTS`."""

    visible: Tensor  # float32 (N, 3, size, size): the share of the pixel where the object is seen
    whole: Tensor  # float32 (N, 3, size, size): the share it would cover were nothing drawn over it


def draw_scenes(count: int, seed: int, split: Split = "train") -> Scenes:
    """Scene i is the same for every count above i; train and test never share their random numbers."""
    draws = np.random.default_rng(np.random.SeedSequence([seed, _STREAMS[split]])).random((count, _DRAWS))
    background, permutation, colours, sizes, anchors, motions = np.split(draws, [3, 4, 13, 16, 22], axis=1)
    dominant = _PERMUTATIONS[(permutation[:, 0] * len(_PERMUTATIONS)).astype(np.int64)]  # (N, 3 objects)
    colours = colours.reshape(count, 3, 3)
    is_dominant = np.arange(3) == dominant[:, :, None]
    return Scenes(
        background=_between(background, STRONG),
        colours=np.where(is_dominant, _between(colours, STRONG), _between(colours, WEAK)),
        anchors=ANCHOR_MEAN + ANCHOR_DEVIATION * _normal(anchors.reshape(count, 3, 2)),
        sizes=_between(sizes, SIZE_RANGE),
        motions=_motions(motions),
    )


def shapes_pairs(
    count: int,
    seed: int,
    split: Split = "train",
    rendering: Rendering = "integer",
    size: int = 64,
    textured: bool = False,
) -> Pairs:
    """Pairs of `draw_scenes(count, seed, split)`: drawn at 128, then averaged to size x size."""
    return scene_pairs(draw_scenes(count, seed, split), rendering, size, textured=textured)


def scene_pairs(
    scenes: Scenes,
    rendering: Rendering = "integer",
    size: int = 64,
    device: torch.device | str = "cpu",
    textured: bool = False,
) -> Pairs:
    """The pairs of given scenes, so that whoever needs the truth can keep the scenes beside them."""
    return Pairs(*(images(scenes, moved, rendering, size, device, textured) for moved in (False, True)))


def render(scenes: Scenes, moved: bool, rendering: Rendering = "integer", size: int = SIZE) -> tuple[Tensor, Masks]:
    """Images, uint8 (N, 3, size, size), and masks of the scenes before or after their motion."""
    return images(scenes, moved, rendering, size), masks(scenes, moved, rendering, size)


def masks(scenes: Scenes, moved: bool = False, rendering: Rendering = "integer", size: int = 64) -> Masks:
    """Masks averaged down from 128; at 64 they take 98 kB a scene."""
    visible, whole = (torch.empty(len(scenes), 3, size, size) for _ in range(2))
    for rows, part in _chunks(scenes):
        seen, all_of_it = (torch.zeros(len(part), 3, SIZE, SIZE) for _ in range(2))
        for index in DRAW_ORDER:
            canvas = torch.zeros(len(part), 1, _CANVAS * _CANVAS)
            coverage, places = _coverage(part, index, moved, rendering)
            _blend(canvas, places, coverage, torch.ones(len(part), 1, 1))
            alpha = _frame(canvas)  # (n, 1, 128, 128)
            seen *= 1 - alpha
            seen[:, index] = all_of_it[:, index] = alpha[:, 0]
        visible[rows], whole[rows] = (F.interpolate(mask, size=(size, size), mode="area") for mask in (seen, all_of_it))
    return Masks(visible, whole)


def visible_masks(scenes: Scenes, moved: bool = False, rendering: Rendering = "integer", size: int = 64) -> Tensor:
    """float32 (N, 3, size, size): the share of each pixel where each object is seen."""
    return masks(scenes, moved, rendering, size).visible


def images(
    scenes: Scenes,
    moved: bool = False,
    rendering: Rendering = "integer",
    size: int = 64,
    device: torch.device | str = "cpu",
    textured: bool = False,
) -> Tensor:
    """uint8 (N, 3, size, size): the scenes before or after their motion, drawn at 128 and averaged down.

    Textured: Shapes+Texture. Another device is faster for many scenes, and may round a colour otherwise.
    """
    drawn = torch.empty(len(scenes), 3, size, size, dtype=torch.uint8, device=device)
    for rows, part in _chunks(scenes):
        background, colours = (torch.from_numpy(v).float().to(device) for v in (part.background, part.colours))
        canvas = background[:, :, None].repeat(1, 1, _CANVAS * _CANVAS)
        for index in DRAW_ORDER:
            coverage, places = _coverage(part, index, moved, rendering, device)
            paint = colours[:, index, :, None]
            if textured:
                paint = paint * _texture(part, index, moved, rendering, places)
            _blend(canvas, places, coverage, paint)
        frames = (_frame(canvas) * 255).round_().to(torch.uint8)
        drawn[rows] = frames if size == SIZE else resize_frames(frames, size)
    return drawn


def _chunks(scenes: Scenes) -> Iterator[tuple[slice, Scenes]]:
    for start in range(0, len(scenes), _CHUNK):
        rows = slice(start, start + _CHUNK)
        yield rows, scenes.subset(rows)


# --- painting: a window of coverage is blended into a canvas with a margin, so that no shape needs clipping ---


def _blend(canvas: Tensor, places: Tensor, coverage: Tensor, paint: Tensor) -> None:
    """Paint over the canvas (n, channels, pixels) at places (n, window pixels).

    Paint is one colour a shape, (n, channels, 1), or one a pixel, (n, channels, window pixels).
    """
    where = places[:, None, :].expand(-1, canvas.shape[1], -1)
    under = canvas.gather(2, where)
    canvas.scatter_(2, where, torch.lerp(under, paint.expand_as(under), coverage[:, None, :]))


def _texture(scenes: Scenes, index: int, moved: bool, rendering: Rendering, places: Tensor) -> Tensor:
    """What share of an object's colour the pixels at places (n, window pixels) have: (n, 1, window pixels), DARK to 1.

    Averages over whole pixels: stripes are as smooth as edges, and sharp where the anchor is a whole number.
    """
    anchors = _moved_anchors(scenes, index, moved)
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


def _moved_anchors(scenes: Scenes, index: int, moved: bool) -> Array:
    return scenes.anchors[:, index] + (scenes.motions[:, index] if moved else 0)


def _coverage(
    scenes: Scenes, index: int, moved: bool, rendering: Rendering, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Coverage (n, window pixels) in [0, 1] of one object and the places of those pixels in the flattened canvas."""
    anchors = _moved_anchors(scenes, index, moved)
    sizes = scenes.sizes[:, index]
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
# x, y: the moved anchor (n, 1); size (n, 1); rows (n, 352): middles of the sub-rows. Returns left, right, weight.

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
    way = np.clip((t + 0.5) / (_SUB * (y - top)), 0, 1)  # from the top edge to the apex
    first = np.floor(_SUB * (left + (x - left) * way) + 0.5) / _SUB
    last = np.ceil(_SUB * (right + (x - right) * way) - 0.5) / _SUB
    return first, last + 1 / _SUB, (t >= 0) & (t <= _SUB * (y - top))


_SMOOTH: tuple[Shape, ...] = (_smooth_circle, _smooth_square, _smooth_triangle)
_INTEGER: tuple[Shape, ...] = (_integer_circle, _integer_square, _integer_triangle)


# --- laws: uniform numbers in [0, 1) to what is drawn ---


def _round(values: Array) -> Array:
    return np.floor(values + 0.5)


def _between(uniform: Array, bounds: tuple[float, float]) -> Array:
    low, high = bounds
    return low + (high - low) * uniform


def _normal(uniform: Array) -> Array:
    """(..., 2) uniform numbers to as many independent standard normal ones (Box and Muller)."""
    radius = np.sqrt(-2 * np.log1p(-uniform[..., 0]))
    angle = 2 * np.pi * uniform[..., 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


def _motions(uniform: Array) -> Array:
    """(N, 2) uniform numbers to the motions (N, 3, 2): circle (0, c), square (s, 0), triangle (c, -c)."""
    c, s = _between(uniform, MOTION_RANGE).T
    nothing = np.zeros_like(c)
    return np.stack([np.stack([nothing, c], 1), np.stack([s, nothing], 1), np.stack([c, -c], 1)], axis=1)
