"""Pictures that clients speak of by an id: the samples, which always are there, and uploads, the latest of them."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

from visual_dynamics.images import Pixels, shrink
from visual_dynamics.media import encode_png
from visual_dynamics.web.refusals import Refused

LOOK, SPRITE_LOOK = 256, 1024  # pixels of the longer side of what a client is shown of a picture


@dataclass(frozen=True)
class Picture:
    """A picture and the name it has for clients."""

    id: str
    pixels: Pixels  # uint8 (H, W, 3), or (H, W, 4) with alpha

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @cached_property
    def url(self) -> str:
        """A look at it."""
        return as_url(shrink(self.pixels, LOOK if self.pixels.shape[-1] == 3 else SPRITE_LOOK))


class Pictures:
    """Bounded memory: the pictures that nobody used for longest make room. Any thread may ask."""

    def __init__(self, samples: dict[str, Pixels], max_bytes: int) -> None:
        self.samples = {name: Picture(name, pixels) for name, pixels in samples.items()}
        self.max_bytes = max_bytes
        self._kept: OrderedDict[str, Picture] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, pixels: Pixels) -> Picture:
        """The same pixels have the same id; ids of others cannot be guessed."""
        shape = repr(pixels.shape).encode()
        picture = Picture(hashlib.sha256(shape + pixels.tobytes()).hexdigest()[:32], pixels)
        with self._lock:
            if picture.id not in self._kept:
                self._kept[picture.id] = picture
                self._bytes += pixels.nbytes
            self._kept.move_to_end(picture.id)
            while self._bytes > self.max_bytes and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.pixels.nbytes
        return picture

    def find(self, name: str) -> Picture:
        if name in self.samples:
            return self.samples[name]
        with self._lock:
            if name not in self._kept:
                raise Refused(404, f"no image {name!r} is here, or no longer: upload it")
            self._kept.move_to_end(name)
            return self._kept[name]


def as_url(pixels: Pixels) -> str:
    """A picture (H, W, 3 or 4) as a data URL."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()
