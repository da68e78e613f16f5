"""Prepared footage: shards in safetensors, the manifest that lists them, and both as pairs for training.

A shard holds `frames` uint8 (M, 3, S, S), each stored once, and pairs as places among them, `first` and `second`
int64 (N,); beside them `times` float64 (M,), `transforms` float64 (M, 2, 3) and `take` int64 (M,), which say where a
frame comes from. Frames are mapped, not read: what is not asked for stays on the disk.

A take is one shot in one window of a steadied camera: a pixel of any of its frames shows the same place of the scene.
The processes that prepare footage import this module: torch is imported only where pairs are made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from visual_dynamics.data.pairs import Pairs

FORMAT = "visual-dynamics footage 1"
MANIFEST, SETTINGS = "manifest.json", "settings.json"
MAX_HEADER = 2**20  # bytes


class Shard(NamedTuple):
    """One file of pairs."""

    path: Path
    frames: npt.NDArray[np.uint8]  # (M, 3, S, S), mapped
    first: npt.NDArray[np.int64]  # (N,)
    second: npt.NDArray[np.int64]  # (N,)


def shard_bytes(tensors: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The bytes of a shard; the same tensors give the same bytes."""
    from safetensors.numpy import save

    data: bytes = save(dict(tensors), {"format": FORMAT})
    return data


def open_shard(path: Path) -> Shard:
    """Map a shard after looking at all that it says of itself."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:  # checks that the tensors fill the file
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ValueError("it is not a file of prepared pairs")
            first, second = file.get_tensor("first"), file.get_tensor("second")
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > MAX_HEADER:
                raise ValueError("its header is too long")
            entry = json.loads(stream.read(length))["frames"]
        shape = tuple(entry["shape"])
        if entry["dtype"] != "U8" or len(shape) != 4 or shape[1] != 3 or shape[2] != shape[3] or 0 in shape:
            raise ValueError(f"its frames are {entry['dtype']} of shape {shape}")
        if first.dtype != np.int64 or first.ndim != 1 or (first.dtype, first.shape) != (second.dtype, second.shape):
            raise ValueError("its pairs are not two rows of places")
        if len(first) and not (min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) < shape[0]):
            raise ValueError("its pairs name frames that it does not have")
        frames = np.memmap(path, np.uint8, "r", 8 + length + entry["data_offsets"][0], shape)
    except FileNotFoundError:
        raise UserError(f"cannot read {path}: there is no such file") from None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"cannot read {path}: {reason}") from error
    return Shard(path, frames, first, second)


def holds_footage(folder: Path) -> bool:
    """Whether a folder was made by `prepare videos`, finished or not."""
    return any(_format_of(folder / name) == FORMAT for name in (SETTINGS, MANIFEST))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished folder."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(f"{folder} is not finished: run visual-dynamics prepare videos again, it goes on where it was")
    if _format_of(path) != FORMAT:
        raise UserError(f"cannot read {path}: it is not a manifest of prepared pairs")
    manifest: dict[str, Any] = json.loads(path.read_text())
    return manifest


def split_shards(folder: Path, split: str) -> list[Shard]:
    """The shards of a split, in the order of the manifest; frames of all of them have one size."""
    try:
        listed = [
            (folder / str(shard["file"]), (int(shard["frames"]), int(shard["pairs"])))
            for file in read_manifest(folder)["files"]
            if file["split"] == split
            for shard in file["shards"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"cannot read {folder / MANIFEST}: it is damaged") from error
    shards: list[Shard] = []
    for path, counts in listed:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"cannot read {folder / MANIFEST}: it names files elsewhere")
        shard = open_shard(path)
        if (len(shard.frames), len(shard.first)) != counts:
            raise UserError(f"cannot read {path}: it is not the file that the manifest lists")
        if shards and shard.frames.shape[1:] != shards[0].frames.shape[1:]:
            raise UserError(f"cannot read {path}: its frames have another size than those before")
        shards.append(shard)
    return shards


def _format_of(path: Path) -> str | None:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return content.get("format") if isinstance(content, dict) else None


# --- as pairs ---


def open_pairs(folder: Path, split: str) -> Pairs | None:
    """The pairs of one split ("train" or "held-out") of a folder that `prepare videos` made; None where it has none."""
    import torch

    from visual_dynamics.data.pairs import MappedFrames, Pairs

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


class Take(NamedTuple):
    """The pairs of one take."""

    scene: str
    name: str  # the clip's file and the number of the take in it
    places: Tensor  # int64 (n,): where its pairs lie among those of the split


def split_takes(folder: Path, split: str) -> list[Take]:
    """The takes of `open_pairs(folder, split)`, in the order of their pairs."""
    import torch

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
