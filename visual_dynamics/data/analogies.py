"""Visual analogies between sprite characters: as one character moves from pose to pose, so shall another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from visual_dynamics.data.reed import CLIPS, FRAMES, SEX, WEAPON, Characters, Numbers
from visual_dynamics.errors import UserError


@dataclass(frozen=True)
class Analogies:
    """N questions: source goes from frame `first` to `second`; where does target go from its own frame `first`?"""

    source: Numbers  # (N,) places of characters
    target: Numbers  # (N,) places of other characters
    first: Numbers  # (N,) frames, 0 to 177
    second: Numbers  # (N,) frames of the same clip

    def __len__(self) -> int:
        return len(self.source)

    def within_one_sex(self, characters: Characters) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(N,): whether source and target are of one sex. The two are drawn differently, and pose differently."""
        sexes = characters.attributes[:, SEX]
        return sexes[self.source] == sexes[self.target]


def draw_analogies(
    characters: Characters, animation: str, count: int, seed: int, neighbours: bool = True, same_weapon: bool = True
) -> Analogies:
    """Questions of one animation, drawn evenly from all ordered pairs of different characters and all pairs of frames.

    `neighbours`: from a frame to the next one; otherwise between any two frames of a clip. `same_weapon`: only between
    characters that carry the same one. Where an animation shows the weapon there is no right answer otherwise.
    """
    weapons = characters.attributes[:, WEAPON]
    allowed = ~np.eye(len(characters), dtype=bool)
    if same_weapon:
        allowed &= weapons[:, None] == weapons[None, :]
    couples = np.argwhere(allowed)
    if not len(couples):
        raise UserError("analogies need two characters with the same weapon")
    clips = [clip for clip in CLIPS if clip.animation == animation]
    pairs = [pair for clip in clips for pair in permutations(range(FRAMES)[clip.frames], 2)]
    moves = np.array([(first, second) for first, second in pairs if second == first + 1 or not neighbours])
    random = np.random.default_rng(np.random.SeedSequence([seed, len(characters), CLIPS.index(clips[0])]))
    source, target = couples[random.integers(len(couples), size=count)].T
    first, second = moves[random.integers(len(moves), size=count)].T
    return Analogies(source, target, first, second)
