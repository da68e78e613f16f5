"""Pictures of the learned layers for the experiment's JSON: which images are shown, their maps and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from visual_dynamics.data import shapes
from visual_dynamics.evaluation import layer_overlap as overlap
from visual_dynamics.experiments.futures_figure import as_pixels, encoded

if TYPE_CHECKING:
    from visual_dynamics.experiments.layers_table import Bank, Images

SHOWN = 4  # images in the figures
IN_SIGHT = 0.7  # of every object, in the images of the figures


def in_sight(images: Images) -> Tensor:
    """Numbers of the first images with all objects in sight; then, should there be too few, the first of the others."""
    area = images.whole.sum((2, 3))
    least = area.amax() / 4  # a shape of which the frame cuts off much is not in sight either
    good = ((images.visible.sum((2, 3)) >= IN_SIGHT * area) & (area >= least)).all(1)
    return good.logical_not().int().argsort(stable=True)[:SHOWN]


def pictures(bank: Bank, images: Images, rows: dict[str, Any]) -> list[dict[str, Any]]:
    """For each image: the frame, its maps at every scale (one beneath the other) and the regions of the best maps."""
    maps = bank.respond(images)
    count = bank.network.config.maps
    grey = maps[:, : len(bank.lowest)]
    grey = grey / grey.amax((0, 2, 3)).clamp(min=1e-6)[:, None, None]  # white: the most that any of these images has
    made = []
    for number in range(len(images)):
        regions = {}
        for name in ("best map", "read-out of all scales"):
            found = []
            for target, thing in enumerate(shapes.OBJECTS):
                cell = rows[name]["visible"][thing]
                choice = overlap.Choice(cell["map"], overlap.SIGNS.index(cell["sign"]), cell["threshold"], 0.0)
                found.append(both_regions(overlap.region(maps, choice)[number], images.targets[number, target]))
            regions[name] = found
        made.append(
            {
                "input": encoded(as_pixels(images.frames[number])),
                "scales": [
                    encoded(as_pixels(scale.reshape(1, -1, scale.shape[-1]).expand(3, -1, -1)))
                    for scale in grey[number].split(count)
                ],
                "regions": regions,
            }
        )
    return made


def both_regions(region: Tensor, mask: Tensor) -> str:
    """White where region and mask agree that the object is, red for the region alone, blue for the mask alone."""
    return encoded(as_pixels(torch.stack([region, region & mask, mask]).float()))
