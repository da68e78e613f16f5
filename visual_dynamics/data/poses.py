"""People in recorded poses: the reader and the writer of a pose file. Imports no torch.

A pose file is a NumPy .npz. It holds the positions of 15 joints at 20 poses a second, sequence after sequence:

    positions  float (T, 15, 3): x, y, z of each joint; y is up, right-handed; someone who stands is 1.7 high
    starts     int (N + 1): sequence i is positions[starts[i] : starts[i + 1]]
    trial      str (N): the take that a sequence is from; sequences of one take have the same
    fps        float (): 20
    joints     str (15): JOINTS

Other arrays are left unread. `visual-dynamics prepare poses` makes such a file of BVH files (data/bvh.py).
"""

from __future__ import annotations

import hashlib
import io
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.errors import UserError
from visual_dynamics.files import why_no_file, write_atomically

SUFFIX = ".npz"
FPS = 20
APART = 2  # poses: the two of a pair are a tenth of a second apart
HEIGHT = 1.7  # of someone who stands
SIDE = ("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle")
JOINTS = ("hips", "neck_base", "head_top", *(f"{side}_{joint}" for limb in SIDE for side in "lr" for joint in limb))
PARENTS = (-1, 0, 1, 1, 3, 4, 1, 6, 7, 0, 9, 10, 0, 12, 13)
MAX_POSES = 2_000_000  # 28 hours
MAX_PLACE = 100.0  # of a joint, from the origin
GRID = 512  # positions are rounded to 1 / GRID
HELD_OUT = 0.1  # share of the takes that are for validation, and for a test
MISTAKES = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, SyntaxError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
Split = Literal["train", "validation", "test"]
TOO_FEW = "three takes are needed: to train on, for validation and for a test"


class Poses(NamedTuple):
    """N sequences of poses."""

    positions: NDArray[np.float32]  # (T, 15, 3)
    starts: NDArray[np.int64]  # (N + 1,)
    takes: tuple[str, ...]  # (N): the take of each sequence

    def pairs(self, split: Split) -> NDArray[np.int64]:
        """The first poses of all pairs of a split: places in `positions`, ascending. The second is APART further on."""
        mine = _takes_of(split, self.takes)
        ranges = [
            np.arange(start, end - APART)
            for start, end, take in zip(self.starts[:-1], self.starts[1:], self.takes, strict=True)
            if take in mine
        ]
        return np.concatenate([np.arange(0), *ranges]).astype(np.int64)

    def moves(self, first: NDArray[np.int64]) -> NDArray[np.float32]:
        """How far the fastest joint moves between the two poses of each pair, in the file's units: (n,)."""
        moved = self.positions[first + APART] - self.positions[first]
        return np.sqrt(np.square(moved).sum(-1)).max(-1, initial=0)


def _takes_of(split: Split, takes: Sequence[str]) -> set[str]:
    """The takes of a split: a tenth, at least one, is for validation, as many are for a test.

    In the order of a digest: no seed of a run changes it.
    """
    ordered = sorted(set(takes), key=lambda take: hashlib.sha256(take.encode()).digest())
    held = max(1, round(HELD_OUT * len(ordered)))
    return {
        "validation": set(ordered[:held]),
        "test": set(ordered[held : 2 * held]),
        "train": set(ordered[2 * held :]),
    }[split]


def holds_poses(path: Path) -> bool:
    """Whether a path names a pose file."""
    return path.suffix.lower() == SUFFIX and not path.is_dir()


def read_poses(path: Path) -> Poses:
    """A pose file, after looking at all that it says of itself. Raises UserError."""
    try:
        if not path.is_file():
            raise ValueError(why_no_file(path))
        with zipfile.ZipFile(path) as archive:
            positions = _read(archive, "positions", "f", (-1, len(JOINTS), 3), MAX_POSES)
            starts = _read(archive, "starts", "iu", (-1,), MAX_POSES)
            trial = _read(archive, "trial", "U", (-1,), MAX_POSES)
            fps, joints = _read(archive, "fps", "fiu", ()), _read(archive, "joints", "U", (len(JOINTS),))
        if tuple(joints) != JOINTS:
            raise ValueError(f"its joints are not {', '.join(JOINTS)}")
        if fps != FPS:
            raise ValueError(f"it has {fps:g} poses a second, not {FPS}")
        positions = np.ascontiguousarray(positions, np.float32)
        if not (np.abs(positions) <= MAX_PLACE).all():  # nor what is not a number
            raise ValueError(f"a joint is no place within {MAX_PLACE:g} of the origin")
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != len(positions) or (starts[1:] <= starts[:-1]).any():
            raise ValueError(f"its starts do not ascend from 0 to the {len(positions)} poses")
        if len(trial) != len(starts) - 1:
            raise ValueError(f"it names {len(trial)} takes of {len(starts) - 1} sequences")
        takes = tuple(map(str, trial))
        if len(set(takes)) < len(get_args(Split)):
            raise ValueError(TOO_FEW)
    except MISTAKES as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"cannot read poses from {path}: {reason or type(error).__name__}") from error
    return Poses(positions, starts.astype(np.int64), takes)


def _read(archive: zipfile.ZipFile, name: str, kinds: str, shape: tuple[int, ...], most: int = 1) -> NDArray[Any]:
    """An array of an .npz, after a look at its header: no false size allocates memory. -1: any length up to `most`."""
    if f"{name}.npy" not in archive.namelist():
        raise ValueError(f"it has no array {name}")
    if archive.getinfo(f"{name}.npy").compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("it is compressed in a way that may unpack without end")
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        found, _, kind = read_header(file)
        fits = len(found) == len(shape) and all(
            size == wanted or (wanted == -1 and size <= most) for size, wanted in zip(found, shape, strict=True)
        )
        if kind.kind not in kinds or not fits or kind.itemsize > 1_024:
            raise ValueError(f"its array {name} is {kind} of shape {found}")
        if file.tell() + kind.itemsize * int(np.prod(found)) != archive.getinfo(f"{name}.npy").file_size:
            raise ValueError(f"its array {name} is cut off")
    with archive.open(f"{name}.npy") as file:
        values: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return values


def write_poses(path: Path, sequences: Sequence[tuple[str, NDArray[np.floating[Any]]]]) -> int:
    """Sequences (t, 15, 3), each with the take it is from, as a pose file; returns its size in bytes."""
    positions = np.concatenate([sequence for _, sequence in sequences])
    if len({take for take, _ in sequences}) < len(get_args(Split)):
        raise UserError(TOO_FEW)
    if len(positions) > MAX_POSES:
        raise UserError(f"{len(positions):,} poses are too many for a file: at most {MAX_POSES:,}")
    file = io.BytesIO()
    np.savez_compressed(
        file,
        positions=np.asfortranarray((np.rint(GRID * positions) / GRID).astype(np.float16)),  # smaller by a third
        starts=np.cumsum([0, *(len(sequence) for _, sequence in sequences)]).astype(np.int32),
        trial=np.array([take for take, _ in sequences]),
        fps=np.float32(FPS),
        joints=np.array(JOINTS),
        parents=np.array(PARENTS, np.int8),
    )
    write_atomically(path, file.getvalue())
    return len(file.getvalue())
