"""A second model, of what comes next, helps a model of poses: it finds the start pose, and the way through a clip.

A model of poses makes every frame of a clip directly from the target. It has two weaknesses, as two characters may
strike a pose differently. `find_start`: they may begin a clip differently, and then all frames go wrong. `find_way`:
single frames are taken for other poses.

Frames are floats (3, S, S) in [0, 1]; distances are squared differences, summed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import torch
from torch import Tensor

from visual_dynamics.sampling.predictor import Predictor

# of find_start. It changed none of 57 clips of the published table; few characters begin a clip differently.
PROBES = 3  # steps of the clip that are compared
TRIED = 4  # start poses, at most: those whose silhouettes are most like the target's
ALIKE = 3.0  # distance up to which two start poses are one: that of a pixel from black to white
FOLLOWS = 0.1  # share of the poses' distance from the target by which they may miss, and no other start pose is tried
CLEARLY = 0.5  # another start pose must miss by less than this share

# of find_way; shares of the mean distance between poses and target. Error of a frame across the sexes on 34 clips
# of the published table (one view, five animations): 16.5 as it is, 27.0 without TRUST, 54.5 without a guide, 55.8 with
# the guide alone. Case 3 of find_way is open: 12.7 without it there, but twice the error on other clips; it stays until
# the whole table is measured. Without it, slash on 5 pairs has 40; 53 without STILL too, 98 if no frame is taken back.
NEAR = 0.3  # guide and model of poses agree up to this distance
TRUST = 2.0  # sum of the distances of frames in a row that do not agree, from which on the guide is astray
STILL = 0.25  # share of the reference's step: a guide that moves less stands still
DOUBT = 0.1  # between a draft and what the model of poses makes of it: it may be no pose of this target
ASTRAY = 0.2  # by which the guide must come nearer to the next frame of the model of poses from its frame before


def find_start(
    predictor: Predictor,
    guide: Predictor,
    clip: Sequence[Tensor],
    pose: int,
    others: Sequence[Tensor],
    target: Tensor,
    snapped: Callable[[Tensor], Tensor],
) -> Tensor:
    """The start pose, the frame to measure motions from: frame `pose` of the clip, or one of the others.

    It should show the reference as the target stands. If the clip begins otherwise (one is ready to shoot, another just
    stands there), another clip may begin that way, and a model of poses knows motions between any two frames. Frames
    made from the right start pose follow each other, for the guide, as the reference's do.

    snapped: a predicted frame -> the same as a sprite in the target's colours.
    """
    moves = [
        step
        for step in pairwise(range(len(clip)))
        if not any(torch.equal(clip[one], clip[other]) for one, other in (step, *((pose, frame) for frame in step)))
    ]  # between frames that are to be made and differ
    places = {round(place) for place in torch.linspace(0, len(moves) - 1, PROBES).tolist()} if moves else ()
    steps = [moves[place] for place in sorted(places)]
    others = [start for start in likely([clip[pose], *others], target) if start is not clip[pose]][:TRIED]
    if not steps or not others:
        return clip[pose]
    codes = [guide.encode(clip[before], clip[after]).mean for before, after in steps]
    frames = sorted({frame for step in steps for frame in step})
    image = predictor.encode_image(target)

    def made_from(start: Tensor) -> dict[int, Tensor]:
        after = torch.stack([clip[frame] for frame in frames])
        motions = predictor.encode(start.expand_as(after), after).mean
        return dict(zip(frames, map(snapped, predictor.preview(image, motions).cpu()), strict=True))

    def miss(made: dict[int, Tensor]) -> float:
        distances = []
        for (before, after), code in zip(steps, codes, strict=True):
            following = guide.preview(guide.encode_image(made[before]), code[None])[0].cpu()
            distances.append(distance(snapped(following), made[after]))
        return fmean(distances)

    own = made_from(clip[pose])
    least = miss(own)
    if least <= FOLLOWS * fmean(distance(frame, target) for frame in own.values()):
        return clip[pose]
    misses = [miss(made_from(each)) for each in others]
    best = min(range(len(others)), key=misses.__getitem__)
    return others[best] if misses[best] < CLEARLY * least else clip[pose]


def likely(starts: Sequence[Tensor], target: Tensor) -> list[Tensor]:
    """Start poses that differ, in the order of how much their silhouettes overlap with the target's."""
    different: list[Tensor] = []
    for start in starts:
        if all(distance(start, other) > ALIKE for other in different):
            different.append(start)

    def overlap(start: Tensor) -> float:
        """Intersection over union of what is not black."""
        first, second = (frame.amax(0) > 0 for frame in (start, target))
        return float((first & second).sum() / (first | second).sum().clamp(min=1))

    return sorted(different, key=overlap, reverse=True)


def find_way(
    order: Sequence[int],
    direct: Mapping[int, Tensor],
    follow: Callable[[int, int, Tensor], tuple[Tensor, float]],
    twins: Sequence[int],
    reference: Sequence[Tensor],
) -> dict[int, Tensor]:
    """The frames of a clip in `order`, of which the first is given, each made by the guide from the one before it.

    The guide goes its own way, and ignores single wrong poses. But it may take a wrong turn where animations part, and
    never comes back: then all frames from there on are wrong. So the model of poses is followed in these cases:

    1. They have disagreed for several frames: from the first of these on.
    2. The guide's draft is no pose of the target, and the guide stands still though the reference moves on.
    3. The draft is no pose of the target, and the guide comes to the next frame from the frame of the model of poses
       only, not from its own.

    In 2 and 3 this holds for this frame; or for the frame before, if they disagreed there, and the guide goes on well
    from the frame of the model of poses.

    direct: every frame as the model of poses makes it. follow: a frame of the clip, the next one and what was made of
    the first -> what the guide makes of the next, and its distance to the guide's draft. twins: for each frame the
    first that looks the same in the reference, whose steps are shares of a length of its own.
    """

    def missed(before: int, after: int, start: Tensor) -> float:
        """Distance to the model of poses where the guide ends that goes on from `start`."""
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
                moved = span * distance(made[before], made[after])
                astray = moved < STILL * length * distance(reference[before], reference[after])  # it stands still
                if not astray and place + 1 < len(order):
                    beyond = order[place + 1]
                    own, other = (missed(after, beyond, frames[after]) for frames in (made, direct))
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
    return float((one - other).square().sum())
