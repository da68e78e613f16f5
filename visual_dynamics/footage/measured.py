"""The pairs of prepared footage that are measured, and checks that nobody knows them already."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.data.shards import Take, holds_footage, open_pairs, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.codes import distance_to_stored
from visual_dynamics.evaluation.video_motion import Regions, take_regions
from visual_dynamics.sampling.latents import TrainingPosteriors

SAME_CODE = 0.2  # of a code's distance to the mean code: nearer ones are the same, but for the rounding of weights.
# With `people`, 60 of its training pairs: from 0.04 on, half of them below 0.11; 52 pairs of other scenes: from 0.84 on


class Footage(NamedTuple):
    name: str
    pairs: Pairs  # of the part that is measured
    takes: list[Take]  # that these are from
    known: Pairs  # training pairs, for Flow


class Input(NamedTuple):
    """A pair that is measured."""

    take: Take
    place: int  # among all pairs of its part
    where: Regions  # of its take


def open_footage(folder: Path, split: str, size: int, most: int, seed: int) -> Footage:
    """The pairs of one part of a folder that `prepare videos` made, and at most `most` training pairs."""
    if not holds_footage(folder):
        raise UserError(f"{folder} holds no footage that visual-dynamics prepare videos made")
    if split == "train":
        raise UserError("training scenes are not measured: choose held-out or test")
    train, stored = open_pairs(folder, "train"), open_pairs(folder, split)
    if stored is None or not len(stored):
        raise UserError(f"{folder} has no {split} scenes: prepare it with more scenes, --held-out or --split")
    assert train is not None  # this part is never empty
    known = Pairs.of(*train.resized(size).read(spread(len(train), most, seed).sort().values))
    return Footage(folder.resolve().name, stored.resized(size).in_memory(), split_takes(folder, split), known)


def draw_inputs(pairs: Pairs, takes: list[Take], count: int, seed: int) -> list[Input]:
    """Pairs in random order, one of each scene in turn while it has any; the first `count`."""
    scenes: dict[str, list[tuple[Take, int]]] = {}
    for take in takes:
        scenes.setdefault(take.scene, []).extend((take, place) for place in take.places.tolist())
    shuffled = [[own[i] for i in spread(len(own), len(own), seed).tolist()] for own in scenes.values()]
    chosen = [one for turn in zip_longest(*shuffled) for one in turn if one is not None][:count]
    where = {name: take_regions(pairs, places) for name, places in {t.name: t.places for t, _ in chosen}.items()}
    return [Input(take, place, where[take.name]) for take, place in chosen]


def in_halves(inputs: list[Input]) -> tuple[list[Input], list[Input]]:
    """Every other input of each scene, and the rest; both in their order."""
    halves: tuple[list[Input], list[Input]] = ([], [])
    count: Counter[str] = Counter()
    for one in inputs:
        halves[count[one.take.scene] % 2].append(one)
        count[one.take.scene] += 1
    return halves


def check_frames(known: Pairs, measured: Pairs) -> None:
    """Raise UserError where a frame that is measured is one of those that Flow knows."""
    if shared := _digests(known) & _digests(measured):
        raise UserError(
            f"{len(shared)} frames are in training and in measured scenes: give all clips of them one scene"
        )


def check_codes(stored: TrainingPosteriors, codes: Tensor) -> None:
    """Raise UserError where the model keeps the motion code of a measured pair; codes: means of q(z | v, I), (n, z)."""
    same = int((distance_to_stored(stored, codes) < SAME_CODE).sum()) if len(stored) else 0
    if same:
        raise UserError(f"the model keeps the motion codes of {same} measured pairs: it was trained on these scenes")


def _digests(pairs: Pairs) -> set[bytes]:
    parts = torch.arange(len(pairs.store)).split(1024)
    return {hashlib.sha256(frame.cpu().numpy().tobytes()).digest() for part in parts for frame in pairs.store[part]}
