"""Poke: one part of an image is pushed, and the futures show what the rest does.

1. Sample many codes z of the image.
2. Measure in each future how far the part at the place goes.
3. Weigh each code by a Gaussian kernel of the difference to the motion that is wanted.
4. Draw from the weighted codes. They are samples of p(z | image, the part moves so), by importance sampling.

Letters in shape comments: N codes, S side of the model's frames. Places and motions are (x, y) in pixels, y down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.images import Box
from visual_dynamics.sampling.latents import LatentSource, sample_seeds
from visual_dynamics.sampling.matching import (
    REACH,
    cost_surface,
    flat_regions,
    lowest,
    near,
    other_colours,
    precise,
    sure,
)
from visual_dynamics.sampling.predictor import EncodedImage, Predictor

CODES = 2_000  # that are sampled
PART = 64  # futures that are measured together
WIDTHS = (1 / 8, 1 / 4, 1 / 2, 1.0)  # of the kernel, in pixels of the model's frame: the least that leaves ...
EFFECTIVE = 64.0  # ... this effective number of codes
LONGEST = 4  # a motion is at most 1/LONGEST of the frame
PATCH = 5  # pixels around the place that are matched where it lies in no flat part
LEAST = 24  # pixels of a flat part
MIXES = 17  # colours between that of a flat part and that of the ground
APART = 2  # pixels between what is matched and other parts, which may move otherwise

Progress = Callable[[int, int], object]  # codes that are done, and all


Pair = tuple[float, float]  # x, y


class Poke(NamedTuple):
    """The part at `place` goes by `motion`."""

    place: Pair
    motion: Pair


def in_frame(poke: tuple[Pair, Pair], shape: tuple[int, int], box: Box) -> Poke:
    """A poke ((x, y), (dx, dy)) of a picture of shape (H, W), in pixels of a model's frame, where it lies at `box`."""
    try:
        x, y, dx, dy = (float(number) for (first, second) in poke for number in (first, second))
    except (TypeError, ValueError):
        x = y = dx = dy = math.nan
    if not all(map(math.isfinite, (x, y, dx, dy))):
        raise UserError(f"a poke is a place and a motion in pixels, ((x, y), (dx, dy)), not {poke}")
    height, width = shape
    if not (-0.5 <= x <= width - 0.5 and -0.5 <= y <= height - 0.5):
        raise UserError(f"the poked place ({x:g}, {y:g}) lies outside the picture of {width} x {height} pixels")
    across, down = box.width / width, box.height / height
    place = box.left + (x + 0.5) * across - 0.5, box.top + (y + 0.5) * down - 0.5
    return Poke(place, (dx * across, dy * down))


@dataclass(frozen=True)
class PokedCodes:
    """A latent source: weighted codes, one of which is drawn for each seed."""

    codes: Tensor  # (N, latent)
    weights: Tensor  # float64 (N,), sum to 1
    width: float  # of the kernel, in pixels of the model's frame

    @property
    def effective(self) -> float:
        """How many equally weighted codes would say as much."""
        return float(1 / self.weights.square().sum())

    def draw(self, seeds: Sequence[int], image: EncodedImage | None = None) -> Tensor:
        return self.codes[self.chosen(seeds)]

    def chosen(self, seeds: Sequence[int]) -> Tensor:
        """The number of the code that each seed draws, int64 (n,)."""
        bounds = self.weights.cumsum(0)[:-1].numpy()
        places = [np.random.default_rng([seed, 1]).random() for seed in seeds]  # 1: another stream than that of z
        return torch.from_numpy(np.searchsorted(bounds, places, side="right"))


def poked_codes(
    predictor: Predictor,
    image: EncodedImage,
    source: LatentSource,
    poke: Poke,
    seed: int,
    count: int = CODES,
    progress: Progress = lambda done, total: None,
) -> PokedCodes:
    """Codes of an image, weighted by how well what they do fits a poke, in pixels of the model's frame."""
    codes, motions = moved_by_codes(predictor, image, source, poke, seed, count, progress)
    weights, width = fitting(motions, poke.motion)
    return PokedCodes(codes, weights, width)


