"""The way of a sprite through an animation, shown by a model of what comes next.

A model of poses makes every frame of a clip at once, from the target alone. Where the two characters strike a pose
differently, as male and female ones do here and there, it takes the code for another pose. A guide that only knows
what comes next does not; but it may take a wrong turn where animations part, and does not find back. Together they
do: the guide goes from frame to frame, and if its way and the poses lie far apart, it starts again from one of the
first poses. Most poses are right, so a way that comes closer to them is.

Frames are floats (3, S, S) in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from torch import Tensor

# Of mean squared distances from the frames that were made directly. Seen on 16 clips of Reed's test characters: ways
# that were right had 0.09 to 0.48 of the distance of the target that stands still, ways gone astray 0.72 to 1.24.
DOUBT = 0.4  # of that: beyond it other ways are tried
BETTER = 0.75  # of the guide's own way, over the same frames: below it the other is taken
STARTS = 3  # frames after the first from which another way may start


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

    def way_from(start: int) -> dict[int, Tensor]:
        made = {frame: direct[frame] for frame in order[: start + 1]}
        for before, after in pairwise(order[start:]):
            known = made.get(twins[after])
            made[after] = follow(before, after, made[before]) if known is None else known
        return made

    def distance(made: Mapping[int, Tensor], start: int) -> float:
        return fmean(float((made[frame] - direct[frame]).square().sum()) for frame in order[start + 1 :])

    own = way_from(0)
    standing = dict.fromkeys(order, direct[order[0]])
    if len(order) < 2 or distance(own, 0) <= DOUBT * distance(standing, 0):
        return own
    for start in range(1, min(STARTS, len(order) - 2) + 1):
        other = way_from(start)
        if distance(other, start) < BETTER * distance(own, start):
            return other
    return own
