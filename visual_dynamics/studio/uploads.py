"""Uploaded bytes become pixels, within limits; nothing of an upload touches the file system."""

from __future__ import annotations

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, read_picture, resized

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
FORMATS_TOLD = "PNG, JPEG, WebP, GIF or BMP"
LONGEST_SIDE = 2_048  # of the pictures that are kept; larger ones are averaged down


def decode_upload(data: bytes, max_pixels: int, exact: bool = False) -> Pixels:
    """An uploaded picture, upright, the first frame of an animation: uint8 (H, W, 3), or (H, W, 4) with alpha.

    A large picture is made smaller, unless `exact`.
    """
    if not data:
        raise UserError("the upload is empty: send the bytes of a picture as the body")
    picture = read_picture(data, "the picture", FORMATS, max_pixels)
    pixels = picture.colours if picture.alpha is None else picture.rgba
    return pixels if exact else _bounded(pixels)


def _bounded(pixels: Pixels) -> Pixels:
    """The picture no larger than LONGEST_SIDE. A photograph's alpha is averaged like its colours."""
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer <= LONGEST_SIDE:
        return pixels
    h, w = (max(2, round(side * LONGEST_SIDE / longer)) for side in (height, width))
    return resized(pixels, h, w)
