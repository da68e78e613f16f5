"""The clips of a folder, and how one of them becomes its shards and a record, which says that they are complete.

A table manifest.csv in the folder may have a row per clip, named in the column `file`. `scene` names its scene. Without
it, clips with the same `source` are one scene: they may show the same people or the same moment. Any other clip is a
scene of its own. `licence` and `source` are passed on.

PennAction, as published, has 2,326 sequences of pictures, each a scene, and a box around the person in every frame:

frames/0001/000001.jpg ...   the pictures of a sequence, in order
labels/0001.mat              MATLAB 5: `bbox` (T, 4), left, top, right, bottom in pixels, counted from 1; `x`, `y` and
                             `visibility` (T, 13) of joints; `train` 1 or -1; `nframes`; `action`, `pose`, `dimensions`

Its frame rate is not stated; the smoothness of the motions suggests 30 a second. Of the paper's selection (7,705
training and 987 test pairs of 981 sequences) no list was published.

A worker process prepares a clip. Everything written is a function of the clip's bytes and the settings, and each file
is written in one step: what a killed worker leaves is replaced by the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import av
import cv2
import numpy as np

from visual_dynamics.data.shards import FORMAT, MANIFEST, shard_bytes
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.footage.cut import CutTake, read_crop
from visual_dynamics.footage.plan import ClipPlan, cut_clip, plan_clip
from visual_dynamics.footage.reading import Boxes, PictureFolder, Progress, Video, pictures, read_labels

TABLE = "manifest.csv"
VIDEOS = re.compile(
    r"\.(3g2|3gp|asf|avi|divx|dv|f4v|flv|gif|h26[45]|hevc|ivf|m2ts|m[24]v|mjpe?g|mk3?v|mov|mp4|mpe?g|mts|mxf|nut|og[mv]|qt"
    r"|rm|rmvb|ts|vob|webm|wmv|y4m)",
    re.IGNORECASE,
)
SHARD_BYTES = 32 * 2**20  # of frames: a shard that holds more is closed
UNREADABLE = (UserError, cv2.error, av.FFmpegError, ValueError, MemoryError)  # what odd files have led to

Record = dict[str, Any]


@dataclass(frozen=True)
class ListedClip:
    name: str  # below the folder, with forward slashes
    path: Path
    scene: str
    source: str = ""
    licence: str = ""
    split: str = ""  # if it is given; else the scenes decide
    labels: Path | None = None  # file with a box for each frame

    @property
    def key(self) -> str:
        """A name for the files made from it, unique in the folder."""
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in self.name)
        return f"{plain[:60]}-{hashlib.sha256(self.name.encode(errors='surrogateescape')).hexdigest()[:8]}"


@dataclass(frozen=True)
class Settings:
    """How clips are prepared; recorded in the folder."""

    rate: float = 10.0  # one over the seconds between the two frames of a pair
    size: int = 128  # pixels a side
    crop: str = "motion"
    held_out: float = 0.1  # share of the pairs, without a split
    split: str = ""  # digest of the table that says which scenes are for what

    def __post_init__(self) -> None:
        if not 0.1 <= self.rate <= 240:
            raise UserError(f"a rate is from 0.1 to 240 frames a second, not {self.rate:g}")
        if not 8 <= self.size <= 512:
            raise UserError(f"a size is from 8 to 512 pixels, not {self.size}")
        if not 0 <= self.held_out <= 0.9:
            raise UserError(f"the held-out share is from 0 to 0.9, not {self.held_out:g}")
        read_crop(self.crop)

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT} | asdict(self)


# --- the folder ---


def find_clips(folder: Path) -> list[ListedClip]:
    """The clips of a folder and the folders in it, and those that only its table names, in the order of their names."""
    if holds_pennaction(folder):
        return find_sequences(folder)
    if not folder.is_dir():
        raise UserError(
            f"{folder} is {'a file, not a folder' if folder.exists() else 'missing'}: give a folder of clips"
        )
    table = _read_table(folder / TABLE)
    try:
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if _is_video(path, folder)}
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror or error}") from error
    if not names | table.keys():
        raise UserError(f"no clips in {folder} (files named *.mp4, *.mov, *.mkv, *.webm, *.avi and the like)")
    clips = []
    for name in sorted(names | table.keys()):
        row = table.get(name, {})
        source, licence = row.get("source", ""), row.get("licence", "") or row.get("license", "")
        clips.append(ListedClip(name, folder / name, row.get("scene", "") or source or name, source, licence))
    return clips


def holds_pennaction(folder: Path) -> bool:
    return (folder / "frames").is_dir() and (folder / "labels").is_dir()


def find_sequences(folder: Path) -> list[ListedClip]:
    """The sequences of PennAction that have labels, in order."""
    clips = []
    for labels in sorted((folder / "labels").glob("*.mat")):
        path = folder / "frames" / labels.stem
        try:
            split = "train" if read_labels(labels).train else "held-out"
        except UserError:  # reported when the sequence is prepared
            split = ""
        clips.append(ListedClip(f"frames/{labels.stem}", path, labels.stem, "PennAction", "", split, labels))
    if not clips:
        raise UserError(f"no labels (0001.mat, ...) in {folder / 'labels'}")
    return clips


def _is_video(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.relative_to(folder).parts)
    return not hidden and VIDEOS.fullmatch(path.suffix) is not None and not path.is_dir()


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table with commas, by the names of their columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    return [{key.strip(): (value or "").strip() for key, value in row.items() if isinstance(key, str)} for row in rows]


def _read_table(path: Path) -> dict[str, dict[str, str]]:
    """File name -> its row."""
    if not path.is_file():
        return {}
    table = {}
    for known in read_rows(path):
        name = PurePosixPath(known.get("file", ""))
        if not name.parts:
            raise UserError(f"cannot read {path}: it needs a column 'file' with the name of a clip in every row")
        if name.is_absolute() or ".." in name.parts:
            raise UserError(f"cannot read {path}: {name} is not below the folder")
        table[name.as_posix()] = known
    return table


# --- one clip ---


def prepare_clip(
    listed: ListedClip, settings: Settings, out: Path, progress: Progress = lambda share: None
) -> Record | str:
    """The record of a clip, made now or found complete; or, in a few words, why the clip gives no pair."""
    cv2.setNumThreads(1)  # processes run in parallel, not threads
    record_file = out / "records" / f"{listed.key}.json"
    try:
        digest = _digest(listed)
        if (found := _complete(record_file, digest, out)) is not None:
            return found if found["pairs"] else _why_empty(found)
        video, boxes = _opened(listed, settings.crop)
        plan = plan_clip(video, settings.rate, settings.size, read_crop(settings.crop), progress, boxes)
    except UNREADABLE as error:
        return _reason(error, listed)
    (out / MANIFEST).unlink(missing_ok=True)  # of an earlier run: it may list what is replaced now
    shards: list[dict[str, Any]] = []
    takes: list[CutTake] = []
    cut = cut_clip(plan, settings.size, progress)
    ended = False
    while not ended:
        try:
            part, ended = _next_shard(cut)
        except UNREADABLE as error:  # the file could be read a minute ago
            return _reason(error, listed)
        if sum(len(take.first) for take in part):
            shards.append(_write_shard(out, f"{listed.key}-{len(shards):03d}", part, len(takes)))
        takes += [replace(take, frames=take.frames[:0].copy()) for take in part]  # a view would keep them all
    record = {"file": listed.name, "sha256": digest} | _summary(plan, takes) | {"shards": shards}
    write_atomically(record_file, to_json(record))
    return record if record["pairs"] else _why_empty(record)


def to_json(content: Any) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=True).encode() + b"\n"


def _next_shard(cut: Iterator[CutTake]) -> tuple[list[CutTake], bool]:
    """Takes for one shard, and whether they are the last ones."""
    part: list[CutTake] = []
    while sum(take.frames.nbytes for take in part) < SHARD_BYTES:
        take = next(cut, None)
        if take is None:
            return part, True
        part.append(take)
    return part, False


def _write_shard(out: Path, name: str, part: list[CutTake], number: int) -> dict[str, Any]:
    """Write a shard whose first take has this number; returns its entry in the record."""
    offsets = np.cumsum([0, *(len(take.frames) for take in part)])
    tensors = {
        "frames": np.concatenate([take.frames for take in part]),
        "times": np.concatenate([take.times for take in part]),
        "transforms": np.concatenate([take.transforms for take in part]),
        "take": np.concatenate([np.full(len(take.frames), number + place) for place, take in enumerate(part)]),
        "first": np.concatenate([take.first + offset for take, offset in zip(part, offsets, strict=False)]),
        "second": np.concatenate([take.second + offset for take, offset in zip(part, offsets, strict=False)]),
    }
    data = shard_bytes(tensors)
    write_atomically(out / "shards" / f"{name}.safetensors", data)
    return {
        "file": f"shards/{name}.safetensors",
        "frames": len(tensors["frames"]),
        "pairs": len(tensors["first"]),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _summary(plan: ClipPlan, takes: list[CutTake]) -> Record:
    """A clip's part of the manifest."""
    dropped: Counter[str] = Counter()
    for cut in takes:
        dropped.update(cut.dropped)
    return {
        "height": plan.size[0],
        "width": plan.size[1],
        "rate": round(plan.stated_rate, 4),
        "pair_seconds": round(plan.step / plan.rate, 6),
        "frames_read": plan.frames,
        "seconds": round(plan.frames / plan.rate, 3),
        "shots": plan.shots,
        "broken": plan.broken,
        "pairs": sum(len(cut.first) for cut in takes),
        "dropped": dict(sorted(dropped.items())),
        "takes": [_take_summary(plan, cut) for cut in takes],
    }


