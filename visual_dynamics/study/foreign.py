"""A study of anyone's methods: folders of clips, matched to the real ones by their names.

A clip is a file (GIF, WebP, APNG, MP4, WebM and the like), a still picture, or a folder of frames in the order of their
names, in which numbers count as numbers. `walk.gif` is shown beside `walk.mp4` and `walk/`: endings do not matter, and
neither does the pace that a file states, as all clips play at the study's. Every frame is laid over white, fitted to a
square (the longer side fills it, the rest repeats the edge) and averaged down; every clip becomes a PNG.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from visual_dynamics.data.sheets import read_frames
from visual_dynamics.errors import UserError
from visual_dynamics.images import MAX_PIXELS, WHITE, Picture, Pixels, fit_to_square, read_image
from visual_dynamics.study.design import CONTROL, OBVIOUS, REAL, TORN, Design, StudyClip, plan_sessions
from visual_dynamics.study.folder import ON_ONES_OWN, Recruiting, Study, name_clips
from visual_dynamics.study.writing import (
    MAX_SIZE,
    Progress,
    check_sizes,
    check_target,
    draw_clips,
    planned_clips,
    png_size,
    strip,
    torn,
    write_study,
)

PICTURES = (".png", ".apng", ".gif", ".webp", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".avif")
VIDEOS = (".mp4", ".m4v", ".webm", ".mov", ".mkv", ".avi")
MAX_FRAMES = 64  # of a clip: a strip of 64 frames of 256 pixels is as wide as browsers draw
MAX_NAMED = 3  # names in an error message
STEADY = 1.6  # durations of a clip's frames that differ by less are one duration, rounded by its format
METHOD = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,39}")
RESERVED = (REAL, *OBVIOUS)

Listing = dict[str, Path]  # a clip's name -> its file or folder


class ReadClip(NamedTuple):
    frames: list[Pixels]  # (H, W, 3) each
    durations: list[int] | None  # milliseconds, where the file states them


def read_methods(words: Sequence[str]) -> dict[str, Path]:
    """["A=FOLDER", ...] -> the folder of each method."""
    found: dict[str, Path] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or not folder:
            raise UserError(f"with --real, a method is given as NAME=FOLDER, not {word!r}")
        if not METHOD.fullmatch(name) or name.lower() in RESERVED:
            raise UserError(
                f"{name!r} cannot name a method: use up to 40 letters, digits, spaces or ._+-, beginning with a letter "
                f"or digit, and not {', '.join(RESERVED)}"
            )
        if name in found:
            raise UserError(f"there are two methods {name!r}: give each a name of its own")
        found[name] = Path(folder)
    if not found:
        raise UserError("give the folder of at least one method: --method NAME=FOLDER")
    return found


def list_clips(folder: Path, whose: str) -> Listing:
    """The clips of a folder by name; files of other kinds are left out."""
    if not folder.is_dir():
        raise UserError(f"the folder of {whose}, {folder}, is {'a file' if folder.exists() else 'missing'}")
    found: Listing = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not (path.is_dir() or path.suffix.lower() in PICTURES + VIDEOS):
            continue
        name = unicodedata.normalize("NFC", path.name if path.is_dir() else path.stem)  # macOS writes é in two parts
        if not name.isprintable():
            raise UserError(f"rename {path.name!a} in {folder}: its name cannot be printed")
        if name in found:
            raise UserError(f"{whose} has two clips {name!r} in {folder}: {found[name].name} and {path.name}")
        found[name] = path
    if not found:
        raise UserError(f"no clips in {folder}, the folder of {whose} (GIF, PNG, MP4, WebM ..., or folders of frames)")
    return found


def match_clips(real: Path, methods: Mapping[str, Path]) -> dict[str, Listing]:
    """All clips by method, `real` the first: the same names for each."""
    found = {REAL: list_clips(real, "the real clips")}
    for method, folder in methods.items():
        if folder.resolve() == real.resolve():
            raise UserError(f"{method} has the folder of the real clips")
        listed = list_clips(folder, method)
        if missing := found[REAL].keys() - listed.keys():
            raise UserError(f"{method} has no counterpart of {_some(missing)} in {folder}")
        if other := listed.keys() - found[REAL].keys():
            raise UserError(f"{method} has {_some(other)} in {folder}, which the real clips have not")
        found[method] = listed
    return found


def read_clip(path: Path) -> ReadClip:
    """All frames of a file or folder, upright, over white."""
    durations: list[int] | None = None
    if path.is_dir():
        frames = _frames_of_folder(path)
    elif path.suffix.lower() in VIDEOS:
        frames = _frames_of_video(path)
    else:
        layers, times = read_frames(path)  # (T, H, W, 4)
        frames = [Picture(layer[..., :3], layer[..., 3]).over(WHITE) for layer in layers]
        durations = times.tolist()
    if len(frames) > MAX_FRAMES:
        raise UserError(f"{path} has more than {MAX_FRAMES} frames: cut it")
    if len({frame.shape for frame in frames}) > 1:
        raise UserError(f"the frames of {path} differ in size")
    return ReadClip(frames, durations)


def in_step(clips: Mapping[str, ReadClip], name: str) -> dict[str, list[Pixels]]:
    """One clip by each method -> frames, equally many for each.

    GIF, WebP and APNG may store equal neighbouring frames as one that is shown longer: these are repeated.
    """
    counts = {len(clip.frames) for clip in clips.values()}
    stated = [clip.durations for clip in clips.values() if clip.durations and len(clip.durations) > 1]
    if stated and (len(counts) > 1 or any(max(times) > STEADY * min(times) for times in stated)):
        step = min(map(min, stated))
        found = {method: _repeated(clip, step) for method, clip in clips.items()}
    else:
        found = {method: list(clip.frames) for method, clip in clips.items()}
    real, length = found[REAL][0], len(found[REAL])
    for method, frames in found.items():
        if len(frames) != length:
            raise UserError(f"{name!r} has {_frames(len(frames))} by {method}, but {_frames(length)} in the real clip")
        if frames[0].shape != real.shape:
            raise UserError(f"{name!r} is {_size(frames[0])} by {method}, but {_size(real)} in the real clip")
    if length > MAX_FRAMES:
        raise UserError(f"{name!r} has more than {MAX_FRAMES} frames: cut it")
    return found


@dataclass(frozen=True)
class ForeignClips:
    """Draws the clips of a study from files."""

    listings: Mapping[str, Listing]  # by method
    names: Sequence[str]  # of the inputs, by number; those of obvious trials come last
    seed: int

    def frames(self, number: int) -> dict[str, list[Pixels]]:
        """By method."""
        name = self.names[number]
        return in_step({method: read_clip(listing[name]) for method, listing in self.listings.items()}, name)

    def clips_of(self, number: int, clips: Sequence[StudyClip]) -> dict[StudyClip, bytes]:
        """PNG files of the clips of one input."""
        frames = self.frames(number)
        longer, most = max(frames[REAL][0].shape[:2]), max(clip.size for clip in clips)
        if most > longer:
            raise UserError(f"{self.names[number]!r} is {longer} pixels large, less than {most}: give a smaller --size")
        frames |= {CONTROL: frames[REAL], TORN: self._torn(frames[REAL], number)}
        return {clip: strip(frames[clip.method], clip.size) for clip in clips}

    def _torn(self, frames: list[Pixels], number: int) -> list[Pixels]:
        """All frames but the first, which is the input; a still picture as well."""
        first = len(frames) > 1
        squares = (fit_to_square(frame, max(frame.shape[:2]))[0] for frame in frames[first:])
        return [*frames[:first], *(torn(square, self.seed + number) for square in squares)]


def make_foreign_study(
    design: Design,
    listings: Mapping[str, Listing],
    path: Path,
    overwrite: bool = False,
    progress: Progress | None = None,
    recruiting: Recruiting = ON_ONES_OWN,
    frame_time: int | None = None,
) -> Study:
    """Write the study into a folder, all of it or nothing. `listings`: as `match_clips` gives them."""
    stale = check_target(path, overwrite)
    check_sizes(design)
    names = chosen_names(listings[REAL], design.all_inputs, design.seed)
    sessions = plan_sessions(design)
    clips = planned_clips(sessions)
    maker = ForeignClips(listings, names, design.seed)
    pictures = draw_clips(clips, maker.clips_of, progress)
    frames = max(width // height for width, height in map(png_size, pictures.values()))
    source = {
        "folders": {method: next(iter(listing.values())).parent.name for method, listing in listings.items()},
        "formats": formats(listings, names),
        "inputs": names,
        "design": design.to_json(),
    }
    study = name_clips(design, sessions, source, frames, recruiting, frame_time)
    write_study(path, study, pictures, stale)
    return study


def chosen_names(real: Listing, count: int, seed: int) -> list[str]:
    """The names of the inputs, at random."""
    names = sorted(real)
    if count > len(names):
        raise UserError(f"the study needs {count} clips with those of its obvious trials, but there are {len(names)}")
    random.Random(f"names {seed}").shuffle(names)
    return names[:count]


def default_size(real: Listing) -> int:
    """That of the clips, as far as a study shows it."""
    return min(MAX_SIZE, max(read_clip(next(iter(real.values()))).frames[0].shape[:2]))


def formats(listings: Mapping[str, Listing], names: Sequence[str]) -> dict[str, list[str]]:
    """The endings of each method's files; "frames" for a folder."""
    return {
        method: sorted({"frames" if listing[name].is_dir() else listing[name].suffix.lower() for name in names})
        for method, listing in listings.items()
    }


