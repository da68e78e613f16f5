"""A folder of clips becomes a folder of pairs that `train` reads.

settings.json    how it was made
shards/          frames and pairs (data/shards.py)
records/         what was done with each clip; a clip with a record is complete
contact.png      some pairs of every scene
summary.json     what was kept and dropped, and why
manifest.json    source, licence, scene, split, times, crops and shards of every clip; written last

Clips are prepared in parallel processes, in any order. The result does not depend on it, and does not say when or where
it was made: two runs over the same clips give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from PIL import Image, ImageDraw

from visual_dynamics.data.shards import MANIFEST, SETTINGS, holds_footage, open_shard
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, missing_folders, remove_empty, write_atomically
from visual_dynamics.footage.clips import ListedClip, Record, Settings, find_clips, prepare_clip, to_json
from visual_dynamics.footage.split import SPLITS, check_apart, held_out_scenes, read_split, split_clips
from visual_dynamics.images import Pixels
from visual_dynamics.media import saved

Progress = Callable[[float, int], None]  # clips done, all
OWN = (MANIFEST, "summary.json", "contact.png", "records/*.json", "shards/*.safetensors", SETTINGS)
PARTS = (".*.part", "records/.*.part", "shards/.*.part")  # unfinished files of a killed run

# of the contact sheet
SCENES, PAIRS = 40, 6  # at most: scenes, spread over all of them, and pairs of each
TILE, GAP, LABEL = 96, 4, 14  # pixels: side of a picture, between pairs, height of the label above each row
STRONGER = 3  # factor on the differences
GROUND, INK = (24, 24, 24), (220, 220, 220)


def prepare_videos(
    folder: Path,
    out: Path,
    settings: Settings,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
    split: Path | None = None,
) -> dict[str, Any]:
    """Prepare every clip of a folder that is not prepared yet; returns the summary.

    overwrite: first remove what an earlier run left in `out`. split: a table of scenes (split.py).
    """
    clips = find_clips(folder)
    if split:
        parts = read_split(split)
        clips = split_clips(clips, parts)
        settings = replace(settings, split=hashlib.sha256(to_json(sorted(parts.items()))).hexdigest()[:12])
    if out.resolve() == folder.resolve():
        raise UserError(f"{out} holds the clips; give another folder with --out")
    check_folder(out)
    _check_earlier(out, clips, settings, overwrite)
    with _locked(out):
        if overwrite:
            _remove_own(out)
        for pattern in PARTS:
            for part in out.glob(pattern):
                part.unlink(missing_ok=True)
        _write_if_new(out / SETTINGS, to_json(settings.to_dict()))
        results = _prepare_all(clips, settings, out, workers, progress)
        records = {name: result for name, result in results.items() if not isinstance(result, str)}
        faults = {name: result for name, result in results.items() if isinstance(result, str)}
        if not records:
            _remove_own(out)
            reasons = "; ".join(f"{name}: {fault}" for name, fault in list(faults.items())[:3])
            more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
            raise UserError(f"no clip in {folder} gives a pair ({reasons}{more})")
        files = _manifest_files(clips, records, settings.held_out)
        check_apart(files)
        summary = _summary(files, faults)
        _write_if_new(out / "contact.png", _contact_sheet(out, files))
        _write_if_new(out / "summary.json", to_json(summary))
        _write_if_new(out / MANIFEST, to_json({**settings.to_dict(), "files": files}))
    return summary


def _prepare_all(
    clips: list[ListedClip], settings: Settings, out: Path, workers: int, progress: Progress
) -> dict[str, Record | str]:
    """File name -> its record, or why there is none; in the order of the clips."""
    progress(0, len(clips))
    results: dict[str, Record | str] = {}
    if min(workers, len(clips)) <= 1:
        for done, clip in enumerate(clips):
            results[clip.name] = prepare_clip(
                clip,
                settings,
                out,
                lambda share, done=done: progress(done + share, len(clips)),  # type: ignore[misc]
            )
            progress(done + 1, len(clips))
        return results
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _end_with_parent) as pool:
        longest_first = sorted(clips, key=_bytes, reverse=True)  # else all would wait for a long clip that came last
        tasks = {pool.submit(prepare_clip, clip, settings, out): clip for clip in longest_first}
        try:
            for task in as_completed(tasks):
                results[tasks[task].name] = task.result()
                progress(len(results), len(clips))
        except BrokenProcessPool as error:
            raise UserError("a worker process died; run the command again, it continues where it was") from error
        except BaseException:  # Ctrl-C, a full disk: unfinished clips start again next time
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return {clip.name: results[clip.name] for clip in clips}


def _end_with_parent() -> None:
    """In a worker: ignore Ctrl-C, which the parent handles, and end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _bytes(clip: ListedClip) -> int:
    try:
        return clip.path.stat().st_size
    except OSError:
        return 0


# --- the folder ---


