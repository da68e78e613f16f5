"""Clips as they come: video files, folders of pictures, and the labels of PennAction. One frame is in memory at a time.

H, W: height and width of an upright frame in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.files import why_no_file
from visual_dynamics.images import MAX_PIXELS, MAX_SIDE, Pixels, read_image

USUAL_RATE = 25.0  # frames a second, where a video file states none
FOLDER_RATE = 30.0  # frames a second, of a folder of pictures
PICTURES = (".jpg", ".jpeg", ".png")
LONGEST_STEP = 60.0  # seconds between two frames; a longer step is a wrong time
ROUNDING = 1e-3  # seconds; Matroska and WebM round times to milliseconds
ANIMATED, MAX_ANIMATED = ("gif", "apng"), 2**32  # pixels of all frames of one: 480 bytes may ask for 1.3 billion
UNSAFE = ("tty", "hls", "concat", "dash")  # formats: text drawn as frames, and lists that name other files

Progress = Callable[[float], None]  # share of a clip's work that is done, 0 to 1
Boxes = npt.NDArray[np.float64]  # (frames, 4): left, top, right, bottom in pixels


class Frame(NamedTuple):
    pixels: Pixels  # uint8 (H, W, 3), RGB
    time: float  # seconds since the first frame


class Video:
    """The frames of a video file. Each iteration reads the file again, from its first frame.

    Frames are upright, as the rotation flag of a phone says, with square pixels. Their times increase: a time that does
    not, or that is more than a minute later, is wrong and is replaced by the usual step.

    If the file is damaged or cut off, the frames before the break are given; `broken` then says what happened. It is
    None for a sound file, and before the end of an iteration. Damaged frames at the very start, as of a recording that
    begins between two key frames, are skipped.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rate = USUAL_RATE  # frames a second, as the file states it; times need not follow it
        self.size = (0, 0)  # H, W
        self.seconds: float | None = None  # length, where the file states it
        self.broken: str | None = None
        for frame in self:  # decode one: raises UserError if this is no video
            self.size = frame.pixels.shape[:2]
            break

    def __iter__(self) -> Iterator[Frame]:
        self.broken = None
        size: tuple[int, int] | None = None
        with _opened(self.path) as (container, stream):
            stated = float(stream.guessed_rate or stream.average_rate or 0)  # an average of wrong times is wrong
            self.rate = stated if 0 < stated <= 1000 else USUAL_RATE
            clock, ratio = _Clock(1 / self.rate), float(getattr(stream, "sample_aspect_ratio", None) or 1)
            ratio = ratio if 0.2 <= ratio <= 5 else 1.0  # width of a pixel over its height; 1 where it is nonsense
            end, ended = 0.0, _stated_length(stream)  # seconds
            self.seconds = ended
            matrices: dict[float, Any] = {}
            left = MAX_ANIMATED if container.format.name in ANIMATED else math.inf
            try:
                for decoded in container.decode(stream):
                    left -= decoded.width * decoded.height
                    if left < 0:
                        raise UserError(f"cannot read {self.path}: its frames have more than {MAX_ANIMATED:,} pixels")
                    if decoded.is_corrupt:
                        if size is None:
                            continue
                        self.broken = "a frame is damaged"
                        break
                    pixels = _upright(decoded, ratio, self.path, matrices)
                    if size not in (None, pixels.shape[:2]):
                        self.broken = "its frames change in size"
                        break
                    size = pixels.shape[:2]
                    time = clock.advance(decoded.time)
                    lasts = float((getattr(decoded, "duration", 0) or 0) * (decoded.time_base or 0))
                    end = time + max(lasts, 1 / self.rate)
                    yield Frame(pixels, time)
            except av.FFmpegError:
                self.broken = "a frame cannot be decoded"
        if size is None:
            raise UserError(f"cannot read {self.path}: it has no readable frame")
        if self.broken is None and ended is not None and end + max(0.1, 2 / self.rate) < ended:
            self.broken = f"it ends after {end:.1f} of {ended:.1f} seconds"


