"""The toy world: why motion must be predicted as a distribution, and with a view of the object.

Paper      "A Toy Example" and its figure: circles that move mostly vertically, squares that move mostly horizontally.
Command    visual-dynamics reproduce toy
Cost       about three minutes on one CPU core; --samples 4000 makes it seconds.
Paper says no numbers: (b) predicts a mean motion for each object, (c) only recovers the joint distribution of all
           objects, (d) is very close to the ground truth.

Protocol: 160,000 pairs of a kind of object, I, and its motion, v; each kind has half the probability. Three small
multilayer perceptrons learn from the same pairs: (b) the deterministic predictor v = f(I), squared error; (c) the
motion prior, a variational autoencoder of v that never sees I; (d) the conditional one, whose encoder and decoder see
I. Then 160,000 motions of each model for each object, against as many true ones: KL(truth || prediction) of histograms
with 61 x 61 bins on [-3, 3]^2; all that lies outside is one more bin. The floor is a second set of true motions.
All of this is done with five seeds of data, weights and samples: mean and range. The figure shows the first.

z is drawn from N(0, I), and then v from p(v | z, I) = N(f_mean(z, I), sigma^2). As in the paper, sigma is one fixed
number for both directions, and its noise is a part of every sampled motion. It must lie below the 0.2 of the narrow
direction, or z could not add the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visual_dynamics import objective
from visual_dynamics.evaluation.motion_distribution import EPSILON, kl_divergence
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import number, plot, table, with_interval

OBJECTS = ("circle", "square")
# (x, y) of each object. The paper writes N(mu, sigma) with "diagonal variation equal to sigma": taken here as standard
# deviations, as its letter says. As variances they would make the narrow direction 0.45; the models come out in the
# same order.
DEVIATIONS = ((0.2, 1.0), (1.0, 0.2))
SAMPLES, SMALL_SAMPLES = 160_000, 10_000  # training pairs
SEEDS, SMALL_SEEDS = 5, 2
DRAWN = 160_000  # motions of each object in each histogram
BINS = 61  # a side
RANGE = 3.0  # the histograms cover [-RANGE, RANGE]^2

LATENT = 2
HIDDEN = 64
SIGMA = 0.1  # deviation of p(v | z, I)
STEPS = 4000
BATCH = 500
RATE = 5e-3  # falls to zero by a cosine
SAMPLES_A_STEP = 10  # fewer steps where there are few samples: 4,000 of them make 400


MODELS = {
    "deterministic": "(b) deterministic prediction",
    "prior": "(c) motion prior",
    "conditional": "(d) conditional model",
}
REFERENCES = {"mixture": "both true laws mixed", "floor": "floor (truth against truth)"}
COLOURS = {"circle": ("Reds", "red"), "square": ("Greens", "green")}  # the paper's


class Deterministic(nn.Module):
    """(b) One motion for each kind of object."""

    def __init__(self) -> None:
        super().__init__()
        self.predict = perceptron(len(OBJECTS), 2)

    def loss(self, kinds: Tensor, motions: Tensor, random: torch.Generator) -> Tensor:
        return objective.squared_error(self.predict(kinds), motions)

    def sample(self, kinds: Tensor, random: torch.Generator) -> Tensor:
        return self.predict(kinds)


class Variational(nn.Module):
    """(c) and, where it sees the kind of object, (d): the paper's Eqs. 3 to 5 on motions of two numbers."""

    def __init__(self, sees_kind: bool) -> None:
        super().__init__()
        self.seen = len(OBJECTS) if sees_kind else 0
        self.encode = perceptron(2 + self.seen, 2 * LATENT)
        self.decode = perceptron(LATENT + self.seen, 2)

    def loss(self, kinds: Tensor, motions: Tensor, random: torch.Generator) -> Tensor:
        view = kinds[:, : self.seen]  # (B, 2), or (B, 0) for the prior
        posterior = Posterior(*self.encode(torch.cat([motions, view], 1)).chunk(2, dim=1))
        z = posterior.sample(noise_like(posterior.mean, random))
        predicted = self.decode(torch.cat([z, view], 1))
        return objective.loss(objective.bound(posterior, predicted, motions), SIGMA)

    def sample(self, kinds: Tensor, random: torch.Generator) -> Tensor:
        z = noise_like(kinds.new_empty(len(kinds), LATENT), random)
        mean = self.decode(torch.cat([z, kinds[:, : self.seen]], 1))
        return mean + SIGMA * noise_like(mean, random)


def perceptron(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.LeakyReLU(0.1),
        nn.Linear(HIDDEN, HIDDEN),
        nn.LeakyReLU(0.1),
        nn.Linear(HIDDEN, outputs),
    )


def noise_like(values: Tensor, random: torch.Generator) -> Tensor:
    return torch.randn(values.shape, generator=random).to(values)  # drawn on the CPU: the same on every device


