"""Drawn people in recorded poses: the world of data/figures.py, in which p(motion | pose) is that of real people.

Each figure takes two poses of one sequence of a pose file (data/poses.py), a tenth of a second apart. It is seen by a
still camera that is far away, from any side and a little from above or below, with a body, a size and a place of its
own, mirrored or not. Of its parts the nearer ones hide the others. Walls, balls, clothes and the number of figures are
as in figures.py.

- Bodies: legs keep their lengths, so that feet that stand stay. Trunk, head, arms and shoulders are longer or shorter.
- Sizes: the first figure is 0.4 to 1.2 of the frame high, others 0.2 to 1.2. A figure that fits into the frame is in it
  with all joints, in the first of the two poses; of a larger one some part is.
- Still pairs: the first figure always moves. Pairs in which no joint moves by MOVED are for the others alone: 23 % of a
  file of 2,271 sequences.

Numbers of a pair depend on the seed, its place, the pictures and the poses of its split alone.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from visual_dynamics.data import figures
from visual_dynamics.data.figures import NAMES, PARTS, SHOWN, THICK, Parts
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.poses import APART, HEIGHT, JOINTS, PARENTS, Poses, Split
from visual_dynamics.errors import UserError

MOVED = 0.03  # the fastest joint of the first figure, at least: a pixel of a figure as high as a frame of 64
SMALLEST, LARGEST = (0.4, 0.2, 0.2, 0.2), 1.2  # heights of the figures
PITCH = (-0.15, 0.35)  # radians; above 0 the camera looks down
DEPTH = 0.14  # of a trunk from front to back, as SHOULDERS is its width: trunks seen from the side are slimmer
FILLED = 0.78  # share of both that is trunk
FACTORS = {  # of bones, by the joint at their end: from, to
    "neck_base": (0.85, 1.15),
    "head_top": (0.8, 1.3),
    "shoulder": (0.7, 1.0),
    "elbow": (0.85, 1.15),
    "wrist": (0.85, 1.15),
}
HIPS, NECK, HEAD, LEFT, RIGHT = (JOINTS.index(name) for name in (*JOINTS[:3], "l_shoulder", "r_shoulder"))
# A part is a bar between two places: joint a, joint b and the shares of the way from a to b where it begins and ends.
BARS = (
    (HIPS, NECK, 0.05, 0.75),
    (NECK, HEAD, 0.45, 0.55),
    *(bar for arm in (LEFT, RIGHT) for bar in ((arm, arm + 1, 0.0, 1.0), (arm + 1, arm + 2, 0.0, 1.3))),  # with a hand
    *(bar for hip in (9, 12) for bar in ((hip, hip + 1, 0.0, 1.0), (hip + 1, hip + 2, 0.0, 1.0))),
)


def posed_pairs(
    poses: Poses,
    count: int,
    seed: int,
    split: Split = "train",
    size: int = 64,
    device: torch.device | str = "cpu",
    pictures: Tensor | None = None,
) -> Pairs:
    """`figure_pairs` with people in the recorded poses of a split."""
    return figures.figure_pairs(count, seed, split, size, device, pictures, Recorded(poses, split).figure)


class Recorded:
    """The poses of a split, from which figures are drawn."""

    def __init__(self, poses: Poses, split: Split) -> None:
        first = poses.pairs(split)
        moving = first[poses.moves(first) >= MOVED]
        if not len(moving):
            raise UserError(f"the pose file has no pair of poses for {split} in which a joint moves")
        self.positions = torch.from_numpy(poses.positions)
        self.first, self.moving = torch.from_numpy(first), torch.from_numpy(moving)
        above = torch.eye(len(JOINTS))
        for joint in range(1, len(JOINTS)):
            above[joint] += above[PARENTS[joint]]
        self.above = above  # (15, 15): 1 where a joint is on the way from the hips to another, or is it

    def figure(self, random: torch.Generator, number: int) -> tuple[Parts, Parts]:
        """A figure before and after, n = CHUNK times, its farther parts first."""

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            return low + (high - low) * torch.rand(figures.CHUNK, *shape, generator=random)

        pairs = self.first if number else self.moving
        first = pairs[torch.randint(len(pairs), (figures.CHUNK,), generator=random)]
        there = (uniform(0, 1) < SHOWN[number]).float()
        height = SMALLEST[number] * (LARGEST / SMALLEST[number]) ** uniform(0, 1)
        build = uniform(0.7, 1.4)
        place = uniform(0, 1, 2)
        factors = {name: uniform(*bounds) for name, bounds in FACTORS.items()}
        yaw, pitch = uniform(0, 2 * math.pi), uniform(*PITCH)
        mirrored = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)

        bodies = self._bodies(torch.stack([first, first + APART]), factors)  # (2, n, 15, 3)
        seen = _seen(bodies, yaw, pitch, mirrored) * (height / HEIGHT)[:, None, None]
        flat = _placed(seen[..., :2], place)
        start, end, begins, ends = (torch.tensor(values) for values in zip(*BARS, strict=True))
        way = flat[:, :, end] - flat[:, :, start]
        bars = torch.stack([flat[:, :, start] + share[:, None] * way for share in (begins, ends)], 3)  # (2, n, P, 2, 2)
        radius = (torch.tensor(THICK) * (build * height)[:, None]).expand(2, -1, -1).clone()
        half = (flat[:, :, LEFT] - flat[:, :, RIGHT]).square().sum(-1) / 4  # (2, n)
        depth = DEPTH / HEIGHT * height
        radius[:, :, NAMES.index("trunk")] = FILLED * build.sqrt() * (half + depth.square()).sqrt()
        near = (seen[:, :, start, 2] + seen[:, :, end, 2]).sum(0)  # (n, P)
        order = near.argsort(1)
        rows = torch.arange(len(order))[:, None]
        wears = torch.argsort(torch.tensor(figures.ORDER))[order]  # clothes are in the order of figures.py
        before, after = (
            Parts(bars[moved][rows, order], (radius[moved] * there[:, None])[rows, order], wears) for moved in (0, 1)
        )
        return before, after

    def _bodies(self, places: Tensor, factors: dict[str, Tensor]) -> Tensor:
        """Poses at places (2, n), with bones longer or shorter by factors (n,): (2, n, 15, 3)."""
        recorded = self.positions[places]
        bones = recorded - recorded[:, :, list(PARENTS)]
        bones[:, :, HIPS] = recorded[:, :, HIPS]
        ones = torch.ones(places.shape[1])
        scale = torch.stack([factors.get(name.removeprefix("l_").removeprefix("r_"), ones) for name in JOINTS], 1)
        return self.above @ (bones * scale[:, :, None])


def _seen(bodies: Tensor, yaw: Tensor, pitch: Tensor, mirrored: Tensor) -> Tensor:
    """(2, n, 15, 3) as a far camera sees it: x to the right, y down, and how near."""
    x, y, z = bodies.unbind(-1)
    cos, sin = yaw.cos()[:, None], yaw.sin()[:, None]
    across, near = cos * x + sin * z, cos * z - sin * x
    cos, sin = pitch.cos()[:, None], pitch.sin()[:, None]
    return torch.stack([mirrored[:, None] * across, sin * near - cos * y, cos * near + sin * y], -1)


def _placed(flat: Tensor, place: Tensor) -> Tensor:
    """Joints (2, n, 15, 2) moved so that the box around those of the first pose is within the frame, or around it."""
    low, high = flat[0].amin(1), flat[0].amax(1)  # (n, 2)
    room = (1 - (high - low)).abs()
    centre = 0.5 + (place - 0.5) * room
    return flat + (centre - (low + high) / 2)[:, None]


assert len(BARS) == PARTS == len(NAMES)
