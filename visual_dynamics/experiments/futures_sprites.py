"""The figure of results on Sprites: as `reproduce futures`, on characters that the model was not trained on.

Paper      the figure of results on Sprites, left: columns (a) to (e); its table of the study with people, right, is
           `reproduce realism`. The column Flow and the strips in which a sampled motion repeats are added here.
Command    visual-dynamics reproduce futures-sprites --sprites FOLDER [--model MODEL] [--samples ROWS]
Cost       about two minutes on two CPU cores (Flow reads 500 characters).

Protocol: characters of Reed's 100, drawn by the seed before anything is predicted, a row an animation and the views in
turn. Flow takes its motions from neighbouring frames of Reed's 500 training characters.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.pairs import spread
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import futures_pictures
from visual_dynamics.experiments.futures_figure import CREDIT, Inputs, rows_asked, show_all
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin

SUMMARY = "inputs, truths, reconstructions and sampled futures of sprites (figure of results on Sprites)"
TWINS = "80 of the 100 have a twin with another weapon among the 500 training characters."
SMALL_CHARACTERS = 50  # that Flow knows in a quick look, of 500


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters
    samples: int | None = None  # rows
    seed: int = 0
    small: bool = False  # a quick look: fewer rows, and fewer characters for Flow


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Every picture of every row, as base64 PNG."""
    started = time.monotonic()
    if options.sprites is None:
        raise UserError("this is about Reed's sprites: give their folder with --sprites")
    count = rows_asked(options)
    model = load(options.model, str(device))
    known = SMALL_CHARACTERS if options.small else None
    inputs = sprite_inputs(options.sprites, count, options.seed, model.size, tell, known)
    shown = show_all(model, inputs, options.seed, device, tell)
    return {"experiment": "futures-sprites"} | shown | origin(options, model, started, device)


def sprite_inputs(folder: Path, count: int, seed: int, size: int, tell: Tell, known: int | None = None) -> Inputs:
    """Characters drawn by the seed, no two alike; animations and views take turns, the moment is drawn.

    `known`: training characters that Flow knows, if not all of them.
    """
    split = sprites.reed_split()

    def read(numbers: sprites.Numbers, what: str) -> sprites.Characters:
        return sprites.read_characters(folder, numbers, lambda done, of: tell(what, done / of))

    test = read(split.test, "test characters")
    who = spread(len(test), count, seed).numpy()
    moments = sprite_moments(len(who), seed)
    pairs = sprites.sprite_pairs(test.subset(who), size=max(64, size))
    each = len(pairs) // len(who)
    places = [row * each + frame - clip for row, (clip, frame) in enumerate(moments)]  # a clip has a pair less
    names = []
    for number, (clip, frame) in zip(test.numbers[who], moments, strict=True):
        animation, view, frames = sprites.CLIPS[clip]
        names.append(f"character {number}, {animation}, {view}, frame {frame - frames.start + 1}")
    train = read(split.train[:known], "training characters")
    return Inputs(
        pairs.subset(torch.tensor(places)).resized(size),
        names,
        f"Sprites: neighbouring frames of Reed's {len(test)} test characters",
        sprites.sprite_pairs(train, size=max(64, size)).resized(size),
        f"neighbouring frames of {len(train)} training characters",
        f"{TWINS} {CREDIT}",
    )


def sprite_moments(count: int, seed: int) -> list[tuple[int, int]]:
    """For each row the number of a clip and one of a character's 178 frames that has a next one in that clip."""
    chance = torch.Generator().manual_seed(seed)
    numbers = {(clip.animation, clip.view): number for number, clip in enumerate(sprites.CLIPS)}
    animations, moments = list(sprites.ANIMATIONS), []
    for row in range(count):
        turn, place = divmod(row, len(animations))
        view = sprites.VIEWS[(row + turn + seed) % len(sprites.VIEWS)]
        number = numbers.get((animations[place], view), numbers["hurt", "down"])
        frames = range(sprites.FRAMES)[sprites.CLIPS[number].frames]
        moments.append((number, frames[int(torch.randint(len(frames) - 1, (), generator=chance))]))
    return moments


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the two figures and their notes; returns the notes as Markdown."""
    return futures_pictures.draw(result, folder)


headline = futures_pictures.headline
