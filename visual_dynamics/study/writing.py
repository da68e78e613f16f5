"""Write a study into a folder: the same encoding for every clip, so that no file gives its method away.

Letters in shape comments: T frames, H, W height and width, S the side of a frame, s the size of a clip, in pixels.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np

from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_together
from visual_dynamics.images import Pixels, fit_to_square
from visual_dynamics.media import encode_png
from visual_dynamics.study import answers, folder
from visual_dynamics.study.design import Design, Session, StudyClip, clips_of

MAX_CLIPS = 12_000  # the paper's study has 100 samples of each of 100 images
MAX_BYTES = 500 * 10**6  # of all pictures
MIN_SIZE, MAX_SIZE = 8, 256  # pixels
TILES = 4  # per side of a torn picture
_END = b"\0\0\0\0IEND\xaeB`\x82"  # the last chunk of a PNG
_PADDING = b"paDd"  # a chunk that readers skip: ancillary, private, safe to copy

Progress = Callable[[int, int], None]


def check_target(path: Path, overwrite: bool) -> set[str]:
    """Never mix files with others', or separate answers from their study; returns the old study's pictures."""
    check_folder(path)
    if not path.is_dir() or not any(path.iterdir()):
        return set()
    if not overwrite:
        raise UserError(f"{path} is not empty: give --overwrite, or another folder")
    if (path / answers.FILE).exists():
        raise UserError(f"{path} holds people's answers, {answers.FILE}: move them away first, or use another folder")
    try:
        return {folder.picture_path(path, name).name for name in folder.read_study(path).clips}
    except UserError:  # not a study, or a broken one
        return set()


def check_sizes(design: Design) -> None:
    if not all(MIN_SIZE <= size <= MAX_SIZE for size in design.sizes):
        raise UserError(f"clips are {MIN_SIZE} to {MAX_SIZE} pixels large, not {', '.join(map(str, design.sizes))}")


def planned_clips(sessions: tuple[Session, ...]) -> list[StudyClip]:
    clips = clips_of(sessions)
    if len(clips) > MAX_CLIPS:
        raise UserError(f"the study has {len(clips):,} clips, at most {MAX_CLIPS:,}: choose fewer inputs or samples")
    return clips


def draw_clips(
    clips: list[StudyClip],
    draw: Callable[[int, Sequence[StudyClip]], Mapping[StudyClip, bytes]],
    progress: Progress | None,
) -> dict[StudyClip, bytes]:
    """All clips as PNG files, input by input: `draw` takes an input's number and its clips."""
    pictures: dict[StudyClip, bytes] = {}
    total = 0
    for number, group in itertools.groupby(sorted(clips, key=attrgetter("input")), attrgetter("input")):
        made = draw(number, list(group))
        pictures |= made
        total += sum(map(len, made.values()))
        if total > MAX_BYTES:
            raise UserError(f"the pictures exceed {MAX_BYTES // 10**6} MB: choose fewer inputs, samples or sizes")
        if progress:
            progress(len(pictures), len(clips))
    return pictures


def write_study(path: Path, study: folder.Study, pictures: Mapping[StudyClip, bytes], stale: set[str]) -> None:
    """All of it or nothing; then the pictures of the study that lay there before go."""
    padded = same_lengths(pictures)
    files = {folder.picture_path(path, name).name: padded[clip] for name, clip in study.clips.items()}
    write_together(path, files | {folder.FILE: study.to_json()})
    for name in stale - files.keys():
        (path / name).unlink(missing_ok=True)


def strip(frames: Sequence[Pixels], size: int) -> bytes:
    """T frames (H, W, 3) -> PNG of (s, T s, 3): averaged down, side by side."""
    return encode_png(np.concatenate([fit_to_square(frame, size)[0] for frame in frames], axis=1))


def torn(frame: Pixels, seed: int) -> Pixels:
    """A frame (S, S, 3) cut into tiles, none of which stays in its place."""
    side = min(frame.shape[:2]) // TILES
    circle = np.random.default_rng(seed).permutation(TILES**2)
    source = np.empty_like(circle)
    source[circle] = np.roll(circle, 1)  # each place gets the tile of the place before it in a random circle
    result = frame.copy()
    for place, other in enumerate(source):
        (top, left), (y, x) = (side * np.array(divmod(number, TILES)) for number in (place, int(other)))
        result[top : top + side, left : left + side] = frame[y : y + side, x : x + side]
    return result


def same_lengths(pictures: Mapping[StudyClip, bytes]) -> dict[StudyClip, bytes]:
    """PNG files of one size (s, T s) filled up to the longest of them: a blurred clip would be a short file."""
    longest: dict[tuple[int, int], int] = defaultdict(int)
    for data in pictures.values():
        longest[png_size(data)] = max(longest[png_size(data)], len(data))
    if (total := sum(longest[png_size(data)] for data in pictures.values())) > MAX_BYTES:
        raise UserError(f"equally long, the pictures take {total // 10**6} MB: choose fewer inputs, samples or sizes")
    return {clip: _filled(data, longest[png_size(data)]) for clip, data in pictures.items()}


def png_size(data: bytes) -> tuple[int, int]:
    """Width and height, which stand in the first chunk."""
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _filled(data: bytes, length: int) -> bytes:
    """A PNG with 12 bytes more than `length`."""
    content = _PADDING + bytes(length - len(data))
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return data.removesuffix(_END) + chunk + _END
