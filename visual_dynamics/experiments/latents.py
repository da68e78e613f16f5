"""How much of z is used: the table and the figure of statistics of the latent representation.

Paper      "The Sparsity of the Latent Representation z": non-zero elements of z_mean and dominating PCA components; the
           figure of z_mean and z_logvar by dimension; and the ablation of the size of z, for the PCA of a small z.
Command    visual-dynamics reproduce latents [--sprites FOLDER [--set sprites_model=MODEL]] [--samples PAIRS]
Cost       about a minute for each model on one CPU core.
Paper says non-zero elements 299 / 54 / 978 of 3,200, PCA components 5 / 5 / 47 (Shapes / Sprites / Exercise);
           PCA components on Shapes with a z of 8, 32, 128, 3,200: 3, 3, 3, 5.

Protocol: 1,000 pairs that are not for training (the paper takes training pairs). Shapes: generated test scenes at
sub-pixel places. Sprites: neighbouring frames of Reed's 100 test characters, drawn by the seed; 80 of these have a twin
in training, which shares half of the frames. An element of z_mean is non-zero if its root mean square over the pairs
exceeds 0.1, a tenth of the prior's deviation. The paper names no threshold, so the counts for other thresholds stand
beside it. PCA components: the fewest that hold 95 % of the variance of z_mean. Both have an interval: the statistic of
pairs drawn again, for Sprites of families of characters (4n ... 4n + 3, which share frames). A dimension is active if
its KL divergence to the prior exceeds 0.01 nats on average; a weights file stores the posteriors of these dimensions
only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.evaluation.intervals import SLOW_DRAWS, Interval, bootstrap_interval
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.objective import kl_per_dimension
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import number, plot, table, with_interval
from visual_dynamics.sampling.latents import ACTIVE_NATS

NON_ZERO = 0.1  # an element of z_mean with a larger root mean square is not zero; the prior's deviation is 1
SHARE = 0.95  # of the variance of z_mean that the dominating components hold
PAPER = {
    "non_zero": {"Shapes": 299, "Sprites": 54, "Exercise": 978},
    "components": {"Shapes": 5, "Sprites": 5, "Exercise": 47},
    "components_by_size": {"8": 3, "32": 3, "128": 3, "3200": 5},  # on Shapes
    "latent": 3200,
}
PAIRS, SMALL_PAIRS = 1000, 100
THRESHOLDS = (0.01, 0.03, NON_ZERO, 0.3)
CHUNK = 128  # pairs between two reports of progress

ROWS = {"z_mean": "z mean", "z_logvar": "z log-variance"}  # of the figure, as in the paper's
LISTED = 32  # dimensions in a table, the strongest
LIMIT = -20.0  # of log-variances: the motion encoder gives no lower ones
BLUE = "#3b6fd4"


@dataclass(frozen=True)
class LatentsOptions(ExperimentOptions):
    model: str = "shapes"
    sprites_model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters, to measure the sprites' model as well


def compute(options: LatentsOptions, device: torch.device, progress: Progress) -> Measured:
    """Statistics of the Shapes model, and of the sprites' where they are given."""
    count = options.samples or (SMALL_PAIRS if options.small else PAIRS)
    model = load(options.model, str(device))
    pairs = shapes.shapes_pairs(count, options.seed, "test", "smooth", model.size)
    sets = {"Shapes": measure(model, options.model, pairs, partial(progress, "Shapes"))}
    if options.sprites:
        model = load(options.sprites_model, str(device))
        pairs, families = sprite_pairs(options.sprites, count, options.seed, model.size)
        name = options.sprites_model
        sets["Sprites"] = measure(model, name, pairs, partial(progress, "Sprites"), families)
    protocol = {
        "non_zero": f"root mean square of z_mean over the pairs above {NON_ZERO:g}",
        "threshold": NON_ZERO,
        "share": SHARE,
        "active_nats": ACTIVE_NATS,
    }
    return Measured({"sets": sets, "paper": PAPER, "protocol": protocol})


