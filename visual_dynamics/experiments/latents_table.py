"""How much of z is used: the table and the figure of statistics of the latent representation.

Paper      "The Sparsity of the Latent Representation z": non-zero elements of z_mean and dominating PCA components; the
           figure of z_mean and z_logvar by dimension; and the ablation of the size of z, for the PCA of a small z.
Command    visual-dynamics reproduce latents [--sprites FOLDER [--sprites-model MODEL]] [--samples PAIRS]
Cost       about a minute for each model on one CPU core.
Paper says non-zero elements 299 / 54 / 978 of 3,200, PCA components 5 / 5 / 47 (Shapes / Sprites / Exercise);
           PCA components on Shapes with a z of 8, 32, 128, 3,200: 3, 3, 3, 5.

Protocol: 1,000 pairs that the model has not seen (the paper takes training pairs). Shapes: generated test scenes at
sub-pixel places. Sprites: neighbouring frames of Reed's 100 test characters, drawn by the seed. An element of z_mean
counts as non-zero where its root mean square over the pairs exceeds 0.1, a tenth of the prior's deviation; the paper
does not say when it counts, so other thresholds stand beside it. PCA components: the fewest that hold 95 % of the
variance of z_mean. A dimension is active where its KL divergence to the prior exceeds 0.01 nats on average, as for
the posteriors that a weights file stores.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import AnyPairs, spread
from visual_dynamics.evaluation import latent_statistics as statistics
from visual_dynamics.experiments import latents_figures
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.objective import kl_per_dimension
from visual_dynamics.reporting.origin import origin
from visual_dynamics.weights import ACTIVE_NATS

if TYPE_CHECKING:
    from visual_dynamics.experiments import Tell

SUMMARY = "how many dimensions of z are used: non-zero means, PCA components, KL (table and figure of z)"
PAPER = {
    "non_zero": {"Shapes": 299, "Sprites": 54, "Exercise": 978},
    "components": {"Shapes": 5, "Sprites": 5, "Exercise": 47},
    "components_by_size": {"8": 3, "32": 3, "128": 3, "3200": 5},  # on Shapes
    "latent": 3200,
}
PAIRS, SMALL_PAIRS = 1000, 100
THRESHOLDS = (0.01, 0.03, statistics.NON_ZERO, 0.3)
BATCH = {"cpu": 16, "cuda": 128}


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    sprites_model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters, to measure the sprites' model as well
    samples: int | None = None  # pairs
    seed: int = 0
    small: bool = False  # a quick look: fewer pairs


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Statistics of the Shapes model, and of the sprites' where they are given."""
    started = time.monotonic()
    count = options.samples or (SMALL_PAIRS if options.small else PAIRS)
    model = load(options.model, str(device))
    pairs: AnyPairs = shapes.shapes_pairs(count, options.seed, "test", "smooth", model.size)
    sets = {"Shapes": measure(model, options.model, pairs, device, lambda share: tell("Shapes", share))}
    if options.sprites:
        model_of_sprites = load(options.sprites_model, str(device))
        pairs = sprite_pairs(options.sprites, count, options.seed, model_of_sprites.size)
        sets["Sprites"] = measure(
            model_of_sprites, options.sprites_model, pairs, device, lambda share: tell("Sprites", share)
        )
    return {
        "experiment": "latents",
        "sets": sets,
        "paper": PAPER,
        "protocol": {
            "non_zero": f"root mean square of z_mean over the pairs above {statistics.NON_ZERO:g}",
            "threshold": statistics.NON_ZERO,
            "share": statistics.SHARE,
            "active_nats": ACTIVE_NATS,
        },
    } | origin(options, model, started, device)


def sprite_pairs(folder: Path, count: int, seed: int, size: int) -> AnyPairs:
    """Neighbouring frames of Reed's test characters, as many as there are or `count` of them."""
    every = sprites.sprite_pairs(sprites.read_characters(folder, sprites.reed_split().test), size=max(64, size))
    return every.subset(spread(len(every), count, seed)).resized(size)


def measure(model: Model, name: str, pairs: AnyPairs, device: torch.device, tell: Any) -> dict[str, Any]:
    """Everything that table and figure need of one model."""
    posterior = encode(model, pairs, device, tell)
    mean, log_variance = posterior
    nats = kl_per_dimension(posterior).double().mean(0)
    return {
        "model": Path(name).name,
        "weights": model.weights.digest,
        "pairs": len(pairs),
        "latent": mean.shape[1],
        "non_zero": statistics.non_zero(mean),
        "non_zero_by_threshold": {f"{threshold:g}": statistics.non_zero(mean, threshold) for threshold in THRESHOLDS},
        "components": statistics.dominating_components(mean),
        "component_shares": rounded(statistics.component_shares(mean)),
        "active": int((nats > ACTIVE_NATS).sum()),
        "inactive": (nats <= ACTIVE_NATS).nonzero().flatten().tolist(),
        "nats": rounded(nats),
        "nats_in_all": float(nats.sum()),
        "z_mean": {part: rounded(values) for part, values in statistics.intervals(mean)._asdict().items()},
        "z_logvar": {part: rounded(values) for part, values in statistics.intervals(log_variance)._asdict().items()},
    }


@torch.inference_mode()
def encode(model: Model, pairs: AnyPairs, device: torch.device, tell: Any) -> Posterior:
    """q(z | v, I) of all pairs, (N, latent), on the CPU."""
    parts = []
    for chosen in torch.arange(len(pairs)).split(BATCH.get(device.type, BATCH["cpu"])):
        batch = pairs.batch(chosen)
        frame, difference = batch.frame.to(device), batch.difference.to(device)
        parts.append(model.predictor.network.encode_motion(frame, difference))
        tell((int(chosen[-1]) + 1) / len(pairs))
    return Posterior(*(torch.cat(values).cpu() for values in zip(*parts, strict=True)))


def rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figure and the tables; returns the tables as Markdown."""
    return latents_figures.draw(result, folder)


headline = latents_figures.headline
