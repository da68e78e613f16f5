"""Predicted frames become sprites again: few colours, and pixels that are either opaque or transparent.

The network sees sprites over black (`over_black`). Its frames have no alpha, and colours that are slightly wrong.
A dark pixel may be background or outline. It is opaque if its surroundings look more like those of an opaque pixel of
the input sprite than like those of a transparent one.

Letters in shape comments: T frames, K example frames, H, W height and width in pixels, P colours, N pixels, E patches.
Alpha is binary, opaque from 128 of 255 on: soft shadows are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels

# Pixels of a 60x60 frame with wrong alpha, in 19 animations of Reed's test characters: 20. By brightness alone it is 46
# at best, with patches of 3x3 29, with equal weights 37, without NOVELTY 27.
OPAQUE = 128  # alpha from which a pixel counts as visible
BRIGHT = 80.0  # distance from black in RGB, 0 to 441, from which a predicted pixel is no background
NOVELTY = 60.0  # distances in RGB between neighbours are cut off here
REACH, SPREAD = 2, 1.0  # pixels: patches are 5x5, their weights a Gaussian of this deviation
MAX_PATCHES = 4096  # different ones in the examples; of more, an even selection
VALUES_AT_A_TIME = 2**22  # float32 numbers of a table of distances: 16 MB

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

_OFFSETS = np.arange(-REACH, REACH + 1)
_WEIGHTS = np.exp(-np.add.outer(_OFFSETS**2, _OFFSETS**2) / (2 * SPREAD**2)).astype(np.float32).ravel()  # (25,)


def over_black(frames: Pixels) -> Pixels:
    """RGBA (T, H, W, 4) -> RGB (T, H, W, 3) as the network sees it: opaque pixels as they are, all others black."""
    return np.where(frames[..., 3:] >= OPAQUE, frames[..., :3], np.uint8(0))


def palette_of(frames: Pixels) -> Pixels:
    """The colours of the visible pixels of RGBA (T, H, W, 4), sorted: (P, 3)."""
    visible = frames[..., :3][frames[..., 3] >= OPAQUE]
    if len(visible) == 0:
        raise UserError("the sprite has no visible pixel")
    return np.unique(visible, axis=0)


def snap_to_palette(frames: npt.NDArray[Any], palette: Pixels) -> Pixels:
    """Each pixel of (..., 3), uint8 or floats in [0, 1], becomes the nearest colour of (P, 3); uint8 (..., 3).

    Nearest by squared distance in plain RGB; of two equally near colours the first.
    """
    if palette.ndim != 2 or palette.shape[1] != 3 or len(palette) == 0:
        raise ValueError(f"a palette is (P, 3) with at least one colour, not {palette.shape}")
    pixels = frames.reshape(-1, 3)
    snapped = np.empty(pixels.shape, np.uint8)
    colors = palette.astype(np.float32)
    step = max(1, VALUES_AT_A_TIME // len(palette))
    for start in range(0, len(pixels), step):
        distances = _squared_distances(_as_levels(pixels[start : start + step]), colors)
        snapped[start : start + step] = palette[distances.argmin(axis=1)]
    return snapped.reshape(frames.shape)


def cut_out(frames: npt.NDArray[Any], examples: Pixels) -> Pixels:
    """Predicted frames (T, H, W, 3) as sprites in the colours of the examples (K, h, w, 4): RGBA (T, H, W, 4).

    Frames are uint8 or floats in [0, 1]. Transparent pixels are black.
    """
    opaque = opaque_pixels(frames, examples)
    sprites = np.zeros((*frames.shape[:-1], 4), np.uint8)
    sprites[..., :3] = snap_to_palette(frames, palette_of(examples))
    sprites[..., 3] = 255
    sprites[~opaque] = 0
    return sprites


def opaque_pixels(frames: npt.NDArray[Any], examples: Pixels, smallest_island: int = 4) -> Mask:
    """Which pixels of predicted frames (T, H, W, 3) belong to the sprite: (T, H, W).

    1. A bright pixel does.
    2. A dark one does if the most similar patch of the examples (K, h, w, 4) with a dark middle is opaque there.
    3. Islands of fewer pixels than `smallest_island` are then dropped, unless the examples have some (sparks).
    """
    patches = _dark_patches(examples.tobytes(), examples.shape, MAX_PATCHES)
    own_islands = [_island_sizes(alpha >= OPAQUE) for alpha in examples[..., 3]]
    smallest = min([smallest_island, *(int(sizes[sizes > 0].min()) for sizes in own_islands if sizes.any())])
    opaque = np.empty(frames.shape[:-1], np.bool_)
    for frame, mask in zip(frames, opaque, strict=True):
        mask[:] = _opaque_of_frame(_as_levels(frame), patches)
        mask &= _island_sizes(mask) >= smallest
    return opaque


def _island_sizes(mask: Mask) -> npt.NDArray[np.intp]:
    """(H, W) -> (H, W): for each true pixel the number of pixels in its region; 0 for a false one.

    Pixels that touch at a corner are connected, too.
    """
    number = np.arange(mask.size).reshape(mask.shape)
    first, second = [], []
    for one, other in (  # right, below, and the two diagonals
        (np.s_[:, :-1], np.s_[:, 1:]),
        (np.s_[:-1, :], np.s_[1:, :]),
        (np.s_[:-1, :-1], np.s_[1:, 1:]),
        (np.s_[:-1, 1:], np.s_[1:, :-1]),
    ):
        both = mask[one] & mask[other]
        first.append(number[one][both])
        second.append(number[other][both])
    regions = connected(mask.size, np.concatenate(first), np.concatenate(second)).reshape(mask.shape)
    return np.where(mask, np.bincount(regions.ravel())[regions], 0)


def connected(count: int, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The component of each of `count` things, by the least index in it: (count,).

    Link k joins `first[k]` and `second[k]`. In every round the roots of linked components are joined, the larger index
    to the smaller one; then every thing is taken to its root.
    """
    root = np.arange(count)
    while True:
        one, other = root[first], root[second]
        if np.array_equal(one, other):
            return root
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(root[root], root):
            root = root[root]