class PictureFolder(Video):
    """The pictures of a folder, in the order of their names, as frames."""

    def __init__(self, path: Path) -> None:
        self.path, self.rate, self.broken = path, FOLDER_RATE, None
        self.files = pictures(path)
        if not self.files:
            raise UserError(f"cannot read {path}: no pictures (*.jpg, *.png) in it")
        self.seconds = len(self.files) / self.rate
        height, width = read_image(self.files[0]).shape[:2]
        self.size = (height, width)

    def __iter__(self) -> Iterator[Frame]:
        self.broken = None
        for number, file in enumerate(self.files):
            try:
                pixels = read_image(file)
            except UserError:
                self.broken = f"{file.name} cannot be read"
                return
            if pixels.shape[:2] != self.size:
                self.broken = "its frames change in size"
                return
            yield Frame(pixels, number / self.rate)


def pictures(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in PICTURES and not path.name.startswith(".")
    )


def resampled(frames: Iterable[Frame], rate: float) -> Iterator[Frame]:
    """Frames at the times 0, 1 / rate, 2 / rate, ...: for each the last frame whose own time has come.

    Frames of a slower clip are repeated, of a faster one left out; none are mixed. A frame that is late by less than a
    millisecond is in time, since some containers round to milliseconds.
    """
    if not 0 < rate <= 1000:
        raise UserError(f"a rate is above 0 and at most 1000 frames a second, not {rate:g}")
    shown: Frame | None = None
    number = 0
    for frame in frames:
        while shown is not None and number / rate + ROUNDING < frame.time:
            yield Frame(shown.pixels, number / rate)
            number += 1
        shown = frame
    while shown is not None and number / rate <= shown.time + ROUNDING:
        yield Frame(shown.pixels, number / rate)
        number += 1