def _check_earlier(out: Path, clips: list[ListedClip], settings: Settings, overwrite: bool) -> None:
    """Stop if the folder holds anything but an earlier run over the same clips with the same settings."""
    if overwrite or not out.is_dir() or not any(path.name != "prepare.lock" for path in out.iterdir()):
        return
    hint = "give --overwrite to start anew, or another folder with --out"
    if not holds_footage(out):
        raise UserError(f"{out} is not empty, and holds no earlier result: {hint}")
    try:
        earlier = json.loads((out / SETTINGS).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {out / SETTINGS}: {hint}") from error
    for name, value in settings.to_dict().items():
        if (before := earlier.get(name, "")) != value:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{out} was made with {option} {before or 'not given'}, not {value or 'without'}: {hint}")
    known = {clip.key for clip in clips}
    gone = sorted(path.stem for path in (out / "records").glob("*.json") if path.stem not in known)
    if gone:
        raise UserError(f"{out} has pairs of clips that are no longer there ({', '.join(gone[:3])}): {hint}")


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Keep other processes out of the folder. It is made if it is missing, and removed if it stays empty."""
    made = missing_folders(out)
    lock = FileLock(out / "prepare.lock")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{out} is in use by another process that prepares clips") from None
    except OSError as error:
        remove_empty([folder for folder in made if folder.is_dir()])
        raise UserError(f"cannot write into {out}: {error.strerror or error}") from error
    try:
        yield
    finally:
        if not (out / SETTINGS).exists():
            (out / "prepare.lock").unlink(missing_ok=True)
        lock.release()
        remove_empty(made)


def _remove_own(out: Path) -> None:
    """Remove what this program has made in a folder, and nothing else; settings.json, which identifies it, last."""
    if not holds_footage(out):
        return
    for pattern in OWN:
        for path in out.glob(pattern):
            path.unlink()
    remove_empty([out / "shards"])
    remove_empty([out / "records"])


def _write_if_new(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        write_atomically(path, data)


# --- manifest, summary and contact sheet ---


def _manifest_files(clips: list[ListedClip], records: dict[str, Record], share: float) -> list[dict[str, Any]]:
    """The manifest's entries: a clip's origin, split and record."""
    chosen = [clip for clip in clips if clip.name in records]
    pairs: Counter[str] = Counter()
    for clip in chosen:
        if not clip.split:
            pairs[clip.scene] += records[clip.name]["pairs"]
    held_out = held_out_scenes(pairs, share)
    return [
        {
            "file": clip.name,
            "scene": clip.scene,
            "split": clip.split or ("held-out" if clip.scene in held_out else "train"),
            "source": clip.source,
            "licence": clip.licence,
        }
        | records[clip.name]
        for clip in chosen
    ]


def _summary(files: list[dict[str, Any]], faults: dict[str, str]) -> dict[str, Any]:
    """What was kept and dropped, and why."""
    dropped: Counter[str] = Counter()
    for file in files:
        dropped.update(file["dropped"])
    cameras = Counter(take["camera"] for file in files for take in file["takes"])
    splits = {name: [file for file in files if file["split"] == name] for name in SPLITS}
    return {
        "clips": len(files) + len(faults),
        "kept": {
            "clips": len(files),
            "scenes": len({file["scene"] for file in files}),
            "frames": sum(shard["frames"] for file in files for shard in file["shards"]),
            "pairs": sum(file["pairs"] for file in files),
            "bytes": sum(shard["bytes"] for file in files for shard in file["shards"]),
        },
        "dropped_pairs": dict(sorted(dropped.items())),
        "shots": sum(file["shots"] for file in files),
        "takes": dict(sorted(cameras.items())),
        "splits": {
            name: {
                "clips": len(own),
                "scenes": sorted({file["scene"] for file in own}),
                "pairs": sum(file["pairs"] for file in own),
            }
            for name, own in splits.items()
        },
        "unusable_clips": faults,
        "broken_clips": {file["file"]: file["broken"] for file in files if file["broken"]},
    }


def _contact_sheet(folder: Path, files: list[dict[str, Any]]) -> bytes:
    """A PNG with a row per scene: frame, next frame and their difference, of pairs from its beginning to its end."""
    scenes: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        scenes.setdefault(file["scene"], []).append(file)
    names = sorted(scenes)
    names = [names[place] for place in _evenly(len(names), SCENES)]
    high, wide = TILE + LABEL + GAP, 3 * TILE + 2 * GAP
    sheet = Image.new("RGB", (GAP + PAIRS * wide, GAP + len(names) * high), GROUND)
    draw = ImageDraw.Draw(sheet)
    for row, name in enumerate(names):
        top = GAP + row * high
        pairs = sum(file["pairs"] for file in scenes[name])
        label = f"{name}: {pairs} pairs, {scenes[name][0]['split']}"
        draw.text((GAP, top), label.encode("ascii", "replace").decode(), fill=INK)
        for column, (frame, next_frame) in enumerate(_some_pairs(folder, scenes[name])):
            change = np.abs(next_frame.astype(np.int16) - frame) * STRONGER
            for place, picture in enumerate((frame, next_frame, np.minimum(change, 255).astype(np.uint8))):
                tile = Image.fromarray(picture).resize((TILE, TILE), Image.Resampling.BOX)
                sheet.paste(tile, (GAP + column * wide + place * TILE, top + LABEL))
    return saved(sheet, "PNG")


def _some_pairs(folder: Path, files: list[dict[str, Any]]) -> Iterator[tuple[Pixels, Pixels]]:
    """Pairs of frames (S, S, 3), spread over the files of a scene."""
    shards = [shard for file in files for shard in file["shards"]]
    ends = np.cumsum([shard["pairs"] for shard in shards])
    for place in _evenly(int(ends[-1]), PAIRS):
        which = int(np.searchsorted(ends, place, side="right"))
        shard = open_shard(folder / shards[which]["file"])
        number = place - int(ends[which]) + shards[which]["pairs"]
        frame, next_frame = (np.array(shard.frames[places[number]]) for places in (shard.first, shard.second))
        yield frame.transpose(1, 2, 0), next_frame.transpose(1, 2, 0)


def _evenly(total: int, count: int) -> list[int]:
    """Up to `count` places among `total`, from the first to the last."""
    if total <= count:
        return list(range(total))
    return [place * (total - 1) // (count - 1) for place in range(count)]
