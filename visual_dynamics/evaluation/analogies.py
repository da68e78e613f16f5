"""Questions of visual analogies between sprite characters, their error, and its interval.

Letters in shape comments: N questions, B of them, A animations, K families of characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.data import reed as sprites
from visual_dynamics.data.reed import Characters, Numbers
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.intervals import Interval, bootstrap_interval

SIZE = 64  # pixels a side of the frames: a sprite stands in the middle of a black square
MARGIN = (SIZE - sprites.SIDE) // 2
INSIDE = slice(MARGIN, MARGIN + sprites.SIDE)


@dataclass(frozen=True)
class Questions:
    """N questions: source goes from frame `first` to `second`; where does target go from its own frame `first`?"""

    source: Numbers  # (N,) places of characters
    target: Numbers  # (N,) places of other characters
    first: Numbers  # (N,) frames, 0 to 177
    second: Numbers  # (N,) frames of the same clip

    def __len__(self) -> int:
        return len(self.source)

    def within_one_sex(self, characters: Characters) -> NDArray[np.bool_]:
        """(N,): whether source and target are of one sex; the two sexes are drawn, and pose, differently."""
        sexes = characters.attributes[:, sprites.SEX]
        return sexes[self.source] == sexes[self.target]

    def frames(self, characters: Characters, rows: Tensor) -> list[Tensor]:
        """Before, after, target and its true next frame of some questions: four times (B, 3, 64, 64)."""
        found = []
        for who in (self.source, self.target):
            for frame in (self.first, self.second):
                drawn = [characters.rgb(int(who[row]), [int(frame[row])]) for row in rows.tolist()]
                frames = torch.zeros(len(drawn), 3, SIZE, SIZE)
                frames[:, :, INSIDE, INSIDE] = torch.cat(drawn).float() / 255
                found.append(frames)
        return found


def draw_questions(
    characters: Characters, animation: str, count: int, seed: int, neighbours: bool = True, same_weapon: bool = True
) -> Questions:
    """Questions of one animation, drawn evenly from all ordered pairs of different characters and all pairs of frames.

    The characters of a question depend on the seed, but not on `neighbours`.
    """
    weapons = characters.attributes[:, sprites.WEAPON]
    allowed = ~np.eye(len(characters), dtype=bool)
    if same_weapon:
        allowed &= weapons[:, None] == weapons[None, :]
    pairs = np.argwhere(allowed)
    if not len(pairs):
        raise UserError("analogies need two characters with the same weapon")
    clips = [clip for clip in sprites.CLIPS if clip.animation == animation]
    every = [move for clip in clips for move in permutations(range(sprites.FRAMES)[clip.frames], 2)]
    moves = np.array([(first, second) for first, second in every if second == first + 1 or not neighbours])
    random = np.random.default_rng(np.random.SeedSequence([seed, len(characters), sprites.CLIPS.index(clips[0])]))
    source, target = pairs[random.integers(len(pairs), size=count)].T
    first, second = moves[random.integers(len(moves), size=count)].T
    return Questions(source, target, first, second)


def squared_error(predicted: Tensor, truth: Tensor) -> Tensor:
    """(B,): summed over the 60x60 pixels of the sprite; colours are cut to [0, 1] as a file would."""
    return (predicted.clamp(0, 1) - truth)[:, :, INSIDE, INSIDE].square().flatten(1).sum(1)


class Asked(Protocol):
    """Questions of any kind."""

    @property
    def source(self) -> Numbers: ...  # (N,) places of characters
    @property
    def target(self) -> Numbers: ...


def by_families(
    errors: Sequence[Tensor], asked: Sequence[Asked], chosen: Sequence[NDArray[np.bool_]], families: Numbers
) -> NDArray[np.float64]:
    """Sums of errors and numbers of questions, by animation, family of the source and of the target: (2, A, K, K)."""
    totals = np.zeros((2, len(asked), *[int(families.max()) + 1] * 2))
    for place, (values, questions, which) in enumerate(zip(errors, asked, chosen, strict=True)):
        both = families[questions.source[which]], families[questions.target[which]]
        np.add.at(totals[0, place], both, values.double().numpy()[which])
        np.add.at(totals[1, place], both, 1)
    return totals


def average_interval(totals: NDArray[np.float64], copies: NDArray[np.float64] | None = None) -> Interval:
    """Interval of the average of the animations, from (2, A, K, K): K families are drawn again, for both roles.

    With `copies`, totals of another error of the same questions: of the ratio of the two averages.
    """
    if not totals[1].sum((1, 2)).all():  # an animation without a question
        return float("nan"), float("nan")

    def drawn_again(drawn: Numbers) -> float:
        times = np.bincount(drawn, minlength=totals.shape[-1])
        found = _average(totals, times)
        return found if copies is None else found / _average(copies, times)

    return bootstrap_interval(drawn_again, totals.shape[-1])


def _average(totals: NDArray[np.float64], times: NDArray[np.int64]) -> float:
    """Of (2, A, K, K), with each family K counted so many times; nan if an animation is left without a question."""
    within = totals.diagonal(axis1=2, axis2=3)  # (2, A, K)
    between = totals - within[..., None] * np.eye(totals.shape[-1])
    errors, questions = between @ times @ times + within @ times  # (A,) each
    with np.errstate(invalid="ignore"):
        return float((errors / questions).mean())