def sprite_pairs(folder: Path, count: int, seed: int, size: int) -> tuple[Pairs, Tensor]:
    """Neighbouring frames of Reed's test characters: `count` pairs, or all of them if there are fewer.

    And the family of characters of each, (N,): 4n ... 4n + 3 share frames.
    """
    characters = sprites.read_characters(folder, sprites.reed_split().test)
    every = sprites.sprite_pairs(characters, size=max(64, size))
    places = spread(len(every), count, seed)
    families = torch.from_numpy(characters.numbers // sprites.FAMILY)[places * len(characters) // len(every)]
    return every.subset(places).resized(size), families


def measure(
    model: Model,
    name: str,
    pairs: Pairs,
    progress: Callable[[float], object],
    units: Tensor | None = None,
    draws: int = SLOW_DRAWS,
) -> dict[str, Any]:
    """All numbers of one model; intervals of counts from so many draws of the units (N,), none from 0.

    units: which pairs are drawn together; None: each for itself.
    """
    posterior = encode(model, pairs, progress)
    mean, log_variance = posterior
    nats = kl_per_dimension(posterior).double().mean(0)
    return {
        "model": Path(name).name,
        "weights": model.weights.digest,
        "pairs": len(pairs),
        "latent": mean.shape[1],
        "non_zero": non_zero(mean),
        "non_zero_by_threshold": {f"{threshold:g}": non_zero(mean, threshold) for threshold in THRESHOLDS},
        "components": dominating_components(mean),
        "component_shares": rounded(component_shares(mean)),
        **({"intervals": count_intervals(mean, units, draws)} if draws else {}),
        "active": int((nats > ACTIVE_NATS).sum()),
        "inactive": (nats <= ACTIVE_NATS).nonzero().flatten().tolist(),
        "nats": rounded(nats),
        "nats_in_all": float(nats.sum()),
        "z_mean": {part: rounded(values) for part, values in intervals(mean).items()},
        "z_logvar": {part: rounded(values) for part, values in intervals(log_variance).items()},
    }


def encode(model: Model, pairs: Pairs, progress: Callable[[float], object]) -> Posterior:
    """q(z | v, I) of all pairs, (N, latent), on the CPU."""
    parts = []
    for chosen in torch.arange(len(pairs)).split(CHUNK):
        batch = pairs.batch(chosen)
        parts.append(model.predictor.encode(batch.frame, batch.next_frame))
        progress((int(chosen[-1]) + 1) / len(pairs))
    return Posterior(*(torch.cat(values) for values in zip(*parts, strict=True)))


def rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


# --- statistics of z; letters in shape comments: N pairs of frames, D dimensions of z ---


def intervals(values: Tensor) -> dict[str, Tensor]:
    """Mean and standard deviation (D,) of z_mean or z_logvar (N, D) over the pairs: lines of the paper's figure."""
    _check(values)
    return {"centre": values.mean(0), "deviation": values.std(0, unbiased=False)}


def non_zero(mean: Tensor, threshold: float = NON_ZERO) -> int:
    """How many elements of z_mean (N, D) are not zero: their root mean square over the pairs exceeds the threshold.

    A root mean square, not a largest value, which would grow with the number of pairs.
    """
    _check(mean)
    return int((mean.square().mean(0).sqrt() > threshold).sum())


def component_shares(mean: Tensor) -> Tensor:
    """The share of the variance of z_mean (N, D) that each principal component holds, falling, float64 (min(N, D),)."""
    _check(mean)
    centred = mean.double() - mean.double().mean(0)
    variances = torch.linalg.svdvals(centred).square()
    return variances / variances.sum().clamp_min(torch.finfo(variances.dtype).tiny)


def dominating_components(mean: Tensor, share: float = SHARE) -> int:
    """The fewest principal components that hold this share of the variance of z_mean (N, D); 0 without variance."""
    shares = component_shares(mean)
    return int((shares.cumsum(0) < share).sum()) + 1 if shares.any() else 0


def count_intervals(mean: Tensor, units: Tensor | None, draws: int) -> dict[str, Interval]:
    """Of the two counts of z_mean (N, D), over units (N,) of pairs."""
    numbers = torch.arange(len(mean)) if units is None else units
    members = [(numbers == unit).nonzero()[:, 0] for unit in numbers.unique()]

    def over_units(count: Callable[[Tensor], int]) -> Interval:
        return bootstrap_interval(
            lambda drawn: count(mean[torch.cat([members[place] for place in drawn])]), len(members), draws=draws
        )

    return {"non_zero": over_units(non_zero), "components": over_units(dominating_components)}


def _check(values: Tensor) -> None:
    if values.ndim != 2 or not values.numel():
        raise ValueError(f"expected (N, D), not {tuple(values.shape)}")
    if not values.isfinite().all():
        raise ValueError("the posteriors are not finite")


# --- tables and the figure ---


def draw(result: dict[str, Any], folder: Path) -> str:
    """The plot by dimension; the paper's table, notes, and a table by dimension for each model."""
    plot_dimensions(result["sets"], folder / "latents.png")
    parts = ["### How much of z is used", main_table(result), notes(result)]
    for name, found in result["sets"].items():
        parts += [f"### {name}, by dimension", dimensions(found)]
    return "\n\n".join(parts)


def headline(result: dict[str, Any]) -> Headline:
    sets = result["sets"]
    ours = " / ".join(f"{count_cell(found, 'components')} with a z of {found['latent']:,}" for found in sets.values())
    paper = " / ".join(str(result["paper"]["components"][name]) for name in sets)
    return Headline(f"dominating PCA components: {' / '.join(sets)}", f"{paper} (z of 3,200)", ours, "none")


def main_table(result: dict[str, Any]) -> str:
    """The paper's table with a column for each of our models."""
    paper, sets = result["paper"], result["sets"].values()
    head = ["", *(f"{name}, paper" for name in paper["non_zero"]), *(f"**{name}, ours**" for name in result["sets"])]
    unknown = [""] * len(paper["non_zero"])
    rows = {
        "dimensions of z": [f"{z:,}" for z in [paper["latent"]] * len(unknown) + [s["latent"] for s in sets]],
        "non-zero elements in z_mean": [*paper["non_zero"].values(), *(count_cell(s, "non_zero") for s in sets)],
        "dominating PCA components": [*paper["components"].values(), *(count_cell(s, "components") for s in sets)],
        f"active (KL above {result['protocol']['active_nats']:g} nats)": [*unknown, *(s["active"] for s in sets)],
        "KL in all, nats": [*unknown, *(number(s["nats_in_all"], 1) for s in sets)],
    }
    return table(head, [[name, *map(str, cells)] for name, cells in rows.items()])


def count_cell(found: dict[str, Any], name: str) -> str:
    return with_interval(found[name], found.get("intervals", {}).get(name), 0)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    small = result["paper"]["components_by_size"]
    parts = [
        f"The paper's ablation has {small['8']} components with a z of 8 on Shapes, {small['128']} with one of 128."
    ]
    for name, found in result["sets"].items():
        counts = ", ".join(f"{count} above {limit}" for limit, count in found["non_zero_by_threshold"].items())
        shares = ", ".join(f"{100 * share:.0f}" for share in np.cumsum(found["component_shares"])[:LISTED])
        parts.append(
            f"{name}: {found['pairs']:,} test pairs; non-zero by threshold: {counts}; components hold together "
            f"{shares} % of the variance; inactive dimensions: "
            f"{', '.join(map(str, found['inactive'][:LISTED])) or 'none'}."
        )
        if at_limit := sum(centre <= LIMIT + 0.01 for centre in found["z_logvar"]["centre"]):
            parts.append(
                f"{at_limit} of its log-variances lie at the motion encoder's limit of {LIMIT:g}: the encoder is as "
                "good as certain of such a dimension, and the limit sets its KL."
            )
    return " ".join(parts)


def dimensions(found: dict[str, Any]) -> str:
    """Each dimension, the most informative first: mean and deviation over the pairs."""
    order = sorted(range(found["latent"]), key=lambda place: -found["nats"][place])[:LISTED]
    rows = []
    for place in order:
        both = (f"{found[row]['centre'][place]:.2f} ± {found[row]['deviation'][place]:.2f}" for row in ROWS)
        rows.append([str(place), f"{found['nats'][place]:.4f}", *both])
    return table(["dimension", "KL, nats", "z_mean", "z_logvar"], rows)


def plot_dimensions(sets: dict[str, Any], path: Path) -> None:
    """Mean ± deviation of z_mean above and of z_logvar below: a vertical line a dimension, a column a model."""
    with plot(path, 0.6 + 4.2 * len(sets), 5, rows=len(ROWS), columns=len(sets), sharex="col") as axes:
        for column, (name, found) in enumerate(sets.items()):
            places = np.arange(found["latent"])
            width = float(np.clip(130 / found["latent"], 0.6, 9))  # points
            for axis, (row, label) in zip(axes[:, column], ROWS.items(), strict=True):
                centre, deviation = (np.array(found[row][part]) for part in ("centre", "deviation"))
                axis.axhline(0, color="0.7", linewidth=0.8, zorder=1)  # the prior's
                axis.vlines(places, centre - deviation, centre + deviation, color=BLUE, linewidth=width, zorder=2)
                axis.plot(places, centre, "_", color="black", markersize=width + 3, zorder=3)
                axis.set_ylabel(label if column == 0 else "")
                axis.set_xlim(-0.7, found["latent"] - 0.3)
                axis.xaxis.get_major_locator().set_params(integer=True)
            axes[0, column].set_title(f"{name}: {found['active']} of {found['latent']:,} dimensions active")
            axes[-1, column].set_xlabel("dimension of z")


EXPERIMENT = Experiment(
    "latents",
    "how many dimensions of z are used: non-zero means, PCA components, KL (table and figure of z)",
    __doc__,
    LatentsOptions,
    compute,
    draw,
    headline,
    frame_size=None,
)
