"""Poke: the circle is pushed; does the triangle answer as the law of the world says?

Paper      not in it.
Command    visual-dynamics reproduce poke [--model MODEL] [--samples CODES]
Cost       21 minutes on one core of a busy machine.
Target     KL divergence of the triangle's motion given a poked circle at most 0.05.

Protocol: 8 generated test images of Shapes, the first in which circle and triangle are plainly visible. In each the
middle of the circle is poked 2,000 times, by motions drawn from the world's law. A poke weighs 2,000 codes that were
sampled for the image by how well their futures fit, and draws one of them (sampling/poke.py). The triangle's
displacement in its future is measured by masked matching, as in the Shapes table.

KL: between histograms of (the motion asked of the circle, the displacement of the triangle), one for its x and one for
its y, with 41 x 41 bins on [-5, 5]^2 pixels and a zero-bin epsilon of 1e-6. Both sides have the same asked motions. So
this is the divergence of the triangle's motion given the poke. Two truths. "Poked": 2,000 futures by the world's law
stand in for the model's, and are weighed in the same way: the law's answer to a poke with this kernel. "Exact": the
same futures, each taken for a poke by just what its circle does: the law's answer to a kernel without width.

Rows beside ours. Fewer codes: the first 500 and 1,000 of ours; they take a wider kernel, which alone raises the
divergence, and have no floor of their own. Not poked: any of the codes is drawn. Floor: further 2,000 futures by the
law, poked. Intervals: images are drawn again with all their pokes; the values are shifted to have the measured number
as their mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.evaluation.motion_tables import Motions, kl_tables
from visual_dynamics.evaluation.shapes import SIZE, generated_images
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.compared_models import cells
from visual_dynamics.reporting.drawing import Group, enlarged, number, plot, sheet, table, to_pixels
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.poke import CODES, PART, Pair, PokedCodes, fitting, motion_at

IMAGES, POKES = 8, 2_000  # pokes of each image
SMALL_IMAGES, SMALL_POKES, SMALL_CODES = 2, 200, 128
DRAWN = 100  # test scenes among which images are found
LEAST_CIRCLE, LEAST_TRIANGLE = 100.0, 60.0  # pixels of 64x64 that are seen
CIRCLE, TRIANGLE = 0, 2
AXES = {"circles_triangles": "triangle's dx", "squares": "triangle's dy"}  # columns of `asked_and_answered`
SHARES = (4, 2)  # codes divided by these are measured, too
TRUTHS = ("poked", "exact")
TITLES = {"ours": "ours, poked", "free": "ours, not poked", "floor": "floor (the law, poked)"}
PLOTTED = ("floor", "ours", "free")
PICTURED, FUTURES = 3, 4  # images in the figure, and futures of each poke ...
SHOWN = {"3 px up": -3.0, "still": 0.0, "3 px down": 3.0}  # ... of the circle


@dataclass(frozen=True)
class PokeOptions(ExperimentOptions):
    """`samples`: codes for each image."""

    model: str = "shapes"


class Target(NamedTuple):
    """An image to poke."""

    scene: shapes.Scenes  # this one alone
    frame: Tensor  # (3, 64, 64)
    masks: Tensor  # (3, 64, 64)
    place: Pair  # the middle of what is seen of the circle


class Bank(NamedTuple):
    """What happens in futures of one image."""

    circle: Tensor  # (N, 2), how far what was poked goes, as a poke measures it
    triangle: Tensor  # (N, 2), by masked matching

    def first(self, count: int) -> Bank:
        return Bank(self.circle[:count], self.triangle[:count])


def find_targets(count: int, seed: int) -> list[Target]:
    """The first test images in which circle and triangle are plainly visible."""
    scenes, images = generated_images(DRAWN, "smooth", seed, torch.device("cpu"))
    seen = images.masks.sum((2, 3))
    plain = ((seen[:, CIRCLE] >= LEAST_CIRCLE) & (seen[:, TRIANGLE] >= LEAST_TRIANGLE)).nonzero().flatten().tolist()
    middles = F.avg_pool2d(images.masks[:, :1], 5, 1, 2)[:, 0].flatten(1).argmax(1).tolist()
    return [
        Target(scenes.subset([k]), images.frames[k], images.masks[k], (middles[k] % SIZE, middles[k] // SIZE))
        for k in plain[:count]
    ]


def measured(target: Target, futures: Iterable[Tensor]) -> Bank:
    """The motions in futures of an image, a part (n, 3, 64, 64) at a time."""
    circles, triangles = [], []
    for part in futures:
        still, masks = (value.expand(len(part), -1, -1, -1) for value in (target.frame, target.masks))
        circles.append(motion_at(target.frame, part, target.place))
        triangles.append(motion.measure_displacement(still, masks, part)[:, TRIANGLE])
    return Bank(torch.cat(circles), torch.cat(triangles))


def sampled_bank(model: Model, target: Target, count: int, seed: int) -> tuple[Tensor, Bank]:
    """Codes (count, latent) that are sampled for an image, and what is measured in their futures."""
    image = model.predictor.encode_image(target.frame)
    z = model.source().draw(sample_seeds(seed, count), image)
    return z, measured(target, model.predictor.decode_batches(image, z))


def true_bank(target: Target, count: int, seed: int) -> tuple[Tensor, Bank]:
    """How far down the circle goes in true futures, (count,) in pixels of 64x64, and what is measured in them."""
    many = target.scene.subset([0] * count).with_new_motions(seed)
    parts = (many.subset(slice(first, first + PART)) for first in range(0, count, PART))
    drawn = (shapes.images(part, moved=True, rendering="smooth", size=SIZE).float() / 255 for part in parts)
    return law_of_the_circle(target, count, seed), measured(target, drawn)


def law_of_the_circle(target: Target, count: int, seed: int) -> Tensor:
    """How far down the circle goes, (count,) in pixels of 64x64, drawn by the law."""
    motions = target.scene.subset([0] * count).with_new_motions(seed).motions
    return torch.from_numpy(motions[:, CIRCLE, 1]).float() * SIZE / shapes.SIZE


def answers(bank: Bank, asked: Tensor, seed: int) -> tuple[Tensor, list[float]]:
    """How the triangle goes when the circle is asked to go down by each motion (R,): (R, 2), one drawn code a poke.

    NaN where no future of the bank fits. Also the widths of the kernels.
    """
    found, widths = torch.full((len(asked), 2), torch.nan), []
    for place, (down, chance) in enumerate(zip(asked.tolist(), sample_seeds(seed, len(asked)), strict=True)):
        if weighed := weighed_codes(bank.triangle, bank, down):
            found[place] = weighed.draw([chance])[0]
            widths.append(weighed.width)
    return found, widths


def weighed_codes(codes: Tensor, bank: Bank, down: float) -> PokedCodes | None:
    """The codes of a bank, or anything else that it has for each, weighed by a poke; None where none fits."""
    try:
        return PokedCodes(codes, *fitting(bank.circle, (0.0, down)))
    except UserError:
        return None


def asked_and_answered(asked: Tensor, triangle: Tensor) -> Tensor:
    """Rows (R, 3, 2) for a table of Shapes. Its columns in AXES are (asked, triangle's dx) and (asked, its dy)."""
    nothing = torch.zeros_like(asked)
    circle, square = torch.stack([nothing, asked], 1), torch.stack([asked, triangle[:, 1]], 1)
    return torch.stack([circle, square, triangle], 1)


def compute(options: PokeOptions, device: torch.device, progress: Progress) -> Measured:
    """Futures of each image, once; pokes only weigh them."""
    model, small = load(options.model, str(device)), options.small
    codes, pokes = options.samples or (SMALL_CODES if small else CODES), SMALL_POKES if small else POKES
    targets = find_targets(SMALL_IMAGES if small else IMAGES, options.seed)
    rows: dict[str, list[Tensor]] = {}
    widths: list[float] = []
    misses: list[Tensor] = []
    pictures: list[dict[str, list[Pixels]]] = []
    for place, target in enumerate(targets):
        seed = options.seed * 10_000 + 10 * place
        z, ours = sampled_bank(model, target, codes, seed)
        moved, true = true_bank(target, codes, seed + 1)
        _, floor = true_bank(target, codes, seed + 2)
        asked = law_of_the_circle(target, pokes, seed + 3)
        banks = {"poked": true, "ours": ours}
        banks |= {f"ours, {codes // share:,} codes": ours.first(codes // share) for share in SHARES} | {"floor": floor}
        answered = {row: answers(bank, asked, seed + k) for k, (row, bank) in enumerate(banks.items())}
        found = {row: asked_and_answered(asked, triangle) for row, (triangle, _) in answered.items()}
        found["exact"] = asked_and_answered(moved, true.triangle)
        found["free"] = asked_and_answered(asked, ours.triangle[torch.arange(pokes) % codes])
        for row, values in found.items():
            rows.setdefault(row, []).append(values)
        widths += answered["ours"][1]
        misses.append((true.circle - torch.stack([torch.zeros_like(moved), moved], 1)).norm(dim=1))
        if place < PICTURED:
            pictures.append(futures_of_pokes(model, target, z, ours))
        progress("images", (place + 1) / len(targets))
    stills = [[enlarged(to_pixels(target.frame))] for target in targets]
    groups = [Group("", ["input"], stills[:PICTURED])]
    groups += [Group(f"circle {name}", [""] * FUTURES, [each[name] for each in pictures]) for name in SHOWN]
    return Measured(numbers_of(rows, widths, torch.cat(misses), codes), {"poke_futures.png": sheet(groups)})


def futures_of_pokes(model: Model, target: Target, z: Tensor, bank: Bank) -> dict[str, list[Pixels]]:
    """For the figure: some futures of each of the pokes SHOWN; any futures where nothing fits."""
    image, found = model.predictor.encode_image(target.frame), {}
    for name, down in SHOWN.items():
        weighed = weighed_codes(z, bank, down)
        codes = weighed.draw(sample_seeds(0, FUTURES)) if weighed else z[:FUTURES]
        found[name] = [enlarged(to_pixels(future)) for future in model.predictor.decode(image, codes).cpu()]
    return found


def numbers_of(rows: dict[str, list[Tensor]], widths: list[float], misses: Tensor, codes: int) -> dict[str, Any]:
    """For the JSON; rows: name -> of each image (R, 3, 2)."""
    motions = {row: Motions(torch.cat(parts), len(parts[0])) for row, parts in rows.items()}
    truths = {name: motions.pop(name) for name in TRUTHS}
    tables = {name: kl_tables(truth, motions) for name, truth in truths.items()}
    shown = {name: motions[name].displacements for name in PLOTTED}
    seen = misses[misses.isfinite()]
    return {
        "rows": {row: {name: shortened(tables[name][row]) for name in TRUTHS} for row in motions},
        "answered": {
            row: float(each.displacements.isfinite().all(2).all(1).float().mean()) for row, each in motions.items()
        },
        "widths": {f"{width:g}": widths.count(width) / len(widths) for width in sorted({*widths})},
        "matching": {
            "known": len(seen) / len(misses),
            "median": float(seen.median()),
            "p90": float(seen.quantile(0.9)),
        },
        "histograms": {
            name: np.round(motion.joint_histogram(values).numpy(), 7).tolist() for name, values in shown.items()
        },
        "protocol": {
            "images": motions["ours"].images,
            "pokes": len(motions["ours"].displacements),
            "truths": {name: len(truth.displacements) for name, truth in truths.items()},
            "codes": codes,
            "epsilon": motion.EPSILON,
            "range": motion.RANGE,
        },
    }


def shortened(row: dict[str, Any]) -> dict[str, Any]:
    """Of a row of the table of Shapes what is about pokes."""
    return {axis: row[axis] for axis in AXES} | {"intervals": {axis: row["intervals"][axis] for axis in AXES}}


def draw(result: dict[str, Any], folder: Path) -> str:
    """Table, notes and plot."""
    plot_answers(result, folder / "poke.png")
    rows, protocol, found = result["rows"], result["protocol"], result["matching"]
    lines = [
        [
            title(row, protocol["codes"]),
            *(cell for name in TRUTHS for cell in cells(rows[row][name], list(AXES))),
            number(result["answered"][row], 1, 100),
        ]
        for row in rows
    ]
    head = ["KL(truth || prediction) given the circle's motion, nats"]
    head += [f"{axis}, {name} truth" for name in TRUTHS for axis in AXES.values()] + ["pokes answered, %"]
    widths = ", ".join(
        f"{width} px for {number(share, 0, 100)} % of the pokes" for width, share in result["widths"].items()
    )
    notes = (
        f"{protocol['pokes']:,} pokes of {protocol['images']} images, {protocol['codes']:,} codes each, against "
        f"{protocol['truths']['poked']:,} answers by the law; in brackets 95 % intervals. "
        f"Kernel of all codes: {widths}. "
        f"The motion of what is poked is off by {number(found['median'], 3)} px (median), "
        f"{number(found['p90'], 3)} px (90 %) in true futures, and known in {number(found['known'], 1, 100)} % of them."
    )
    return "\n\n".join(
        ["### The triangle's answer", table(head, lines, bold=[title("ours", protocol["codes"])]), notes]
    )


def title(row: str, codes: int) -> str:
    return f"ours, {codes:,} codes" if row == "ours" else TITLES.get(row, row)


def plot_answers(result: dict[str, Any], path: Path) -> None:
    """Asked motion of the circle against the triangle's dx."""
    limit = result["protocol"]["range"]
    with plot(path, 10, 3.6, columns=len(PLOTTED), sharex=True, sharey=True) as axes:
        for axis, name in zip(axes.flat, PLOTTED, strict=True):
            values = np.sqrt(np.array(result["histograms"][name]).T)
            axis.imshow(values, cmap="magma", extent=(-limit, limit, -limit, limit), origin="lower")
            axis.set_title(TITLES[name])
            axis.set_xlabel("circle's asked dy (px)")
            axis.set_ylabel("triangle's dx (px)")


def headline(result: dict[str, Any]) -> Headline:
    """Both axes of the triangle's motion."""
    ours, floor, free = (
        " / ".join(number(result["rows"][row]["poked"][a], 3) for a in AXES) for row in ("ours", "floor", "free")
    )
    return Headline(
        "KL of the triangle's motion (dx / dy) given a poked circle, nats",
        "not in it",
        ours,
        f"{floor} (floor), {free} (not poked)",
    )


EXPERIMENT = Experiment(
    "poke",
    "what the triangle does when the circle is pushed, against the law of Shapes",
    __doc__,
    PokeOptions,
    compute,
    draw,
    headline,
)
