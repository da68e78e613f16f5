"""One clip becomes its shards and a record, written last, that says they are complete. This is what a worker does.

Everything that is written is a function of the clip's bytes and the settings, and is written in one step: a worker that
was killed leaves nothing that would not be replaced by the very same.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from visual_dynamics.data.shard_files import FORMAT, MANIFEST, shard_bytes
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.footage.crops import read_crop
from visual_dynamics.footage.cutting import CutTake, cut_clip
from visual_dynamics.footage.pennaction import PictureFolder, pictures, read_labels
from visual_dynamics.footage.reading import Clip, open_clip
from visual_dynamics.footage.sources import Source
from visual_dynamics.footage.takes import Boxes, Plan, Tell, plan_clip

SHARD_BYTES = 32 * 2**20  # of frames: with so many a shard is closed

Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How clips are prepared; recorded in the folder."""

    rate: float = 10.0  # one over the seconds between the two frames of a pair
    size: int = 128  # pixels a side
    crop: str = "motion"
    held_out: float = 0.1  # share of the pairs

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


def prepare_clip(source: Source, settings: Settings, out: Path, tell: Tell = lambda share: None) -> Record | str:
    """The record of a clip, made now or found complete; or in a few words why the clip gives no pair.

    `tell` hears from time to time what share of the work is done.
    """
    import av
    import cv2

    cv2.setNumThreads(1)  # processes are what runs side by side
    unreadable = (UserError, cv2.error, av.FFmpegError, ValueError, MemoryError)  # what odd files have led to
    record_file = out / "records" / f"{source.key}.json"
    try:
        digest = _digest(source)
        if (found := _complete(record_file, digest, out)) is not None:
            return found if found["pairs"] else _empty(found)
        clip, boxes = _opened(source, settings.crop)
        plan = plan_clip(clip, settings.rate, settings.size, read_crop(settings.crop), tell, boxes)
    except unreadable as error:
        return _reason(error, source)
    (out / MANIFEST).unlink(missing_ok=True)  # of an earlier run: it may list what is replaced now
    shards: list[dict[str, Any]] = []
    takes: list[CutTake] = []
    cut = cut_clip(plan, settings.size, tell)
    ended = False
    while not ended:
        try:
            part, ended = _next_shard(cut)
        except unreadable as error:  # the file was sound a minute ago
            return _reason(error, source)
        if sum(len(take.first) for take in part):
            shards.append(_write_shard(out, f"{source.key}-{len(shards):03d}", part, len(takes)))
        takes += [_without_pixels(take) for take in part]
    record = {"file": source.name, "sha256": digest} | _told(plan, takes) | {"shards": shards}
    write_atomically(record_file, to_json(record))
    return record if record["pairs"] else _empty(record)


def to_json(content: Any) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=True).encode() + b"\n"


def _next_shard(cut: Iterator[CutTake]) -> tuple[list[CutTake], bool]:
    """Takes for one shard, and whether they were the last ones."""
    part: list[CutTake] = []
    while sum(take.frames.nbytes for take in part) < SHARD_BYTES:
        take = next(cut, None)
        if take is None:
            return part, True
        part.append(take)
    return part, False


def _write_shard(out: Path, name: str, part: list[CutTake], number: int) -> dict[str, Any]:
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


def _told(plan: Plan, takes: list[CutTake]) -> Record:
    """What the manifest says of a clip."""
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
        "takes": [_take_told(plan, cut) for cut in takes],
    }


def _take_told(plan: Plan, cut: CutTake) -> dict[str, Any]:
    take, crop = cut.take, cut.take.crop
    return {
        "shot": take.shot,
        "seconds": [round(place / plan.rate, 3) for place in (take.start, take.stop)],
        "camera": "still" if take.still else "steadied",
        "crop": None if crop is None else [plan.factor * n for n in (crop.left, crop.top, crop.width, crop.height)],
        "pairs": len(cut.first),
        "dropped": cut.dropped,
    }


def _without_pixels(cut: CutTake) -> CutTake:
    return replace(cut, frames=cut.frames[:0].copy())  # a view would keep them all


def _empty(record: Record) -> str:
    if record["frames_read"] == 1:
        return "it has a single frame"
    told = ", ".join(f"{count} {reason}" for reason, count in record["dropped"].items())
    return f"no pair is left of it (dropped: {told})" if told else "its shots are too short"


def _complete(path: Path, digest: str, out: Path) -> Record | None:
    """The record of a clip whose bytes are the same and whose shards are all there."""
    try:
        record: Record = json.loads(path.read_text())
        sizes = [(out / shard["file"]).stat().st_size == shard["bytes"] for shard in record["shards"]]
        return record if record["sha256"] == digest and all(sizes) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _opened(source: Source, crop: str) -> tuple[Clip, Boxes | None]:
    """A clip, and the boxes of its frames where there are labels."""
    if crop == "labels" and source.labels is None:
        raise UserError("no labels come with it: choose another crop")
    boxes = read_labels(source.labels).boxes if source.labels else None
    return (PictureFolder(source.path) if source.path.is_dir() else open_clip(source.path)), boxes


def _digest(source: Source) -> str:
    """Of all bytes that a clip is made of."""
    if not source.path.exists():
        raise UserError("it is listed, but there is no such file")
    try:
        if source.path.is_file():
            files = [source.path]
        else:
            files = [*pictures(source.path), *([source.labels] if source.labels else [])]
        found = []
        for path in files:
            with path.open("rb") as stream:
                found.append(hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise UserError((error.strerror or str(error)).lower()) from error
    return found[0] if source.path.is_file() else hashlib.sha256("".join(found).encode()).hexdigest()


def _reason(error: Exception, source: Source) -> str:
    """The part of a message that does not repeat which file it is about."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.removeprefix(f"cannot read {source.path}: ")
