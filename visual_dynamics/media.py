"""Encoders of what people look at: pictures, grids of pictures, and clips as GIF, WebP, APNG or MP4.

Letters in shape comments: T frames, n pictures, H, W height and width in pixels; all arrays are uint8 RGB.
"""

import io
import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from visual_dynamics.errors import UserError
from visual_dynamics.images import WHITE, Color, Pixels

ANIMATION_SUFFIXES = (".gif", ".webp", ".png", ".apng", ".mp4")
MIN_FPS, MAX_FPS = 0.1, 240.0
GIF_SHORTEST = 2  # hundredths of a second; browsers slow anything shorter down to 10
MP4_LONGER_SIDE = 256  # pixels; smaller clips are enlarged to at least this, by a whole number
LABEL_SIZE = 12  # pixels
MAX_AREA = 64_000_000  # pixels of all pictures of a grid or clip; a GIF of that size takes a minute
LABEL_HEIGHT = LABEL_SIZE + 4


def encode_png(image: Pixels) -> bytes:
    """(H, W, 3), or (H, W, 4) with alpha"""
    _check(image[..., :3] if image.shape[-1:] == (4,) else image, dimensions=3)
    return saved(Image.fromarray(image), "PNG")


def enlarge(frames: Pixels, factor: int) -> Pixels:
    """(..., H, W, 3) -> (..., H * factor, W * factor, 3): every pixel becomes a square of its colour."""
    if factor < 1:
        raise ValueError(f"factor must be at least 1, not {factor}")
    return frames.repeat(factor, axis=-3).repeat(factor, axis=-2)


def picture_grid(
    images: Sequence[Pixels] | Pixels,
    columns: int,
    scale: int = 1,
    gap: int = 4,
    background: Color = WHITE,
    labels: Sequence[str] | None = None,
) -> Pixels:
    """n pictures (H, W, 3), row by row -> one picture, `gap` pixels between and around them.

    Pictures of several sizes stand in the middle of equal cells. Labels are ASCII, which is all the font knows; one too
    wide for its cell is cut short.
    """
    if len(images) == 0 or columns < 1:
        raise ValueError("a grid needs at least one picture and one column")
    if labels is not None and len(labels) != len(images):
        raise ValueError(f"{len(labels)} labels for {len(images)} pictures")
    for image in images:
        _check(image, dimensions=3)
    columns = min(columns, len(images))
    rows = math.ceil(len(images) / columns)
    height = max(image.shape[0] for image in images) * scale  # of a cell, without its label
    width = max(image.shape[1] for image in images) * scale
    label_height = 0 if labels is None else LABEL_HEIGHT
    step_down, step_right = height + label_height + gap, width + gap
    grid = np.empty((gap + rows * step_down, gap + columns * step_right, 3), np.uint8)
    grid[:] = background
    for index, image in enumerate(images):
        cell_top, cell_left = gap + index // columns * step_down, gap + index % columns * step_right
        picture = enlarge(image, scale)
        h, w = picture.shape[:2]
        top = cell_top + (height - h) // 2
        left = cell_left + (width - w) // 2
        grid[top : top + h, left : left + w] = picture
        if labels is not None:
            label_top = cell_top + height
            strip = grid[label_top : label_top + label_height, cell_left : cell_left + width]
            strip[:] = _label(labels[index], width, background)
    return grid


def encode_animation(frames: Pixels, fps: float, suffix: str) -> bytes:
    """The bytes of a clip (T, H, W, 3) that plays for ever; an MP4 leaves that to its player.

    GIF, WebP and APNG may store equal neighbouring frames as one frame shown longer.
    """
    suffix = suffix.lower()
    if suffix not in ANIMATION_SUFFIXES:
        known = ", ".join(ANIMATION_SUFFIXES)
        raise UserError(f"cannot write a clip as {suffix or 'a file without a suffix'}: choose one of {known}")
    if not MIN_FPS <= fps <= MAX_FPS:
        raise UserError(f"cannot write a clip with {fps} frames a second: choose {MIN_FPS:g} to {MAX_FPS:g}")
    _check(frames, dimensions=4)
    if suffix == ".mp4":
        return _mp4(frames, fps)
    if suffix == ".gif":
        # Pillow takes milliseconds and stores hundredths of a second. Without a count, a GIF plays once.
        durations = [10 * time for time in _durations(len(frames), 100 / fps, GIF_SHORTEST)]
        return animated(_with_palettes(frames), "GIF", durations, loop=0)
    durations = _durations(len(frames), 1000 / fps, shortest=1)  # milliseconds
    images = [Image.fromarray(frame) for frame in frames]
    if suffix == ".webp":
        return animated(images, "WEBP", durations, loop=0, lossless=True)
    return animated(images, "PNG", durations, loop=0)


def _durations(count: int, units_per_frame: float, shortest: int) -> list[int]:
    """Whole units for each frame, such that the clip keeps its pace: rounding errors never add up."""
    ends = [round(units_per_frame * (frame + 1)) for frame in range(count)]
    return [max(shortest, end - start) for start, end in zip([0, *ends], ends, strict=False)]


