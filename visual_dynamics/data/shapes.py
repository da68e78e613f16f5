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

Coordinates are x, y of pixel centres: pixel j covers [j - 0.5, j + 0.5]. shapes_drawing.py turns them into pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.data.shapes_drawing import CIRCLE as CIRCLE  # "as": they belong to this world, too
from visual_dynamics.data.shapes_drawing import DRAW_ORDER, Masks, draw_images, draw_masks, points_inside
from visual_dynamics.data.shapes_drawing import OBJECTS as OBJECTS
from visual_dynamics.data.shapes_drawing import SIZE as SIZE
from visual_dynamics.data.shapes_drawing import SQUARE as SQUARE
from visual_dynamics.data.shapes_drawing import TRIANGLE as TRIANGLE
from visual_dynamics.data.shapes_drawing import Rendering as Rendering
from visual_dynamics.images import Pixels

Array = NDArray[np.float64]
Split = Literal["train", "validation", "test"]

TRAIN_PAIRS = 20_000
TEST_PAIRS = 500
MOTION_RANGE = (-10.0, 10.0)
SIZE_RANGE = (0.2 * SIZE, 0.3 * SIZE)
ANCHOR_MEAN = SIZE / 2 - 1  # half the frame, counting pixels from 1
ANCHOR_DEVIATION = 0.15 * SIZE
STRONG = (0.7, 1.0)  # background and dominant channels
WEAK = (0.0, 0.3)

_STREAMS = {"train": 0, "test": 1, "validation": 3}
_MOTION_STREAM = 2
_DRAWS = 24  # uniform numbers a scene: 3 background + 1 permutation + 9 colours + 3 sizes + 6 anchors + 2 motions
_PERMUTATIONS = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])  # object -> its channel

_CHUNK = 32  # scenes drawn at once: some 30 MB
CANDIDATES = 300  # scenes among which clear ones are found: about one in twenty
INSIDE, UNCOVERED = 0.95, 0.99  # shares of every shape in the frame, and not covered, before and after the motion
PLAIN_MOTION = 4.0  # pixels at 128 that every shape moves at least: less is hard to see
_POINTS = 2  # a pixel on each side in `draw_large`


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

    def subset(self, indices: NDArray[np.int64] | Tensor | slice | list[int]) -> Scenes:
        """The chosen scenes, in the order given; an index may repeat."""
        chosen = indices if isinstance(indices, slice) else np.asarray(indices)
        return Scenes(**{name: values[chosen] for name, values in vars(self).items()})

    def with_new_motions(self, seed: int) -> Scenes:
        """The same images, other futures. Many futures of image i: `subset([i] * many).with_new_motions(seed)`."""
        draws = np.random.default_rng(np.random.SeedSequence([seed, _MOTION_STREAM])).random((len(self), 2))
        return replace(self, motions=_motions(draws))


def draw_scenes(count: int, seed: int, split: Split = "train") -> Scenes:
    """Scene i is the same for every count above i; no two splits share their random numbers."""
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


def clear_scenes(count: int, seed: int) -> Scenes:
    """Test scenes that are easy to look at: all shapes plainly move, inside the frame and uncovered, or nearly so."""
    scenes = draw_scenes(CANDIDATES, seed, "test")
    areas = scenes.sizes**2 * np.array([np.pi / 4, 1, 0.5])  # of circle, square, triangle
    size = 16  # small masks measure an area as well as large ones: their pixels are averages
    fitness = [np.abs(scenes.motions).max(2) / PLAIN_MOTION]  # (N, 3)
    for moved in (False, True):
        visible, whole = (mask.sum((2, 3)).numpy() * (SIZE / size) ** 2 for mask in masks(scenes, moved, size=size))
        fitness += [whole / areas / INSIDE, visible / whole.clip(min=1) / UNCOVERED]
    worst = np.min(fitness, axis=(0, 2)).clip(max=1)
    return scenes.subset(np.argsort(-worst, kind="stable")[:count])


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
    """The pairs of given scenes, which know the true motions."""
    return Pairs.of(*(images(scenes, moved, rendering, size, device, textured) for moved in (False, True)))


def masks(scenes: Scenes, moved: bool = False, rendering: Rendering = "integer", size: int = 64) -> Masks:
    """Masks averaged down from 128; at 64 they take 98 kB a scene."""
    visible, whole = (torch.empty(len(scenes), 3, size, size) for _ in range(2))
    for rows, part in _chunks(scenes):
        drawn = draw_masks(_anchors(part, moved), part.sizes, rendering)
        visible[rows], whole[rows] = (F.interpolate(mask, size=(size, size), mode="area") for mask in drawn)
    return Masks(visible, whole)


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
        anchors = _anchors(part, moved)
        frames = draw_images(part.background, part.colours, anchors, part.sizes, rendering, device, textured)
        drawn[rows] = frames if size == SIZE else resize_frames(frames, size)
    return drawn


def draw_large(scenes: Scenes, size: int, moved: bool = False, grain: float = 0.0) -> Pixels:
    """uint8 (N, size, size, 3): the scenes before or after their motion at any size, each pixel a mean of 2 x 2 points.

    grain: deviation of a brightness that varies from pixel to pixel and moves with each object. Too fine to be seen
    at a model's size, it shows whether the parts of a picture were taken from the right places.
    """
    points = ((np.arange(size * _POINTS) + 0.5) * (SIZE / (size * _POINTS)) - 0.5).astype(np.float64)  # pixels at 128
    anchors = _anchors(scenes, moved)
    drawn = np.empty((len(scenes), size, size, 3), np.uint8)
    for number in range(len(scenes)):
        image = np.broadcast_to(scenes.background[number], (size * _POINTS, size * _POINTS, 3)).copy()
        image += _grain(size, grain, 0).repeat(_POINTS, 0).repeat(_POINTS, 1)
        for index in DRAW_ORDER:
            anchor = anchors[number, index]
            rows, columns = np.nonzero(points_inside(index, anchor, scenes.sizes[number, index], points))
            # The grain hangs on the anchor: to the nearest pixel, so that it keeps its strength.
            down, across = (np.floor((points - at) * (size / SIZE)).astype(np.int64) % size for at in anchor[::-1])
            texture = _grain(size, grain, 1 + index)
            image[rows, columns] = scenes.colours[number, index] + texture[down[rows], across[columns]]
        means = image.reshape(size, _POINTS, size, _POINTS, 3).mean((1, 3))
        drawn[number] = np.floor(means.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    return drawn


def _grain(size: int, deviation: float, stream: int) -> Array:
    """(size, size, 1)"""
    return np.random.default_rng(stream).normal(0, deviation, (size, size, 1))


def _chunks(scenes: Scenes) -> Iterator[tuple[slice, Scenes]]:
    for start in range(0, len(scenes), _CHUNK):
        rows = slice(start, start + _CHUNK)
        yield rows, scenes.subset(rows)


def _anchors(scenes: Scenes, moved: bool) -> Array:
    return scenes.anchors + (scenes.motions if moved else 0)


# --- laws: uniform numbers in [0, 1) to what is drawn ---


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
    zeros = np.zeros_like(c)
    return np.stack([np.stack([zeros, c], 1), np.stack([s, zeros], 1), np.stack([c, -c], 1)], axis=1)
