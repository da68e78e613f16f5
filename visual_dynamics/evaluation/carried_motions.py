"""Questions of motions carried over between composed characters, each at a place of its own in its cell.

Letters in shape comments: N questions, B of them, S side of a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.data.packed import Bytes, Clip, PackedCharacter
from visual_dynamics.data.reed import Numbers
from visual_dynamics.errors import UserError


class Move(NamedTuple):
    """Two frames of a clip, by their numbers in it; (dy, dx) of the source and of the target."""

    clip: Clip
    first: int
    second: int
    shifts: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class CarriedMotions:
    """N questions of one animation: the source makes a move; what is the second frame of the target?"""

    source: Numbers  # (N,) places of characters
    target: Numbers  # (N,) places of others
    moves: tuple[Move, ...]

    def __len__(self) -> int:
        return len(self.moves)

    def frames(self, characters: Sequence[PackedCharacter], rows: Sequence[int]) -> list[Tensor]:
        """Before, after, target and its true second frame of some questions, over black: four times (B, 3, S, S)."""
        found: list[list[Bytes]] = [[], [], [], []]
        for row in rows:
            move = self.moves[row]
            for role, who in enumerate((self.source[row], self.target[row])):
                one = characters[who]
                places = one.ranges()[one.clips.index(move.clip)]
                for later, number in enumerate((move.first, move.second)):
                    picture = one.over_black([places[number]])[0]
                    found[2 * role + later].append(np.roll(picture, move.shifts[role], (0, 1)))
        return [torch.from_numpy(np.stack(some)).movedim(3, 1).float() / 255 for some in found]


def draw_motions(
    characters: Sequence[PackedCharacter], animation: str, count: int, seed: int, neighbours: bool
) -> CarriedMotions | None:
    """Questions of an animation; None if fewer than two characters have it.

    Targets take turns, in a random order. Sources are drawn from the other characters: within the target's body type
    and across, by turns, where there are such. Views and frames are drawn evenly; places evenly among those at which
    both frames lie within the cell.
    """
    random = np.random.default_rng([seed, neighbours, *animation.encode()])
    clips = [[clip for clip in one.clips if clip.animation == animation and clip.frames > 1] for one in characters]
    able = [place for place, own in enumerate(clips) if own]
    if len(able) < 2:
        return None
    order = random.permutation(able)
    sources, targets, moves = [], [], []
    for row in range(count):
        turn, place = divmod(row, len(order))
        target = int(order[place])
        others = [who for who in able if who != target]
        alike = [who for who in others if same_body(characters, who, target) == ((turn + place) % 2 == 0)]
        source = int(random.choice(alike or others))
        shared = [clip for clip in clips[target] if clip in clips[source]]
        clip = shared[random.integers(len(shared))]
        every = [pair for pair in permutations(range(clip.frames), 2) if pair[1] == pair[0] + 1 or not neighbours]
        first, second = every[random.integers(len(every))]
        shifts = [free_shift(characters[who], clip, (first, second), random) for who in (source, target)]
        sources.append(source)
        targets.append(target)
        moves.append(Move(clip, first, second, (shifts[0], shifts[1])))
    return CarriedMotions(np.array(sources), np.array(targets), tuple(moves))


def same_body(characters: Sequence[PackedCharacter], one: int, other: int) -> bool:
    return bool(characters[one].facts["body"] == characters[other].facts["body"])


def free_shift(
    one: PackedCharacter, clip: Clip, numbers: Sequence[int], random: np.random.Generator
) -> tuple[int, int]:
    """A (dy, dx) by which frames of a clip can be moved without leaving the cell."""
    places = one.ranges()[one.clips.index(clip)]
    seen = (one.colours[one.index[[places[number] for number in numbers]], 3] > 0).any(0)  # (S, S)
    if not seen.any():
        raise UserError(f"character {one.facts.get('number')} is not seen in {clip.animation}, {clip.view}")
    down, right = (np.flatnonzero(seen.any(axis)) for axis in (1, 0))
    side = len(seen)
    return (
        int(random.integers(-down[0], side - down[-1])),
        int(random.integers(-right[0], side - right[-1])),
    )
