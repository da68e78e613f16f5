"""What the KL term buys: ours and the AE baseline, trained alike, for two sizes of z, with many pairs and with few.

Paper      "Movement of 2D Shapes": the AE baseline is the same network without the KL term; its motions are far worse.
Command    visual-dynamics reproduce kl-term [--set runs=FOLDER] [--samples FUTURES]
Cost       some ten minutes on one H200 with the trainings in parallel; on a CPU the trainings take days.
Paper says KL of motions: AE 8.76 / 12.37 / 10.36 / 10.58, ours 1.70 / 2.48 / 1.14 / 2.46
           (circles / squares / triangles / circles-triangles).

Protocol: eight trainings of 2,400 steps of 64 pairs, one seed. Ours has the KL term with a beta of 1; the AE has none,
and its z is the mean. Both with a z of 8 and of 3,200, both with all 20,000 training pairs and with the first 500. The
trainings differ in nothing else. Their files do: those of ours have room for fewer stored codes, see the note below the
tables. A z of 3,200 has a latent scale in both (see sweeps): trials without it, at half the size and under a heavier KL
term, did not finish.

Motions are measured as in the Shapes table, on 500 generated test images, with as many futures as the note says: with z
from the training posteriors in the weights file, and with z from N(0, I). With fewer futures than there the floor is
higher. Errors are squared differences of a frame, summed over pixels and colours. "Another scene": the code of one test
scene moves another one, 200 times; the world draws the true answer. "Own scene": the code moves the scene that it was
read from. Held out: 500 test pairs. In all three z is drawn as in training: ours from the posterior, the AE's is the
mean. Training error: mean of the logged batches in the last tenth of the steps. Intervals are over images or scenes;
the spread over seeds is not measured.

The AE's codes have no fixed scale, so N(0, I) need not fit them: with it the AE can be as far from the truth as
copying. With stored codes each of its futures repeats the motion of one training pair, so it can be near the truth
without having learned a distribution. A prior fitted to the codes is not measured here.

A training lies in FOLDER/NAME, as `visual-dynamics train` makes it. A finished one is only measured, an interrupted one
is resumed, a missing one is made. On a GPU the commands below the table may run side by side before.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from visual_dynamics.api import Model
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.evaluation.codes import carried_errors
from visual_dynamics.evaluation.shapes import Extent
from visual_dynamics.evaluation.trained_shapes import (
    COLUMNS,
    RENDERING,
    drawn_codes,
    four_digits,
    is_autoencoder,
    measure_motion,
    reconstruction_error,
    sampler_of,
)
from visual_dynamics.experiments import shapes as shapes_experiment
from visual_dynamics.reporting.base import Experiment, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import average, listed, number, table, with_interval
from visual_dynamics.reporting.trainings import SMALL, TrainingsOptions, describe, make_trainings
from visual_dynamics.training.config import TrainingConfig

METHODS: dict[str, dict[str, Any]] = {"ours": {}, "ae": {"autoencoder": True}}
SIZES: dict[str, dict[str, Any]] = {"z8": {"latent": 8}, "z3200": {"latent": None, "latent_scale": True}}
SMALL_SIZES: dict[str, dict[str, Any]] = {
    "z8": {"preset": "tiny", "latent": 8},
    "z200": {"preset": "tiny", "latent": 200, "latent_scale": True},
}
FEW, SMALL_FEW = 500, 32  # training pairs
STEPS, BATCH = 2_400, 64
HELD_OUT, SMALL_HELD_OUT = shapes.TEST_PAIRS, 20
CARRIED, SMALL_CARRIED = shapes_experiment.ANALOGIES, 10  # codes
SMALL_IMAGES, SMALL_SAMPLES = 20, 40
FOLDER = "runs/kl-term"  # in the commands that are shown
SOURCES = {"posteriors": "z from stored codes", "prior": "z from N(0, I)"}
ERRORS = {"analogy": "another scene", "reconstruction": "own scene"}
COMPARED = {  # what the sentence below the table counts
    "posteriors": "motions with z from stored codes, as the paper draws it",
    "analogy": "codes carried to another scene",
    "reconstruction": "codes on their own scene",
    "prior": "motions with z from N(0, I)",
}


def plan_runs(seed: int = 0, small: bool = False) -> dict[str, TrainingConfig]:
    """The trainings by name; ours and the AE of a setting follow each other."""
    common = TrainingConfig(steps=STEPS, batch=BATCH, seed=seed)
    common, few = (replace(common, **SMALL), SMALL_FEW) if small else (common, FEW)
    return {
        f"{method}-{size}{mark}": replace(common, **own, **latent, pairs=pairs)
        for mark, pairs in (("", common.pairs), ("-few", few))
        for size, latent in (SMALL_SIZES if small else SIZES).items()
        for method, own in METHODS.items()
    }


def compute(options: TrainingsOptions, device: torch.device, progress: Progress) -> Measured:
    """Make the trainings that are missing, then measure all of them."""
    small, seed = options.small, options.seed
    planned = plan_runs(seed, small)
    trained = make_trainings(planned, options, device, progress)
    samples = options.samples or (SMALL_SAMPLES if small else shapes_experiment.SAMPLES)
    extent = Extent(SMALL_IMAGES if small else shapes_experiment.IMAGES, samples, seed)
    samplers = {(name, z): sampler_of(one.model, z) for name, one in trained.items() for z in ("posteriors", "prior")}
    motions, floor = measure_motion(
        {f"{name}, {SOURCES[z]}": sampler for (name, z), sampler in samplers.items()}, extent, device, progress
    )
    size = next(iter(trained.values())).model.size
    held_out = shapes.shapes_pairs(SMALL_HELD_OUT if small else HELD_OUT, seed, "test", RENDERING, size)
    runs = {}
    for name, (config, model, log) in trained.items():
        runs[name] = describe(f"{FOLDER}/{name}", config, log) | measure_errors(model, held_out, options)
        runs[name] |= {"model": name, "weights": model.weights.digest, "posteriors": len(model.weights.posteriors)}
        runs[name] |= {"autoencoder": is_autoencoder(model), "latent": model.predictor.network.config.latent}
        runs[name] |= {"trained_by": {key: model.weights.training.get(key) for key in ("commit", "device", "torch")}}
        runs[name] |= {"pairs": config.pairs or shapes.TRAIN_PAIRS}
        runs[name] |= {"motion": {z: motions[f"{name}, {words}"] for z, words in SOURCES.items()}}
        progress("errors", len(runs) / len(trained))
    count, each = extent.over(extent.images)
    protocol = {"images": count, "samples": count * each, "held_out": len(held_out)}
    numbers = {"runs": runs, "settings": settings(list(planned)), "floor": floor, "columns": COLUMNS}
    return Measured(numbers | {"paper": shapes_experiment.PAPER, "protocol": protocol})


def settings(names: list[str]) -> list[list[str]]:
    """[ours, AE] of each size of z and number of pairs."""
    return [list(pair) for pair in zip(names[::2], names[1::2], strict=True)]


def measure_errors(model: Model, held_out: Pairs, options: TrainingsOptions) -> dict[str, Any]:
    """Errors of codes on held-out pairs, on their own scene and on another one."""
    count = SMALL_CARRIED if options.small else CARRIED
    drawn = shapes.draw_scenes(2 * count, options.seed + 1, "test")
    sources, targets = drawn.subset(slice(0, count)), drawn.subset(slice(count, 2 * count))
    pairs = shapes.scene_pairs(sources, RENDERING, model.size)
    codes = drawn_codes(model, pairs.batch(torch.arange(count)))
    found = carried_errors(model.predictor, codes, sources, targets, RENDERING)
    return {"held_out_error": four_digits(reconstruction_error(model, held_out)), "carried": found}


def draw(result: dict[str, Any], folder: Path) -> str:
    """Motions and errors of each training; what follows for the paper's claim; the commands."""
    runs = [result["runs"][name] for pair in result["settings"] for name in pair]
    commands = "\n".join(run["command"] for run in result["runs"].values())
    return "\n\n".join(
        [
            "### Trained with and without the KL term",
            claim(result),
            motion_table(runs, result["columns"]),
            error_table(runs),
            notes(result),
            "### The trainings",
            f"```\n{commands}\n```",
        ]
    )