def _take_summary(plan: ClipPlan, cut: CutTake) -> dict[str, Any]:
    take, crop = cut.take, cut.take.crop
    return {
        "shot": take.shot,
        "seconds": [round(place / plan.rate, 3) for place in (take.start, take.stop)],
        "camera": "still" if take.still else "steadied",
        "crop": None if crop is None else [plan.factor * n for n in (crop.left, crop.top, crop.width, crop.height)],
        "pairs": len(cut.first),
        "dropped": cut.dropped,
    }


def _why_empty(record: Record) -> str:
    if record["frames_read"] == 1:
        return "it has a single frame"
    dropped = ", ".join(f"{count} {reason}" for reason, count in record["dropped"].items())
    return f"no pair is left of it (dropped: {dropped})" if dropped else "its shots are too short"


def _complete(path: Path, digest: str, out: Path) -> Record | None:
    """The record of a clip, if the clip's bytes are the same and its shards are all there."""
    try:
        record: Record = json.loads(path.read_text("utf-8"))
        sizes = [(out / shard["file"]).stat().st_size == shard["bytes"] for shard in record["shards"]]
        return record if record["sha256"] == digest and all(sizes) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _opened(listed: ListedClip, crop: str) -> tuple[Video, Boxes | None]:
    """A clip, and the boxes of its frames if there are labels."""
    if crop == "labels" and listed.labels is None:
        raise UserError("no labels come with it: choose another crop")
    boxes = read_labels(listed.labels).boxes if listed.labels else None
    return (PictureFolder(listed.path) if listed.path.is_dir() else Video(listed.path)), boxes


def _digest(listed: ListedClip) -> str:
    """SHA-256 of all bytes of a clip."""
    if not listed.path.exists():
        raise UserError("it is listed, but there is no such file")
    try:
        if listed.path.is_file():
            return _file_digest(listed.path)
        files = [*pictures(listed.path), *([listed.labels] if listed.labels else [])]
        return hashlib.sha256("".join(map(_file_digest, files)).encode()).hexdigest()
    except OSError as error:
        raise UserError((error.strerror or str(error)).lower()) from error


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _reason(error: Exception, listed: ListedClip) -> str:
    """A message without the name of the clip, which stands beside it."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.removeprefix(f"cannot read {listed.path}: ")
