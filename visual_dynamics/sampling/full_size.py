"""Futures and clips at the size of the picture they start from.

The model predicts the motion at its own size; here the picture itself is moved in the same way. Three cases:
1. What moves is taken from the picture, as sharp as it is there.
2. What stays keeps its bytes.
3. What was hidden in the picture is taken from the model's frame, enlarged: it is softer.

Letters in shape comments: H, W height and width of the picture; h, w those of the part of the model's frame where the
picture lies; r places of a field for each pixel of the model, on each side; n pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.images import Box, Pixels, resized
from visual_dynamics.sampling.motion_layers import Field, explain, mirrored, places_of

STRIP = 2**18  # pixels of the picture in work at a time: about 50 MB
SEAM = 0.5  # pixels of the model: neighbouring places whose sources differ by more belong to two motions
LEAST_SHADE = 0.002  # of colours in [0, 1]; less is noise of the network
MOST_SHADE = 0.1  # more is no light or shadow
WRONG = 0.12  # error of a pixel from which it is taken from the model's frame
Numbers = NDArray[np.floating[Any]]


class FullSize:
    """Moves a picture, uint8 (H, W, 3), that lies at `box` in the model's frame (3, S, S)."""

    def __init__(self, picture: Pixels, frame: Tensor, box: Box) -> None:
        self.picture, self.frame, self.box = picture, frame, box

    def future(self, next_frame: Tensor) -> Pixels:
        """The picture (H, W, 3) that belongs to the model's next frame (3, S, S)."""
        target = self._inside(next_frame)
        return self._moved(explain(self._inside(self.frame), target), target)

    def clip(self, frames: Iterable[Tensor]) -> Iterator[Pixels]:
        """The pictures that belong to frames (3, S, S) which follow each other; the first is the picture's own.

        The motions of all steps are added up, and the first picture is moved by the sum: nothing is resampled twice.
        """
        yield self.picture.copy()
        motion: Field | None = None
        for before, after in itertools.pairwise(map(self._inside, frames)):
            step = explain(before, after)
            motion = then(motion, step) if motion else step
            yield self._moved(motion, after)

    def _inside(self, frame: Tensor) -> Tensor:
        top, left, height, width = self.box
        return frame[:, top : top + height, left : left + width].float().cpu()

    def _moved(self, field: Field, target: Tensor) -> Pixels:
        """The picture moved by a field; what is made up is taken from the target (3, h, w), enlarged."""
        height, width = self.picture.shape[:2]
        lines, columns = field.made_up.shape
        rows = max(1, STRIP // width)
        down, across = (_enlarging(few, many) for few, many in zip(target.shape[1:], (height, width), strict=True))
        places_across = (torch.arange(width) + 0.5) * (columns / width) - 0.5
        field, shade = self._checked(field, target)
        result = self.picture.copy()
        for top in range(0, height, rows):
            strip = result[top : top + rows]
            pixels = torch.arange(top, top + len(strip))
            places = (pixels + 0.5) * (lines / height) - 0.5
            near = slice(max(0, int(places[0])), int(places[-1]) + 2)
            if not (field.source[:, near].any() or field.made_up[near].any()):
                continue
            (dx, dy), share = (x.numpy() for x in _look_up(field, places[:, None], places_across))
            y, x = np.nonzero((dx != 0) | (dy != 0))
            from_y, from_x = dy[y, x] * (height / target.shape[1]), dx[y, x] * (width / target.shape[2])
            shaded = (down[:, pixels].T @ shade @ across).numpy()  # (3, rows, W)
            strip[y, x] = _to_bytes(_taken(self.picture, top + y + from_y, x + from_x) + 255 * shaded[:, y, x].T)
            y, x = np.nonzero(share)
            if len(y):
                soft = (down[:, pixels].T @ target @ across).numpy()
                old = strip[y, x]
                strip[y, x] = _to_bytes(old + share[y, x, None] * (255 * soft[:, y, x].T - old))
        return result

    def _checked(self, field: Field, target: Tensor) -> tuple[Field, Tensor]:
        """The field with all wrong pixels marked as made up, and the shade (3, h, w) of the others.

        The shade is a change of light: it is added to the colours of moved parts. It is a median over 5 x 5 pixels, so
        that an edge a little beside its place causes none.
        """
        lines, columns = field.made_up.shape
        dx, dy = (field.source * field.places).round().long()
        y, x = mirrored(torch.arange(lines)[:, None] + dy, lines), mirrored(torch.arange(columns) + dx, columns)
        rest = target - F.avg_pool2d(self._at_places[:, y, x][None], field.places)[0]
        around = F.unfold(F.pad(rest[:, None], (2, 2, 2, 2), mode="replicate"), 5)  # (3, 25, h w)
        shade = around.median(1).values.reshape(rest.shape).clamp(-MOST_SHADE, MOST_SHADE)
        wrong = ((rest - shade).abs().amax(0) / WRONG - 1).clamp(0, 1)  # (h, w)
        made_up = F.interpolate(wrong[None, None], (lines, columns), mode="bilinear", align_corners=False)[0, 0]
        shade = shade.sign() * (shade.abs() - LEAST_SHADE).clamp(min=0)
        return field._replace(made_up=torch.maximum(field.made_up, made_up)), shade

    @cached_property
    def _at_places(self) -> Tensor:
        """The picture at the size of its fields, (3, r h, r w)."""
        places = places_of(self.box.height, self.box.width)
        small = resized(self.picture, places * self.box.height, places * self.box.width)
        return torch.from_numpy(small).permute(2, 0, 1).float() / 255


def then(first: Field, second: Field) -> Field:
    """One field after another of the same places; what is made up stays made up."""
    lines, columns = (torch.arange(count) for count in first.made_up.shape)
    dx, dy = second.source * second.places
    source, made_up = _look_up(first, lines[:, None] + dy, columns + dx)
    return Field(second.source + source, torch.maximum(second.made_up, made_up), second.places)


def _look_up(field: Field, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """A field's source (2, ...) and made_up (...) at places y, x, which need not be whole numbers.

    Sources are interpolated within one motion. At a seam the nearest one counts: the mean of two motions is a third
    one, which would show a wrong part of the picture.
    """
    lines, columns = field.made_up.shape
    y, x = torch.broadcast_tensors(y.clamp(0, lines - 1), x.clamp(0, columns - 1))
    known = torch.cat([field.source, field.made_up[None]])  # (3, r h, r w)
    top, left = y.long(), x.long()
    below, right = (top + 1).clamp_(max=lines - 1), (left + 1).clamp_(max=columns - 1)
    corners = [known[:, at_y, at_x] for at_y in (top, below) for at_x in (left, right)]
    upper, lower = corners[0].lerp(corners[1], x.frac()), corners[2].lerp(corners[3], x.frac())
    mixed = upper.lerp(lower, y.frac())
    sources = torch.stack(corners)[:, :2]
    seam = ((sources.amax(0) - sources.amin(0)) > SEAM).any(0)
    nearest = field.source[:, y.round().long(), x.round().long()]
    return torch.where(seam, nearest, mixed[:2]), mixed[2]


def _taken(picture: Pixels, y: Numbers, x: Numbers) -> Numbers:
    """Colours (n, 3), 0 to 255, of a picture (H, W, 3) at places y, x (n,), in pixels.

    Cubic interpolation (Catmull and Rom) keeps edges sharp, and pixels at whole places. Outside, the picture is
    mirrored.
    """
    top, left = np.floor(y), np.floor(x)
    colours = np.zeros((len(y), 3), np.float32)
    for row, weight_y in enumerate(_cubic(y - top), -1):
        at_y = mirrored(top.astype(np.int64) + row, picture.shape[0])
        for column, weight_x in enumerate(_cubic(x - left), -1):
            at_x = mirrored(left.astype(np.int64) + column, picture.shape[1])
            colours += (weight_y * weight_x)[:, None] * picture[at_y, at_x]
    return colours


def _cubic(t: Numbers) -> list[Numbers]:
    """Weights of the pixels -1, 0, 1 and 2 for places t in [0, 1)."""
    return [
        ((2 - t) * t - 1) * t / 2,
        ((3 * t - 5) * t * t + 2) / 2,
        ((4 - 3 * t) * t + 1) * t / 2,
        (t - 1) * t * t / 2,
    ]


def _to_bytes(colours: Numbers) -> Pixels:
    return np.floor(colours.clip(0, 255) + 0.5).astype(np.uint8)


def _enlarging(few: int, many: int) -> Tensor:
    """(few, many): the cubic weights that enlarge `few` pixels to `many`."""
    return F.interpolate(torch.eye(few)[None, None], (few, many), mode="bicubic", align_corners=False)[0, 0]