def unlike_formats(formats: dict[str, list[str]]) -> str | None:
    """A warning where files of a method are stored in another way than the real ones."""
    real, *others = formats.items() or [("", [])]
    unlike = [f"{method} ({', '.join(kinds)})" for method, kinds in others if kinds != real[1]]
    if not unlike:
        return None
    return f"traces of compression may tell {', '.join(unlike)} from the real clips ({', '.join(real[1])})"


def _frames_of_folder(folder: Path) -> list[Pixels]:
    files = [path for path in folder.iterdir() if path.suffix.lower() in PICTURES and not path.name.startswith(".")]
    if not files:
        raise UserError(f"cannot read {folder}: no pictures in it")
    frames, area = [], 0
    for path in sorted(files, key=_natural)[: MAX_FRAMES + 1]:
        frames.append(read_image(path))
        area = _checked_area(folder, area, frames[-1])
    return frames


def _frames_of_video(path: Path) -> list[Pixels]:
    try:
        from visual_dynamics.footage.reading import Video
    except ImportError as error:
        raise UserError(f"{path} is a video, which needs {error.name}: pip install 'visual-dynamics[video]'") from error
    video, frames, area = Video(path), [], 0
    for frame in video:
        frames.append(frame.pixels)
        area = _checked_area(path, area, frame.pixels)
        if len(frames) > MAX_FRAMES:
            return frames
    if video.broken:
        raise UserError(f"cannot read {path}: {video.broken}")
    return frames


