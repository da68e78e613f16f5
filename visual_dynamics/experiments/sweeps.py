"""Two sweeps over trainings on Shapes: the weight of the KL term, and the size of z.

Paper      the figure of z for several weights of the KL term; "Varying the Size of the Latent Representation".
Command    visual-dynamics reproduce sweeps [--set runs=FOLDER] [--samples FUTURES]
Cost       some ten minutes on one H200 with the trainings in parallel; on a CPU the trainings take days.
Paper says PCA components 3, 3, 3, 5 with a z of 8, 32, 128, 3,200; all sizes converge, a small z more slowly; the
           latent vector becomes sparser when the KL term weighs more.

Protocol: eight trainings of one recipe, which differ in the size of z, beta and latent scale only: four sizes of z with
a beta of 16, 128 twice, and with a z of 3,200 also a beta of 1, 4 and 64. In the loss, KL + squared error / (2 sigma^2)
with sigma 0.1, the KL term weighs 0.02 against the squared error. Between 30 % and 60 % of the steps this weight grows
by the factor beta, to 0.32, and to 0.02, 0.08 and 1.28. The paper's figure varies this weight; its text gives no
values. It grows late, because in trials (not published) under a heavy KL term from the start a z of 3,200 took many
times longer to learn. 3,000 steps of 64 pairs. One seed: in trainings of earlier versions components differed by one or
two.

"Scaled" is a z with a latent scale (latent_scale=true), which the paper has not: fixed weights on its dimensions fall
from 1 to 1/23 for a z of 128, and to 1/250 for one of 3,200. "Even" is the same size without it. An even z of 3,200 is
left out, as it does not finish: the error of a network of half the size stayed at twice that of a z of 8.

Each is measured on test scenes. z: 1,000 pairs, as in the latents experiment. Held-out error: 500 of them, with a z
drawn from their posteriors, as in training. Training error: mean of the logged batches in the last tenth of the steps.
Motion: 500 images, and as many futures in all as the note below the tables says, with z from the training posteriors in
the weights file. The file has 14 MB, most of it the network: of a z with many active dimensions few posteriors fit.
Seconds are those of the training after its first step; trainings side by side slow each other down.

A training lies in FOLDER/NAME, as `visual-dynamics train` makes it. A finished one is only measured (config.json,
log.jsonl and weights.safetensors are enough), an interrupted one is resumed, a missing one is made. On a GPU the
commands of all, below the tables, may run side by side before. Without a folder they are thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from visual_dynamics.api import Model
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.evaluation.shapes import Extent
from visual_dynamics.evaluation.trained_shapes import (
    COLUMNS,
    RENDERING,
    four_digits,
    measure_motion,
    reconstruction_error,
    sampler_of,
)
from visual_dynamics.experiments import latents
from visual_dynamics.experiments import shapes as shapes_experiment
from visual_dynamics.objective import squared_error
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Experiment, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import average, listed, number, plot, table
from visual_dynamics.reporting.trainings import SMALL, TrainingsOptions, describe, kl_weight, make_trainings
from visual_dynamics.sampling.latents import ACTIVE_NATS
from visual_dynamics.training.config import TrainingConfig

SIZES: dict[str, dict[str, Any]] = {  # of z, with the paper's network
    "z8": {"latent": 8},
    "z32": {"latent": 32},
    "z128-even": {"latent": 128},
    "z128": {"latent": 128, "latent_scale": True},
    "z3200": {"latent": None, "latent_scale": True},
}
SMALL_SIZES: dict[str, dict[str, Any]] = {
    "z8": {"preset": "tiny", "latent": 8},
    "z32": {"preset": "tiny", "latent": 32},
    "z200-even": {"preset": "tiny", "latent": 200},
    "z200": {"preset": "tiny", "latent": 200, "latent_scale": True},
}
EVEN = "-even"  # after the name of a training whose size is also trained with a latent scale
BETAS = (1.0, 4.0, 16.0, 64.0)  # with the largest z
BETA = 16.0  # of all sizes: one of these
STEPS, TRAINING_BATCH = 3_000, 64
FOLDER = "runs/sweeps"  # in the commands that are shown
PAPER = {"components_by_size": latents.PAPER["components_by_size"]}
PAIRS, SMALL_PAIRS = 1_000, 100  # whose posteriors are measured
HELD_OUT = 500  # of them, whose error is measured
IMAGES, SMALL_IMAGES = shapes_experiment.IMAGES, 20
SAMPLES, SMALL_SAMPLES = shapes_experiment.SAMPLES, 40
SHOWN_SHARES = 12  # principal components whose share is stored
UNIT = 0.01  # of the intervals: thousands of them are stored as whole numbers, as fine as a figure shows
CELLS: dict[str, Callable[[dict[str, Any]], str]] = {  # columns of both tables
    "non-zero": lambda run: f"{run['non_zero']:,}",
    f"active (KL above {ACTIVE_NATS:g} nats)": lambda run: f"{run['active']:,}",
    "KL in all, nats": lambda run: number(run["nats_in_all"], 1),
    "squared error, training": lambda run: number(run["training_error"], 2),
    "held out": lambda run: number(run["held_out_error"], 2),
    "KL of motions, nats: circles / squares / triangles / circles-triangles": lambda run: listed(run["kl"].values(), 2),
    "posteriors in the file": lambda run: f"{run['posteriors']:,}",
    "seconds": lambda run: f"{run['seconds']:,.0f}",
    "pairs a second": lambda run: f"{run['pairs_per_second']:,.0f}",
}
COLOURS = ("tab:red", "tab:orange", "tab:purple", "tab:green", latents.BLUE)
MISSING = "not measured"


def plan_runs(seed: int = 0, small: bool = False) -> tuple[dict[str, TrainingConfig], list[str], list[str]]:
    """The trainings by name; the names of both sweeps, sizes of z and weights of the KL term, in their order."""
    common = TrainingConfig(steps=STEPS, batch=TRAINING_BATCH, beta=BETA, seed=seed)
    if small:
        common = replace(common, **SMALL)
    sizes = {name: replace(common, **size) for name, size in (SMALL_SIZES if small else SIZES).items()}
    largest = list(sizes)[-1]
    weights = {
        largest if beta == BETA else f"{largest}-kl{kl_weight(config):g}": config
        for beta in BETAS
        for config in [replace(sizes[largest], beta=beta)]
    }
    return sizes | weights, list(sizes), list(weights)


def compute(options: TrainingsOptions, device: torch.device, progress: Progress) -> Measured:
    """Make the trainings that are missing, then measure all of them."""
    small, seed = options.small, options.seed
    planned, sizes, weights = plan_runs(seed, small)
    trained = make_trainings(planned, options, device, progress)
    size = trained[sizes[0]].model.size
    pairs = shapes.shapes_pairs(SMALL_PAIRS if small else PAIRS, seed, "test", RENDERING, size)
    held_out = pairs.subset(torch.arange(min(HELD_OUT, len(pairs))))
    before, after = held_out.batch(torch.arange(len(held_out)))
    samples = options.samples or (SMALL_SAMPLES if small else SAMPLES)
    extent = Extent(SMALL_IMAGES if small else IMAGES, samples, seed)
    count, each = extent.over(extent.images)
    samplers = {name: sampler_of(one.model) for name, one in trained.items()}
    motions, floor = measure_motion(samplers, extent, device, progress)
    runs = {
        name: describe(f"{FOLDER}/{name}", config, log)
        | measure_latents(name, model, pairs, progress)
        | {"held_out_error": four_digits(reconstruction_error(model, held_out))}
        | motions[name]
        for name, (config, model, log) in trained.items()
    }
    protocol = {
        "non_zero": f"root mean square of z_mean over the pairs above {latents.NON_ZERO:g}",
        "share": latents.SHARE,
        "active_nats": ACTIVE_NATS,
        "pairs": len(pairs),
        "held_out": len(held_out),
        "images": count,
        "samples": count * each,
        "unit": UNIT,
    }
    sweeps = {"runs": runs, "sizes": sizes, "kl_weights": weights, "floor": floor}
    copy_error = four_digits(float(squared_error(before, after).mean()))
    return Measured(sweeps | {"copy_error": copy_error, "paper": PAPER, "columns": COLUMNS, "protocol": protocol})


def measure_latents(name: str, model: Model, pairs: Pairs, progress: Progress) -> dict[str, Any]:
    """The statistics of the latents experiment, the long ones shortened."""
    found = latents.measure(model, name, pairs, partial(progress, f"z of {name}"), draws=0)
    kept = ("model", "weights", "latent", "non_zero", "non_zero_by_threshold", "components", "active")
    return {key: found[key] for key in kept} | {
        "component_shares": [round(share, 4) for share in found["component_shares"][:SHOWN_SHARES]],
        "nats_in_all": four_digits(found["nats_in_all"]),
        "posteriors": len(model.weights.posteriors),
        "trained_by": {key: model.weights.training.get(key) for key in ("commit", "device", "torch")},
        **{
            row: {part: [round(value / UNIT) for value in values] for part, values in found[row].items()}
            for row in ("z_mean", "z_logvar")
        },
    }


def draw(result: dict[str, Any], folder: Path) -> str:
    """Both plots; a table for each sweep, notes, and the commands of the trainings."""
    plot_weights(result, folder / "sweeps_lambda.png")
    plot_sizes(result, folder / "sweeps_size.png")
    runs, weights, sizes = result["runs"], [], []
    for name in result["kl_weights"]:
        own = [f"{runs[name]['kl_weight']:g}", f"{runs[name]['bottleneck']:g}", str(runs[name]["components"])]
        weights.append([*own, *(cell(runs[name]) for cell in CELLS.values())])
    for name, title in size_titles(result).items():
        cells = [cell(runs[name]) if name in runs else "" for cell in CELLS.values()]
        sizes.append([title, paper_components(result, title), f"**{components(runs, name)}**", *cells])
    commands = "\n".join(run["command"] for run in runs.values())
    return "\n\n".join(
        [
            "### Weights of the KL term",
            table(["weight of the KL term", "beta", "PCA components", *CELLS], weights),
            "### Sizes of z",
            table(["dimensions of z", "PCA components, paper", "**PCA components, ours**", *CELLS], sizes),
            notes(result),
            "### The trainings",
            f"```\n{commands}\n```",
        ]
    )


def headline(result: dict[str, Any]) -> Headline:
    """Of the sizes; the weights of the KL term are a figure without numbers in the paper."""
    titles = size_titles(result)
    paper = " / ".join(paper_components(result, title) or "no number" for title in titles.values())
    ours = " / ".join(components(result["runs"], name) for name in titles)
    measure = f"dominating PCA components with a z of {' / '.join(titles.values())}, beta {BETA:g}; one training each"
    return Headline(measure, paper, ours, "none")


def size_titles(result: dict[str, Any]) -> dict[str, str]:
    """The trainings of the sizes, and what they are called: "8", "128 even", "128 scaled"."""
    names, runs = list(result["sizes"]), result["runs"]
    if "z128" in names and f"z128{EVEN}" not in names:  # a result from before this one was planned
        names.insert(names.index("z128"), f"z128{EVEN}")
    titles = {}
    for name in names:
        scaled = name in runs and "latent_scale=true" in runs[name]["command"]
        mark = " even" if name.endswith(EVEN) else " scaled" if scaled else ""
        titles[name] = f"{int(name.removesuffix(EVEN)[1:]):,}{mark}"
    return titles


def components(runs: dict[str, Any], name: str) -> str:
    return str(runs[name]["components"]) if name in runs else MISSING


def paper_components(result: dict[str, Any], title: str) -> str:
    """By size alone: the paper knows no scale."""
    return str(result["paper"]["components_by_size"].get(title.split()[0].replace(",", ""), ""))


def notes(result: dict[str, Any]) -> str:
    """The counts behind the numbers."""
    protocol, runs = result["protocol"], result["runs"]
    floor = listed([result["floor"][column] for column in result["columns"]], 2)
    by = [run["trained_by"] for run in runs.values()]
    sizes = {title: runs[name] for name, title in size_titles(result).items() if name in runs}
    early = ", ".join(f"{number(early_error(run), 1)} ({title})" for title, run in sizes.items())
    makers = sorted({f"{one['device']}, commit {short_commit(one['commit'] or 'unknown')}" for one in by})
    return (
        f"Non-zero: {protocol['non_zero']}; components hold {100 * protocol['share']:g} % of the variance of z_mean; "
        f"both from {protocol['pairs']:,} unseen pairs. Weight of the KL term: at the end, against the squared error. "
        f"Held out: {protocol['held_out']:,} pairs; copying the input scores {number(result['copy_error'], 1)}. "
        f"Motion: {protocol['samples']:,} futures of {protocol['images']:,} images; floor (truth against truth) "
        f"{floor}. Training error between 30 and 50 % of the steps, by size of z: {early}. One training each, of "
        f"{next(iter(runs.values()))['steps']:,} steps, on {'; '.join(makers)}; the spread over seeds is "
        "not measured."
    )


def early_error(run: dict[str, Any]) -> float | None:
    """How far a training has come: mean squared error of what was logged between 30 and 50 % of the way."""
    errors = run["curve"]["squared_error"]
    return average(errors[round(0.3 * len(errors)) : round(0.5 * len(errors))])


def plot_weights(result: dict[str, Any], path: Path) -> None:
    """Mean ± deviation of z_mean above and of z_logvar below, a column a weight; at the right, how sparse z is."""
    runs, unit = [result["runs"][name] for name in result["kl_weights"]], result["protocol"]["unit"]
    with plot(path, 13.5, 4.4, rows=2, columns=len(runs) + 1) as axes:
        for row, (part, label) in enumerate(latents.ROWS.items()):
            for column, run in enumerate(runs):
                axis = axes[row, column]
                axis.sharey(axes[row, 0])  # to compare them
                _draw_intervals(axis, run[part], unit)
                axis.tick_params(labelleft=column == 0, labelbottom=row == 1)
                axis.set_ylabel(label if column == 0 else "")
                axis.set_xlabel("dimension of z" if row == 1 else "")
                if row == 0:
                    axis.set_title(f"KL weighs {run['kl_weight']:g}: {run['non_zero']:,} non-zero")
        places = [run["kl_weight"] for run in runs]
        for axis, (key, label) in zip(
            axes[:, -1], (("non_zero", "non-zero in z mean"), ("active", "active")), strict=True
        ):
            axis.plot(places, [run[key] for run in runs], "o-", color=latents.BLUE)
            axis.set_xscale("log")
            axis.set_xticks(places, [f"{place:g}" for place in places])
            axis.minorticks_off()
            axis.set_ylim(bottom=0)
            axis.set_title(f"{label}, of {runs[0]['latent']:,}")
        axes[-1, -1].set_xlabel("weight of the KL term")


def _draw_intervals(axis: Any, values: dict[str, list[int]], unit: float) -> None:
    centre, deviation = (unit * np.array(values[part]) for part in ("centre", "deviation"))
    half = np.maximum(deviation, unit)  # an interval of no height is visible as well
    width = float(np.clip(130 / len(centre), 0.5, 9))  # points
    axis.axhline(0, color="0.7", linewidth=0.8, zorder=1)  # the prior's
    axis.vlines(np.arange(len(centre)), centre - half, centre + half, color=latents.BLUE, linewidth=width, zorder=2)
    axis.set_xlim(-0.5, len(centre) - 0.5)


def plot_sizes(result: dict[str, Any], path: Path) -> None:
    """Squared error of the training batches against steps, a curve for each size of z."""
    from matplotlib.ticker import LogLocator, NullLocator

    with plot(path, 6.4, 4.2) as axes:
        axis = axes[0, 0]
        for (name, title), colour in zip(size_titles(result).items(), COLOURS, strict=False):
            if name not in result["runs"]:
                continue
            run, paper = result["runs"][name], paper_components(result, title)
            label = f"z of {title}: {run['components']} components{f' (paper {paper})' if paper else ''}"
            axis.plot(run["curve"]["step"], run["curve"]["squared_error"], color=colour, linewidth=1.3, label=label)
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(color="0.9", linewidth=0.6)
        axis.set_xlabel("training steps")
        axis.set_ylabel("squared error of a pair, mean of a batch")
        axis.legend()


EXPERIMENT = Experiment(
    "sweeps",
    "four sizes of z and four weights of the KL term: sparsity, convergence and motion (two figures of z)",
    __doc__,
    TrainingsOptions,
    compute,
    draw,
    headline,
    frame_size=None,
)
