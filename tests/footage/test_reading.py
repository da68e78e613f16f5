"""Video files of many kinds, sound and broken ones, become frames with times."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.footage.clips import SHARED, encode, encode_sound, texture
from visual_dynamics.errors import UserError
from visual_dynamics.footage import reading
from visual_dynamics.footage.reading import Frame, Video, _Clock, resampled, turned
from visual_dynamics.images import Pixels


@pytest.fixture(scope="module")
def drawn() -> list[Pixels]:
    """12 frames (48, 64, 3) of a picture that moves."""
    whole = texture(48, 100, seed=1, finest=12)
    return [whole[:, 3 * number : 3 * number + 64] for number in range(12)]


def apart(one: Pixels, two: Pixels) -> float:
    """Mean absolute difference in grey levels."""
    return float(np.abs(one.astype(float) - two).mean())


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.mkv", "libx264"), ("a.avi", "mpeg4"), ("a.webm", "libvpx"), ("a.mov", "mjpeg")],
)
def test_containers_and_codecs(tmp_path: Path, drawn: list[Pixels], name: str, codec: str) -> None:
    if codec not in av.codecs_available:
        pytest.skip(f"this FFmpeg has no {codec}")
    clip = Video(encode(tmp_path / name, drawn, codec=codec))
    for _ in range(2):  # a clip can be read again
        frames = list(clip)
        assert clip.size == (48, 64) and clip.rate == pytest.approx(25) and clip.broken is None
        assert [frame.time for frame in frames] == pytest.approx([number / 25 for number in range(12)], abs=1e-3)
        for frame, pixels in zip(frames, drawn, strict=True):
            assert frame.pixels.dtype == np.uint8 and frame.pixels.shape == (48, 64, 3)
            assert apart(frame.pixels, pixels) < 12


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_phone_clip_comes_upright(tmp_path: Path, drawn: list[Pixels], rotation: int) -> None:
    path = tmp_path / "phone.mp4"
    try:
        encode(path, drawn[:3], rotation=rotation)
    except AttributeError:
        pytest.skip("this PyAV cannot write a rotation flag")
    clip = Video(path)
    expected = [np.rot90(pixels, rotation // 90) for pixels in drawn[:3]]  # both count counterclockwise
    assert clip.size == expected[0].shape[:2]
    for frame, pixels in zip(clip, expected, strict=True):
        assert apart(frame.pixels, pixels) < 12


def test_display_matrices_move_points_as_they_say() -> None:
    """Oracle: every pixel's centre is multiplied by the matrix and looked up where it lands."""
    picture = np.random.default_rng(0).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    seen = set()
    for a, b, c, d in [(1, 0, 0, 1), (-1, 0, 0, 1), (1, 0, 0, -1), (-1, 0, 0, -1)] + [
        (0, b, c, 0) for b in (1, -1) for c in (1, -1)
    ]:
        matrix = np.array([[a, b, 0], [c, d, 0], [0, 0, 1 << 14]], np.int32) * 65536
        out = turned(picture, matrix)
        points = {(a * x + c * y, b * x + d * y): picture[y, x] for y in range(4) for x in range(6)}
        left, top = (min(point[axis] for point in points) for axis in (0, 1))
        for (x, y), colour in points.items():
            assert (out[y - top, x - left] == colour).all()
        seen.add(out.tobytes() + bytes(out.shape))
    assert len(seen) == 8


def test_pixels_come_square(tmp_path: Path, drawn: list[Pixels]) -> None:
    clip = Video(encode(tmp_path / "wide.mkv", drawn, pixel_ratio=Fraction(3, 2)))
    assert clip.size == (48, 96)


def test_variable_rate_keeps_its_times(tmp_path: Path, drawn: list[Pixels]) -> None:
    times = [0, 40, 50, 200, 233, 500, 501, 600, 700, 1000, 1033, 1100]
    frames = list(Video(encode(tmp_path / "phone.mkv", drawn, times=times)))
    assert [frame.time for frame in frames] == pytest.approx([time / 1000 for time in times], abs=1e-3)


def test_odd_rates(tmp_path: Path, drawn: list[Pixels]) -> None:
    rate = Fraction(30000, 1001)
    for name in ("ntsc.mp4", "ntsc.mkv"):  # the second rounds to milliseconds
        clip = Video(encode(tmp_path / name, drawn, rate=rate))
        assert clip.rate == pytest.approx(float(rate), rel=1e-3)
        same = list(resampled(clip, float(rate)))
        assert len(same) == 12 and clip.broken is None
        assert all(apart(frame.pixels, pixels) < 12 for frame, pixels in zip(same, drawn, strict=True))


def numbered(times: list[float]) -> Iterator[Frame]:
    for number, time in enumerate(times):
        yield Frame(np.full((1, 1, 3), number, np.uint8), time)


