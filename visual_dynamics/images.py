"""The one decoder of pictures: files, bytes, Pillow images and arrays become upright 8-bit pixels, within limits.

Letters in shape comments: H, W height and width in pixels; h, w the same after resizing; n frames.
"""

import io
import os
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from visual_dynamics.errors import UserError

Pixels: TypeAlias = npt.NDArray[np.uint8]
Color: TypeAlias = tuple[int, int, int]  # red, green, blue, 0 to 255

MIN_SIDE = 2
MAX_SIDE = 16_384
MAX_PIXELS = 64_000_000
MAX_FILE_BYTES = 2**30  # some decoders read the whole file into memory first
MAX_SCANS = 100  # of a progressive JPEG: each goes over all pixels; cameras and editors write about 10 ...
MAX_SCANNED = 12 * MAX_PIXELS  # ... pixels of all scans together
WHITE: Color = (255, 255, 255)

# A fixed list: other Pillow readers start programs (EPS) or accept almost any bytes (TGA).
FORMATS = {
    "PNG": "PNG", "JPEG": "JPEG", "MPO": "JPEG", "WEBP": "WebP", "GIF": "GIF", "BMP": "BMP", "TIFF": "TIFF",
    "PPM": "PPM", "AVIF": "AVIF", "JPEG2000": "JPEG 2000",
}  # fmt: skip  # Pillow's name -> the usual name
SIZE_LIMITS = f"at most {MAX_SIDE:,} a side and {MAX_PIXELS // 10**6} million in all"

# Errors are raised here in place of Pillow's warnings. Set once: `catch_warnings` would need a lock around a decoding.
warnings.filterwarnings("ignore", module=r"PIL\.")


class Box(NamedTuple):
    """Where a picture lies inside its square, in pixels of the square."""

    top: int
    left: int
    height: int
    width: int


class Picture(NamedTuple):
    """A decoded picture, upright."""

    colours: Pixels  # (H, W, 3), not laid over anything
    alpha: Pixels | None  # (H, W); None where the picture has no transparency

    def over(self, background: Color) -> Pixels:
        """(H, W, 3): transparency laid over a background."""
        if self.alpha is None:
            return self.colours
        canvas = Image.fromarray(np.full(self.colours.shape, background, np.uint8))
        canvas.paste(Image.fromarray(self.colours), mask=Image.fromarray(self.alpha))
        return np.array(canvas)

    @property
    def rgba(self) -> Pixels:
        """(H, W, 4): colours are not multiplied by alpha."""
        alpha = np.full(self.colours.shape[:2], 255, np.uint8) if self.alpha is None else self.alpha
        return np.concatenate([self.colours, alpha[..., None]], axis=-1)


ImageSource: TypeAlias = str | os.PathLike[str] | bytes | Image.Image | npt.NDArray[Any] | Picture


def read_picture(
    source: ImageSource, name: str | None = None, formats: Sequence[str] = tuple(FORMATS), max_pixels: int = MAX_PIXELS
) -> Picture:
    """Any picture, the first frame of an animation; a Pillow image at the frame it stands at; a picture as it is.

    Raises UserError with one line, in which `name` stands for bytes.
    """
    if isinstance(source, Picture):
        return source
    if isinstance(source, np.ndarray):
        with _one_line_errors(name or "the array"):
            return decode(_array_image(source), max_pixels, MIN_SIDE)
    if isinstance(source, Image.Image):
        with _one_line_errors(name or "the picture"):
            return decode(source, max_pixels, MIN_SIDE)
    with open_image(source, name, formats, max_pixels) as image:
        return decode(image, max_pixels, MIN_SIDE)


def read_image(source: ImageSource, background: Color = WHITE) -> Pixels:
    """Any picture as new uint8 RGB (H, W, 3), transparency laid over `background`."""
    return read_picture(source).over(background)


@contextmanager
def open_image(
    source: str | os.PathLike[str] | bytes,
    name: str | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    max_pixels: int = MAX_PIXELS,
) -> Iterator[Image.Image]:
    """A file or its bytes, of which only the header is read. Errors inside the `with` become a one-line UserError."""
    if isinstance(source, bytes):
        name = name or "the picture"
    elif isinstance(source, str | os.PathLike):
        name = name or str(Path(source))
        name = name if name.isprintable() else ascii(name)
    else:
        raise UserError(f"cannot read a {type(source).__name__}: give a path, bytes, a Pillow image or a uint8 array")
    with _one_line_errors(name, formats), _open_stream(source) as stream:
        scans = _check_scans(stream)
        Image.init()
        known = [form for form in formats if form in Image.OPEN]  # a Pillow build may lack some
        with Image.open(stream, formats=known) as image:
            _check_size(image, max_pixels)
            if scans * image.width * image.height > MAX_SCANNED:
                raise UserError(f"{scans} scans of {image.width} x {image.height} pixels are too many")
            yield image


def decode(image: Image.Image, max_pixels: int = MAX_PIXELS, min_side: int = 1) -> Picture:
    """The pixels of a Pillow image at the frame it stands at."""
    _check_size(image, max_pixels, min_side)  # before any pixel is decoded
    image.load()
    _check_size(image, max_pixels)  # a GIF may grow when it is decoded
    sixteen_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")
    image = _upright(image)
    if image.mode.startswith("I") or image.mode == "F":
        return _from_numbers(image, sixteen_bits)
    if image.has_transparency_data:
        layers = np.array(image if image.mode == "RGBA" else image.convert("RGBA"))
        return Picture(np.ascontiguousarray(layers[..., :3]), np.ascontiguousarray(layers[..., 3]))
    if image.mode == "LAB":
        raise UserError("its colours are in mode LAB, which is not supported")
    return Picture(np.array(image if image.mode == "RGB" else image.convert("RGB")), None)


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
    return in_square(image, box, size), box


