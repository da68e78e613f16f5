"""Who sees what: the balanced sessions of a study. The same seed gives the same plan.

N inputs, T of them in a session, B = N / T blocks of inputs, C conditions (method, size, sample).

1. The inputs, in random order, are cut into blocks of T.
2. Session s shows block s mod B. In turn r = s div B of that block its k-th input has condition (k + r) mod C.
   So a rater sees an input at most once. Within a session the counts of two conditions differ by at most one. So do,
   over all sessions, the counts of two conditions of one input.
3. Conditions run through methods and sizes first and through samples last: the same holds for each (method, size).
4. In a forced choice the real clip changes sides from one trial of a (method, size) to the next, within a session and
   from session to session.
5. Then the trials of a session are shuffled. With m obvious trials, which test the rater, the session has m equal
   parts with one of them each.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal

from visual_dynamics.errors import UserError

Kind = Literal["choice", "realistic"]
REAL = "real"  # the true next frame
TORN = "torn"  # obviously false: the next frame in shuffled tiles
CONTROL = "control"  # in "realistic": obviously true, the next frame of an input of its own
OBVIOUS = (TORN, CONTROL)

MAX_TRIALS = 500  # in a session
MAX_SESSIONS = 1_000
MAX_PLANNED = 100_000  # trials of all sessions: 4 MB of study.json
MAX_OBVIOUS = 50


@dataclass(frozen=True)
class Design:
    """The size of a study. Inputs are numbered from 0; those of obvious trials come last."""

    kind: Kind
    methods: tuple[str, ...]
    sizes: tuple[int, ...]  # pixels
    inputs: int = 40
    trials: int = 40  # in a session, without the obvious ones
    samples: int = 1  # of each input and method
    sessions: int = 24
    obvious: int = 6  # trials in a session that test the rater
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind == "choice" and self.samples != 1:
            raise UserError("a forced choice shows one sample of each input and method")
        for name, values in (("methods", self.methods), ("sizes", self.sizes)):
            if not values or len(set(values)) < len(values):
                raise UserError(f"{name}: give one or more, each of them once")
        limits = {
            "inputs": (1, 10_000),
            "trials": (1, MAX_TRIALS),
            "samples": (1, 1_000),
            "sessions": (1, MAX_SESSIONS),
            "obvious": (0, MAX_OBVIOUS),
        }
        for name, (least, most) in limits.items():
            if not least <= getattr(self, name) <= most:
                raise UserError(f"{name} must be from {least} to {most:,}, not {getattr(self, name):,}")
        if self.trials > self.inputs or self.inputs % self.trials:
            raise UserError(
                f"{self.inputs} inputs do not make sessions of {self.trials} trials: "
                "a session shows each of its inputs once, so the one must be a multiple of the other"
            )
        if self.sessions * (self.trials + self.obvious) > MAX_PLANNED:
            raise UserError(f"sessions have at most {MAX_PLANNED:,} trials together: choose fewer or shorter ones")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"methods": list(self.methods), "sizes": list(self.sizes)}  # as JSON has it

    @property
    def all_inputs(self) -> int:
        """With those of the obvious trials."""
        return self.inputs + self.obvious

    @property
    def obvious_methods(self) -> tuple[str, ...]:
        """One for each obvious trial: beside the real clip (choice), or alone (realistic: half of them real)."""
        torn = self.obvious if self.kind == "choice" else (self.obvious + 1) // 2
        return (TORN,) * torn + (CONTROL,) * (self.obvious - torn)


@dataclass(frozen=True)
class StudyClip:
    """An input's frame, and what a method predicts as the next one."""

    input: int
    method: str
    size: int
    sample: int = 0


Trial = tuple[StudyClip, ...]  # left and right, or a single one
Session = tuple[Trial, ...]


def plan_sessions(design: Design) -> tuple[Session, ...]:
    """The trials of every session, in the order in which they are shown."""
    order = list(range(design.inputs))
    random.Random(f"inputs {design.seed}").shuffle(order)
    blocks = [order[start : start + design.trials] for start in range(0, design.inputs, design.trials)]
    return tuple(
        _shuffled(
            _block_trials(design, blocks[number % len(blocks)], number // len(blocks)),
            _obvious_trials(design, number),
            random.Random(f"session {number} of {design.seed}"),
        )
        for number in range(design.sessions)
    )


def clips_of(sessions: tuple[Session, ...]) -> list[StudyClip]:
    """Every clip of the sessions, once."""
    return list(dict.fromkeys(clip for session in sessions for trial in session for clip in trial))


def _block_trials(design: Design, block: list[int], turn: int) -> list[Trial]:
    """Each input of the block, in its condition of this turn."""
    kinds = list(product(design.methods, design.sizes))
    trials = []
    for place, number in enumerate(block, turn):
        method, size = kinds[place % len(kinds)]
        clip = StudyClip(number, method, size, 0 if method == REAL else place // len(kinds) % design.samples)
        trials.append(_trial(design, clip, real_left=(place // len(kinds) + place % len(kinds)) % 2 == 0))
    return trials


def _obvious_trials(design: Design, session: int) -> list[Trial]:
    """At the largest size, where they are most obvious."""
    return [
        _trial(
            design, StudyClip(design.inputs + place, method, max(design.sizes)), real_left=(place + session) % 2 == 0
        )
        for place, method in enumerate(design.obvious_methods)
    ]


def _trial(design: Design, clip: StudyClip, real_left: bool) -> Trial:
    if design.kind == "realistic":
        return (clip,)
    real = StudyClip(clip.input, REAL, clip.size)
    return (real, clip) if real_left else (clip, real)


def _shuffled(trials: list[Trial], obvious: list[Trial], chance: random.Random) -> Session:
    chance.shuffle(trials)
    chance.shuffle(obvious)
    count = len(trials)
    for place in reversed(range(len(obvious))):  # from the end: earlier places stay the same
        first, last = (count * end // len(obvious) for end in (place, place + 1))
        trials.insert(chance.randint(first, last), obvious[place])
    return tuple(trials)