@pytest.mark.parametrize("rate", [1.0, 7.3, 10.0, 24.0, 60.0])
def test_resampled_shows_the_last_frame_whose_time_has_come(rate: float) -> None:
    """Oracle: a search through all the frames for each output time."""
    times = np.cumsum([0, *np.random.default_rng(2).uniform(0.005, 0.3, 40)]).tolist()
    expected = []
    for number in range(10_000):
        if number / rate > times[-1]:
            break
        expected.append((max(place for place, time in enumerate(times) if time <= number / rate + 1e-3), number / rate))
    got = [(int(frame.pixels[0, 0, 0]), frame.time) for frame in resampled(numbered(times), rate)]
    assert got == expected


def test_resampled_streams_and_checks() -> None:
    def endless() -> Iterator[Frame]:
        number = 0
        while True:
            yield Frame(np.zeros((1, 1, 3), np.uint8), number / 30)
            number += 1

    stream = resampled(endless(), 10)
    assert [round(next(stream).time, 6) for _ in range(5)] == [0, 0.1, 0.2, 0.3, 0.4]
    assert list(resampled([], 10)) == []
    assert len(list(resampled(numbered([0.0]), 10))) == 1
    for rate in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="a rate is above 0"):
            list(resampled(numbered([0.0]), rate))


def test_times_always_grow() -> None:
    clock = _Clock(0.1)
    stated = [5.0, 5.1, None, 5.3, 5.2, 5.3, 1e9, 1e9 + 0.25, -3.0]
    assert [clock.advance(time) for time in stated] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.85, 0.95])


def test_one_frame_is_a_clip(tmp_path: Path, drawn: list[Pixels]) -> None:
    clip = Video(encode(tmp_path / "one.mp4", drawn[:1]))
    assert [frame.time for frame in clip] == [0] and clip.broken is None


@pytest.mark.parametrize("name", ["cut.mp4", "cut.mkv", "cut.ts"])
def test_a_clip_cut_off_gives_the_frames_before_the_break(tmp_path: Path, name: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (40, 48, 64, 3), dtype=np.uint8)
    path = encode(tmp_path / name, list(noise), movflags="+faststart" if name.endswith("mp4") else "")
    whole = [frame.pixels for frame in Video(path)]
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    clip = Video(path)
    frames = list(clip)
    assert 5 < len(frames) < 40 and clip.broken is not None and "\n" not in clip.broken
    for frame, pixels in zip(frames, whole, strict=False):
        assert (frame.pixels == pixels).all()


def bad_files(folder: Path, drawn: list[Pixels]) -> Iterator[tuple[Path, str]]:
    yield folder / "missing.mp4", "no such file"
    yield folder, "it is a folder"
    files = {
        "words.mp4": b"these are words, not pictures\n" * 50,
        "words.txt": b"these are words, not pictures\n" * 50,
        "list.mp4": b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nhttp://localhost:9/a.ts\n#EXT-X-ENDLIST\n",
        "empty.mp4": b"",
        "no_index.mp4": encode(folder / "whole.mp4", drawn).read_bytes()[:2000],
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
        yield folder / name, "not a readable video"
    yield encode_sound(folder / "sound.mp4"), "only sound"


def test_what_is_no_clip_is_told_in_one_line(tmp_path: Path, drawn: list[Pixels]) -> None:
    for path, reason in bad_files(tmp_path, drawn):
        with pytest.raises(UserError, match=reason) as caught:
            Video(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_gif_of_few_bytes_does_not_unpack_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of 24 bytes may change one pixel, and is decoded whole: 240 kB could take an hour."""
    frame = b"!\xf9\x04\x04\x0a\0\0\0" + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + bytes([2, 2, 0x4C, 1, 0])
    path = tmp_path / "bomb.gif"
    path.write_bytes(b"GIF89a" + struct.pack("<HHBBB", 400, 300, 0x80, 0, 0) + bytes(6) + 50 * frame + b";")
    assert len(list(Video(path))) == 50
    monkeypatch.setattr(reading, "MAX_ANIMATED", 20 * 400 * 300)
    shown = []
    with pytest.raises(UserError, match=r"bomb.gif: its frames have more than 2,400,000 pixels"):
        shown.extend(Video(path))
    assert len(shown) <= 20


@pytest.mark.skipif(not SHARED.exists(), reason="the real clips are not here")
def test_a_real_clip_whose_times_are_all_zero() -> None:
    """Its pages say 5 frames a second; all 65 frames claim to be shown at once."""
    clip = Video(SHARED / "tfjs_pose_squats.mp4")
    assert [frame.time for frame in clip] == pytest.approx([number / 5 for number in range(65)])
    assert clip.broken is None and clip.size == (640, 360)


def test_frames_that_were_read_are_let_go(tmp_path: Path, drawn: list[Pixels]) -> None:
    """Without waiting for Python's search for circles of references: a decoded frame may have many megabytes."""
    clip = Video(encode(tmp_path / "a.mp4", drawn * 4))
    gc.collect()
    gc.disable()
    try:
        for number, _ in enumerate(clip):
            if number == 40:
                held = sum(type(thing) is av.VideoFrame for thing in gc.get_objects())
    finally:
        gc.enable()
    assert 1 <= held <= 4
