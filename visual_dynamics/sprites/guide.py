"""The way of a sprite through an animation, shown by a model of what comes next.

A model of poses makes every frame of a clip at once, from the target alone. Where the two characters strike a pose
differently, as male and female ones do here and there, it takes the code for another pose: single frames are wrong. A
guide that only knows what comes next is not deceived; but it may take a wrong turn where animations part, and does not
find back: all frames from there on are wrong. So the guide goes from frame to frame, and the model of poses is followed
in three cases. Where it disagrees and cannot make what the guide has drafted: if the guide stands still though the
reference moves on, or if it comes to the next frame from the frame of the model of poses only, not from its own. In the
frame before that, if they disagreed there already and the guide finds on from the frame of the model of poses: there it
had taken a wrong turn, to what may well be a pose. And where they have disagreed for several frames, from the first of
them on.

Frames are floats (3, S, S) in [0, 1]. All thresholds are shares of one length: the mean squared distance between the
poses and the target that stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from torch import Tensor

NEAR = 0.3  # guide and model of poses agree up to this distance
DOUBT = 0.1  # between a draft and what the model of poses makes of it: it may be no pose of this target
STILL = 0.25  # share of the reference's step: a guide that goes less far stands still
ASTRAY = 0.2  # by which the guide misses the next frame of the model of poses by more from its own than from its frame
TRUST = 2.0  # sum of the distances of frames in a row that do not agree, until the guide is taken to be astray


def find_way(
    order: Sequence[int],
    direct: Mapping[int, Tensor],
    follow: Callable[[int, int, Tensor], tuple[Tensor, float]],
    twins: Sequence[int],
    reference: Sequence[Tensor],
) -> dict[int, Tensor]:
    """The frames of a clip in `order`, of which the first is given, each made by the guide from the one before it.

    direct: every frame as the model of poses makes it. follow: a frame of the clip, the next one and what was made of
    the first -> what the guide makes of the next, and its squared distance to the guide's draft of it. twins: of each
    frame the first that looks the same in the reference, whose frames these are; its steps are taken as shares of a
    length of its own.
    """

    def missed(before: int, after: int, start: Tensor) -> float:
        """How far from the model of poses the guide ends that goes on from `start`."""
        return distance(follow(before, after, start)[0], direct[after])

    first, *others = order
    length, span = (fmean([distance(x[first], x[frame]) for frame in others] or [0.0]) for x in (direct, reference))
    made = {first: direct[first]}
    place = 1
    apart: list[float] = []  # distances of the last frames in a row that do not agree
    while place < len(order):
        before, after = order[place - 1 : place + 1]
        if twins[after] in made:
            made[after] = made[twins[after]]
        else:
            made[after], doubt = follow(before, after, made[before])
            away = distance(made[after], direct[after])
            if doubt > DOUBT * length and away > NEAR * length:
                step = distance(made[before], made[after])
                astray = span * step < STILL * length * distance(reference[before], reference[after])
                if not astray and place + 1 < len(order):
                    beyond = order[place + 1]
                    own, other = (missed(after, beyond, x[after]) for x in (made, direct))
                    astray = own > other + ASTRAY * length
                if astray and apart and away > missed(before, after, direct[before]) + ASTRAY * length:
                    made[before], apart = direct[before], []
                    del made[after]
                    continue
                if astray:
                    made[after] = direct[after]
        away = distance(made[after], direct[after])
        apart = [*apart, away] if away > NEAR * length else []
        if len(apart) > 1 and sum(apart) >= TRUST * length:
            place -= len(apart) - 1
            made = {frame: made[frame] for frame in order[:place]} | {order[place]: direct[order[place]]}
            apart = []
        place += 1
    return made


def distance(one: Tensor, other: Tensor) -> float:
    """Squared differences, summed."""
    return float((one - other).square().sum())
