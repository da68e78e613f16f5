"""How many raters a study needs to find a difference of two methods: a calculation in closed form.

Two methods are taken for real in shares p and p - effect. A rater judges trials / (methods x sizes) clips of each
method at a size, each of another input; R raters give N answers about I inputs for each. A method's share differs
between raters with standard deviation r, and between inputs with s; both are independent for two methods. Then

    variance of a share = r^2 / R + s^2 / I + (p (1 - p) - r^2 - s^2) / N

and that of the difference is the sum over both methods. The study finds the difference if the interval that `score`
gives it leaves 0 out: power is the chance of that, by the normal approximation of the noncentral t distribution
(Abramowitz and Stegun 26.7.10) with min(R, inputs of both) - 1 degrees of freedom. benchmarks/study.py compares it with
simulated studies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.intervals import student_quantile
from visual_dynamics.study.design import MAX_TRIALS

MAX_RATERS = 5_000  # as a study takes


@dataclass(frozen=True)
class Comparison:
    """Two methods at one size, in a study of several. Shares, effect and deviations are in [0, 1]."""

    effect: float = 0.05
    share: float = 0.4  # of the better method; the paper's are 0.31 to 0.41
    raters: int = 40  # that count
    trials: int = 40  # a rater, without the obvious ones
    inputs: int = 200  # as in the paper
    methods: int = 2
    sizes: int = 1
    rater_deviation: float = 0.1  # of a method's share, between raters
    input_deviation: float = 0.1  # the same between inputs

    def __post_init__(self) -> None:
        if not 0 < self.effect < self.share < 1:
            raise UserError("the effect is above 0 and below the share, and the share below 100")
        if min(self.rater_deviation, self.input_deviation) < 0:
            raise UserError("a standard deviation is 0 or more")
        spread = self.rater_deviation**2 + self.input_deviation**2
        if any(spread > share * (1 - share) for share in (self.share, self.share - self.effect)):
            raise UserError("shares that small cannot vary that much between raters and inputs")
        if self.methods < 2 or self.sizes < 1:
            raise UserError("a comparison needs two methods or more, at one size or more")
        if not self.methods * self.sizes <= self.trials <= min(self.inputs, MAX_TRIALS):
            raise UserError(
                f"a rater judges at least {self.methods * self.sizes} clips (each method at each size) and at most "
                f"{min(self.inputs, MAX_TRIALS)}, each of another input; not {self.trials}"
            )

    @property
    def standard_error(self) -> float:
        answers = self.raters * self.trials / (self.methods * self.sizes)  # of each method, at one size
        inputs = min(self.inputs, answers)
        variance = 0.0
        for share in (self.share, self.share - self.effect):
            between = self.rater_deviation**2, self.input_deviation**2
            variance += between[0] / self.raters + between[1] / inputs + (share * (1 - share) - sum(between)) / answers
        return math.sqrt(variance)

    @property
    def power(self) -> float:
        """The chance that the interval of the difference leaves 0 out."""
        answers = self.raters * self.trials / (self.methods * self.sizes)
        freedom = int(min(self.raters, self.inputs, 2 * answers)) - 1
        if freedom < 2:
            return 0.0
        quantile, shift = student_quantile(freedom), self.effect / self.standard_error
        scale = math.sqrt(1 + quantile**2 / (2 * freedom))
        normal = NormalDist()
        below = normal.cdf((quantile * (1 - 1 / (4 * freedom)) - shift) / scale)
        return 1 - below + normal.cdf((-quantile * (1 - 1 / (4 * freedom)) - shift) / scale)


def raters_needed(study: Comparison, power: float) -> Comparison:
    """The study with the fewest raters that has this power."""
    if study.inputs % study.trials:
        raise UserError(f"{study.inputs} inputs do not make sessions of {study.trials} trials: choose a divisor")
    few, many = 2, MAX_RATERS
    best = replace(study, raters=many)
    if best.power < power:
        raise UserError(
            f"{study.inputs} inputs are too few: with {many:,} raters of {study.trials} trials the power is "
            f"{best.power:.2f}; take more inputs or trials, or look for a larger effect"
        )
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if replace(study, raters=middle).power >= power else (middle, many)
    return replace(study, raters=many)


def trials_needed(study: Comparison, power: float) -> Comparison:
    """The study with the fewest trials a rater that has this power; trials divide the inputs."""
    least = study.methods * study.sizes
    possible = [n for n in range(least, min(study.inputs, MAX_TRIALS) + 1) if study.inputs % n == 0]
    for trials in possible:
        found = replace(study, trials=trials)
        if found.power >= power:
            return found
    longest = max(possible, default=least)
    most = replace(study, trials=longest).power if possible else 0
    raise UserError(
        f"{study.raters} raters and {study.inputs} inputs are too few: with {longest} trials each the power is "
        f"{most:.2f}; take more raters or inputs, or look for a larger effect"
    )
