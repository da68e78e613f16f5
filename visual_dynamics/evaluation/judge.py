"""Realism without people: a judge, a small network that learns which of two animations is real.

The judge sees two animations of one input in random order, (frame, real next frame) and (frame, synthetic next frame),
and says which of them is real. It learns from some inputs and answers on others. Fooled on half of them: it finds no
difference. Fooled on none: it always does.

Letters in shape comments: N inputs, B of them in a batch, C channels, H, W height and width in pixels, J judges,
K clusters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visual_dynamics.evaluation.intervals import Interval, cluster_interval, wilson_interval

WIDTHS = (32, 64, 128, 128)  # channels of the layers, each of which halves the size
STEPS = 600
BATCH = 32  # inputs a step, so twice as many animations
LEARNING_RATE = 1e-3  # its peak
WEIGHT_DECAY = 0.05
SHIFT = 1 / 16  # of the side: the farthest that training shifts an input
CHUNK = 256  # inputs that a judge answers on at once
NOISE = 8  # levels of 255: smaller changes are hidden from judges that are to be blind for noise
MIN_SIDE = 2 ** len(WIDTHS)  # pixels


class Judging(NamedTuple):
    """How judges learn from some inputs and answer on the others."""

    folds: int  # of groups of inputs, at most
    judges: int  # for each method and fold
    steps: int


class Judged(NamedTuple):
    """What judges see of N inputs; floats (N, 3, H, W) in [0, 1]."""

    inputs: Tensor
    real: Tensor
    synthetic: Tensor


class Judge(nn.Module):
    """A score for each animation; p(the first of two is real) = sigmoid(score of the first - score of the second)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in zip((6, *WIDTHS[:-1]), WIDTHS, strict=True):
            layers += [nn.Conv2d(before, after, 4, stride=2, padding=1), nn.GroupNorm(8, after), nn.LeakyReLU(0.1)]
        self.features = nn.Sequential(*layers)
        self.score = nn.Linear(2 * WIDTHS[-1], 1)

    def forward(self, frames: Tensor, next_frames: Tensor) -> Tensor:
        """Frames and next frames (B, 3, H, W) in [0, 1] -> scores (B,), higher for more real."""
        seen = torch.cat([next_frames - 0.5, 2 * (next_frames - frames)], 1)  # (B, 6, H, W)
        found = self.features(seen)  # (B, C, H/16, W/16)
        pooled = torch.cat([found.mean((2, 3)), found.amax((2, 3))], 1)  # (B, 2C): on average, and at the worst place
        return self.score(pooled)[:, 0]


