"""BVH files of the CMU motion capture database become sequences of poses (data/poses.py). Imports no torch.

Made for B. Hahne's conversion (cgspeed); any BVH file with its names of joints will do. A joint is at the place of its
parent, plus its OFFSET turned by all joints above it. Rotations are in degrees, in the order of the CHANNELS:
"Zrotation Yrotation Xrotation" is Rz Ry Rx. Positions among the channels take the place of the OFFSET.

- Rate: by the frame time of the file, but for takes that are known to say 120 frames a second and to have 60 (SLOW).
- Size: each take is scaled so that its own T-pose is 1.7 from the lowest joint to the end of the head. The T-pose is
  the first row, where the conversion has added it, and then dropped; else it is the skeleton with no joint turned.
- Place: the hips' x and z are 0 at the first pose of each sequence. Height and facing are as recorded.
- Sequences are of 1 to 12 seconds. A take is cut where a joint jumps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.data.poses import APART, FPS, HEIGHT, MAX_PLACE
from visual_dynamics.errors import UserError

Floats = NDArray[np.float64]

END = " end"  # an end site has the name of its joint, and this
NAMES = (  # of the joints in BVH files, in the order of poses.JOINTS
    *("Hips", "Neck1", "Head" + END),
    *(f"{side}{joint}" for side in ("Left", "Right") for joint in ("Arm", "ForeArm", "Hand")),
    *(f"{side}{joint}" for side in ("Left", "Right") for joint in ("UpLeg", "Leg", "Foot")),
)
CHANNELS = tuple(f"{axis}{what}" for what in ("position", "rotation") for axis in "XYZ")
SHORTEST, LONGEST = FPS, 12 * FPS  # poses of a sequence
JUMP = 0.8  # in one step: 16 a second; no joint is faster in 2,271 sequences that were looked at
RESTING = 0.75  # of the angles of an added T-pose are 0, at least; of recorded poses a quarter are
MAX_BYTES, MAX_JOINTS = 2**28, 1_000

# Subjects and takes whose files say 120 frames a second and have 60. Read at 120, bodies fall at 38 to 44 m/s^2.
SLOW = {60, 61, 62, 74, 75, 77, 79, 80, 88, 89, 106, 107, 141, 143}
SLOW_TAKES = {"87_03", "87_04", "87_05", "90_08", "90_09", "90_11"}


class Joint(NamedTuple):
    name: str
    parent: int  # -1: the root
    offset: tuple[float, float, float]
    channels: tuple[str, ...]  # none at an end site


class Motion(NamedTuple):
    """What a BVH file holds."""

    joints: tuple[Joint, ...]  # parents come first
    rows: Floats  # (T, channels of all joints)
    seconds: float  # from row to row


def read_motion(text: str) -> Motion:
    """The text of a BVH file. Raises ValueError."""
    hierarchy, found, motion = text.partition("MOTION")
    if not found:
        raise ValueError("it has no MOTION")
    joints = _read_joints(iter(hierarchy.split()))
    words = motion.split()
    if len(words) < 5 or words[0] != "Frames:" or words[2:4] != ["Frame", "Time:"]:
        raise ValueError("its MOTION begins with no number of frames and frame time")
    count, seconds, width = int(words[1]), float(words[4]), sum(len(joint.channels) for joint in joints)
    if len(words) - 5 != count * width or not count:
        raise ValueError(f"it has {len(words) - 5} numbers, not {count} frames of {width}")
    rows = np.array(words[5:], np.float64).reshape(count, width)
    if not np.isfinite(rows).all() or not 0.001 <= seconds <= 1:
        raise ValueError("its motion is not finite" if 0.001 <= seconds <= 1 else f"its frame time is {seconds}")
    return Motion(joints, rows, seconds)


def _read_joints(words: Iterator[str]) -> tuple[Joint, ...]:
    joints: list[Joint] = []
    above: list[int] = []  # joints whose brackets are open
    try:
        for word in words:
            if word in ("ROOT", "JOINT", "End"):
                name, parent = next(words), above[-1] if above else -1
                if (parent < 0) != (word == "ROOT") or len(joints) == MAX_JOINTS:
                    raise ValueError(f"its joints are not one tree of at most {MAX_JOINTS}")
                joints.append(Joint(joints[parent].name + END if word == "End" else name, parent, (0.0, 0.0, 0.0), ()))
            elif word == "{":
                above.append(len(joints) - 1)
            elif word == "}":
                above.pop()
            elif word == "OFFSET":
                x, y, z = (float(next(words)) for _ in range(3))
                joints[above[-1]] = joints[above[-1]]._replace(offset=(x, y, z))
            elif word == "CHANNELS":
                channels = tuple(next(words) for _ in range(int(next(words))))
                if not set(channels) <= set(CHANNELS):
                    raise ValueError(f"it has channels {' '.join(channels)}")
                joints[above[-1]] = joints[above[-1]]._replace(channels=channels)
            elif word != "HIERARCHY":
                raise ValueError(f"its hierarchy has a word {word[:40]!r}")
    except (StopIteration, IndexError, RuntimeError):
        raise ValueError("its hierarchy is cut off") from None
    if above or not joints or not np.isfinite([joint.offset for joint in joints]).all():
        raise ValueError("its hierarchy is cut off")
    return tuple(joints)


def places(joints: tuple[Joint, ...], rows: Floats) -> Floats:
    """Forward kinematics: rows (T, channels) -> where each joint is, (T, J, 3)."""
    found = np.zeros((len(rows), len(joints), 3))
    turned: list[Floats] = []  # (T, 3, 3) each: the rotation of a joint and all above it
    column = 0
    for number, joint in enumerate(joints):
        step = np.tile(np.array(joint.offset), (len(rows), 1))
        turn = turned[joint.parent] if joint.parent >= 0 else np.tile(np.eye(3), (len(rows), 1, 1))
        place = found[:, joint.parent] if joint.parent >= 0 else 0.0
        own = turn
        for channel in joint.channels:
            axis = "XYZ".index(channel[0])
            if channel.endswith("position"):
                step[:, axis] = rows[:, column]
            else:
                own = own @ _rotations(axis, np.radians(rows[:, column]))
            column += 1
        found[:, number] = place + (turn @ step[:, :, None])[:, :, 0]
        turned.append(own)
    return found


def _rotations(axis: int, angles: Floats) -> Floats:
    """(T,) -> (T, 3, 3): about x, y or z, by the right-hand rule."""
    second, third = (axis + 1) % 3, (axis + 2) % 3
    turns = np.tile(np.eye(3), (len(angles), 1, 1))
    turns[:, second, second] = turns[:, third, third] = np.cos(angles)
    turns[:, third, second] = np.sin(angles)
    turns[:, second, third] = -np.sin(angles)
    return turns


def sequences(motion: Motion, take: str = "") -> list[Floats]:
    """The sequences of a take, (t, 15, 3) each: see the top of this file. Raises ValueError."""
    names = [joint.name for joint in motion.joints]
    if missing := [name for name in NAMES if name not in names]:
        raise ValueError(f"it has no joint {missing[0]}")
    angles = np.array([name.endswith("rotation") for joint in motion.joints for name in joint.channels], dtype=bool)
    rested = len(motion.rows) > 1 and angles.any() and bool((motion.rows[0, angles] == 0).mean() >= RESTING)
    rest = places(motion.joints, motion.rows[:1] if rested else np.where(angles, 0.0, motion.rows[:1]))[0]
    height = float(rest[names.index(NAMES[2]), 1] - rest[:, 1].min())
    if not height > 0:
        raise ValueError("its T-pose does not stand: y is not up")
    rows = motion.rows[1:] if rested else motion.rows
    seconds = 1 / 60 if abs(motion.seconds - 1 / 120) < 1e-4 and is_slow(take) else motion.seconds
    at = np.arange(0, (len(rows) - 1) * seconds + 1e-6, 1 / FPS) / seconds  # places among the rows, whole or not
    before = np.minimum(at.astype(int), len(rows) - 1)
    after, share = np.minimum(before + 1, len(rows) - 1), (at - before)[:, None, None]
    wanted = [names.index(name) for name in NAMES]
    first, second = (places(motion.joints, rows[part])[:, wanted] for part in (before, after))
    poses = HEIGHT / height * (first * (1 - share) + second * share)
    pieces = list(_pieces(poses))
    if any(np.abs(piece).max() > MAX_PLACE for piece in pieces):
        raise ValueError(f"a joint is more than {MAX_PLACE:g} from the origin, for a person of {HEIGHT:g}")
    return pieces


def _pieces(poses: Floats) -> Iterator[Floats]:
    """Cut where a joint jumps, and into equal parts; each begins above the origin."""
    jumps = np.linalg.norm(np.diff(poses, axis=0), axis=-1).max(-1) > JUMP
    for begin, end in pairwise([0, *(np.flatnonzero(jumps) + 1), len(poses)]):
        for piece in np.array_split(poses[begin:end], -(-(end - begin) // LONGEST)):
            if len(piece) >= max(SHORTEST, APART + 1):
                yield piece - piece[0, 0] * np.array([1.0, 0.0, 1.0])


def is_slow(take: str) -> bool:
    """Whether a take of the database has 60 frames a second, whatever its file says."""
    subject, _, number = take.partition("_")
    return take in SLOW_TAKES or (subject.isdigit() and number.isdigit() and int(subject) in SLOW)


class Taken(NamedTuple):
    """What a folder of BVH files has given."""

    sequences: list[tuple[str, Floats]]  # each with its take: the name of its file
    skipped: dict[Path, str]  # files that gave none, and why


def read_folder(folder: Path, progress: Callable[[float, int], None] = lambda done, total: None) -> Taken:
    """All .bvh files in a folder and folders in it. Copies of a file, and damaged ones, are skipped."""
    if not folder.is_dir():
        raise UserError(f"no folder of BVH files: {folder}")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".bvh" and path.is_file())
    taken, seen = Taken([], {}), dict[bytes, Path]()
    for done, path in enumerate(paths):
        progress(done, len(paths))
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES >> 20} MB")
            data = path.read_bytes()
            first = seen.setdefault(hashlib.sha256(data).digest(), path)
            if first != path:
                raise ValueError(f"it is a copy of {first.relative_to(folder)}")
            found = sequences(read_motion(data.decode("latin-1")), path.stem)
            if not found:
                raise ValueError("it has no second without a jump")
        except (OSError, ValueError, OverflowError) as error:
            taken.skipped[path.relative_to(folder)] = str(getattr(error, "strerror", None) or error)
            continue
        taken.sequences.extend((path.stem, sequence) for sequence in found)
    if not taken.sequences:
        why = next((f": {path}: {reason}" for path, reason in taken.skipped.items()), "")
        raise UserError(f"no usable .bvh file in {folder}{why}")
    return taken
