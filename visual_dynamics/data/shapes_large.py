"""The Shapes world at any size: large pictures whose small copies are what a model of 64 pixels knows.

shapes_drawing.py draws at 128, fast and as the authors did; this one draws few pictures, each with its true edges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.data.shapes import CIRCLE, SIZE, SQUARE, TRIANGLE, Array, Scenes
from visual_dynamics.images import Pixels

_SUB = 2  # sub-samples a pixel on each side: large pictures need no more
_ORDER = (CIRCLE, TRIANGLE, SQUARE)  # the last one on top


def draw_large(scenes: Scenes, size: int, moved: bool = False, grain: float = 0.0) -> Pixels:
    """uint8 (N, size, size, 3): the scenes before or after their motion.

    `grain`: deviation of a brightness that varies from pixel to pixel and moves with each thing. Too fine to be seen at
    a model's size, it tells whether the parts of a picture were taken from the right places.
    """
    drawn = np.empty((len(scenes), size, size, 3), np.uint8)
    for number in range(len(scenes)):
        drawn[number] = _draw(scenes, number, size, moved, grain)
    return drawn


def _draw(scenes: Scenes, number: int, size: int, moved: bool, grain: float) -> Pixels:
    places = (np.arange(size * _SUB) + 0.5) * (SIZE / (size * _SUB)) - 0.5  # pixels at 128
    x, y = places[None, :], places[:, None]
    image = np.broadcast_to(scenes.background[number], (size * _SUB, size * _SUB, 3)).copy()
    image += _grain(size, grain, 0).repeat(_SUB, 0).repeat(_SUB, 1)
    for index in _ORDER:
        anchor = scenes.anchors[number, index] + (scenes.motions[number, index] if moved else 0)
        inside = _inside(index, x - anchor[0], y - anchor[1], scenes.sizes[number, index])
        rows, columns = np.nonzero(inside)
        texture = _grain(size, grain, 1 + index)
        # the grain hangs on the anchor: to the nearest pixel, so that it keeps its strength
        down, across = (np.floor((places - at) * (size / SIZE)).astype(np.int64) % size for at in anchor[::-1])
        image[rows, columns] = scenes.colours[number, index] + texture[down[rows], across[columns]]
    image = image.reshape(size, _SUB, size, _SUB, 3).mean((1, 3))
    return np.floor(image.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _inside(index: int, x: Array, y: Array, size: float) -> NDArray[np.bool_]:
    """Where an object is, x and y being counted from its anchor, in pixels at 128."""
    if index == CIRCLE:
        return x**2 + y**2 <= (size / 2) ** 2
    if index == SQUARE:
        return (x >= -0.5) & (x < size - 0.5) & (y >= -0.5) & (y < size - 0.5)
    return (y <= 0) & (y >= -size) & (np.abs(x) <= -y / 2)


def _grain(size: int, deviation: float, stream: int) -> Array:
    """(size, size, 1)"""
    return np.random.default_rng(stream).normal(0, deviation, (size, size, 1))
