"""Sprite sheets become frames with alpha: a grid of cells, an Aseprite JSON and its picture, a folder, an animation.

Letters in shape comments: T frames, H, W height and width of a frame in pixels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from visual_dynamics.data.aseprite import LONGEST_DURATION, USUAL_DURATION, Layout, Tag, read_layout
from visual_dynamics.data.aseprite_file import SUFFIXES, read_aseprite_file
from visual_dynamics.errors import UserError
from visual_dynamics.images import FORMATS, MAX_PIXELS, Pixels, decode, open_image

PICTURE_SUFFIXES = (".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
DESCRIBED = (".json", *SUFFIXES)  # such files say themselves where their frames are
ANIMATED = ("GIF", "WEBP", "PNG", "AVIF")  # the pages of other formats need not be frames: a thumbnail, say
COMPOSED_TABLE = "characters.json"  # in folders of characters that `prepare lpc` composed ...
COMPOSED_LAYOUT = "64x64"  # ... whose sheets have such cells
LAYOUTS = "a size of cells such as 64x64, 'aseprite' or 'frames'"
MAX_FRAMES = 4_096  # of an animated picture: a byte or two may ask for another one


@dataclass(frozen=True)
class Sheet:
    """An animated sprite."""

    frames: Pixels  # uint8 (T, H, W, 4), RGBA, colours not multiplied by alpha
    durations: npt.NDArray[np.int64]  # (T,), milliseconds
    tags: tuple[Tag, ...] = ()

    def __post_init__(self) -> None:
        frames, durations = self.frames, self.durations
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 4 or 0 in frames.shape:
            raise ValueError(f"frames are uint8 (T, H, W, 4), not {frames.dtype} {frames.shape}")
        if durations.shape != (len(frames),) or not np.issubdtype(durations.dtype, np.integer):
            raise ValueError(f"durations are {len(frames)} whole numbers, not {durations.dtype} {durations.shape}")
        if durations.min() < 1 or durations.max() > LONGEST_DURATION:
            raise ValueError(f"durations are 1 to {LONGEST_DURATION:,} milliseconds")
        for tag in self.tags:
            if tag.last >= len(frames):
                raise ValueError(f"tag {tag.name!r} runs to frame {tag.last}, but there are {len(frames)} frames")


def read_sheet(path: str | Path, cell: tuple[int, int] | None = None, rows_are_animations: bool = False) -> Sheet:
    """A folder of frames, an Aseprite file or JSON, an animated picture, or one with the size of its cells."""
    path = Path(path)
    if path.is_dir():
        return read_frame_folder(path)
    if path.suffix.lower() in SUFFIXES:
        animation = read_aseprite_file(path)
        return Sheet(animation.frames, np.array(animation.durations, np.int64), animation.tags)
    if path.suffix.lower() == ".json":
        return read_aseprite(path)
    if cell is not None:
        return read_grid(path, cell, rows_are_animations)
    frames, durations = read_frames(path)
    if len(frames) == 1:
        raise UserError(f"cannot cut {path} into frames: give the size of its cells, 64x64 say, or a JSON that does")
    return Sheet(frames, durations)


def read_sheets_at(path: Path, layout: str) -> list[Sheet]:
    """The sheets of a file, or of all files in a folder in the order of their names; each is taken for one character.

    layout: the size of cells (every row is an animation), "aseprite" (its files or JSON, tags are animations), or
    "frames" (a folder of frames, or an animated picture, is one animation; a folder of such, many).
    """
    if not path.exists():
        raise UserError(f"no sprite sheets at {path}")
    if layout == "frames":
        return [read_sheet(each) for each in _animations(path)]
    cell = None if layout == "aseprite" else read_cell(layout)
    suffixes = DESCRIBED if cell is None else (".png",)
    files = [path] if path.is_file() else sorted(f for f in path.iterdir() if f.suffix.lower() in suffixes)
    if not files:
        raise UserError(f"no sprite sheets in {path}: it has no {' or '.join(suffixes)} files; the layout is {LAYOUTS}")
    return [read_sheet(f) if cell is None else read_grid(f, cell, rows_are_animations=True) for f in files]


def _animations(path: Path) -> list[Path]:
    """The folders in a folder, or else its pictures if all of them are animated; or the path itself."""
    inside = sorted(path.iterdir()) if path.is_dir() else []
    pictures = [entry for entry in inside if entry.suffix.lower() in (*PICTURE_SUFFIXES, ".apng")]
    folders = [entry for entry in inside if entry.is_dir()]
    return folders or (pictures if all(map(is_animation, pictures)) else []) or [path]


def read_cell(words: str) -> tuple[int, int]:
    """ "64x48" -> (64, 48), width and height."""
    if not re.fullmatch(r"[0-9]{1,5}x[0-9]{1,5}", words.strip().lower()):
        raise UserError(f"a size of cells looks like 64x64, not {words!r}")
    width, height = words.strip().lower().split("x")
    return int(width), int(height)


def read_grid(path: str | Path, cell: tuple[int, int], rows_are_animations: bool = False) -> Sheet:
    """A picture cut into cells of (width, height), row by row; on request each row has a tag: "row 0", "row 1" ...

    Fully transparent cells at the right end of a row are left out, as is a row of nothing else, which leaves a gap in
    the numbers of the tags. A transparent cell with a frame to the right of it is kept: a sprite may blink.

    An animated picture of the size of a cell is no grid, but one animation.
    """
    return cut_frames(*read_frames(Path(path)), cell, rows_are_animations, str(path))


def cut_frames(
    frames: Pixels, durations: npt.NDArray[np.int64], cell: tuple[int, int], rows_are_animations: bool, name: str
) -> Sheet:
    """`read_grid` for a file that was read with `read_frames`; `name` stands in error messages."""
    if len(frames) == 1:
        return cut_grid(frames[0], cell, rows_are_animations, name)
    if frames.shape[1:3] != cell[::-1]:
        found = f"{len(frames)} frames of {_size(frames[0])}"
        raise UserError(f"cannot cut {name} into cells: it is an animation, {found}, which needs no cells")
    return Sheet(frames, durations)


def cut_grid(picture: Pixels, cell: tuple[int, int], rows_are_animations: bool = False, name: str = "sheet") -> Sheet:
    """`read_grid` for a picture (H, W, 4) that is in memory; `name` stands in error messages."""
    width, height = cell
    if min(cell) < 1:
        raise UserError(f"cells are at least 1 x 1 pixels, not {width} x {height}")
    rows, rest_below = divmod(picture.shape[0], height)
    columns, rest_right = divmod(picture.shape[1], width)
    if rest_below or rest_right:
        raise UserError(f"cannot cut {name} into cells: {_size(picture)} are no multiple of {width} x {height}")
    cells = picture.reshape(rows, height, columns, width, 4).swapaxes(1, 2)  # (rows, columns, height, width, 4)
    frames: list[Pixels] = []
    tags = []
    for number, row in enumerate(cells):
        shown = np.flatnonzero(row[..., 3].any(axis=(1, 2)))
        if len(shown):
            first = len(frames)
            frames.extend(row[: shown[-1] + 1])
            tags.append(Tag(f"row {number}", first, len(frames) - 1))
    if not frames:
        raise UserError(f"{name} holds no frames: it is fully transparent")
    return Sheet(np.stack(frames), _usual_durations(len(frames)), tuple(tags) if rows_are_animations else ())


def read_frame_folder(path: str | Path) -> Sheet:
    """The pictures of a folder in natural order (1.png, 2.png, 10.png); other and hidden files are passed over."""
    path = Path(path)
    try:
        names = [entry.name for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    names = sorted((name for name in names if Path(name).suffix.lower() in PICTURE_SUFFIXES), key=_natural)
    if not names:
        raise UserError(f"no frames in {path}: it has no {', '.join(PICTURE_SUFFIXES)} files")
    frames: list[Pixels] = []
    for name in names:
        frame = _read_rgba(path / name)
        if frames and frame.shape != frames[0].shape:
            sizes = f"{names[0]} is {_size(frames[0])}, {name} is {_size(frame)}"
            raise UserError(f"the frames in {path} differ in size: {sizes}")
        frames.append(frame)
        _check_total(path, len(frames), *frame.shape[:2])
    return Sheet(np.stack(frames), _usual_durations(len(frames)))


def read_aseprite(path: str | Path) -> Sheet:
    """The frames that an Aseprite JSON describes, from the picture it names; trimmed ones get their margins back."""
    path = Path(path)
    layout = read_layout(path)
    return cut_layout(_read_rgba(path.parent / layout.image), layout, str(path))


def cut_layout(picture: Pixels, layout: Layout, name: str) -> Sheet:
    """`read_aseprite` for a picture (H, W, 4) and a layout that are in memory; `name` stands in error messages."""
    width, height = layout.boxes[0].source
    _check_total(name, len(layout.boxes), height, width)
    frames = np.zeros((len(layout.boxes), height, width, 4), np.uint8)
    for frame, box in zip(frames, layout.boxes, strict=True):
        (x, y), (w, h), (left, top) = box.corner, box.size, box.margin
        if x + w > picture.shape[1] or y + h > picture.shape[0]:
            raise UserError(f"{box.name} in {name} leaves the picture {layout.image}, which is {_size(picture)}")
        frame[top : top + h, left : left + w] = picture[y : y + h, x : x + w]
    return Sheet(frames, np.array([box.duration for box in layout.boxes], np.int64), layout.tags)


def is_animation(path: Path) -> bool:
    """Whether a file is a picture of several frames. Its errors are raised when it is read whole."""
    try:
        with open_image(path) as image:
            return _is_animated(image)
    except UserError:
        return False


def _read_rgba(path: Path) -> Pixels:
    """(H, W, 4)"""
    frames, _ = read_frames(path)
    if len(frames) > 1:
        raise UserError(f"cannot read {path} as one picture: it is an animation of {len(frames)} frames")
    return frames[0]


def read_frames(
    source: Path | bytes, name: str | None = None, formats: Sequence[str] = tuple(FORMATS), max_pixels: int = MAX_PIXELS
) -> tuple[Pixels, npt.NDArray[np.int64]]:
    """(T, H, W, 4) and milliseconds (T,); one frame, which lasts 100 ms, where the picture is not animated.

    max_pixels: of all frames together. `name` stands for bytes in error messages.
    """
    frames: list[Pixels] = []
    durations: list[int] = []
    with open_image(source, name, formats, max_pixels) as image:
        for place in range(MAX_FRAMES + 2 if _is_animated(image) else 1):
            try:
                image.seek(place)
            except EOFError:
                break
            if place == 0 and image.info.get("default_image"):  # of a PNG, for programs that know no animations
                continue
            frames.append(decode(image, max_pixels).rgba)
            time = image.info.get("duration", 0)  # known once the frame is decoded
            durations.append(min(max(1, round(time)), LONGEST_DURATION) if time > 0 else USUAL_DURATION)
            if frames[-1].shape != frames[0].shape:
                raise UserError(f"its frames differ in size: {_size(frames[0])}, {_size(frames[-1])}")
            if len(frames) > MAX_FRAMES:
                raise UserError(f"it has more than {MAX_FRAMES:,} frames")
            if frames[0].size // 4 * len(frames) > max_pixels:
                raise UserError(f"its frames are too large together (at most {max_pixels // 10**6} million pixels)")
        return np.stack(frames), np.array(durations, np.int64)


def _is_animated(image: Image.Image) -> bool:
    return image.format in ANIMATED and getattr(image, "is_animated", False)


def _check_total(path: Path | str, count: int, height: int, width: int) -> None:
    """A few lines of JSON may ask for any number of frames."""
    if count * height * width > MAX_PIXELS:
        size = f"{count:,} frames of {width} x {height} pixels"
        raise UserError(f"cannot read {path}: {size} are too large (at most {MAX_PIXELS // 10**6} million in all)")


def _natural(name: str) -> tuple[list[str | int], str]:
    """A key that sorts 2 before 10."""
    parts = re.split("([0-9]+)", name.lower())  # texts at even places, digits at odd ones
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def _usual_durations(count: int) -> npt.NDArray[np.int64]:
    return np.full(count, USUAL_DURATION, np.int64)


def _size(picture: Pixels) -> str:
    return f"{picture.shape[1]} x {picture.shape[0]} pixels"
