"""Sprite characters of coloured noise, for tests that have no real ones."""

import numpy as np

from visual_dynamics.data.reed import ATTRIBUTES, FRAMES, SEX, WEAPON, Characters


def noise_characters(count: int) -> Characters:
    """`count` characters; sexes take turns, weapons in twos."""
    draw = np.random.default_rng(0)
    palette = np.array([[0, 0, 0], [3, 200, 7], [90, 0, 255], [255, 255, 255]], dtype=np.uint8)
    frames = draw.integers(0, 4, (count, FRAMES, 60, 60), dtype=np.uint16)
    attributes = draw.integers(0, 3, (count, ATTRIBUTES))
    attributes[:, SEX], attributes[:, WEAPON] = np.arange(count) % 2, np.arange(count) // 2 % 2
    masks = np.packbits((frames > 0).reshape(count, FRAMES, -1), axis=-1)
    return Characters(frames, palette, masks, attributes, np.arange(count))
