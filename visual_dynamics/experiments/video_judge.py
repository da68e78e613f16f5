"""The judge of the video experiment: how often a small network takes a future of real footage for its true next frame.

Judges learn from the inputs of one half of the scenes and are asked about the other half, then the other way round: all
inputs are asked about once, by judges that never saw their scene.

Letters in shape comments: N inputs, M methods, S pixels a side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visual_dynamics.data.pairs import resize_frames
from visual_dynamics.data.shards import Take
from visual_dynamics.evaluation import realism
from visual_dynamics.reporting.base import Progress as Tell

SIZE = 32  # pixels a side that judges see at most; frames of smaller models stay as they are
JUDGES, SMALL_JUDGES = 2, 1  # for each half and method
# As on sprites. At 32x32 with 200 training inputs a judge takes 24 s on one CPU core, some 18 s on two, so that the
# eight of two methods take a little over three minutes, or two and a half.
STEPS, SMALL_STEPS = realism.STEPS, 20


@dataclass(frozen=True)
class Seen:
    """What judges see of the inputs: gathered while these are measured, so that no future is made twice."""

    methods: tuple[str, ...]
    takes: list[Take] = field(default_factory=list)
    shown: list[Tensor] = field(default_factory=list)  # of each input uint8 (2 + M, 3, S, S)

    def add(self, take: Take, frame: Tensor, truth: Tensor, made: dict[str, Tensor]) -> None:
        """A frame and the true next one, floats (3, H, H), and futures of each method, (n, 3, H, H): the first stays.

        All become 8-bit colours first, as they would in a file, and are then made smaller by averaging.
        """
        frames = torch.stack([frame, truth, *(made[name][0] for name in self.methods)])
        pixels = (frames.clamp(0, 1) * 255).round().to(torch.uint8).cpu()
        self.takes.append(take)
        self.shown.append(resize_frames(pixels, min(SIZE, pixels.shape[-1])))


class Halves(NamedTuple):
    second: Tensor  # bool (N,): whether an input is of the second half
    split: str  # what is never in both halves: "scene" or "take"


def judged(seen: Seen, small: bool, seed: int, device: torch.device, tell: Tell) -> dict[str, Any] | None:
    """For each method how often its judges were fooled, in [0, 1]; None where all inputs are of one take."""
    halves = in_halves(seen.takes, seed)
    if halves is None:
        return None
    judges, steps = (SMALL_JUDGES, SMALL_STEPS) if small else (JUDGES, STEPS)
    frames, real, *made = torch.stack(seen.shown, 1).to(device).float() / 255  # (N, 3, S, S) each
    synthetic = dict(zip(seen.methods, made, strict=True))
    answers = ask_judges(frames, real, synthetic, halves.second, judges, steps, seed, tell)
    names = {take.name: number for number, take in enumerate(seen.takes)}
    clusters = torch.tensor([names[take.name] for take in seen.takes])  # (N,): frames of one take are much alike
    second = int(halves.second.sum())
    return {
        "rows": {name: asdict(realism.fooled_share(given, clusters, seed)) for name, given in answers.items()},
        "inputs": len(frames),
        "halves": [len(frames) - second, second],
        "split": halves.split,
        "takes": len(names),
        "judges": judges,
        "steps": steps,
        "size": frames.shape[-1],
    }


def in_halves(takes: Sequence[Take], seed: int) -> Halves | None:
    """Which half the inputs of these takes are in: whole scenes, or whole takes of a single scene.

    From the scene with the most inputs to that with the fewest they go into the halves in turn; the seed orders those
    with as many.
    """
    several = len({take.scene for take in takes}) > 1
    own = [take.scene if several else take.name for take in takes]
    counts = Counter(own)
    if len(counts) < 2:
        return None
    order = torch.randperm(len(counts), generator=torch.Generator().manual_seed(seed)).tolist()
    names = list(counts)
    ranked = sorted((names[place] for place in order), key=lambda name: -counts[name])  # keeps the order of equals
    second = set(ranked[1::2])
    return Halves(torch.tensor([name in second for name in own]), "scene" if several else "take")


def ask_judges(
    frames: Tensor,
    real: Tensor,
    synthetic: dict[str, Tensor],
    second: Tensor,
    judges: int,
    steps: int,
    seed: int,
    tell: Tell,
) -> dict[str, Tensor]:
    """Which judge of a method is fooled on which input: bool (judges, N). A row is of two judges, one for each half."""
    answers = {name: torch.zeros(judges, len(frames), dtype=torch.bool) for name in synthetic}
    turns = list(product(synthetic, range(judges), (False, True)))
    for done, (name, number, half) in enumerate(turns, 1):
        asked = second == half  # (N,)
        learn, ask, made = (~asked).to(frames.device), asked.to(frames.device), synthetic[name]
        own = seed * 100 + 2 * number + half  # another for each half: no toss-up of one is that of the other
        judge = realism.train_judge(frames[learn], real[learn], made[learn], own, steps)
        answers[name][number, asked] = realism.fooled(judge, frames[ask], real[ask], made[ask], own)
        tell("judges", done / len(turns))
    return answers
