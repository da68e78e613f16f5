"""The way of a sprite through an animation, shown by a model of what comes next.

A model of poses makes every frame of a clip at once, from the target alone. Where the two characters strike a pose
differently, as male and female ones do here and there, it takes the code for another pose: single frames are wrong. A
guide that only knows what comes next is not deceived; but it may take a wrong turn where animations part, and does not
find back: all frames from there on are wrong. So the guide goes from frame to frame, and where it keeps away from the
poses for several frames, it starts again from the first of these poses.

Frames are floats (3, S, S) in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from torch import Tensor

FAR = 0.6  # of the mean squared distance between the poses and the target that stands still: the guide's is too large
PATIENCE = 2  # frames in a row that are too far, until the guide is taken to be astray


def find_way(
    order: Sequence[int],
    direct: Mapping[int, Tensor],
    follow: Callable[[int, int, Tensor], Tensor],
    twins: Sequence[int],
) -> dict[int, Tensor]:
    """The frames of a clip in `order`, of which the first is given, each made by the guide from the one before it.

    direct: every frame as the model of poses makes it. follow: a frame of the clip, the next one and what was made of
    the first -> what the guide makes of the next. twins: of each frame the first that looks the same in the reference.
    """
    first, *others = order
    far = FAR * fmean([_distance(direct[first], direct[frame]) for frame in others] or [0.0])
    made = {first: direct[first]}
    place, astray = 1, 0
    while place < len(order):
        before, after = order[place - 1 : place + 1]
        known = made.get(twins[after])
        made[after] = follow(before, after, made[before]) if known is None else known
        astray = astray + 1 if _distance(made[after], direct[after]) > far else 0
        if astray == PATIENCE:
            place, astray = place - PATIENCE + 1, 0
            made = {frame: made[frame] for frame in order[:place]} | {order[place]: direct[order[place]]}
        place += 1
    return made


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).square().sum())
