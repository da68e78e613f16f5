"""Prepared footage as pairs, in its files, and the takes that the pairs come from.

A take is one shot in one window of a steadied camera: a pixel of any of its frames shows the same place of the scene.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.data.pairs import MappedFrames, Pairs
from visual_dynamics.data.shard_files import MANIFEST, Shard, read_manifest, split_shards
from visual_dynamics.errors import UserError


def open_pairs(folder: Path, split: str) -> Pairs | None:
    """The pairs of one split ("train" or "held-out") of a folder that `prepare videos` made; None where it has none."""
    shards = split_shards(folder, split)
    if not shards:
        if split == "train":
            raise UserError(f"{folder} has no pairs to train on")
        return None
    starts = np.cumsum([0, *(len(shard.frames) for shard in shards)])
    first, second = (
        torch.from_numpy(np.concatenate([start + places for start, places in zip(starts, each, strict=False)]))
        for each in ([shard.first for shard in shards], [shard.second for shard in shards])
    )
    return Pairs(MappedFrames(tuple(shard.frames for shard in shards), shards[0].frames.shape[2]), first, second)


def free_memory() -> int:
    """Bytes that a process may fill now: what the system says is available, or half of all where it says nothing."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return 4 * 2**30


class Take(NamedTuple):
    """The pairs of one take."""

    scene: str
    name: str  # the clip's file and the number of the take in it
    places: Tensor  # int64 (n,): where its pairs lie among those of the split


def split_takes(folder: Path, split: str) -> list[Take]:
    """The takes of `open_pairs(folder, split)`, in the order of their pairs."""
    try:
        clips = [
            (_one_line(file["scene"]), _one_line(file["file"]))
            for file in read_manifest(folder)["files"]
            if file["split"] == split
            for _ in file["shards"]
        ]
    except (KeyError, TypeError) as error:
        raise UserError(f"cannot read {folder / MANIFEST}: it is damaged") from error
    takes: list[Take] = []
    start = 0
    for shard, (scene, file) in zip(split_shards(folder, split), clips, strict=True):
        numbers = take_numbers(shard)[shard.first]  # a pair never leaves its take
        for take in np.unique(numbers).tolist():
            takes.append(Take(scene, f"{file}, take {take}", torch.from_numpy(start + np.flatnonzero(numbers == take))))
        start += len(numbers)
    return takes


def take_numbers(shard: Shard) -> NDArray[np.int64]:
    """The take of each frame of a shard, int64 (M,)."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(shard.path, "np") as file:
            numbers: NDArray[np.int64] = file.get_tensor("take")
    except (SafetensorError, OSError) as error:
        raise UserError(f"cannot read {shard.path}: it does not say which take a frame is from") from error
    if numbers.dtype != np.int64 or numbers.shape != (len(shard.frames),):
        raise UserError(f"cannot read {shard.path}: it does not say which take a frame is from")
    return numbers


def _one_line(words: object) -> str:
    return " ".join(str(words).split())