class _Patches(NamedTuple):
    """Surroundings of dark pixels of the examples, each kind once; outside a frame all is transparent black."""

    colors: Floats  # (P, 3)
    kinds: npt.NDArray[np.int32]  # (E, 25), rows of `colors`
    opaque: Mask  # (E,), the pixel in the middle
    safe: float  # unlikeness to an all black patch below which the middle of a patch is background


@lru_cache(maxsize=8)
def _dark_patches(pixels: bytes, shape: tuple[int, ...], most: int) -> _Patches:
    """Of examples (K, h, w, 4), by their bytes: frame after frame comes with the same ones."""
    examples = np.frombuffer(pixels, np.uint8).reshape(shape)
    packed = over_black(examples).astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)  # (K, h, w)
    codes = np.union1d(packed, [0])  # black comes first
    colors = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.float32)
    dark = np.square(colors).sum(axis=1) <= (1.25 * BRIGHT) ** 2  # with a margin: predictions are inexact
    kinds = np.empty((0, len(_WEIGHTS) + 1), np.int32)  # the last column: whether the middle is opaque
    for frame, alpha in zip(packed, examples[..., 3], strict=True):
        indices = np.searchsorted(codes, frame).astype(np.int32)
        middles = np.flatnonzero(dark[indices])
        rows = np.stack([*_surroundings(indices, middles), alpha.ravel()[middles] >= OPAQUE], axis=1)
        kinds = np.unique(np.concatenate([kinds, rows]), axis=0)
    if len(kinds) > most:
        kinds = kinds[np.linspace(0, len(kinds) - 1, most).astype(np.intp)]
    kinds, opaque = kinds[:, :-1], kinds[:, -1] == 1
    # The root of unlikeness is a distance. A patch nearer to all black than half of what lies between that and the
    # nearest opaque patch is nearer to all black than to any opaque one.
    to_black = (np.minimum(np.square(colors).sum(axis=1), NOVELTY**2)[kinds] * _WEIGHTS).sum(axis=1)  # (E,)
    has_black = (kinds[~opaque] == 0).all(axis=1).any()
    safe = 0.99 * float(to_black[opaque].min()) / 4 if has_black and opaque.any() else 0.0
    return _Patches(colors, kinds, opaque, safe)


def _opaque_of_frame(frame: Floats, patches: _Patches) -> Mask:
    """Levels (H, W, 3) -> (H, W)"""
    opaque = np.square(frame).sum(axis=-1) > BRIGHT**2
    unsure = np.flatnonzero(~opaque)
    if patches.opaque.all() or not patches.opaque.any():  # all kinds of dark pixels alike
        opaque.flat[unsure] = patches.opaque.any()
        return opaque
    darkness = np.minimum(np.square(frame).sum(axis=-1), NOVELTY**2)
    around = zip(_WEIGHTS, _surroundings(darkness, unsure), strict=True)
    unsure = unsure[sum(weight * pixels for weight, pixels in around) >= patches.safe]
    step = max(1, VALUES_AT_A_TIME // max(len(patches.kinds), len(patches.colors)))
    for start in range(0, len(unsure), step):
        middles = unsure[start : start + step]  # n of them
        unlikeness = np.zeros((len(patches.kinds), len(middles)), np.float32)  # (E, n)
        for weight, pixels, kinds in zip(_WEIGHTS, _surroundings(frame, middles), patches.kinds.T, strict=True):
            to_colors = np.minimum(_squared_distances(patches.colors, pixels), NOVELTY**2)  # (P, n)
            unlikeness += (weight * to_colors)[kinds]
        to_opaque, to_clear = (unlikeness[patches.opaque == wanted].min(axis=0) for wanted in (True, False))
        opaque.flat[middles] = to_opaque < to_clear
    return opaque


def _surroundings(frame: npt.NDArray[Any], middles: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[Any]]:
    """(H, W, ...), (n,) pixels counted row by row -> 25 times (n, ...): what lies there in their patches; 0 outside."""
    margins = ((REACH, REACH), (REACH, REACH), *[(0, 0)] * (frame.ndim - 2))
    padded = np.pad(frame, margins)
    rows, columns = np.divmod(middles, frame.shape[1])
    return (padded[rows + down, columns + right] for down in range(2 * REACH + 1) for right in range(2 * REACH + 1))


def _squared_distances(pixels: Floats, colors: Floats) -> Floats:
    """(N, 3), (P, 3) -> (N, P)"""
    lengths, other_lengths = (np.square(values).sum(axis=1) for values in (pixels, colors))
    return lengths[:, None] + other_lengths - 2 * (pixels @ colors.T)


def _as_levels(frames: npt.NDArray[Any]) -> Floats:
    """uint8, or floats in [0, 1], as floats from 0 to 255."""
    if frames.shape[-1] != 3:
        raise ValueError(f"frames are (..., 3), not {frames.shape}")
    if frames.dtype == np.uint8:
        return frames.astype(np.float32)
    if not np.issubdtype(frames.dtype, np.floating):
        raise ValueError(f"frames are uint8 or floats in [0, 1], not {frames.dtype}")
    return (frames * 255).astype(np.float32)
