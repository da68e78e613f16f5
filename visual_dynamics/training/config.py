"""Every option of a training run, resolved before it starts, printed, and saved beside its results."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from visual_dynamics.data.pairs import BETWEEN
from visual_dynamics.errors import UserError
from visual_dynamics.model.presets import PRESETS, NetworkConfig

SPRITE_SPLITS = ("reed", "paper")
RENDERINGS = ("integer", "smooth")
BOTTLENECK_GROWS = (0.3, 0.6)  # shares of the budget


@dataclass(frozen=True)
class TrainingConfig:
    """A run. Two runs with equal configurations, on equal hardware, are equal."""

    data: str = (
        "shapes"  # or "shapes-texture", "figures", prepared footage, N_im1 / N_im2 pairs, Reed's sprites, sprite sheets
    )
    stream: bool = False  # leave prepared footage in its files even if it would fit into memory
    also: str | None = None  # more data of any of these kinds, whose training pairs are mixed in ...
    also_pairs: int | None = None  # ... the first so many of them
    rendering: str = "integer"  # of the generated shapes: whole pixels at 128 as in the authors' files, or true places
    sheets: str | None = None  # data are sprite sheets: the size of their cells ("64x64"), "aseprite" or "frames"
    split: str = "reed"  # of sprites: which characters to train on, Reed's 500 or the paper's 652
    between: str = "neighbours"  # of sprites: which two frames of an animation make a pair (data.pair.clip_moves)
    preset: str = "paper"
    start: str | None = None  # a model to start from (name, path or Hub id) in place of random weights ...
    start_digest: str | None = None  # ... and the SHA-256 of its file, filled in when it is read
    pairs: int | None = None  # the first so many training pairs; without it all of a folder, 20,000 of the shapes
    recolour: bool = False  # the motion encoder sees each pair in one random order of its colours, the rest in another
    light: bool = False  # each pair is seen in a light of its own: other hues, contrasts and brightness
    mirror: bool = False  # half of the pairs, at random, are mirrored left to right
    reverse: bool = False  # half of them run backwards
    zoom: float = 1.0  # half of them are enlarged, up to so many times, around any place
    shift: int = 0  # pixels by which whole pairs are displaced at random: what moves may stand anywhere
    jitter: int = 0  # pixels by which the motion encoder sees each frame of a pair displaced, each at random
    batch: int = 128  # pairs a step, over all processes together
    steps: int | None = 6_000  # the budget in steps ...
    minutes: float | None = None  # ... or in minutes after the first step; the schedule ends with the budget
    learning_rate: float = 1e-3  # of Muon: reached after `warmup` steps, then falling along a cosine ...
    final_learning_rate: float = 0.02  # ... to this fraction
    warmup: int = 50
    weight_decay: float = 0.01
    sigma: float = 0.1  # deviation of p(v | z, I); lambda = 1 / (2 sigma^2)
    kl_warmup: int = 500  # steps over which the weight of the KL term grows from 0 to 1
    bottleneck: float = 1.0  # weight of the KL term at the end; it grows to it between 30 % and 60 % of the budget
    autoencoder: bool = False  # the paper's AE baseline: no KL term, z is not sampled
    seed: int = 0
    log_every: int = 50
    checkpoint_every: int = 1_000
    posteriors: int = 20_000  # training pairs whose posteriors go into the final weights, as far as there is room

    def __post_init__(self) -> None:
        positive = ("batch", "learning_rate", "sigma", "bottleneck", "log_every", "checkpoint_every", "posteriors")
        for name in positive:
            if not getattr(self, name) > 0 or not math.isfinite(getattr(self, name)):
                raise UserError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("pairs", "also_pairs"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"{name} must be positive, not {getattr(self, name)}")
        if self.also_pairs and not self.also:
            raise UserError("also_pairs says how many pairs of other data: give these with also")
        if self.rendering not in RENDERINGS:
            raise UserError(f"rendering is {' or '.join(RENDERINGS)}, not {self.rendering}")
        if self.split not in SPRITE_SPLITS or self.between not in BETWEEN:
            choices = f"split is {' or '.join(SPRITE_SPLITS)}, between is {' or '.join(BETWEEN)}"
            raise UserError(f"{choices}, not {self.split} and {self.between}")
        if self.preset not in PRESETS:
            raise UserError(f"unknown preset {self.preset!r}; there are {', '.join(PRESETS)}")
        if (self.steps is None) == (self.minutes is None):
            raise UserError("give a budget: either steps or minutes")
        budget = self.minutes if self.steps is None else self.steps
        if budget is None or not 0 < budget < math.inf:
            raise UserError(f"the budget must be positive, not {budget}")
        if min(self.kl_warmup, self.warmup, self.seed, self.shift, self.jitter) < 0:
            raise UserError("kl_warmup, warmup, seed, shift and jitter are whole numbers from 0 up")
        if not 1 <= self.zoom <= 8:
            raise UserError(f"zoom is from 1 to 8, not {self.zoom}")

    @property
    def network(self) -> NetworkConfig:
        return PRESETS[self.preset]

    @property
    def stored_size(self) -> int:
        """Side of the frames that are held for training: what is zoomed into should not be blurred."""
        return round(self.network.size * self.zoom)

    def progress(self, step: int, seconds: float) -> float:
        """Share of the budget that is spent, 0 to 1."""
        spent = step / self.steps if self.steps else seconds / (60 * (self.minutes or math.inf))
        return min(1.0, spent)

    def learning_rate_at(self, step: int, progress: float) -> float:
        """A line up to the full rate in the first steps; a cosine from there to the final fraction of it."""
        low = self.final_learning_rate
        rate = self.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress)))
        return rate * min(1.0, (step + 1) / self.warmup) if self.warmup else rate

    def kl_weight_at(self, step: int, progress: float) -> float:
        """A line from 0 to 1 in the first steps; later, along a geometric row, to the bottleneck."""
        if self.autoencoder:
            return 0.0
        phased_in = min(1.0, (step + 1) / self.kl_warmup) if self.kl_warmup else 1.0
        begin, end = BOTTLENECK_GROWS
        return phased_in * self.bottleneck ** min(1.0, max(0.0, (progress - begin) / (end - begin)))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