def compute(options: ExperimentOptions, device: torch.device, progress: Progress) -> Measured:
    """All numbers of the first seed, and the KL divergences over seeds."""
    samples = options.samples or (SMALL_SAMPLES if options.small else SAMPLES)
    seeds = range(options.seed, options.seed + (SMALL_SEEDS if options.small else SEEDS))
    each = [train_and_compare(seed, samples, device, progress) for seed in seeds]
    return Measured(each[0] | {"seeds": over_seeds([one["kl"] for one in each])})


def over_seeds(kl: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Mean and range, [least, greatest], of each row and object."""
    found: dict[str, Any] = {"count": len(kl), "mean": {}, "range": {}}
    for row in kl[0]:
        values = {o: [one[row][o] for one in kl] for o in OBJECTS}
        found["mean"][row] = {o: fmean(several) for o, several in values.items()}
        found["range"][row] = {o: [min(several), max(several)] for o, several in values.items()}
    return found


def train_and_compare(seed: int, samples: int, device: torch.device, progress: Progress) -> dict[str, Any]:
    """Train the three models on the same pairs and compare the motions they predict with the true ones."""
    steps = min(STEPS, max(1, samples // SAMPLES_A_STEP))
    random = torch.Generator().manual_seed(seed)
    kinds = torch.randint(len(OBJECTS), (samples,), generator=random)
    motions = true_motions(kinds, random)
    truth, second = (
        {name: true_motions(torch.full((DRAWN,), k), random) for k, name in enumerate(OBJECTS)} for _ in range(2)
    )
    predicted = {}
    for name, model in make_models(seed, device).items():
        train(
            model,
            one_hot(kinds).to(device),
            motions.to(device),
            steps,
            random,
            partial(progress, f"{name}, seed {seed}"),
        )
        predicted[name] = sample_each(model, random, device)
    mixed = torch.cat([values[: DRAWN // 2] for values in second.values()])
    rows = predicted | {"mixture": dict.fromkeys(OBJECTS, mixed), "floor": second}
    found = {name: {o: histogram(values[o]) for o in OBJECTS} for name, values in ({"truth": truth} | rows).items()}
    return {
        "kl": {name: {o: kl_divergence(found["truth"][o], found[name][o]) for o in OBJECTS} for name in rows},
        "kl_prior_to_mixture": kl_divergence(found["mixture"]["circle"], found["prior"]["circle"]),
        "means": {name: {o: values[o].mean(0).tolist() for o in OBJECTS} for name, values in predicted.items()},
        "deviations": {name: {o: values[o].std(0).tolist() for o in OBJECTS} for name, values in predicted.items()},
        "true_deviations": dict(zip(OBJECTS, DEVIATIONS, strict=True)),
        "histograms": {
            name: {o: np.round(found[name][o].numpy(), 6).tolist() for o in OBJECTS} for name in ("truth", *predicted)
        },
        "protocol": {
            "samples": samples,
            "drawn": DRAWN,
            "bins": BINS,
            "range": RANGE,
            "epsilon": EPSILON,
            "latent": LATENT,
            "hidden": HIDDEN,
            "sigma": SIGMA,
            "steps": steps,
            "batch": BATCH,
            "rate": RATE,
        },
    }


def true_motions(kinds: Tensor, random: torch.Generator) -> Tensor:
    """A motion (x, y) for each of the kinds, whole numbers (N,): (N, 2)."""
    return torch.tensor(DEVIATIONS)[kinds] * torch.randn(len(kinds), 2, generator=random)


def one_hot(kinds: Tensor) -> Tensor:
    return torch.eye(len(OBJECTS))[kinds]


def make_models(seed: int, device: torch.device) -> dict[str, Deterministic | Variational]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        models: dict[str, Deterministic | Variational] = {
            "deterministic": Deterministic(),
            "prior": Variational(sees_kind=False),
            "conditional": Variational(sees_kind=True),
        }
    return {name: model.to(device) for name, model in models.items()}


def train(
    model: Deterministic | Variational,
    kinds: Tensor,
    motions: Tensor,
    steps: int,
    random: torch.Generator,
    progress: Callable[[float], object],
) -> None:
    """Adam on batches drawn from the pairs; kinds one-hot (N, 2), motions (N, 2)."""
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        chosen = torch.randint(len(motions), (BATCH,), generator=random).to(motions.device)
        optimiser.zero_grad()
        model.loss(kinds[chosen], motions[chosen], random).mean().backward()
        optimiser.step()
        schedule.step()
        if (step + 1) % 100 == 0 or step + 1 == steps:
            progress((step + 1) / steps)


@torch.no_grad()
def sample_each(model: Deterministic | Variational, random: torch.Generator, device: torch.device) -> dict[str, Tensor]:
    """DRAWN predicted motions of each object."""
    kinds = {name: one_hot(torch.full((DRAWN,), number)).to(device) for number, name in enumerate(OBJECTS)}
    return {name: model.sample(each, random).cpu() for name, each in kinds.items()}


def histogram(motions: Tensor) -> Tensor:
    """Share of the motions (N, 2) in each bin: float64 (BINS, BINS), first axis x.

    Motions outside the range count but are in no bin. The sum stays below one by their share, which `kl_divergence`
    takes for one more bin.
    """
    counts = torch.histogramdd(motions.double(), [BINS, BINS], range=[-RANGE, RANGE, -RANGE, RANGE]).hist
    return counts / len(motions)


def draw(result: dict[str, Any], folder: Path) -> str:
    """The plot, the table and notes."""
    plot_motions(result, folder / "toy.png")
    return "\n\n".join(["### The toy world of circles and squares", kl_table(result), notes(result)])


def headline(result: dict[str, Any]) -> Headline:
    ours, floor = (" / ".join(kl_cell(result, name, o) for o in OBJECTS) for name in ("conditional", "floor"))
    return Headline(f"KL of motions, nats: circle / square{of_seeds(result)}", "no numbers", ours, floor)


def of_seeds(result: dict[str, Any]) -> str:
    return f"; mean (range) of {result['seeds']['count']} seeds" if "seeds" in result else ""


def kl_cell(result: dict[str, Any], row: str, kind: str) -> str:
    if "seeds" not in result:
        return number(result["kl"][row][kind], 3)
    return with_interval(result["seeds"]["mean"][row][kind], result["seeds"]["range"][row][kind], 3)


def kl_table(result: dict[str, Any]) -> str:
    """A line for each model, then what a perfect prior and a perfect prediction would have."""
    head = [f"KL(truth || prediction), nats{of_seeds(result)}", *OBJECTS, "deviations of a circle", "of a square"]
    rows = [["(a) truth", "", "", *(vector(result["true_deviations"][o]) for o in OBJECTS)]]
    for name, title in (MODELS | REFERENCES).items():
        spread = (vector(result["deviations"][name][o]) if name in MODELS else "" for o in OBJECTS)
        rows.append([title, *(kl_cell(result, name, o) for o in OBJECTS), *spread])
    return table(head, rows, bold=(MODELS["conditional"],))


def vector(values: list[float | None], digits: int = 2, form: str = "") -> str:
    return f"({', '.join(number(value, digits, form=form) for value in values)})"


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    protocol, means = result["protocol"], result["means"]["deterministic"]
    crosses = ", ".join(f"{o} {vector(means[o], 3, '+')}" for o in OBJECTS)
    return (
        f"{protocol['samples']:,} training pairs, {protocol['steps']:,} steps of {protocol['batch']}. (b) predicts: "
        f"{crosses}; as all its motions lie in one bin, the zero-bin epsilon of {protocol['epsilon']:g} sets its KL. "
        f"(c) is {number(result['kl_prior_to_mixture'], 3)} from both true laws mixed."
    )


def plot_motions(result: dict[str, Any], path: Path) -> None:
    """Truth and the three models side by side, a row for each object, as the last row of the paper's figure."""
    limit = result["protocol"]["range"]
    brightest = np.sqrt(max(np.max(result["histograms"]["truth"][o]) for o in OBJECTS))
    with plot(path, 11, 6, rows=2, columns=1 + len(MODELS), sharex=True, sharey=True) as panels:
        for row, (kind, (shades, colour)) in zip(panels, COLOURS.items(), strict=True):
            for axis, (name, title) in zip(row, ({"truth": "(a) truth"} | MODELS).items(), strict=True):
                # Histograms are indexed [x, y]; pictures have rows first. Square roots show the tails.
                values = np.zeros((1, 1)) if name == "deterministic" else np.array(result["histograms"][name][kind]).T
                area = (-limit, limit, -limit, limit)
                axis.imshow(np.sqrt(values), cmap=shades, vmin=0, vmax=brightest, extent=area, origin="lower")
                if name == "deterministic":
                    x, y = np.array(result["means"][name][kind], float)
                    axis.plot(x, y, "x", color=colour, markersize=10, markeredgewidth=2)
                axis.set_title(f"{kind}, {title}")
                measure, row_name = ("floor", "floor") if name == "truth" else ("KL", name)
                label = f"{measure} {number(result['kl'][row_name][kind], 2)}"
                axis.text(0.96, 0.04, label, transform=axis.transAxes, ha="right", fontsize=9)
        for axis in panels[-1]:
            axis.set_xlabel("$v_x$")
        for axis in panels[:, 0]:
            axis.set_ylabel("$v_y$")


EXPERIMENT = Experiment(
    "toy",
    "the toy world of circles and squares: deterministic predictor, motion prior, conditional model",
    __doc__,
    ExperimentOptions,
    compute,
    draw,
    headline,
)