def motion_table(runs: list[dict[str, Any]], columns: list[str]) -> str:
    rows = []
    for run in runs:
        for source, words in SOURCES.items():
            kl, intervals = (run["motion"][source][key] for key in ("kl", "kl_intervals"))
            rows.append([*title(run), words, *(with_interval(kl[c], intervals[c], 3) for c in columns)])
    return table(["z", "training pairs", "", "KL of motions, nats (95 % interval)", *columns], rows)


def error_table(runs: list[dict[str, Any]]) -> str:
    rows = []
    for run in runs:
        carried = run["carried"]
        cells = [with_interval(carried[name], carried["intervals"][name], 2) for name in ERRORS]
        rows.append([*title(run), *cells, number(run["held_out_error"], 2), number(run["training_error"], 2)])
    return table(
        ["z", "training pairs", "squared error (95 % interval)", *ERRORS.values(), "held out", "training"], rows
    )


def title(run: dict[str, Any]) -> list[str]:
    return [f"{run['latent']:,}", f"{run['pairs']:,}", "AE" if run["autoencoder"] else "ours"]


def notes(result: dict[str, Any]) -> str:
    """The counts behind the numbers."""
    protocol, first = result["protocol"], next(iter(result["runs"].values()))
    floor = listed([result["floor"][column] for column in result["columns"]], 3)
    counts = [[f"{result['runs'][name]['posteriors']:,}" for name in pair] for pair in result["settings"]]
    ours, theirs = (" / ".join(each) for each in zip(*counts, strict=True))
    return (
        f"Motion: {protocol['samples']:,} futures of {protocol['images']:,} images; floor (truth against truth) "
        f"{floor}. Stored codes in the files: ours {ours}, AE {theirs}. Carried codes: with no motion at all "
        f"{number(first['carried']['copy'], 1)}. Held out: {protocol['held_out']:,} pairs. One training of "
        f"{first['steps']:,} steps for each row: intervals are over "
        "images or scenes, not over trainings."
    )


