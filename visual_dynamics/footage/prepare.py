"""A folder of clips becomes a folder of pairs that `train` reads.

settings.json    how it was made
shards/          frames and pairs (data/shard_files.py)
records/         what was done with each clip; a clip with a record is complete
contact.png      some pairs of every scene, to look at
summary.json     what was kept and dropped, and why
manifest.json    source, licence, scene, split, times, crops and shards of every clip; written last

Clips are prepared in processes beside each other, in any order; what is written does not depend on it. Nothing in the
folder tells when or where it was made: two runs over the same clips give the same bytes.
"""

from __future__ import annotations

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
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from visual_dynamics.data.shard_files import MANIFEST, SETTINGS, holds_footage
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, missing_folders, remove_empty, write_atomically
from visual_dynamics.footage.clip_files import Record, Settings, prepare_clip, to_json
from visual_dynamics.footage.contact_sheet import contact_sheet
from visual_dynamics.footage.pennaction import find_sequences, holds_pennaction
from visual_dynamics.footage.sources import Source, find_sources, held_out_scenes
from visual_dynamics.footage.takes import Tell

Progress = Callable[[float, int], None]  # clips done, all
OWN = (MANIFEST, "summary.json", "contact.png", "records/*.json", "shards/*.safetensors", SETTINGS)


def prepare_videos(
    folder: Path,
    out: Path,
    settings: Settings,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Prepare every clip of a folder that is not prepared yet; returns the summary.

    With `overwrite` what an earlier run left in `out` is removed first.
    """
    sources = find_sequences(folder) if holds_pennaction(folder) else find_sources(folder)
    if out.resolve() == folder.resolve():
        raise UserError(f"{out} holds the clips; give another folder with --out")
    check_folder(out)
    _check_earlier(out, sources, settings, overwrite)
    with _owned(out):
        if overwrite:
            _remove_own(out)
        for left in (
            *out.glob(".*.part"),
            *out.glob("records/.*.part"),
            *out.glob("shards/.*.part"),
        ):  # of a killed run
            left.unlink(missing_ok=True)
        _write_if_new(out / SETTINGS, to_json(settings.to_dict()))
        results = _prepare_all(sources, settings, out, workers, progress)
        records = {name: result for name, result in results.items() if not isinstance(result, str)}
        faults = {name: result for name, result in results.items() if isinstance(result, str)}
        if not records:
            _remove_own(out)
            told = "; ".join(f"{name}: {fault}" for name, fault in list(faults.items())[:3])
            more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
            raise UserError(f"no clip in {folder} gives a pair ({told}{more})")
        files = _files(sources, records, settings.held_out)
        summary = summarise(files, faults)
        _write_if_new(out / "contact.png", contact_sheet(out, files))
        _write_if_new(out / "summary.json", to_json(summary))
        _write_if_new(out / MANIFEST, to_json({**settings.to_dict(), "files": files}))
    return summary


def summarise(files: list[dict[str, Any]], faults: dict[str, str]) -> dict[str, Any]:
    """What was kept and dropped, and why."""
    dropped: Counter[str] = Counter()
    for file in files:
        dropped.update(file["dropped"])
    cameras = Counter(take["camera"] for file in files for take in file["takes"])
    sides = {
        split: {
            "clips": sum(file["split"] == split for file in files),
            "scenes": sorted({file["scene"] for file in files if file["split"] == split}),
            "pairs": sum(file["pairs"] for file in files if file["split"] == split),
        }
        for split in ("train", "held-out")
    }
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
        "splits": sides,
        "unusable_clips": faults,
        "broken_clips": {file["file"]: file["broken"] for file in files if file["broken"]},
    }


def _files(sources: list[Source], records: dict[str, Record], share: float) -> list[dict[str, Any]]:
    """The manifest's entries: what is known of a clip, and what became of it."""
    chosen = [source for source in sources if source.name in records]
    pairs: Counter[str] = Counter()
    for source in chosen:
        if not source.split:
            pairs[source.scene] += records[source.name]["pairs"]
    held_out = held_out_scenes(pairs, share)
    return [
        {
            "file": source.name,
            "scene": source.scene,
            "split": source.split or ("held-out" if source.scene in held_out else "train"),
            "source": source.source,
            "licence": source.licence,
        }
        | records[source.name]
        for source in chosen
    ]


def _check_earlier(out: Path, sources: list[Source], settings: Settings, overwrite: bool) -> None:
    """Refuse to mix with what is in the folder, unless it is an earlier run over the same clips in the same way."""
    if overwrite or not out.is_dir() or not any(path.name != "prepare.lock" for path in out.iterdir()):
        return
    hint = "give --overwrite to start anew, or another folder with --out"
    if not holds_footage(out):
        raise UserError(f"{out} is not empty, and holds no earlier result: {hint}")
    try:
        earlier = json.loads((out / SETTINGS).read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {out / SETTINGS}: {hint}") from error
    for name, value in settings.to_dict().items():
        if earlier.get(name) != value:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{out} was made with {option} {earlier.get(name)}, not {value}: {hint}")
    known = {source.key for source in sources}
    gone = sorted(path.stem for path in (out / "records").glob("*.json") if path.stem not in known)
    if gone:
        raise UserError(f"{out} has pairs of clips that are no longer there ({', '.join(gone[:3])}): {hint}")


@contextmanager
def _owned(out: Path) -> Iterator[None]:
    """A folder that no other process prepares; made where it is missing, and taken back if nothing comes of it."""
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
    """Remove what this program has made in a folder, and nothing else; what tells that it has goes last."""
    if not holds_footage(out):
        return
    for pattern in OWN:
        for path in out.glob(pattern):
            path.unlink()
    remove_empty([out / "shards"])
    remove_empty([out / "records"])


def _prepare_all(
    sources: list[Source], settings: Settings, out: Path, workers: int, progress: Progress | None
) -> dict[str, Record | str]:
    """File name -> its record, or why there is none; in the order of the sources."""
    tell = progress or (lambda done, total: None)
    tell(0, len(sources))
    results: dict[str, Record | str] = {}
    if min(workers, len(sources)) <= 1:
        for done, source in enumerate(sources):
            within: Tell = partial(_tell_within, tell, done, len(sources))
            results[source.name] = prepare_clip(source, settings, out, within)
            tell(len(results), len(sources))
        return results
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _end_with_parent) as pool:
        first = sorted(sources, key=_length, reverse=True)  # a long clip that came last would be waited for
        tasks = {pool.submit(prepare_clip, source, settings, out): source for source in first}
        try:
            for task in as_completed(tasks):
                results[tasks[task].name] = task.result()
                tell(len(results), len(sources))
        except BrokenProcessPool as error:
            raise UserError("a worker process died; run the command again, it goes on where it was") from error
        except BaseException:  # Ctrl-C, a full disk: what the others are at is begun anew the next time
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise
    return {source.name: results[source.name] for source in sources}


def _tell_within(tell: Progress, done: int, total: int, share: float) -> None:
    tell(done + share, total)


def _length(source: Source) -> int:
    try:
        return source.path.stat().st_size
    except OSError:
        return 0


def _end_with_parent() -> None:
    """In a worker: it ends when the process that started it ends, and leaves it to that one to hear Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _write_if_new(path: Path, data: bytes) -> None:
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    write_atomically(path, data)