def moved_by_codes(
    predictor: Predictor,
    image: EncodedImage,
    source: LatentSource,
    poke: Poke,
    seed: int,
    count: int,
    progress: Progress = lambda done, total: None,
) -> tuple[Tensor, Tensor]:
    """Codes of an image (N, latent), and how far each moves the poked part (N, 2); NaN where that is unknown."""
    longest = max(map(abs, poke.motion))
    if longest > predictor.size / LONGEST:
        raise UserError(f"the poke moves its part by more than 1/{LONGEST} of the picture: no sampled motion does")
    reach = max(REACH, math.ceil(longest) + 2)
    frame, codes, motions = image.frame.cpu(), [], []
    for first in range(0, count, PART):
        z = source.draw(sample_seeds(seed, min(PART, count - first), first), image)
        codes.append(z)
        motions.append(motion_at(frame, predictor.decode(image, z).cpu(), poke.place, reach))
        progress(first + len(z), count)
    return torch.cat(codes), torch.cat(motions)


def motion_at(frame: Tensor, futures: Tensor, place: Pair, reach: int = REACH) -> Tensor:
    """How far what a frame (3, S, S) shows at a place goes in its futures (N, 3, S, S): (N, 2), to 1/16 pixel.

    NaN where it is unknown: where many displacements fit, or where it goes further than `reach`.
    """
    part = part_at(frame, place)
    covered = other_colours(part.colours, futures)
    surface = cost_surface(frame, part.mask, torch.zeros_like(part.mask), futures, covered, reach)
    found = precise(frame, part.mask, futures, covered, lowest(surface))
    return torch.where(sure(surface)[:, None], found, torch.nan)


class Part(NamedTuple):
    """What is matched."""

    mask: Tensor  # bool (S, S)
    colours: Tensor  # (C, 3), its own and those at its border; others lie over it


def part_at(frame: Tensor, place: Pair) -> Part:
    """The flat part of a frame (3, S, S) at a place with the ground around it, or else a patch around the place.

    Pixels beside other parts are left out. The ground is the largest flat part.
    """
    x, y = (min(max(round(value), 0), frame.shape[-1] - 1) for value in place)
    labels = flat_regions(frame)
    here, ground = labels == labels[y, x], labels == 0
    own, around = (frame[:, mask].median(1).values for mask in (here, ground))
    colours = torch.stack([own.lerp(around, share) for share in torch.linspace(0, 1, MIXES)])
    others = ~(here | ground) | other_colours(colours, frame[None])[0]
    ring = near(here) & ground & ~near(others, APART)
    if labels[y, x] != 0 and here.sum() >= LEAST and ring.any():
        return Part((here & ~near(others, APART)) | ring, colours)
    patch = torch.zeros_like(here)
    patch[max(0, y - PATCH) : y + PATCH + 1, max(0, x - PATCH) : x + PATCH + 1] = True
    return Part(patch, frame[:, patch].T.contiguous())


def fitting(motions: Tensor, wanted: Pair, width: float | None = None) -> tuple[Tensor, float]:
    """Weights (N,) that sum to 1 of codes with these motions (N, 2), and the width of the kernel that gives them.

    Without a width: the least of WIDTHS that leaves an effective number of EFFECTIVE codes, or else the largest.
    """
    away = (motions.double() - torch.tensor(wanted, dtype=torch.float64)).norm(dim=1)  # (N,)
    known = away.isfinite()
    if not known.any():
        raise UserError("the poked place has no outline or pattern that would show its motion: poke another one")
    nearest = int(torch.where(known, away, math.inf).argmin())
    if away[nearest] > WIDTHS[-1]:
        dx, dy = motions[nearest].tolist()
        raise UserError(
            f"no sampled motion moves that place like this: in pixels of the model's frame {wanted[0]:.1f}, "
            f"{wanted[1]:.1f} is wanted, and the nearest of {len(motions):,} is {dx:.1f}, {dy:.1f}"
        )
    for tried in (width,) if width else WIDTHS:
        weights = torch.where(known, torch.exp(-0.5 * (away / tried).square()), 0.0)
        if weights.sum() > 0 and weights.sum() ** 2 / weights.square().sum() >= EFFECTIVE:
            break
    return weights / weights.sum(), tried
