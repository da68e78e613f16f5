"""The JSON that Aseprite writes beside a sprite sheet: where each frame lies in the picture, and which tags there are.

Both its forms are read, array and hash, as is what other programs write in the same layout.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError
from visual_dynamics.files import why_no_file
from visual_dynamics.images import MAX_SIDE

DIRECTIONS = ("forward", "reverse", "pingpong", "pingpong_reverse")
USUAL_DURATION = 100  # milliseconds; what Aseprite gives a new frame
LONGEST_DURATION = 65_535
MAX_BYTES = 2**25


@dataclass(frozen=True)
class Tag:
    """A named animation: frames `first` to `last`, both included, counted from 0."""

    name: str
    first: int
    last: int
    direction: str = "forward"

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise ValueError(f"a tag runs from a frame to the same or a later one, not {self.first} to {self.last}")
        if self.direction not in DIRECTIONS:
            raise ValueError(f"a direction is one of {', '.join(DIRECTIONS)}, not {self.direction!r}")

    @property
    def order(self) -> list[int]:
        """The frames of one round as they are played; back and forth, the two at the ends come once each."""
        frames = list(range(self.first, self.last + 1))
        if self.direction in ("reverse", "pingpong_reverse"):
            frames.reverse()
        return frames + frames[-2:0:-1] if self.direction.startswith("pingpong") else frames


@dataclass(frozen=True)
class Box:
    """Where the part of a frame that is in the picture lies there, and where in the whole frame; pixels."""

    name: str
    corner: tuple[int, int]  # left, top in the picture
    size: tuple[int, int]  # width, height
    margin: tuple[int, int]  # left, top in the whole frame; not 0 where it was trimmed
    source: tuple[int, int]  # width, height of the whole frame
    duration: int  # milliseconds


@dataclass(frozen=True)
class Layout:
    """What the JSON says; all boxes have the same source."""

    image: str  # the picture, a file beside the JSON
    boxes: tuple[Box, ...]
    tags: tuple[Tag, ...]


def read_layout(path: Path) -> Layout:
    """Where other programs leave fields out, frames are untrimmed and 100 ms long, and there are no tags."""
    try:
        if not path.is_file():
            raise UserError(f"cannot read {path}: {why_no_file(path)}")
        with path.open("rb") as file:
            return parse_layout(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def parse_layout(data: bytes, name: str) -> Layout:
    """`read_layout` for a JSON that is in memory; `name` stands in error messages."""
    try:
        return _layout(_parsed(data))
    except _ForeignError as error:
        raise UserError(f"cannot read {name} as an Aseprite sheet: {error}") from error


class _ForeignError(Exception):
    """What is wrong with a JSON, in words that follow its name."""


def _parsed(data: bytes) -> Any:
    if len(data) > MAX_BYTES:
        raise _ForeignError(f"it is too large (at most {MAX_BYTES:,} bytes)")
    try:
        text = data.decode("utf-8-sig")
        # strict=False: Aseprite does not escape line breaks in names
        return json.loads(text, strict=False, object_pairs_hook=_unique_names)
    except (ValueError, RecursionError) as error:
        raise _ForeignError("it is not valid JSON") from error


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A later frame of the same name would silently replace the earlier one."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise _ForeignError(f"{name[:80]!r} is there twice; put {{frame}} into the item names, or export an array")
        result[name] = value
    return result


def _layout(content: Any) -> Layout:
    content = _typed(content, dict, "the content")
    frames = content.get("frames")
    if isinstance(frames, dict):
        entries = [(f"frame {name[:80]!r}", entry) for name, entry in frames.items()]
    else:
        entries = [(f"frame {number}", entry) for number, entry in enumerate(_typed(frames, list, "'frames'"))]
    if not entries:
        raise _ForeignError("it holds no frames")
    boxes = tuple(_box(name, _typed(entry, dict, name)) for name, entry in entries)
    for box in boxes:
        if box.source != boxes[0].source:
            sizes = f"{boxes[0].name} is {_size_words(boxes[0].source)}, {box.name} is {_size_words(box.source)}"
            raise _ForeignError(f"its frames differ in size: {sizes}")
    meta = _typed(content.get("meta"), dict, "'meta'")
    image = _typed(meta.get("image"), str, "'image', the name of its picture,")
    if image in ("", "..") or Path(image).name != image or re.search(r"[\\\0]", image):
        raise _ForeignError(f"its picture is {image[:80]!r}; only a file beside the JSON is read, named without a path")
    tags = _typed(meta.get("frameTags", []), list, "'frameTags'")
    return Layout(image, boxes, tuple(_tag(_typed(tag, dict, "a tag"), len(boxes)) for tag in tags))


def _box(name: str, entry: dict[str, Any]) -> Box:
    if entry.get("rotated", False) is not False:
        raise _ForeignError(f"{name} is rotated in the picture; export it without rotation")
    x, y, w, h = _numbers(entry.get("frame"), "xywh", f"the frame of {name}")
    left, top, width, height = 0, 0, w, h
    if "spriteSourceSize" in entry:
        left, top, width, height = _numbers(entry["spriteSourceSize"], "xywh", f"the spriteSourceSize of {name}")
    source_width, source_height = left + width, top + height
    if "sourceSize" in entry:
        source_width, source_height = _numbers(entry["sourceSize"], "wh", f"the sourceSize of {name}")
    # An inner padding counts as part of the frame, on all four sides.
    padding = (w - width) // 2
    if padding < 0 or (w, h) != (width + 2 * padding, height + 2 * padding):
        sizes = f"{_size_words((w, h))}, but its spriteSourceSize is {_size_words((width, height))}"
        raise _ForeignError(f"{name} is {sizes}")
    if left + width > source_width or top + height > source_height:
        raise _ForeignError(f"the spriteSourceSize of {name} leaves its sourceSize")
    return Box(
        name=name,
        corner=(x + padding, y + padding),
        size=(width, height),
        margin=(left, top),
        source=(source_width, source_height),
        duration=_milliseconds(entry.get("duration", USUAL_DURATION), f"the duration of {name}"),
    )


def _tag(entry: dict[str, Any], count: int) -> Tag:
    name = _typed(entry.get("name"), str, "the name of a tag")
    what = f"of tag {name[:80]!r}"
    last = _whole(entry.get("to"), f"'to' {what}", 0, count - 1)
    first = _whole(entry.get("from"), f"'from' {what}", 0, last)
    direction = entry.get("direction", "forward")
    if direction not in DIRECTIONS:
        raise _ForeignError(f"the direction {what} is none of {', '.join(DIRECTIONS)}")
    return Tag(name, first, last, direction)


def _typed(value: Any, kind: Any, what: str) -> Any:
    if not isinstance(value, kind):
        expected = {dict: "an object", list: "a list", str: "a text"}[kind]
        raise _ForeignError(f"{what} {'is missing' if value is None else f'is not {expected}'}")
    return value


def _numbers(value: Any, keys: str, what: str) -> list[int]:
    """{"x": 0, "y": 0, "w": 16, "h": 16} -> [0, 0, 16, 16]"""
    value = _typed(value, dict, what)
    return [_whole(value.get(key), f"{key!r} in {what}", 1 if key in "wh" else 0, MAX_SIDE) for key in keys]


def _whole(value: Any, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:  # True is an int, too
        raise _ForeignError(f"{what} is not a whole number from {least} to {most:,}")
    return value


def _milliseconds(value: Any, what: str) -> int:
    """Other programs write fractions: 33.4, say, at 30 frames a second."""
    rounded = max(1, round(value)) if isinstance(value, float) and 0 < value < math.inf else value
    return _whole(rounded, what, 1, LONGEST_DURATION)


def _size_words(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]} pixels"