def working_frames(
    clip: Video, rate: float, factor: int, progress: Progress, reading: int, total: float
) -> Iterator[Frame]:
    """The frames of a clip at a steady rate, made smaller by a whole factor: means over factor x factor pixels.

    This is reading 0, 1 or 2 of the clip, of about `total` frames: every 25 frames `progress` gets the share of all
    three that is done.
    """
    for number, (pixels, time) in enumerate(resampled(clip, rate)):
        if number % 25 == 0:
            progress((reading + min(1.0, number / max(1.0, total))) / 3)
        if factor > 1:
            height, width = (side // factor for side in pixels.shape[:2])
            cut = pixels[: height * factor, : width * factor]
            pixels = cv2.resize(cut, (width, height), interpolation=cv2.INTER_AREA)
        yield Frame(pixels, time)


class _Clock:
    """Turns the times of a stream, in seconds, into times since its first frame that always increase."""

    def __init__(self, step: float) -> None:
        self.step = step  # seconds, where a time is missing or wrong
        self.offset: float | None = None
        self.last = 0.0

    def advance(self, stated: float | None) -> float:
        if self.offset is None:
            self.offset = stated or 0.0
            return self.last
        time = self.last if stated is None else stated - self.offset
        if not self.last < time <= self.last + LONGEST_STEP:
            time = self.last + self.step
            if stated is not None:
                self.offset = stated - time
        self.last = time
        return time


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """A container and its video stream."""
    if not path.is_file():
        raise UserError(f"cannot read {path}: {why_no_file(path)}")
    # "file:" whatever the name looks like, and no other protocol: a list must not open other files or the network
    options = {"protocol_whitelist": "file"}
    try:
        container = av.open(f"file:{path.absolute()}", metadata_errors="replace", options=options)
    except PermissionError as error:
        raise UserError(f"cannot read {path}: permission denied") from error
    except (av.FFmpegError, OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: it is not a readable video") from error
    with container:
        if set(container.format.name.split(",")) & set(UNSAFE):
            raise UserError(f"cannot read {path}: it is not a readable video")
        streams = [stream for stream in container.streams.video if stream.codec_context is not None]
        if not streams:
            raise UserError(f"cannot read {path}: it has no pictures, only sound or text")
        _check_size(path, streams[0].codec_context.width, streams[0].codec_context.height)
        yield container, streams[0]


def _stated_length(stream: Any) -> float | None:
    """Seconds, where the file states them."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    parts = str(stream.metadata.get("DURATION", "")).split(":")  # Matroska: 00:00:02.566000000
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return None
    return 3600 * hours + 60 * minutes + seconds - float((stream.start_time or 0) * stream.time_base)


def _upright(decoded: Any, ratio: float, path: Path, matrices: dict[float, Any]) -> Pixels:
    """(H, W, 3) of a decoded frame, with square pixels, turned and mirrored as its display matrix says.

    `matrices` keeps the clip's matrices by angle: a frame whose matrix was read stays in memory until Python's next
    search for reference cycles. Hundreds of large frames would.
    """
    width, height = decoded.width, decoded.height
    if ratio > 1:
        width = round(width * ratio)
    else:
        height = round(height / ratio)
    _check_size(path, width, height)
    pixels: Pixels = decoded.reformat(width=width, height=height, format="rgb24").to_ndarray()
    angle = float(getattr(decoded, "rotation", 0))
    if angle not in matrices:
        stated = decoded.side_data.get("DISPLAYMATRIX")
        matrices[angle] = None if stated is None else np.frombuffer(bytes(stated), np.int32).reshape(3, 3)
    matrix = matrices[angle]
    return pixels if matrix is None else turned(pixels, matrix)


def turned(pixels: Pixels, matrix: np.ndarray[Any, np.dtype[np.int32]]) -> Pixels:
    """A picture (H, W, 3) as a display matrix (3, 3) shows it, to the nearest right angle.

    A point (x, y), y down, goes to (a x + c y, b x + d y), where a, b are the first row and c, d the second.
    """
    (a, b), (c, d) = matrix[:2, :2].tolist()
    if abs(b) + abs(c) > abs(a) + abs(d):
        pixels, across, down = pixels.swapaxes(0, 1), c, b
    else:
        across, down = a, d
    return np.ascontiguousarray(pixels[:: -1 if down < 0 else 1, :: -1 if across < 0 else 1])


def _check_size(path: Path, width: int, height: int) -> None:
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise UserError(f"cannot read {path}: its frames of {width} x {height} pixels are too large")


class Labels(NamedTuple):
    """The labels of a sequence of T pictures of PennAction."""

    boxes: Boxes  # pixels count from 0; joints included; NaN: unknown
    train: bool


def read_labels(path: Path) -> Labels:
    """Boxes and split of a sequence. If a box is missing or empty, that of the visible joints replaces it."""
    from scipy.io import loadmat

    try:
        content: dict[str, Any] = loadmat(path, variable_names=["bbox", "x", "y", "visibility", "train"])
        boxes = np.array(content["bbox"], np.float64).reshape(-1, 4) - 1
        x, y = (np.array(content[name], np.float64).reshape(-1, 13) - 1 for name in "xy")
        seen = np.array(content["visibility"]).reshape(-1, 13) > 0
        train = int(np.array(content["train"]).reshape(-1)[0]) == 1
    except Exception as error:  # scipy raises all kinds of errors on a broken file
        raise UserError(f"cannot read {path}: these are no labels of PennAction") from error
    if not len(boxes) or not len(boxes) == len(x) == len(y) == len(seen):
        raise UserError(f"cannot read {path}: it has {len(boxes)} boxes, but joints of {len(x)} frames")
    return Labels(_with_joints(boxes, x, y, seen), train)


def _with_joints(
    boxes: Boxes, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], seen: npt.NDArray[np.bool_]
) -> Boxes:
    """Boxes (T, 4) widened to hold the visible joints (T, 13)."""
    empty = ~((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))
    wide = np.where(empty[:, None], [np.inf, np.inf, -np.inf, -np.inf], boxes)
    for column, values in ((0, x), (1, y)):
        wide[:, column] = np.minimum(wide[:, column], np.where(seen, values, np.inf).min(axis=1))
        wide[:, column + 2] = np.maximum(wide[:, column + 2], np.where(seen, values, -np.inf).max(axis=1))
    wide[~np.isfinite(wide).all(axis=1)] = np.nan
    return wide
