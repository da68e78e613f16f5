"""What is written is read back by a decoder, frame by frame."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from visual_dynamics import media
from visual_dynamics.errors import UserError
from visual_dynamics.media import encode_animation, encode_png, enlarge, picture_grid

RNG = np.random.default_rng(0)
BACKGROUND = (240, 230, 200)


def moving_shapes(count: int = 8, height: int = 64, width: int = 64) -> np.ndarray:
    frames = np.empty((count, height, width, 3), np.uint8)
    frames[:] = BACKGROUND
    for t, frame in enumerate(frames):
        frame[4 + t : 20 + t, 3 + 2 * t : 19 + 2 * t] = (200, 30, 40)
        frame[30:40, 30 - t : 38 - t] = (20, 60, 200)
    return frames


def random_colors(count: int) -> np.ndarray:
    """(count, 3), all different."""
    codes = RNG.choice(2**24, count, replace=False)
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.uint8)


SHAPES = moving_shapes()
FULL = random_colors(256)[np.stack([RNG.permutation(1024) % 256 for _ in range(5)]).reshape(5, 32, 32)]
OWN = np.stack([random_colors(256)[RNG.permutation(1024).reshape(32, 32) % 256] for _ in range(5)])  # a palette a frame
ODD = moving_shapes(height=47, width=61)
NOISE = RNG.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)


def read_frames(path: Path) -> tuple[np.ndarray, list[float], int | None]:
    """Frames (T, H, W, 3), milliseconds of each, and how often it plays (0: for ever)."""
    frames, durations = [], []
    with Image.open(path) as image:
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            image.load()
            frames.append(np.array(image.convert("RGB")))
            durations.append(image.info.get("duration", 0))
        return np.stack(frames), durations, image.info.get("loop")


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((image.astype(float) - truth) ** 2)))


def write_animation(path: Path, frames: np.ndarray, fps: float) -> None:
    path.write_bytes(encode_animation(frames, fps, path.suffix))


def test_png() -> None:
    cv2 = pytest.importorskip("cv2")
    data = np.frombuffer(encode_png(ODD[0]), np.uint8)
    assert np.array_equal(cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1], ODD[0])
    with pytest.raises(ValueError, match="expected uint8"):
        encode_png(ODD)


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png", ".apng", ".GIF"])
@pytest.mark.parametrize("frames", [SHAPES, ODD, FULL, OWN], ids=["shapes", "odd", "256 colours", "own palettes"])
def test_lossless_clips(tmp_path: Path, suffix: str, frames: np.ndarray) -> None:
    path = tmp_path / f"clip{suffix}"
    write_animation(path, frames, fps=15)
    seen, durations, plays = read_frames(path)
    assert np.array_equal(seen, frames)
    assert plays == 0
    unit = 10 if suffix.lower() == ".gif" else 1  # milliseconds
    ends = np.cumsum(durations)
    assert np.abs(ends - np.arange(1, len(frames) + 1) * 1000 / 15).max() <= unit / 2 + 1e-6  # never drifts


def test_many_colors_survive_where_the_format_can(tmp_path: Path) -> None:
    for suffix in (".webp", ".png"):
        write_animation(tmp_path / f"a{suffix}", NOISE, fps=10)
        assert np.array_equal(read_frames(tmp_path / f"a{suffix}")[0], NOISE)


def test_a_gif_of_many_colors_has_no_dithering_and_no_flicker(tmp_path: Path) -> None:
    y, x = np.mgrid[:64, :64] / 63
    frames = np.empty((6, 64, 64, 3), np.uint8)
    frames[:] = BACKGROUND
    for t, frame in enumerate(frames):  # a smooth patch of more than 256 colours on a flat ground
        frame[16:48, 16:48] = (255 * np.stack([x, y, (x + y + t / 6) / 3], -1))[16:48, 16:48]
    write_animation(tmp_path / "a.gif", frames, fps=10)
    seen, _, _ = read_frames(tmp_path / "a.gif")
    flat = seen[:, :16].reshape(-1, 3)
    assert (flat == flat[0]).all()
    assert np.abs(flat[0].astype(int) - BACKGROUND).max() <= 2
    assert len(np.unique(seen.reshape(-1, 3), axis=0)) <= 256
    assert psnr(seen, frames) > 33


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png"])
def test_still_frames_take_their_time(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_animation(path, SHAPES[[0, 0, 0, 1, 1]], fps=4)
    seen, durations, _ = read_frames(path)
    assert sum(durations) == pytest.approx(1250, abs=10)
    assert np.array_equal(seen[0], SHAPES[0])
    assert np.array_equal(seen[-1], SHAPES[1])
    write_animation(path, SHAPES[:1], fps=4)
    assert np.array_equal(read_frames(path)[0], SHAPES[:1])


@pytest.mark.parametrize(("fps", "durations"), [(50, [20] * 8), (240, [20] * 8), (25, [40] * 8), (0.5, [2000] * 8)])
def test_gif_durations(tmp_path: Path, fps: float, durations: list[int]) -> None:
    write_animation(tmp_path / "a.gif", SHAPES, fps)
    assert read_frames(tmp_path / "a.gif")[1] == durations


@pytest.mark.parametrize(
    ("frames", "scale", "fps"),
    [(SHAPES, 4, 10), (ODD, 5, 29.97), (SHAPES[:1], 4, 1), (moving_shapes(4, 257, 301), 1, 24)],
)
def test_mp4(tmp_path: Path, frames: np.ndarray, scale: int, fps: float) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / "clip.mp4"
    write_animation(path, frames, fps)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoded = list(container.decode(video=0))
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert float(stream.average_rate) == pytest.approx(fps, rel=1e-3)
        assert float(container.duration / 1e6) == pytest.approx(len(frames) / fps, rel=0.02)
    seen = np.stack([frame.to_ndarray(format="rgb24") for frame in decoded])
    large = enlarge(frames, scale)
    height, width = large.shape[1:3]
    assert seen.shape == (len(frames), height + height % 2, width + width % 2, 3)
    assert psnr(seen[:, :height, :width], large) > 36
    assert (np.abs(seen[:, -1].astype(int) - seen[:, height - 1]) <= 12).all()  # padded by the edge
    data = path.read_bytes()
    assert data.find(b"moov") < data.find(b"mdat")  # a browser can start before the end has come
    cv2 = pytest.importorskip("cv2")
    capture = cv2.VideoCapture(str(path))
    others = [image[:height, :width, ::-1] for read, image in iter(capture.read, (False, None)) if read]
    assert len(others) == len(frames)
    assert psnr(np.stack(others), large) > 30


def test_unknown_suffixes_and_paces(tmp_path: Path) -> None:
    for name in ("clip.avi", "clip", "clip.jpeg"):
        with pytest.raises(UserError, match=r"^cannot write a clip as .*: choose one of \.gif, \.webp, .*\.mp4$"):
            write_animation(tmp_path / name, SHAPES, 10)
    for fps in (0, -1, float("nan"), float("inf"), 1e-4):
        with pytest.raises(UserError, match=r"^cannot write a clip with .* frames a second: .*$"):
            write_animation(tmp_path / "clip.gif", SHAPES, fps)
    with pytest.raises(UserError, match=r"^cannot write a 20000 x 2 picture as WEBP: .*$"):
        write_animation(tmp_path / "clip.webp", np.zeros((2, 2, 20_000, 3), np.uint8), 10)
    with pytest.raises(UserError, match=r"^cannot write a 20000 x 2 clip as MP4: .*$"):
        write_animation(tmp_path / "clip.mp4", np.zeros((2, 2, 20_000, 3), np.uint8), 10)
    for frames in (SHAPES[:0], SHAPES[0], SHAPES / 255):
        with pytest.raises(ValueError, match="expected uint8"):
            write_animation(tmp_path / "clip.gif", frames, 10)
    assert list(tmp_path.iterdir()) == []


def test_enlarge() -> None:
    large = enlarge(ODD, 3)
    assert large.shape == (8, 47 * 3, 61 * 3, 3)
    assert all(np.array_equal(large[:, i::3, j::3], ODD) for i in range(3) for j in range(3))
    with pytest.raises(ValueError, match="factor"):
        enlarge(ODD, 0)


def test_grid_places_every_picture() -> None:
    grid = picture_grid(ODD[:5], columns=3, scale=2, gap=7, background=(1, 2, 3))
    assert grid.shape == (7 + 2 * (94 + 7), 7 + 3 * (122 + 7), 3)
    left = np.ones(grid.shape[:2], bool)
    for index in range(5):
        top, start = 7 + index // 3 * 101, 7 + index % 3 * 129
        assert np.array_equal(grid[top : top + 94, start : start + 122], enlarge(ODD[index], 2))
        left[top : top + 94, start : start + 122] = False
    assert (grid[left] == (1, 2, 3)).all()
    assert picture_grid(ODD[:2], columns=9, gap=0).shape == (47, 122, 3)  # no empty columns


def test_grid_of_several_sizes() -> None:
    grid = picture_grid([SHAPES[0], SHAPES[1][:40, :30]], columns=2, gap=0)
    assert np.array_equal(grid[12:52, 64 + 17 : 64 + 47], SHAPES[1][:40, :30])


def test_labels_stand_under_their_pictures() -> None:
    words = ["a", "a label much too long for its cell", ""]
    grid = picture_grid(SHAPES[:3], columns=3, gap=4, labels=words)
    assert grid.shape == (4 + 64 + media.LABEL_HEIGHT + 4, 4 + 3 * 68, 3)
    top, label_top = 4, 4 + 64
    strip = grid[label_top : label_top + media.LABEL_HEIGHT]
    inked = []
    for index in range(3):
        start = 4 + index * 68
        assert np.array_equal(grid[top : top + 64, start : start + 64], SHAPES[index])
        inked.append(int((strip[:, start : start + 64] < 128).all(-1).sum()))
        assert (strip[:, start + 64 : start + 68] == 255).all()  # a long label stays in its cell
    assert inked[1] > 3 * inked[0] > 0
    assert inked[2] == 0
    with pytest.raises(ValueError, match="2 labels for 3 pictures"):
        picture_grid(SHAPES[:3], columns=3, labels=["a", "b"])
    with pytest.raises(ValueError, match="at least one picture"):
        picture_grid([], columns=3)


def test_the_video_library_is_loaded_only_for_mp4() -> None:
    program = "import sys, visual_dynamics.media; sys.exit('av' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])


def test_bytes_are_the_same_every_time() -> None:
    for suffix in media.ANIMATION_SUFFIXES:
        assert media.encode_animation(ODD, 12, suffix) == media.encode_animation(ODD, 12, suffix)
    assert Image.open(io.BytesIO(media.encode_png(ODD[0]))).size == (61, 47)