def in_square(image: Pixels, box: Box, size: int) -> Pixels:
    """(h, w, 3) at its box in a square (size, size, 3); the rest repeats the edge."""
    below, right = size - box.height - box.top, size - box.width - box.left
    return np.pad(image, ((box.top, below), (box.left, right), (0, 0)), mode="edge")


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


def _array_image(array: npt.NDArray[Any]) -> Image.Image:
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or channels not in (1, 3, 4):
        expected = "uint8 of shape (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)"
        raise UserError(f"it is {array.dtype} of shape {array.shape}, not {expected}")
    return Image.fromarray(array[..., 0] if array.ndim == 3 and channels == 1 else array)


def _upright(image: Image.Image) -> Image.Image:
    """The picture turned as its EXIF orientation says; itself, not a copy, where there is nothing to turn."""
    try:
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return ImageOps.exif_transpose(image) if turned else image
    except Exception:  # damaged EXIF data damage no pixels: take the picture as it lies
        return image


def _from_numbers(image: Image.Image, sixteen_bits: bool) -> Picture:
    """16-bit, 32-bit and float grey (H, W) -> (H, W, 3); Pillow's own conversion would clip at 255.

    32-bit and float pictures do not say which value is white. It is the least of 255, 65,535 and 2^31 - 1 (32-bit),
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
    for row, numbers in enumerate(values):  # row by row: floats of the whole picture would take 8 times its memory
        grey[row] = np.floor(np.maximum(numbers.astype(np.float64), 0) * (255 / white) + 0.5)
    transparent = image.info.get("transparency")  # a 16-bit PNG may name one value as transparent
    alpha = np.where(values == transparent, np.uint8(0), np.uint8(255)) if isinstance(transparent, int) else None
    return Picture(np.repeat(grey[..., None], 3, axis=2), alpha)


def _check_size(image: Image.Image, max_pixels: int, min_side: int = 1) -> None:
    width, height = image.size
    if min(width, height) < min_side:
        raise UserError(f"{width} x {height} pixels is too small (at least {min_side} a side)")
    if max(width, height) > MAX_SIDE or width * height > max_pixels:
        limits = f"at most {MAX_SIDE:,} a side and {max_pixels // 10**6} million in all"
        raise UserError(f"{width} x {height} pixels is too large ({limits})")


_MARKER = re.compile(rb"\xff+([^\x00\xff])")  # in compressed data a 0 follows each 255
_END, _SCAN, _WITHOUT_LENGTH = 0xD9, 0xDA, (0x01, *range(0xD0, 0xD9))  # the last: restarts, start of a picture


def _check_scans(stream: BinaryIO) -> int:
    """The number of scans of a JPEG; an error if it would be decoded hundreds of times: 300 kB can take a minute."""
    start = stream.read(2)
    stream.seek(0)
    if start != b"\xff\xd8":
        return 1
    data = stream.getvalue() if isinstance(stream, io.BytesIO) else mmap(stream.fileno(), 0, access=ACCESS_READ)
    scans = place = 0
    while (found := _MARKER.search(data, place)) and found[1][0] != _END:
        place, code = found.end(), found[1][0]
        scans += code == _SCAN
        if scans > MAX_SCANS:
            raise UserError(f"it is a progressive JPEG of more than {MAX_SCANS} scans")
        if code not in _WITHOUT_LENGTH:
            place += max(2, int.from_bytes(data[place : place + 2], "big"))
    return scans


def _open_stream(source: str | os.PathLike[str] | bytes) -> BinaryIO:
    if isinstance(source, bytes):
        _check_bytes(len(source))
        return io.BytesIO(source)
    path = Path(source)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            problem = "it is a folder, not a picture"
        elif not stat.S_ISREG(status.st_mode):
            problem = "it is not a regular file"  # a pipe or a device may never end
        else:
            _check_bytes(status.st_size)
            return path.open("rb")
    except FileNotFoundError:
        problem = "there is no such file"
    except PermissionError:
        problem = "permission denied"
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        problem = " ".join(str(getattr(error, "strerror", None) or error).split())
    raise UserError(problem)


def _check_bytes(count: int) -> None:
    if not 0 < count <= MAX_FILE_BYTES:
        too_large = f"the file is too large ({count:,} bytes, at most {MAX_FILE_BYTES:,})"
        raise UserError(too_large if count else "the file is empty")


@contextmanager
def _one_line_errors(name: str, formats: Sequence[str] = tuple(FORMATS)) -> Iterator[None]:
    """Decoders fail in many ways; a user gets one line."""
    cause: BaseException | None
    try:
        yield
        return
    except UserError as error:
        problem, cause = str(error), error.__cause__
    except UnidentifiedImageError as error:
        *names, last = dict.fromkeys(FORMATS[form] for form in formats)
        known = f"{', '.join(names)} or {last}" if names else last
        problem, cause = f"it is not a readable {known} picture", error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        problem, cause = f"the picture is too large ({SIZE_LIMITS})", error
    except MemoryError as error:
        problem, cause = "not enough memory", error
    except Exception as error:
        problem, cause = f"it is {'truncated' if 'truncated' in str(error).lower() else 'damaged'}", error
    raise UserError(f"cannot read {name}: {problem}") from cause
