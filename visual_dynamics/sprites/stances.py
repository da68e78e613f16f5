"""From which frame of the reference its motions are measured: from the one in which it stands as the target does.

That should be the frame that the target is given in. But two characters may begin an animation differently: one is
ready to shoot, another just stands there. A motion from the first leads the second astray, in all frames of the clip.
Elsewhere in its sheet, though, the reference may stand as the target does, and a model of poses takes motions between
any two frames.

Which stance is right is asked of a model of what comes next. Frames that were made from the right one follow each other
as the reference's frames do; frames that were made from a wrong one do not.

Frames are floats (3, S, S) in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

import torch
from torch import Tensor

from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.guide import distance

PROBES = 3  # steps of the clip that are looked at
TRIED = 4  # stances, at most: those whose silhouettes are most like the target's
ALIKE = 3.0  # squared distance up to which two stances are one: that of a pixel from black to white
FOLLOWS = 0.1  # share of the poses' distance from the target by which they may miss, and no other stance is tried
CLEARLY = 0.5  # another stance must miss by less than this share


def find_stance(
    predictor: Predictor,
    guide: Predictor,
    clip: Sequence[Tensor],
    pose: int,
    others: Sequence[Tensor],
    target: Tensor,
    snapped: Callable[[Tensor], Tensor],
) -> Tensor:
    """The frame to measure motions from: frame `pose` of the clip or, if it makes a far better clip, one of the others.

    snapped: a predicted frame -> the same as a sprite in the target's colours, as the network sees it.
    """
    steps = _probes(clip, pose)
    others = [stance for stance in likely([clip[pose], *others], target) if stance is not clip[pose]][:TRIED]
    if not steps or not others:
        return clip[pose]
    codes = [guide.encode(clip[before], clip[after]).mean for before, after in steps]
    frames = sorted({frame for step in steps for frame in step})

    def made_from(stance: Tensor) -> dict[int, Tensor]:
        motions = [predictor.encode(stance, clip[frame]).mean for frame in frames]
        made = predictor.decode(predictor.encode_image(target), torch.stack(motions)).cpu()
        return dict(zip(frames, map(snapped, made), strict=True))

    def miss(made: dict[int, Tensor]) -> float:
        distances = []
        for (before, after), code in zip(steps, codes, strict=True):
            following = guide.decode(guide.encode_image(made[before]), code[None])[0].cpu()
            distances.append(distance(snapped(following), made[after]))
        return fmean(distances)

    own = made_from(clip[pose])
    least = miss(own)
    if least <= FOLLOWS * fmean(distance(frame, target) for frame in own.values()):
        return clip[pose]
    misses = [miss(made_from(each)) for each in others]
    best = min(range(len(others)), key=misses.__getitem__)
    return others[best] if misses[best] < CLEARLY * least else clip[pose]


def likely(stances: Sequence[Tensor], target: Tensor) -> list[Tensor]:
    """Stances that differ, the most likely one first: where its silhouette and the target's overlap most."""
    different: list[Tensor] = []
    for stance in stances:
        if all(distance(stance, other) > ALIKE for other in different):
            different.append(stance)
    return sorted(different, key=lambda stance: -_overlap(stance, target))


def _probes(clip: Sequence[Tensor], pose: int) -> list[tuple[int, int]]:
    """Steps between frames that are to be made and differ, spread over the clip."""
    moves = [
        step
        for step in pairwise(range(len(clip)))
        if not any(torch.equal(clip[one], clip[other]) for one, other in (step, *((pose, frame) for frame in step)))
    ]
    places = {round(place) for place in torch.linspace(0, len(moves) - 1, PROBES).tolist()} if moves else ()
    return [moves[place] for place in sorted(places)]


def _overlap(one: Tensor, other: Tensor) -> float:
    """Intersection over union of what is not black."""
    first, second = (frame.amax(0) > 0 for frame in (one, other))
    return float((first & second).sum() / (first | second).sum().clamp(min=1))
