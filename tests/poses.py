"""Small recorded motions, made by hand: as sequences of poses, as a pose file, and as BVH files."""

from pathlib import Path

import numpy as np

from visual_dynamics.data.poses import write_poses

STANDING = np.array(  # 15 joints of someone who stands at the origin and looks along z
    [
        *([0, 1.0, 0], [0, 1.4, 0], [0, 1.7, 0]),
        *([0.2, 1.35, 0], [0.25, 1.05, 0], [0.25, 0.8, 0.05]),
        *([-0.2, 1.35, 0], [-0.25, 1.05, 0], [-0.25, 0.8, 0.05]),
        *([0.1, 0.9, 0], [0.1, 0.5, 0], [0.1, 0.1, 0]),
        *([-0.1, 0.9, 0], [-0.1, 0.5, 0], [-0.1, 0.1, 0]),
    ]
)


def waving(length: int = 30, seed: int = 0, still: bool = False) -> np.ndarray:
    """(length, 15, 3): the hands and the body go to and fro, and the ankles stand where they are."""
    random = np.random.default_rng(seed)
    time = np.arange(length)[:, None] / 20
    poses = np.tile(STANDING + random.normal(0, 0.01, STANDING.shape), (length, 1, 1))
    if not still:
        poses[:, [5, 8]] += 0.2 * np.sin(8 * time + random.uniform(0, 6))[..., None] * random.normal(0, 1, (1, 2, 3))
        sway = 0.1 * np.sin(5 * time + random.uniform(0, 6))[..., None] * random.normal(0, 1, 3)
        poses[:, [*range(9), 9, 12]] += sway
        poses[:, [10, 13]] += sway / 2
    return poses


def write_waving(path: Path, takes: int = 20, still: int = 0) -> Path:
    """A pose file of two sequences a take; in the last `still` takes nothing moves."""
    named = [
        (f"{number:02}_01", waving(30, 2 * number + part, number >= takes - still))
        for number in range(takes)
        for part in (0, 1)
    ]
    write_poses(path, named)
    return path


def skeleton(order: str = "ZYX") -> str:
    """The HIERARCHY of a BVH file: 16 units from the toes to the end of the head, arms to the sides."""
    turns = " ".join(f"{axis}rotation" for axis in order)

    def joint(name: str, offset: str, *below: str) -> str:
        inside = "\n".join(below) or "End Site\n{\nOFFSET 0 1 0\n}"
        return f"JOINT {name}\n{{\nOFFSET {offset}\nCHANNELS 3 {turns}\n{inside}\n}}"

    toes = "End Site\n{\nOFFSET 0 0 1\n}"
    limbs = [
        part
        for side, x in (("Left", 1), ("Right", -1))
        for part in (
            joint(f"{side}UpLeg", f"{x} -1 0", joint(f"{side}Leg", "0 -4 0", joint(f"{side}Foot", "0 -4 0", toes))),
            joint(
                f"{side}Arm",
                f"{2 * x} 5 0",
                joint(f"{side}ForeArm", f"{3 * x} 0 0", joint(f"{side}Hand", f"{2 * x} 0 0")),
            ),
        )
    ]
    body = "\n".join([joint("Neck1", "0 5 0", joint("Head", "0 1 0")), *limbs])
    root = f"ROOT Hips\n{{\nOFFSET 0 0 0\nCHANNELS 6 Xposition Yposition Zposition {turns}\n"
    return f"HIERARCHY\n{root}{body}\n}}\n"


CHANNELS = 6 + 3 * 14  # of that skeleton: hips, neck, head, and twelve of the limbs


def bvh(rows: np.ndarray, seconds: float = 1 / 60, order: str = "ZYX") -> str:
    lines = "\n".join(" ".join(f"{value:.6f}" for value in row) for row in rows)
    return f"{skeleton(order)}MOTION\nFrames: {len(rows)}\nFrame Time: {seconds:.7f}\n{lines}\n"


def drifting(count: int, rested: bool = False, speed: float = 0.16) -> np.ndarray:
    """Rows in which the hips go along x, all arms and legs are turned a little; `rested` adds a T-pose before them."""
    rows = np.full((count, CHANNELS), 5.0)
    rows[:, 0] = 3 + speed * np.arange(count)
    rows[:, 1:3] = 9, -2
    rows[:, 3:6] = 0
    rest = np.zeros((1, CHANNELS))
    return np.concatenate([rest, rows]) if rested else rows