def train_judge(
    inputs: Tensor, real: Tensor, synthetic: Tensor, seed: int, steps: int = STEPS, batch: int = BATCH
) -> Judge:
    """A judge that has learned from inputs with both their next frames, floats (N, 3, H, W) in [0, 1] on one device.

    Logistic loss. Each time an input is used, its three frames are mirrored or not and shifted, all alike. The number
    of steps is fixed beforehand: it does not depend on the inputs to answer on. The same seed gives the same judge on
    the same device.
    """
    _check(inputs, real, synthetic)
    if not len(inputs):
        raise ValueError("a judge cannot learn from no inputs")
    chance = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        judge = Judge().to(inputs.device)
    optimiser = torch.optim.AdamW(judge.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    # without `deterministic` the gradients of convolutions on a GPU differ from run to run
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        for chosen in _batches(len(inputs), steps, batch, chance):
            frames, right, wrong = _augment([x[chosen.to(x.device)] for x in (inputs, real, synthetic)], chance)
            scores = judge(frames.repeat(2, 1, 1, 1), torch.cat([right, wrong]))  # (2B,)
            # Either order of the two gives -log sigmoid(score of real - score of synthetic), so none is drawn.
            loss = F.softplus(scores[len(chosen) :] - scores[: len(chosen)]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return judge.eval()


def _batches(count: int, steps: int, batch: int, chance: torch.Generator) -> Iterator[Tensor]:
    """Indices (batch,) for each step: all inputs in random order, then all in another, and so on."""
    rounds = math.ceil(steps * batch / count)
    order = torch.cat([torch.randperm(count, generator=chance) for _ in range(rounds)])
    return iter(order[: steps * batch].split(batch))


def _augment(frames: list[Tensor], chance: torch.Generator) -> list[Tensor]:
    """Each input's frames, several times (B, 3, H, W), mirrored and shifted alike; the border goes on outside."""
    count, _, height, width = frames[0].shape
    rows, columns = (
        (torch.arange(side) + _shifts(count, side, chance)).clamp(0, side - 1) for side in (height, width)
    )  # (B, H), (B, W): where the new pixels come from
    mirrored = torch.rand(count, 1, generator=chance) < 0.5
    columns = torch.where(mirrored, width - 1 - columns, columns)
    places = (rows[:, None, :, None] * width + columns[:, None, None, :]).flatten(2)  # (B, 1, HW)
    places = places.expand(-1, 3, -1).to(frames[0].device)
    return [x.flatten(2).gather(2, places).view_as(x) for x in frames]


def _shifts(count: int, side: int, chance: torch.Generator) -> Tensor:
    most = round(side * SHIFT)
    return torch.randint(-most, most + 1, (count, 1), generator=chance)


@torch.no_grad()
def fooled(judge: Judge, inputs: Tensor, real: Tensor, synthetic: Tensor, seed: int) -> Tensor:
    """The inputs on which the judge takes the synthetic animation for the real one: bool (N,), on the CPU.

    The seed puts one of the two first. That matters only where both score alike, as equal pictures do: the judge then
    names the first one, by chance.
    """
    _check(inputs, real, synthetic)
    parts = [x.split(CHUNK) for x in (inputs, real, synthetic)]
    pairs = [torch.stack([judge(x, right), judge(x, wrong)]) for x, right, wrong in zip(*parts, strict=True)]
    right, wrong = torch.cat(pairs, 1).cpu()  # (N,) each
    if not (right.isfinite() & wrong.isfinite()).all():
        raise FloatingPointError("the judge's scores are not finite: its training diverged")
    real_first = torch.rand(len(inputs), generator=torch.Generator().manual_seed(seed)) < 0.5
    says_first = torch.where(real_first, right >= wrong, wrong >= right)
    return says_first != real_first


def _check(inputs: Tensor, real: Tensor, synthetic: Tensor) -> None:
    shape = tuple(inputs.shape)
    if len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < MIN_SIDE:
        raise ValueError(f"inputs are (N, 3, H, W) of at least {MIN_SIDE} pixels a side, not {shape}")
    if not shape == real.shape == synthetic.shape:
        raise ValueError(f"next frames are {shape} as the inputs, not {tuple(real.shape)}, {tuple(synthetic.shape)}")
    if not all(x.is_floating_point() for x in (inputs, real, synthetic)):
        raise ValueError("frames are floats in [0, 1]")


def in_folds(groups: Sequence[str], folds: int, seed: int) -> Tensor | None:
    """The fold of each input, int64 (N,), so that no group is in two; None where there is one group only.

    The groups, from the one with most inputs to that with fewest, go into the smallest fold each; the seed orders
    equals. There are as many folds as asked for, or as groups where these are fewer.
    """
    counts = Counter(groups)
    if len(counts) < 2:
        return None  # nothing would be left to learn from
    order = torch.randperm(len(counts), generator=torch.Generator().manual_seed(seed)).tolist()
    names = list(counts)
    sizes, fold_of = [0] * min(folds, len(counts)), {}
    for name in sorted((names[place] for place in order), key=lambda name: -counts[name]):  # keeps the order of equals
        fold_of[name] = sizes.index(min(sizes))
        sizes[fold_of[name]] += counts[name]
    return torch.tensor([fold_of[name] for name in groups])


def judge_folds(
    shown: Tensor,
    methods: Sequence[str],
    fold: Tensor,
    judging: Judging,
    seed: int,
    progress: Callable[[float], object],
) -> dict[str, Tensor]:
    """On which inputs each judge of each method is fooled: bool (J, N). It learned from the other folds alone.

    `shown` uint8 (N, 2 + M, 3, S, S): of each input its frame, the true next one, and one of each of M methods.
    `fold` int64 (N,).
    """
    inputs, real, *made = shown.unbind(1)  # (N, 3, S, S) each
    synthetic = dict(zip(methods, made, strict=True))
    answers = {name: torch.zeros(judging.judges, len(shown), dtype=torch.bool) for name in methods}
    folds = int(fold.max()) + 1
    turns = list(product(methods, range(judging.judges), range(folds)))
    for done, (name, row, number) in enumerate(turns, 1):
        answered = fold == number  # bool (N,)
        own = seed * 1000 + folds * row + number  # each judge has a seed of its own: ties are broken independently
        learn, answer = (
            Judged(*(x[part].float() / 255 for x in (inputs, real, synthetic[name]))) for part in (~answered, answered)
        )
        answers[name][row, answered] = fooled(train_judge(*learn, own, judging.steps), *answer, own)
        progress(done / len(turns))
    return answers


def without_noise(shown: Tensor) -> Tensor:
    """Frames whose pixels are the first frame's where they change by less than NOISE levels: uint8 (n, 3, S, S).

    The true next frame has the noise of camera and codec, and most predictions have none. A judge that sees frames
    made alike in this way cannot tell them by that.
    """
    change = (shown.short() - shown[:1].short()).abs().amax(1, keepdim=True)  # (n, 1, S, S)
    return torch.where(change < NOISE, shown[:1], shown)


def judge_rest(
    inputs: Tensor, real: Tensor, synthetic: Tensor, learned: int, count: int, judges: int, steps: int, seed: int
) -> Tensor:
    """The inputs after the first `learned` ones on which each judge is fooled: bool (J, N - learned).

    A judge learns from `count` of the first ones, drawn by a seed of its own that does not depend on the method.
    """
    answers = []
    for row in range(judges):
        own = seed * 100 + row
        order = torch.randperm(learned, generator=torch.Generator().manual_seed(own))[:count].to(inputs.device)
        judge = train_judge(inputs[order], real[order], synthetic[order], own, steps)
        answers.append(fooled(judge, inputs[learned:], real[learned:], synthetic[learned:], own))
    return torch.stack(answers)


@dataclass(frozen=True)
class FooledShare:
    """How often judges were fooled, with intervals that hold the true share in 95 % of the cases."""

    share: float  # in [0, 1], mean over judges and inputs
    interval: Interval  # the one to report: by clusters where they are known, Wilson's elsewhere
    wilson: Interval  # as if every input were independent of the others
    judges: tuple[float, ...]  # the share of each judge


def fooled_share(answers: Tensor, clusters: Tensor | None = None, seed: int = 0) -> FooledShare:
    """The share over J judges and N inputs, from bool (J, N).

    `clusters` (N,): inputs with the same number, such as frames of one character, are not independent. The interval is
    then a bootstrap over clusters. More judges on the same inputs narrow neither interval by their number alone. A
    bootstrap gives no interval where all clusters agree: there Wilson's interval stands.
    """
    if answers.ndim != 2 or not answers.numel() or answers.dtype != torch.bool:
        raise ValueError(f"answers are bool (J, N), not {answers.dtype} {tuple(answers.shape)}")
    values = answers.double().mean(0)  # (N,)
    share = float(values.mean())
    wilson = wilson_interval(share, len(values))
    interval = wilson
    if clusters is not None:
        found = cluster_interval(values, clusters, seed)
        interval = found if found[0] < found[1] else wilson
    return FooledShare(share, interval, wilson, tuple(answers.double().mean(1).tolist()))
