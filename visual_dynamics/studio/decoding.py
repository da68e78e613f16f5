"""Uploads are decoded in processes of their own, within bounds of time and memory.

Bounds of bytes, pixels and scans are not enough. Within 10 MB a GIF of comments keeps Pillow busy for 55 seconds, a PNG
of colour profiles for 17 (one core of a shared EPYC), and both keep the interpreter's lock.
Nothing here imports torch: a process starts in half a second.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels, read_picture, resized
from visual_dynamics.sprites.character_files import Bounds, parse_character
from visual_dynamics.sprites.characters import Character, Clips

T = TypeVar("T")
PROCESSES = 2  # at a time; they stay for the next upload
SECONDS = 5  # of a processor: ordinary pictures of 16 million pixels take up to 2
MEMORY = 2**30  # bytes of a process
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
LONGEST_SIDE = 2_048  # pixels of stored pictures; larger ones are averaged down
MAX_ANIMATIONS = 200  # of a character
LONGEST = 60.0  # seconds, whatever else the machine does
_processes = CapacityLimiter(PROCESSES)


class DecodingStoppedError(UserError):
    """The decoding of an upload exceeded its bounds."""


def decode_upload(data: bytes, max_pixels: int, exact: bool = False) -> Pixels:
    """The pixels of an upload, (H, W, 3), or (H, W, 4) with alpha; large ones are reduced unless `exact`."""
    if not data:
        raise UserError("the upload is empty: send the bytes of a picture as the body")
    picture = read_picture(data, "the picture", FORMATS, max_pixels)
    pixels = picture.colours if picture.alpha is None else picture.rgba
    longer = max(pixels.shape[:2])
    if exact or longer <= LONGEST_SIDE:
        return pixels
    height, width = (max(2, round(side * LONGEST_SIDE / longer)) for side in pixels.shape[:2])
    return resized(pixels, height, width)


def decode_character(data: bytes, name: str, bounds: Bounds) -> Character:
    """A character to look at: it can write no files, since the way to do so cannot be sent between processes."""
    character = parse_character(data, name, bounds)
    if (count := len(character.animations)) > MAX_ANIMATIONS:
        raise UserError(f"{count:,} animations are too many for a character: at most {MAX_ANIMATIONS}")
    return replace(character, written=_no_files)


def _no_files(_: Clips) -> dict[str, bytes]:
    return {}


async def decode_apart(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` reads from an upload; both are pickled. A process that exceeds its bounds ends, and no other."""
    try:
        with fail_after(LONGEST):
            return await to_process.run_sync(
                _bounded, decode, data, SECONDS, MEMORY, cancellable=True, limiter=_processes
            )
    except (BrokenWorkerProcess, MemoryError, TimeoutError) as error:
        bounds = f"{SECONDS} seconds and {MEMORY // 2**30} GiB"
        raise DecodingStoppedError(f"the upload cannot be decoded within {bounds}") from error


def _bounded(decode: Callable[[bytes], T], data: bytes, seconds: int, memory: int) -> T:
    """In the process: the system ends it after the seconds; the memory ends the decoding alone."""
    if sys.platform != "win32":  # there, LONGEST alone bounds it
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))
        _lower(resource.RLIMIT_DATA, memory)
    return decode(data)


def _lower(bound: int, value: int) -> None:
    """Set the soft limit, which may be raised again for the next upload."""
    import resource

    hard = resource.getrlimit(bound)[1]
    resource.setrlimit(bound, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
