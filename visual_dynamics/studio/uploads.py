"""Uploaded bytes become pixels, within limits; nothing of an upload touches the file system."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, one_line_errors, read_image, resized, upright

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
FORMATS_TOLD = "PNG, JPEG, WebP, GIF or BMP"
LONGEST_SIDE = 2_048  # of the pictures that are kept; larger ones are averaged down


def decode_upload(data: bytes, max_pixels: int, exact: bool = False) -> Pixels:
    """An uploaded picture, upright, the first frame of an animation: uint8 (H, W, 3), or (H, W, 4) with alpha.

    It is made smaller where it is large, unless it is to be kept exactly.
    """
    if not data:
        raise UserError("the upload is empty: send the bytes of a picture as the body")
    with one_line_errors("the picture"):
        Image.init()
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)  # reads the header only
        except UnidentifiedImageError as error:
            raise UserError(f"it is not a {FORMATS_TOLD} file") from error
        _check_size(image, max_pixels)
        image.load()
        _check_size(image, max_pixels)  # a GIF may grow when it is read
        layers = upright(image).convert("RGBA") if image.has_transparency_data else None
    pixels = read_image(image) if layers is None else np.array(layers)
    return pixels if exact else _bounded(pixels)


def _check_size(image: Image.Image, max_pixels: int) -> None:
    if image.width * image.height > max_pixels:
        limit = f"at most {max_pixels // 10**6} million in all"
        raise UserError(f"{image.width} x {image.height} pixels is too large ({limit})")


def _bounded(pixels: Pixels) -> Pixels:
    """The picture no larger than LONGEST_SIDE. A photograph's alpha is averaged like its colours."""
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer <= LONGEST_SIDE:
        return pixels
    h, w = (max(2, round(side * LONGEST_SIDE / longer)) for side in (height, width))
    return resized(pixels, h, w)
