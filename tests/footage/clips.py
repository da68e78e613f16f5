"""Clips that the tests draw themselves: smooth textures, known motion, files encoded with FFmpeg."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from visual_dynamics.images import Pixels

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "video"


def texture(height: int, width: int, seed: int = 0, finest: int = 6) -> Pixels:
    """uint8 (height, width, 3): waves of random direction and phase, none shorter than `finest` pixels."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    total = np.zeros((height, width, 3), np.float32)
    for _ in range(40):
        length, angle = finest * 8 ** generator.random(), 2 * np.pi * generator.random()
        wave = np.cos(2 * np.pi / length * (np.cos(angle) * x + np.sin(angle) * y) + 7 * generator.random())
        total += wave[..., None] * generator.normal(size=3).astype(np.float32) * length**0.5
    total = (total - total.mean((0, 1))) / total.std((0, 1))
    colour = generator.uniform(90, 165, 3)
    return np.clip(colour + 35 * total, 0, 255).astype(np.uint8)


def encode(
    path: Path,
    frames: Sequence[Pixels],
    rate: int | Fraction = 25,
    codec: str = "libx264",
    times: Sequence[int] | None = None,  # milliseconds
    rotation: int | None = None,  # degrees counterclockwise
    pixel_ratio: Fraction | None = None,
    movflags: str = "",
) -> Path:
    with av.open(str(path), "w", options={"movflags": movflags} if movflags else {}) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        if codec == "libx264":
            stream.options = {"crf": "10", "preset": "ultrafast", "threads": "1"}
        if pixel_ratio is not None:
            stream.codec_context.sample_aspect_ratio = pixel_ratio
        if rotation is not None:
            stream.set_display_rotation(rotation)
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def encode_sound(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    return path
