"""A picture of any kind becomes 8-bit RGB: one reader for files, Pillow images and arrays, with limits.

Letters in shape comments: H, W height and width in pixels; h, w the same after resizing; n frames.
"""

import os
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from visual_dynamics.errors import UserError

ImageSource: TypeAlias = str | os.PathLike[str] | Image.Image | npt.NDArray[Any]
Pixels: TypeAlias = npt.NDArray[np.uint8]
Color: TypeAlias = tuple[int, int, int]  # red, green, blue, 0 to 255

MIN_SIDE = 2
MAX_SIDE = 16_384
MAX_PIXELS = 64_000_000
MAX_FILE_BYTES = 2**30  # some decoders read the whole file into memory first
WHITE: Color = (255, 255, 255)
BLACK: Color = (0, 0, 0)

# A fixed list: other Pillow readers start programs (EPS) or take almost any bytes for a picture (TGA).
FORMATS = ("PNG", "JPEG", "MPO", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
FORMATS_TOLD = "PNG, JPEG, WebP, GIF, BMP, TIFF, PPM, AVIF or JPEG 2000"
_warnings_lock = threading.Lock()  # warnings.catch_warnings changes state that all threads share


class Box(NamedTuple):
    """Where a picture lies inside its square, in pixels of the square."""

    top: int
    left: int
    height: int
    width: int


def read_image(source: ImageSource, background: Color = WHITE) -> Pixels:
    """Any picture as new uint8 RGB (H, W, 3): upright, transparency laid over `background`, an animation's first frame.

    A Pillow image is taken at the frame it stands at. Whatever is wrong is told by one line of UserError.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source, background)
    if isinstance(source, Image.Image):
        with one_line_errors("the picture"):
            return _to_rgb(source, background)
    if not isinstance(source, str | os.PathLike):
        raise UserError(f"cannot read a {type(source).__name__}: give a path, a Pillow image or a uint8 array")
    path = Path(source)
    with _open_file(path) as stream:
        return decode_image(stream, _printable(path), background)


def decode_image(stream: BinaryIO, name: str, background: Color = WHITE) -> Pixels:
    """`read_image` for bytes that are not in a file of their own (an upload); `name` stands in the error message."""
    with one_line_errors(name):
        Image.init()
        formats = [name for name in FORMATS if name in Image.OPEN]  # a Pillow build may lack some
        with Image.open(stream, formats=formats) as image:  # reads the header only
            return _to_rgb(image, background)


def read_alpha(source: ImageSource) -> Pixels:
    """How much of each pixel of a picture is there, 0 to 255, (H, W): all that a white background does not add."""
    light, dark = (read_image(source, background) for background in (WHITE, BLACK))
    return np.uint8(255) - (light - dark).max(axis=-1)


def fit_to_square(image: Pixels, size: int) -> tuple[Pixels, Box]:
    """(H, W, 3) -> (size, size, 3) and where the picture lies in it: longer side = size, the rest repeats the edge."""
    height, width = image.shape[:2]
    longer = max(height, width)
    h, w = (max(1, (2 * side * size + longer) // (2 * longer)) for side in (height, width))  # rounded, half up
    if longer > size:
        image = _shrink(image, h, w)
    elif longer < size:  # bilinear: bicubic would overshoot at the edges of flat shapes
        image = np.array(Image.fromarray(image).resize((w, h), Image.Resampling.BILINEAR))
    box = Box(top=(size - h) // 2, left=(size - w) // 2, height=h, width=w)
    below, right = size - h - box.top, size - w - box.left
    return np.pad(image, ((box.top, below), (box.left, right), (0, 0)), mode="edge"), box


def shrink(image: Pixels, longest: int) -> Pixels:
    """(H, W, 3) averaged down until its longer side has `longest` pixels; itself where it is not longer."""
    height, width = image.shape[:2]
    longer = max(height, width)
    if longer <= longest:
        return image
    return _shrink(image, *(max(1, round(side * longest / longer)) for side in (height, width)))


def resized(image: Pixels, height: int, width: int) -> Pixels:
    """(H, W, 3) -> (height, width, 3): averaged down, or enlarged where it is smaller."""
    h, w = min(height, image.shape[0]), min(width, image.shape[1])
    if (h, w) != image.shape[:2]:
        image = _shrink(image, h, w)
    if (h, w) != (height, width):
        image = np.array(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
    return image


def pad_to_square(image: Pixels, size: int) -> tuple[Pixels, Box]:
    """(H, W, C) -> (size, size, C) and where the picture lies in it: as it is, in the middle, black around it."""
    height, width = image.shape[:2]
    box = Box((size - height) // 2, (size - width) // 2, height, width)
    below, right = size - height - box.top, size - width - box.left
    return np.pad(image, ((box.top, below), (box.left, right), (0, 0))), box


def crop_from_square(frames: Pixels, box: Box) -> Pixels:
    """(n, size, size, 3) -> (n, h, w, 3): the part of results where the picture lay that became a square."""
    rows, columns = slice(box.top, box.top + box.height), slice(box.left, box.left + box.width)
    return np.ascontiguousarray(frames[..., rows, columns, :])


def _shrink(image: Pixels, h: int, w: int) -> Pixels:
    """The mean over the area that each new pixel covers, exact for every factor (Pillow's BOX only for whole ones)."""
    sums = _sum_rows(_sum_rows(image, h).swapaxes(0, 1), w).swapaxes(0, 1)  # (h, w, 3)
    area = image.shape[0] / h * (image.shape[1] / w)
    return np.ascontiguousarray(np.floor(sums / area + 0.5).astype(np.uint8))


def _sum_rows(image: npt.NDArray[Any], count: int) -> npt.NDArray[np.float64]:
    """(H, W, 3) -> (count, W, 3): sums of the rows that each new row covers, rows cut in two counted by their share."""
    factor = image.shape[0] / count
    sums = np.empty((count, *image.shape[1:]))
    for row in range(count):  # strip by strip: only one strip at a time is held as float
        start, stop = row * factor, min((row + 1) * factor, image.shape[0])
        first, last = int(start), int(np.ceil(stop))
        share = np.minimum(np.arange(first, last) + 1, stop) - np.maximum(np.arange(first, last), start)
        sums[row] = np.tensordot(share, image[first:last].astype(np.float64), axes=1)
    return sums


def _from_array(array: npt.NDArray[Any], background: Color) -> Pixels:
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or channels not in (1, 3, 4):
        expected = "uint8 of shape (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)"
        raise UserError(f"cannot read the array: it is {array.dtype} of shape {array.shape}, not {expected}")
    with one_line_errors("the array"):
        _check_size(array.shape[1], array.shape[0])
        image = Image.fromarray(array[..., 0] if array.ndim == 3 and channels == 1 else array)
        return _to_rgb(image, background)


def _to_rgb(image: Image.Image, background: Color) -> Pixels:
    _check_size(image.width, image.height)  # before any pixel is decoded
    image.load()
    _check_size(image.width, image.height)
    sixteen_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")
    image = upright(image)
    if image.mode.startswith("I") or image.mode == "F":
        return _from_numbers(image, background, sixteen_bits)
    if image.has_transparency_data:
        layers = image if image.mode == "RGBA" else image.convert("RGBA")
        image = Image.new("RGB", image.size, background)
        image.paste(layers, mask=layers.getchannel("A"))
    elif image.mode == "LAB":
        raise UserError("its colours are in mode LAB, which is not supported")
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def upright(image: Image.Image) -> Image.Image:
    """The picture turned as its EXIF orientation asks; itself, not a copy, where there is nothing to turn."""
    try:
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return ImageOps.exif_transpose(image) if turned else image
    except Exception:  # damaged EXIF notes spoil no pixels: take the picture as it lies
        return image


def _from_numbers(image: Image.Image, background: Color, sixteen_bits: bool) -> Pixels:
    """16-bit, 32-bit and float grey (H, W) -> (H, W, 3); Pillow's own conversion would clip at 255.

    32-bit and float pictures do not say which value is white: it is the least of 255, 65,535 and 2^31 - 1 (32-bit),
    or of 1, 255 and 65,535 (float), that no pixel exceeds. A float below 0 is black.
    """
    values = np.asarray(image)
    whites = (65_535,) if sixteen_bits else (1, 255, 65_535) if image.mode == "F" else (255, 65_535, 2**31 - 1)
    if not np.isfinite(values).all():
        raise UserError("some of its values are not finite")
    if values.max() > whites[-1] or (image.mode != "F" and values.min() < 0):
        raise UserError(f"its values lie between {values.min():.6g} and {values.max():.6g}, not 0 and {whites[-1]}")
    white = next(white for white in whites if values.max() <= white)
    grey = np.empty(values.shape, np.uint8)
    for row, line in enumerate(values):  # row by row: floats of the whole picture would take 8 times its memory
        grey[row] = np.floor(np.maximum(line.astype(np.float64), 0) * (255 / white) + 0.5)
    rgb = np.repeat(grey[..., None], 3, axis=2)
    transparent = image.info.get("transparency")  # a 16-bit PNG may name one value as see-through
    if isinstance(transparent, int):
        rgb[values == transparent] = background
    return rgb


def _check_size(width: int, height: int) -> None:
    if min(width, height) < MIN_SIDE:
        raise UserError(f"{width} x {height} pixels is too small (at least {MIN_SIDE} a side)")
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise UserError(f"{width} x {height} pixels is too large ({_limits()})")


def _limits() -> str:
    return f"at most {MAX_SIDE:,} a side and {MAX_PIXELS // 10**6} million in all"


def _open_file(path: Path) -> BinaryIO:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            problem = "it is a folder, not a picture"
        elif not stat.S_ISREG(status.st_mode):
            problem = "it is not a regular file"  # a pipe or a device may never end
        elif status.st_size == 0:
            problem = "the file is empty"
        elif status.st_size > MAX_FILE_BYTES:
            problem = f"the file is too large ({status.st_size:,} bytes, at most {MAX_FILE_BYTES:,})"
        else:
            return path.open("rb")
    except FileNotFoundError:
        problem = "there is no such file"
    except PermissionError:
        problem = "permission denied"
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        problem = _line(getattr(error, "strerror", None) or error)
    raise UserError(f"cannot read {_printable(path)}: {problem}")


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Decoders fail in many ways, and warn; people get one line."""
    try:
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        return
    except UserError as error:
        problem, cause = str(error), error.__cause__
    except UnidentifiedImageError as error:
        problem, cause = f"it is not a readable {FORMATS_TOLD} picture", error
    except Image.DecompressionBombError as error:
        problem, cause = f"the picture is too large ({_limits()})", error
    except MemoryError as error:
        problem, cause = "not enough memory", error
    except Exception as error:
        problem, cause = f"it is {'truncated' if 'truncated' in str(error).lower() else 'damaged'}", error
    raise UserError(f"cannot read {name}: {problem}") from cause


def _line(words: object) -> str:
    return " ".join(str(words).split())


def _printable(path: Path) -> str:
    name = str(path)
    return name if name.isprintable() else ascii(name)