def claim(result: dict[str, Any]) -> str:
    """What the KL term makes better and worse: a number counts where the intervals of ours and the AE lie apart."""
    said = []
    for name, words in COMPARED.items():
        pairs = [pair for setting in result["settings"] for pair in comparisons(result, setting, name)]
        better, worse = (sum(lies_below(*pair[::step]) for pair in pairs) for step in (1, -1))
        said.append(f"{words}: of {len(pairs)} numbers {better} better, {worse} worse")
    return (
        "The paper's claim is that the KL term makes sampled motions better. A number counts as better or worse where "
        "the intervals with and without the term do not overlap; where they do, there may still be a difference. With "
        f"the KL term, {'; '.join(said)}."
    )


Value = tuple[float | None, list[float] | None]  # a number and its interval; None: nothing could be measured


def comparisons(result: dict[str, Any], setting: list[str], name: str) -> list[tuple[Value, Value]]:
    """(ours, AE) of every number of one kind in one setting."""
    ours, theirs = (result["runs"][run] for run in setting)
    if name in SOURCES:
        one, other = (run["motion"][name] for run in (ours, theirs))
        return [
            ((one["kl"][c], one["kl_intervals"][c]), (other["kl"][c], other["kl_intervals"][c]))
            for c in result["columns"]
        ]
    one, other = (run["carried"] for run in (ours, theirs))
    return [((one[name], one["intervals"][name]), (other[name], other["intervals"][name]))]


def lies_below(one: Value, other: Value) -> bool:
    """A number without objects to measure lies above every other."""
    if one[0] is None or one[1] is None:
        return False
    return other[1] is None or one[1][1] < other[1][0]


def headline(result: dict[str, Any]) -> Headline:
    """Divergences of motions, mean of the four columns, of each setting."""

    def means(place: int, source: str) -> str:
        found = [result["runs"][pair[place]]["motion"][source]["kl"] for pair in result["settings"]]
        return " / ".join(number(average(kl.values()), 3) for kl in found)

    runs = [result["runs"][pair[0]] for pair in result["settings"]]
    measure = "; ".join(f"z of {run['latent']:,}, {run['pairs']:,} pairs" for run in runs)
    ours, theirs = (
        ", ".join(f"{means(place, source)} ({words})" for source, words in SOURCES.items()) for place in (0, 1)
    )
    means_of_paper = ", ".join(f"{name} {fmean(result['paper'][name]):.1f}" for name in ("ours", "AE"))
    paper = f"{means_of_paper} (by optical flow: does not compare)"
    return Headline(f"KL of motions, nats, mean of four columns: {measure}", paper, ours, f"{theirs}: without KL term")


EXPERIMENT = Experiment(
    "kl-term",
    "what the KL term buys: ours and the AE trained alike, a small and a large z, many and few pairs",
    __doc__,
    TrainingsOptions,
    compute,
    draw,
    headline,
    frame_size=None,
)
