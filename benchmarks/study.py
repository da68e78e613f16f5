"""Studies by simulated raters: whether intervals hold the truth, and whether `study plan` tells the power.

`python benchmarks/study.py --out out/study.json`: 200 studies for each number of raters, scored as people's answers
are, and 2,000 for each power. Raters and inputs differ: a clip is taken for real with log-odds of its method and size,
plus a normal number of the rater and one of the input, drawn anew for each method and size. The truth is the share over
all raters and inputs; how much shares differ between raters and between inputs is given as standard deviations.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.provenance import commit
from visual_dynamics.study.answers import Row
from visual_dynamics.study.design import OBVIOUS, Design, plan_sessions
from visual_dynamics.study.folder import Study, name_clips
from visual_dynamics.study.power import Comparison
from visual_dynamics.study.score import difference_interval, score

RATES = {("ours", 32): 0.42, ("ours", 64): 0.36, ("flow", 32): 0.30, ("flow", 64): 0.2}  # near the paper's
RATERS = (5, 8, 10, 20, 40)
DEVIATIONS = {"nothing": (0.0, 0.0), "raters": (0.12, 0.0), "inputs": (0.0, 0.12), "both": (0.12, 0.12)}  # of shares
COMPARISONS = (
    Comparison(effect=0.1, raters=10, trials=40, inputs=40),
    Comparison(effect=0.1, raters=20, trials=40, inputs=200),
    Comparison(effect=0.1, raters=40, trials=40, inputs=80),
    Comparison(effect=0.05, raters=200, trials=40, inputs=200),
    Comparison(effect=0.1, share=0.5, raters=40, trials=20, inputs=100, methods=3, sizes=2),
    Comparison(effect=0.08, raters=60, trials=20, inputs=60, rater_deviation=0.0, input_deviation=0.0),
    Comparison(effect=0.15, raters=12, trials=50, inputs=50, rater_deviation=0.15, input_deviation=0.05),
    Comparison(effect=0.15, share=0.3, raters=30, trials=10, inputs=30, rater_deviation=0.05, input_deviation=0.15),
)

Kind = tuple[str, int]
Floats = NDArray[np.float64]


def logistic(odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-odds))


def log_odds(share: float, rater_deviation: float, input_deviation: float) -> tuple[float, float, float]:
    """Centre and standard deviations of log-odds whose share, over all raters and inputs, is `share`, and whose shares
    differ so much between raters and between inputs."""
    places, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    centre, spreads = math.log(share / (1 - share)), [rater_deviation, input_deviation]
    for _ in range(60):
        shares = logistic(centre + spreads[0] * places[:, None] + spreads[1] * places)  # (raters, inputs)
        mean = float(weights @ shares @ weights)
        for way, (of_one, target) in enumerate(
            ((shares @ weights, rater_deviation), (weights @ shares, input_deviation))
        ):
            if target:
                spreads[way] *= target / math.sqrt(float(weights @ (of_one - mean) ** 2))
        centre += (share - mean) / (share * (1 - share))
    return centre, spreads[0], spreads[1]


@dataclass(frozen=True)
class Crowd:
    """Everything that raters are asked, and how they answer; one rater a session."""

    study: Study
    rates: Mapping[Kind, float]
    rater_deviation: float  # of a share, the same for all kinds
    input_deviation: float

    def rows(self, seed: int, careless: int = 0) -> list[Row]:
        """Answers as `score` takes them. The first `careless` raters toss a coin; the others know what is obvious."""
        draw, rows, study = np.random.default_rng(seed), [], self.study
        inputs = 1 + max(clip.input for clip in study.clips.values())
        chances = {}
        for kind, rate in self.rates.items():
            centre, of_raters, of_inputs = log_odds(rate, self.rater_deviation, self.input_deviation)
            own = draw.normal(centre, of_raters, (len(study.sessions), 1))
            chances[kind] = logistic(own + draw.normal(0, of_inputs, inputs))  # (raters, inputs)
        for number, session in enumerate(study.sessions):
            for trial in range(len(session)):
                clip, right = study.trial_clip(number, trial), study.right_answer(number, trial)
                chance = 0.0 if clip.method in OBVIOUS else chances[clip.method, clip.size][number, clip.input]
                convinced = draw.random() < (0.5 if number < careless else chance)
                yes, no = ("yes", "no") if right is None else (_other(study, right), right)
                about = (clip.input, clip.method, clip.size, clip.sample)
                rows.append(Row(number + 1, number, trial, *about, yes if convinced else no, right, 1000))
        return rows


def _other(study: Study, answer: str) -> str:
    first, second = study.choices
    return second if answer == first else first


def planned(design: Design) -> Study:
    return name_clips(design, plan_sessions(design), {"design": {"methods": list(design.methods)}})


def coverage(
    raters: int, deviations: tuple[float, float], studies: int, inputs: int = 40, trials: int = 40
) -> dict[str, float | int]:
    """Shares of the intervals that hold the truth."""
    methods, sizes = (tuple(dict.fromkeys(values)) for values in zip(*RATES, strict=True))
    crowd = Crowd(planned(Design("choice", methods, sizes, inputs, trials, sessions=raters)), RATES, *deviations)
    held: dict[str, list[bool]] = {"interval": [], "wilson": [], "difference": []}
    widths, missing = [], 0
    for seed in range(studies):
        result = score(crowd.study, crowd.rows(seed))
        for row in result["rows"]:
            truth = RATES[row["method"], row["size"]]
            held["wilson"].append(row["wilson"][0] <= truth <= row["wilson"][1])
            if row["interval"] is None:  # all answers agree: only Wilson's interval is given
                missing += 1
                continue
            held["interval"].append(row["interval"][0] <= truth <= row["interval"][1])
            widths.append(row["interval"][1] - row["interval"][0])
        for row in result["differences"]:
            one, other = (RATES[method, row["size"]] for method in row["methods"])
            held["difference"].append(row["interval"][0] <= one - other <= row["interval"][1])
    found = {name: float(np.mean(values)) for name, values in held.items()}
    return found | {"mean_width": float(np.mean(widths)), "missing": missing, "studies": studies}


def simulated_power(study: Comparison, studies: int, seed: int = 0) -> float:
    """How often the interval of the difference leaves 0 out."""
    names = tuple(f"method {number}" for number in range(study.methods))
    sizes = tuple(16 * (number + 1) for number in range(study.sizes))
    design = Design("choice", names, sizes, study.inputs, study.trials, sessions=study.raters, obvious=0)
    shown = [
        (number, clip.input, names.index(clip.method))
        for number, session in enumerate(plan_sessions(design))
        for clip in (next(clip for clip in trial if clip.method in names) for trial in session)
        if clip.size == sizes[0] and clip.method in names[:2]
    ]
    raters, inputs, methods = np.array(shown).T  # (N,) each
    shares = np.array([study.share, study.share - study.effect])
    known = [log_odds(share, study.rater_deviation, study.input_deviation) for share in shares]
    centres, of_raters, of_inputs = np.array(known).T  # (methods,) each
    draw, found = np.random.default_rng(seed), 0
    counts = np.bincount(methods)
    for _ in range(studies):
        by_rater = draw.normal(centres, of_raters, (study.raters, 2))
        by_input = draw.normal(0, of_inputs, (study.inputs, 2))
        odds = by_rater[raters, methods] + by_input[inputs, methods]
        taken = (draw.random(len(odds)) < logistic(odds)).astype(float)
        means = np.bincount(methods, taken) / counts
        parts = (taken - means[methods]) / counts[methods] * np.where(methods == 0, 1, -1)
        interval = difference_interval(parts, raters, inputs, float(means[0] - means[1]))
        found += interval is not None and not interval[0] <= 0 <= interval[1]
    return found / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/study.json"))
    parser.add_argument("--studies", type=int, default=200, help="for each number of raters")
    parser.add_argument("--power-studies", type=int, default=2_000, help="for each power")
    given = parser.parse_args()
    result: dict[str, Any] = {"coverage": [], "power": []}
    for name, deviations in DEVIATIONS.items():
        for raters in RATERS:
            row = {"differ": name, "raters": raters} | coverage(raters, deviations, given.studies)
            result["coverage"].append(row)
            print(row, flush=True)
    for study in COMPARISONS:
        simulated = simulated_power(study, given.power_studies)
        row = vars(study) | {"power": study.power, "simulated": simulated, "studies": given.power_studies}
        result["power"].append(row)
        print(f"power {study.power:.3f}, simulated {simulated:.3f}: {study}", flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": datetime.now(UTC).date().isoformat(), "commit": commit(), "python": platform.python_version()}
    given.out.write_text(json.dumps(about | result, indent=1) + "\n")


if __name__ == "__main__":
    main()
