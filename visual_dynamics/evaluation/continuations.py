"""Which frames may follow a frame of a sprite, and how well samples meet them: precision and recall.

Letters in shape comments: n samples, M true frames, S side of a frame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from visual_dynamics.data.packed import STANDING, Clip, PackedCharacter
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels

POSES = ("sit", "emote")  # separate poses: each may follow a standing frame, none follows another one
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class FutureQuestion:
    """A frame, and all that may follow it: places among the frames of a character."""

    character: int
    clip: Clip
    frame: int
    standing: bool
    truths: Mapping[str, Sequence[int]]  # animation -> frames, any of which continues it


class Score(NamedTuple):
    precision: float  # share of the samples that meet a true frame
    met: dict[str, bool]  # animation -> whether a sample meets it

    @property
    def recall(self) -> float:
        """Share of the animations that some sample meets."""
        return sum(self.met.values()) / len(self.met)


def error_limit(characters: Sequence[PackedCharacter]) -> float:
    """A quarter of the median squared difference between neighbouring frames: half of their distance.

    A sample within it is nearer to this true frame than to one at the usual distance. Held frames do not count.
    """
    distances = [
        one.distance(*neighbours)
        for one in characters
        for clip, places in zip(one.clips, one.ranges(), strict=True)
        if clip.animation not in POSES
        for neighbours in pairwise(places)
    ]
    moved = [distance for distance in distances if distance > 0]
    if not moved:
        raise UserError("no animation of these characters moves")
    return float(np.median(moved)) / 4


def standing_questions(
    characters: Sequence[PackedCharacter], limit: float, each: int, seed: int = 0
) -> list[FutureQuestion]:
    """The standing frame of `each` views of every character, drawn at random.

    Any animation of that view may begin: with its first frame that is unlike the standing one.
    """
    asked, random = [], np.random.default_rng([seed, 0])
    for number, one in enumerate(characters):
        begins, standing = one.begins(limit), one.standing()
        clips = dict(zip(one.clips, one.ranges(), strict=True))
        for clip in _drawn([clip for clip in clips if clip.animation == STANDING], each, random):
            still, truths = standing[clip.view], {}
            for other, (_, first) in begins.items():
                if other.view == clip.view:
                    poses = [place for place in clips[other] if one.distance(still, place) > limit]
                    truths[other.animation] = poses if other.animation in POSES else [first]
            if truths:
                asked.append(FutureQuestion(number, clip, still, True, truths))
    return asked


def moving_questions(
    characters: Sequence[PackedCharacter], limit: float, each: int, seed: int = 0
) -> list[FutureQuestion]:
    """`each` frames of every character amid an animation: not its first one, unlike the standing and the next frame.

    What follows a frame of the same view that is no further than the limit may follow, too.
    """
    asked, random = [], np.random.default_rng([seed, 1])
    for number, one in enumerate(characters):
        standing = one.standing()
        clips = {c: places for c, places in zip(one.clips, one.ranges(), strict=True) if c.animation not in POSES}
        amid = [
            (clip, frame)
            for clip, places in clips.items()
            for frame, after in pairwise(places[1:])
            if one.distance(frame, after) > limit
            and (clip.view not in standing or one.distance(standing[clip.view], frame) > limit)
        ]
        for clip, frame in _drawn(amid, each, random):
            truths: dict[str, list[int]] = defaultdict(list)
            for other, places in clips.items():
                for alike, after in pairwise(places):
                    if other.view == clip.view and one.distance(frame, alike) <= limit < one.distance(frame, after):
                        truths[other.animation].append(after)
            asked.append(FutureQuestion(number, clip, frame, False, truths))
    return asked


def _drawn(options: Sequence[Choice], count: int, random: np.random.Generator) -> list[Choice]:
    """At most `count` of the options, in their order."""
    return [options[place] for place in sorted(random.permutation(len(options))[:count])]


def score(samples: Pixels, truths: Mapping[str, Pixels], limit: float) -> Score:
    """Samples (n, S, S, 3) against the true frames (M, S, S, 3) of each animation.

    A sample meets a frame if their squared difference, colours in [0, 1], summed over the frame, is at most the limit.
    """
    met, good = {}, np.zeros(len(samples), np.bool_)
    levels = samples.astype(np.float32)
    for animation, frames in truths.items():
        near = [np.square(levels - frame).sum((1, 2, 3)) <= limit * 255**2 for frame in frames]  # (n,) each
        met[animation] = bool(np.any(near))
        good |= np.any(near, 0)
    return Score(float(good.mean()), met)