def _checked_area(path: Path, area: int, frame: Pixels) -> int:
    area += frame.shape[0] * frame.shape[1]
    if area > MAX_PIXELS:
        raise UserError(f"the frames of {path} are too large together (at most {MAX_PIXELS // 10**6} million pixels)")
    return area


def _natural(path: Path) -> list[tuple[bool, int, str]]:
    """frame_2 comes before frame_10."""
    parts = re.split(r"(\d+)", path.name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _repeated(clip: ReadClip, step: int) -> list[Pixels]:
    """A frame for each step of time."""
    times = clip.durations or [step] * len(clip.frames)
    counts = [max(1, round(time / step)) for time in times]
    if sum(counts) > 10 * MAX_FRAMES:
        return clip.frames  # a pause of minutes: the clips are not in step
    return [frame for frame, count in zip(clip.frames, counts, strict=True) for _ in range(count)]


def _frames(count: int) -> str:
    return "one frame" if count == 1 else f"{count} frames"


def _size(frame: Pixels) -> str:
    return f"{frame.shape[1]} x {frame.shape[0]} pixels"


def _some(names: set[str]) -> str:
    first = ", ".join(repr(name) for name in sorted(names)[:MAX_NAMED])
    return first if len(names) <= MAX_NAMED else f"{first} and {len(names) - MAX_NAMED} more"
