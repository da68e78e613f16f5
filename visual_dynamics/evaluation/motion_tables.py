"""The KL table of motions with an interval for each number: whole images, with all their futures, are drawn again.

The motions of each image are counted in bins once; images that are drawn again only add up counts.

What an interval means. The KL divergence of two histograms is above zero even where their laws are equal, the more the
fewer the samples; histograms of images drawn again add that excess a second time. So the values over such images are
shifted: their mean is the measured number. The interval then says how far that number, at these sample counts, moves
with other images. Near the floor it is too wide, about twice: the error is on the safe side.

Letters: N images, n futures of each, R = N n rows, B bins with the one outside, D draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.intervals import BOUNDS, SLOW_DRAWS
from visual_dynamics.evaluation.motion_distribution import OUTSIDE, RANGE, bins, columns, divergence


@dataclass(frozen=True)
class Motions:
    """Displacements in futures of images 0, 1, 2, ..., the same number for each."""

    displacements: Tensor  # (R, 3, 2), all futures of an image in a row
    each: int = 1  # n

    @property
    def images(self) -> int:
        return len(self.displacements) // self.each

    def counts(self, reach: float = RANGE) -> dict[str, Tensor]:
        """For each column of the table how many motions of each image lie in each bin: float32 (N, B)."""
        image = torch.arange(len(self.displacements)) // self.each
        found = {}
        for name, column in columns(self.displacements).items():
            places = bins(column, reach)
            known = places >= 0
            if not known.any():
                raise UserError("no displacement could be measured, so there is no distribution to compare")
            flat = image[known] * (OUTSIDE + 1) + places[known]
            found[name] = torch.bincount(flat, minlength=self.images * (OUTSIDE + 1)).view(self.images, -1).float()
        return found


def kl_tables(
    truth: Motions, rows: Mapping[str, Motions], seed: int = 0, draws: int = SLOW_DRAWS, reach: float = RANGE
) -> dict[str, Any]:
    """For each row the KL divergence of each column, and `intervals` of these.

    Image i of a row is image i of the truth. A row may have fewer images: then the first ones. `reach`: of the bins.
    """
    if any(row.images > truth.images for row in rows.values()):
        raise ValueError("a row has images that the truth does not have")
    drawn = np.random.default_rng(seed).multinomial(truth.images, np.full(truth.images, 1 / truth.images), draws)
    times = torch.cat([torch.ones(1, truth.images), torch.from_numpy(drawn).float()])  # (1 + D, N), as measured first
    true = {name: _shares(times, counts) for name, counts in truth.counts(reach).items()}
    tables: dict[str, Any] = {}
    for row, motions in rows.items():
        tables[row] = {"intervals": {}}
        for name, counts in motions.counts(reach).items():
            found = divergence(true[name], _shares(times[:, : motions.images], counts))  # (1 + D,)
            measured, again = float(found[0]), found[1:].numpy()
            low, high = np.quantile(again, BOUNDS) - again.mean() + measured
            tables[row][name] = measured
            tables[row]["intervals"][name] = [max(0.0, float(low)), float(high)]
    return tables


def mean_table(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row for several of the same sizes: mean numbers; the bounds of the intervals, too, are means."""
    means: dict[str, Any] = {name: fmean(table[name] for table in tables) for name in tables[0]["intervals"]}
    bounds = {name: np.mean([table["intervals"][name] for table in tables], axis=0).tolist() for name in means}
    return means | {"intervals": bounds}


def _shares(times: Tensor, counts: Tensor) -> Tensor:
    """Histograms (D, B) of images that are taken `times` (D, N) each; counts (N, B)."""
    total = (times @ counts).double()
    return total / total.sum(1, keepdim=True).clamp_min(1)