def _with_palettes(frames: Pixels) -> list[Image.Image]:
    """Each frame with at most 256 colours and no dithering: exact where the colours are few enough."""
    packed = frames.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)  # (T, H, W), one number a colour
    colors = np.unique(packed)
    if len(colors) <= 256:  # one palette for the whole clip
        return [_with_palette(frame, colors) for frame in packed]
    palettes = [np.unique(frame) for frame in packed]
    if max(len(palette) for palette in palettes) <= 256:
        return [_with_palette(frame, palette) for frame, palette in zip(packed, palettes, strict=True)]
    count, height, width, _ = frames.shape
    # The frames share one palette, chosen over all of them: a still background must not flicker.
    stacked = Image.fromarray(frames.reshape(count * height, width, 3))
    stacked = stacked.quantize(256, Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)
    return [stacked.crop((0, top, width, top + height)) for top in range(0, count * height, height)]


def _with_palette(packed: npt.NDArray[np.uint32], colors: npt.NDArray[np.uint32]) -> Image.Image:
    """(H, W) packed colours, and the sorted colours that occur in it."""
    image = Image.fromarray(np.searchsorted(colors, packed).astype(np.uint8))
    image.putpalette(np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1).astype(np.uint8).tobytes())
    return image


def animated(images: list[Image.Image], form: str, durations: list[int], **options: Any) -> bytes:
    """A clip of Pillow's making; `durations` in milliseconds."""
    # A list of durations for a lone picture is an error in some writers; a number is not.
    duration = durations if len(images) > 1 else durations[0]
    return saved(images[0], form, save_all=True, append_images=images[1:], duration=duration, **options)


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    """The bytes of a file; what the format cannot hold is a UserError."""
    buffer = io.BytesIO()
    try:
        image.save(buffer, form, **options)
    except (OSError, ValueError, RuntimeError, struct.error) as error:  # WebP ends at 16,383 pixels a side, say
        raise UserError(f"cannot write a {image.width} x {image.height} picture as {form}: {error}") from error
    return buffer.getvalue()


def _mp4(frames: Pixels, fps: float) -> bytes:
    """H.264 that browsers play: 8-bit 4:2:0, even sides, standard colours said in the file, the index in front."""
    try:
        import av
        from av.video.reformatter import ColorRange, Colorspace
    except ImportError as error:
        raise UserError("cannot write MP4: PyAV is missing (pip install av)") from error
    height, width = frames.shape[1:3]
    scale = math.ceil(MP4_LONGER_SIDE / max(height, width))
    pad_down, pad_right = height * scale % 2, width * scale % 2
    buffer = io.BytesIO()

    def reopen(_url: str, _flags: int, _options: dict[str, str]) -> io.BytesIO:
        return io.BytesIO(buffer.getvalue())  # putting the index in front, the writer reads what it wrote

    try:
        with av.open(buffer, "w", format="mp4", options={"movflags": "+faststart"}, io_open=reopen) as container:
            rate = Fraction(fps).limit_denominator(1001)
            stream = container.add_stream("libx264", rate=rate, options={"crf": "14", "preset": "medium"})
            stream.width, stream.height = width * scale + pad_right, height * scale + pad_down
            stream.pix_fmt = "yuv420p"
            context = stream.codec_context
            context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
            context.color_primaries = context.color_trc = 1  # BT.709
            for frame in frames:
                picture = np.pad(enlarge(frame, scale), ((0, pad_down), (0, pad_right), (0, 0)), mode="edge")
                video_frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(
                    format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG
                )
                container.mux(stream.encode(video_frame))
            container.mux(stream.encode())
    except av.error.FFmpegError as error:
        raise UserError(f"cannot write a {width} x {height} clip as MP4: {error}") from error
    return buffer.getvalue()


def _label(text: str, width: int, background: Color) -> Pixels:
    """One line of small text in the middle of (LABEL_HEIGHT, width, 3)."""
    font = ImageFont.load_default(LABEL_SIZE)
    if font.getlength(text) > width:
        while text and font.getlength(text + "…") > width:
            text = text[:-1]
        text += "…"
    strip = Image.new("RGB", (width, LABEL_HEIGHT), background)
    light = sum(background) > 3 * 127
    ink = (32, 32, 32) if light else (235, 235, 235)
    ImageDraw.Draw(strip).text((width / 2, LABEL_HEIGHT / 2), text, fill=ink, font=font, anchor="mm")
    return np.array(strip)


def _check(array: Pixels, dimensions: int) -> None:
    if array.dtype != np.uint8 or array.ndim != dimensions or array.shape[-1] != 3 or 0 in array.shape:
        shape = "(H, W, 3)" if dimensions == 3 else "(T, H, W, 3)"
        raise ValueError(f"expected uint8 {shape}, not {array.dtype} {array.shape}")


def check_area(count: int, side: int, scale: int) -> None:
    """An error if enlarged pictures would take minutes to write and much of a machine's memory."""
    if count * (side * scale) ** 2 > MAX_AREA:
        raise UserError(
            f"{count:,} pictures enlarged {scale} times are too large together: choose fewer, or a smaller --scale"
        )
