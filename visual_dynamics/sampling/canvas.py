"""A picture as a model sees it, opened once, and the way back from the model's frames to pictures.

    canvas = open_canvas("image.png", size=64, background=1.0)
    frames = predictor.decode(predictor.encode_image(canvas.at(predictor.picture_size)), z)  # (n, 3, 64, 64)
    pictures = canvas.pictures(frames)                                  # uint8 (n, h, w, 3)

Letters in shape comments: H, W the picture's own height and width; h, w those of the results; S side of the model's
frames; n results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.images import (
    Box,
    ImageSource,
    Pixels,
    crop_from_square,
    fit_to_square,
    in_square,
    pad_to_square,
    read_picture,
    resized,
)
from visual_dynamics.sampling.full_size import FullSize
from visual_dynamics.sampling.palette import OPAQUE, cut_out, over_black


@dataclass(frozen=True)
class Canvas:
    """A picture with all that a model needs of it. No method opens the source again.

    Three kinds of results:

    1. Most pictures are scaled: the longer side of a result is the side of the model's frames.
    2. A model of sprites, drawn on black, takes pictures up to that size unscaled; results have the picture's size.
    3. At full size a result has the picture's size, too: the picture's own pixels, moved.
    """

    pixels: Pixels  # (H, W, 3), transparency laid over the model's background
    alpha: Pixels | None  # (H, W); None for a picture without transparency
    frame: Tensor  # (3, S, S) in [0, 1]
    box: Box  # where the picture lies in the frame
    background: float  # of the model that it was opened for
    unscaled: bool  # case 2

    def at(self, side: int) -> Tensor:
        """The frame with a side of a multiple of S, (3, side, side): for networks that move a picture's own pixels.

        The frame itself where the picture has no more to show.
        """
        times = side // self.frame.shape[-1]
        if times == 1 or self.unscaled or max(self.pixels.shape[:2]) < times * max(self.box.height, self.box.width):
            return self.frame
        box = Box(*(times * value for value in self.box))
        square = in_square(resized(self.pixels, box.height, box.width), box, side)
        return torch.from_numpy(square).permute(2, 0, 1).float() / 255

    @cached_property
    def large(self) -> FullSize:
        """Moves the picture at its own size (case 3)."""
        return FullSize(self.pixels, self.frame, self.box)

    @cached_property
    def sprite(self) -> Pixels | None:
        """The picture with alpha, (1, H, W, 4), if it is an unscaled sprite; else None."""
        if not self.unscaled or self.alpha is None:
            return None
        visible = self.alpha >= OPAQUE
        if visible.all() or not visible.any():
            return None
        return np.concatenate([self.pixels, self.alpha[..., None]], axis=-1)[None]

    def still(self, full_size: bool = False) -> Pixels:
        """The picture itself in the size of the results: (h, w, 3), or (H, W, 3) at full size."""
        return self.pixels if full_size else self.pictures(self.frame[None])[0]

    def pictures(self, frames: Tensor) -> Pixels:
        """The model's frames, floats (n, 3, S, S), as pictures, (n, h, w, 3)."""
        pixels = (frames * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        return crop_from_square(pixels, self.box)

    def futures(self, frames: Iterable[Tensor], full_size: bool = False) -> Iterator[Pixels]:
        """Next frames (3, S, S) as pictures, one by one: (h, w, 3), or (H, W, 3) at full size."""
        for frame in frames:
            yield self.large.future(frame) if full_size and not self.unscaled else self.pictures(frame[None])[0]

    def clip(self, frames: Iterable[Tensor], full_size: bool = False) -> Iterator[Pixels]:
        """Frames (3, S, S) that follow each other, the canvas's own first, as pictures like `futures`."""
        return self.large.clip(frames) if full_size and not self.unscaled else self.futures(frames)

    def with_alpha(self, pictures: Pixels) -> Pixels:
        """Results (..., h, w, 3): those of a sprite as sprites in its colours, (..., h, w, 4)."""
        if self.sprite is None:
            return pictures
        return cut_out(pictures.reshape(-1, *pictures.shape[-3:]), self.sprite).reshape(*pictures.shape[:-1], 4)

    def in_own_colours(self, frame: Tensor) -> Tensor:
        """A predicted frame (3, S, S); of a sprite without specks, and with the sprite's colours only."""
        if self.sprite is None:
            return frame
        (clean,) = over_black(cut_out(frame.permute(1, 2, 0)[None].cpu().numpy(), self.sprite))
        return torch.from_numpy(clean).permute(2, 0, 1).to(frame) / 255

    def check_full_size(self, count: int, most_pixels: int) -> None:
        """An error if results at full size are too large together."""
        height, width = self.pixels.shape[:2]
        if not self.unscaled and count * height * width > most_pixels:
            raise UserError(
                f"{count:,} frames of {width} x {height} pixels are too large together "
                f"(at most {most_pixels // 10**6} million pixels): choose fewer, or a smaller picture"
            )


def open_canvas(image: ImageSource | Canvas, size: int, background: float) -> Canvas:
    """A picture for a model with frames of `size` pixels and a background from black (0) to white (1)."""
    if isinstance(image, Canvas):
        if image.frame.shape[-1] != size or image.background != background:
            raise UserError("the canvas was opened for another kind of model: open the picture with this one")
        return image
    picture, grey = read_picture(image), round(255 * background)
    pixels = picture.over((grey, grey, grey))
    unscaled = background == 0 and max(pixels.shape[:2]) <= size  # scaling would blur drawn pixels
    square, box = (pad_to_square if unscaled else fit_to_square)(pixels, size)
    frame = torch.from_numpy(square).permute(2, 0, 1).float() / 255
    return Canvas(pixels, picture.alpha, frame, box, background, unscaled)
