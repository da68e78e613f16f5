"""Which pairs of prepared footage come from one take: one shot, one window, one steadied camera, so that a pixel of any
of its frames shows the same place of the scene.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from visual_dynamics.data.shard_files import MANIFEST, Shard, read_manifest
from visual_dynamics.data.shards import ShardedPairs
from visual_dynamics.errors import UserError


class Take(NamedTuple):
    """The pairs of one take."""

    scene: str
    name: str  # the clip's file and the number of the take in it
    places: Tensor  # int64 (n,): where its pairs lie among those of the split


def pair_takes(folder: Path, pairs: ShardedPairs) -> list[Take]:
    """The takes of `open_pairs(folder, ...)`, in the order of their pairs."""
    try:
        listed = {
            folder / str(shard["file"]): (_one_line(file["scene"]), _one_line(file["file"]))
            for file in read_manifest(folder)["files"]
            for shard in file["shards"]
        }
        clips = [listed[shard.path] for shard in pairs.shards]
    except (KeyError, TypeError) as error:
        raise UserError(f"cannot read {folder / MANIFEST}: it is damaged") from error
    takes: list[Take] = []
    for number, (shard, (scene, file)) in enumerate(zip(pairs.shards, clips, strict=True)):
        own = np.flatnonzero(pairs.shard == number)
        numbers = take_numbers(shard)[pairs.first[own]]  # a pair never leaves its take
        for take in np.unique(numbers).tolist():
            takes.append(Take(scene, f"{file}, take {take}", torch.from_numpy(own[numbers == take])))
    return takes


def take_numbers(shard: Shard) -> npt.NDArray[np.int64]:
    """The take of each frame of a shard, int64 (M,)."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(shard.path, "np") as file:
            numbers: npt.NDArray[np.int64] = file.get_tensor("take")
    except (SafetensorError, OSError) as error:
        raise UserError(f"cannot read {shard.path}: it does not say which take a frame is from") from error
    if numbers.dtype != np.int64 or numbers.shape != (len(shard.frames),):
        raise UserError(f"cannot read {shard.path}: it does not say which take a frame is from")
    return numbers


def _one_line(words: object) -> str:
    return " ".join(str(words).split())
