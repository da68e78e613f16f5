"""What frames of a sprite must be, and where they stand in the network's squares. Without torch.

n frames, H, W height and width of a frame in pixels; h, w those of the target; S the side of the network's frames.
"""

from __future__ import annotations

import numpy as np

from visual_dynamics.errors import UserError
from visual_dynamics.images import Box, Pixels
from visual_dynamics.sampling.palette import BRIGHT, OPAQUE, over_black


def check_sprites(frames: Pixels, what: str, first: int = 0) -> None:
    """Raise UserError if one of the frames (T, H, W, 4), the first of which has number `first`, is no sprite."""
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 4 or 0 in frames.shape:
        raise ValueError(f"sprites are uint8 (T, H, W, 4), not {frames.dtype} {frames.shape}")
    for number, frame in enumerate(frames, first):
        where = f"frame {number} of {what}" if len(frames) > 1 else what
        opaque = frame[..., 3] >= OPAQUE
        if not opaque.any():
            raise UserError(f"{where} is empty: it has no visible pixel")
        edge = np.concatenate([frame[0], frame[-1], frame[:, 0], frame[:, -1]])[:, :3].astype(np.float32)
        if opaque.all() and np.median(np.square(edge).sum(axis=1)) > BRIGHT**2:
            raise UserError(f"{where} has no transparent pixel: sprites need a transparent background, or a black one")


def standing_boxes(reference: tuple[int, ...], target: tuple[int, ...], size: int) -> tuple[Box, Box]:
    """Places of frames (H, W) and (h, w) in the network's squares: in the middle, on the same ground line, unscaled.

    The taller one is in the middle of the height as well, as in training.
    """
    for (height, width), what in ((reference, "the reference"), (target, "the target")):
        if max(height, width) > size:
            sizes = f"{width} x {height} pixels, but the model takes {size} x {size} at most"
            raise UserError(f"the frames of {what} are {sizes}; sprites are not scaled")
    taller = max(reference[0], target[0])
    ground = (size - taller) // 2 + taller
    first, second = (Box(ground - height, (size - width) // 2, height, width) for height, width in (reference, target))
    return first, second


def with_hard_edges(frames: Pixels) -> Pixels:
    """(n, h, w, 4) -> the same with alpha 0 or 255; transparent pixels are black."""
    alpha = np.where(frames[..., 3:] >= OPAQUE, np.uint8(255), np.uint8(0))
    return np.concatenate([over_black(frames), alpha], axis=-1)


def in_squares(frames: Pixels, box: Box, size: int) -> Pixels:
    """(n, h, w, C) -> (n, S, S, C), 0 around them."""
    below, right = size - box.top - box.height, size - box.left - box.width
    return np.pad(frames, ((0, 0), (box.top, below), (box.left, right), (0, 0)))
