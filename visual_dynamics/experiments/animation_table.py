"""Whole animations: from its first frame a character that the model was not trained on is to move as another one does.

Paper      beyond it: its table of analogies (`reproduce analogy`) makes one frame at a time.
Command    visual-dynamics reproduce animation --sprites FOLDER [--samples COUPLES]
Cost       about 140 s a couple on one CPU core, so some 47 minutes for the default 20.

Protocol: couples (reference, target) of Reed's 100 test characters with the same weapon, drawn by the seed before
anything is made, half within one sex, half across. From the target's first frame of a clip `animate` makes all others,
in the target's own colours, for the five animations in four views: "direct", each from the first frame, and "guided",
the same after a second model, of what comes next, has shown the way; for the stance of the target the latter may take
the first frame of any clip of the reference (see applications/stances.py). "copy": the target stands still. Error:
squared difference of colours in [0, 1] over black, summed over the 60x60x3 numbers of a frame. A target may have a twin
with the other weapon among the 500 that the models trained on, and so half of its frames; the result says how many
have.

Right pose: the nearest true frame of the target's clip is the right one, or looks like it (held poses differ by a few
shades). Growth: the largest mean error of a frame number over that of frame 1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import animation_figures
from visual_dynamics.experiments.futures_figure import encoded
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.palette import OPAQUE, over_black, palette_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.animation import animate

Row = Literal["copy", "direct", "guided"]

SUMMARY = "whole animations of unseen characters: error by animation and by frame (beyond the paper)"
ANIMATIONS = ("spellcast", "thrust", "walk", "slash", "shoot")
ROWS: tuple[Row, ...] = ("copy", "direct", "guided")
WITHIN, ACROSS, ALL = "within one sex", "across", "all"
COUPLES, SMALL_COUPLES = 20, 2
ALIKE = 1.0  # squared error up to which two true frames look the same: less than one pixel from black to white, 3
SHOWN = ("spellcast", "walk", "slash")  # animations of the strips
SHOWN_VIEW = "down"  # of the strips; all that a quick look takes


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "sprites-poses"
    guide: str = "sprites"  # the model of what comes next
    sprites: Path | None = None  # the folder of Reed's characters
    samples: int | None = None  # couples of characters
    seed: int = 0
    small: bool = False  # a quick look: fewer couples, in one view


class Couple(NamedTuple):
    """Places of the character that shows the motion and of the one that is to move."""

    reference: int
    target: int
    part: str  # WITHIN or ACROSS


class Score(NamedTuple):
    """The T - 1 made frames of a clip."""

    errors: NDArray[np.float64]  # (T - 1,)
    right: NDArray[np.bool_]  # (T - 1,): whether in the right pose
    outside: float  # share of visible pixels whose colour the target's first frame does not have


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Every row, part and animation, and the strips of one couple of each part."""
    started = time.monotonic()
    if options.sprites is None:
        raise UserError("this is measured on Reed's sprites: give their folder with --sprites")
    model, guide = (load(name, str(device)) for name in (options.model, options.guide))
    split = sprites.reed_split()
    characters = sprites.read_characters(options.sprites, split.test)
    couples = draw_couples(characters, options.samples or (SMALL_COUPLES if options.small else COUPLES), options.seed)
    twins = int(np.isin([characters.numbers[couple.target] ^ 1 for couple in couples], split.train).sum())
    views = (SHOWN_VIEW,) if options.small else sprites.VIEWS
    rows, strips = measure(model.predictor, guide.predictor, characters, couples, tell, views)
    return {
        "experiment": "animation",
        "rows": rows,
        "animations": ANIMATIONS,
        "strips": strips,
        "couples": [
            {"reference": int(characters.numbers[one]), "target": int(characters.numbers[other]), "part": part}
            for one, other, part in couples
        ],
        "protocol": {
            "characters": len(characters),
            "split": "Reed's 100 test characters",
            "twins": twins,
            "views": views,
            "alike": ALIKE,
        },
        "guide": Path(options.guide).name,
        "guide_weights": guide.weights.digest,
    } | origin(options, model, started, device)


def draw_couples(characters: sprites.Characters, count: int, seed: int) -> list[Couple]:
    """Ordered, all different, with the same weapon: half within one sex, half across; more only add to fewer."""
    sexes, weapons = (characters.attributes[:, column] for column in (sprites.SEX, sprites.WEAPON))
    alike = sexes[:, None] == sexes
    allowed = (weapons[:, None] == weapons) & ~np.eye(len(characters), dtype=bool)
    random = np.random.default_rng(np.random.SeedSequence([seed, len(characters)]))
    couples: list[Couple] = []
    for part, chosen, share in ((WITHIN, alike, count - count // 2), (ACROSS, ~alike, count // 2)):
        every = np.argwhere(allowed & chosen)
        if len(every) < share:
            raise UserError(f"{count} couples need {share} with the same weapon {part}, but there are {len(every)}")
        couples += [Couple(int(one), int(other), part) for one, other in random.permutation(every)[:share]]
    return couples


def measure(
    predictor: Predictor,
    guide: Predictor,
    characters: sprites.Characters,
    couples: list[Couple],
    tell: Tell,
    views: tuple[str, ...] = sprites.VIEWS,
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Row -> part -> its numbers (see `summary`); and strips of the first couple of each part."""
    clips = [clip for clip in sprites.CLIPS if clip.animation in ANIMATIONS and clip.view in views]
    shown = {couple.part: couple for couple in reversed(couples)}  # the first of each part
    scores: dict[str, dict[str, dict[str, list[Score]]]] = {}
    strips: list[dict[str, Any]] = []
    for number, couple in enumerate(couples):
        for place, clip in enumerate(clips):
            reference, target = (as_pictures(characters, who, clip.frames) for who in couple[:2])
            stances = first_frames(characters, couple.reference, clip)
            made = {row: make(predictor, guide, row, reference, target, stances) for row in ROWS}
            for row, pictures in made.items():
                found = score(pictures, target)
                for part in (couple.part, ALL):
                    scores.setdefault(row, {}).setdefault(part, {}).setdefault(clip.animation, []).append(found)
            if couple == shown[couple.part] and clip.animation in SHOWN and clip.view == SHOWN_VIEW:
                named = {"animation": clip.animation, "view": clip.view, "part": couple.part}
                numbers = {"from": int(characters.numbers[couple[0]]), "to": int(characters.numbers[couple[1]])}
                strips.append(named | numbers | {"pictures": strip(reference, target, made["guided"])})
            tell("clips", (number * len(clips) + place + 1) / (len(couples) * len(clips)))
    rows = {row: {part: summary(found) for part, found in parts.items()} for row, parts in scores.items()}
    return rows, strips


def strip(reference: Pixels, truth: Pixels, made: Pixels) -> dict[str, str]:
    """Clips (T, 60, 60, 4), each as a base64 PNG of its frames side by side."""
    clips = {"reference": reference, "truth": truth, "made": made}
    return {name: encoded(np.hstack(list(frames))) for name, frames in clips.items()}


def as_pictures(characters: sprites.Characters, who: int, frames: slice) -> Pixels:
    """A clip of a character as sprites: (T, 60, 60, 4)."""
    return characters.rgba(who, frames).permute(0, 2, 3, 1).numpy()


def first_frames(characters: sprites.Characters, who: int, but: sprites.Clip) -> Pixels:
    """Those of all clips of a character but one: (n, 60, 60, 4)."""
    starts = [clip.frames.start for clip in sprites.CLIPS if clip != but]
    return np.concatenate([as_pictures(characters, who, slice(start, start + 1)) for start in starts])


def make(
    predictor: Predictor, guide: Predictor, row: Row, reference: Pixels, target: Pixels, stances: Pixels
) -> Pixels:
    """A clip (T, 60, 60, 4) from the first frame of the target's; the rest of it is not looked at."""
    if row == "copy":
        return np.repeat(target[:1], len(reference), axis=0)
    if row == "direct":
        return animate(predictor, reference, target[0])
    return animate(predictor, reference, target[0], guide=guide, starts=stances)


def score(made: Pixels, truth: Pixels) -> Score:
    """Made frames against the true ones, (T, 60, 60, 4) both."""
    ours, true = (over_black(frames).reshape(len(frames), -1).astype(np.int64) for frames in (made, truth))
    from_made, from_true = (
        np.stack([np.square(frames - frame).sum(axis=1) for frame in true], axis=1) / 255**2 for frames in (ours, true)
    )  # (T, T): to each true frame
    nearest = from_made.argmin(axis=1)
    right = from_true[np.arange(len(true)), nearest] <= ALIKE
    visible = made[1:][made[1:, ..., 3] >= OPAQUE][:, :3]
    outside = ~np.isin(_codes(visible), _codes(palette_of(truth[:1])))
    return Score(from_made.diagonal()[1:], right[1:], outside.sum() / max(1, len(outside)))


def _codes(colours: Pixels) -> NDArray[np.int64]:
    """(N, 3) -> (N,): a number for each colour."""
    return colours.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])


def summary(scores: dict[str, list[Score]]) -> dict[str, Any]:
    """Means over the clips of each animation; frame numbers count from 1, as frame 0 is given."""
    by_frame = {name: np.mean([each.errors for each in found], axis=0).tolist() for name, found in scores.items()}
    return {
        "error": {name: float(np.mean(errors)) for name, errors in by_frame.items()},
        "error by frame": by_frame,
        "growth": {name: growth(errors) for name, errors in by_frame.items()},
        "right pose": {name: float(np.mean([each.right for each in found])) for name, found in scores.items()},
        "outside palette": float(np.mean([each.outside for found in scores.values() for each in found])),
    }


def growth(errors: list[float]) -> float | None:
    """The largest error over the first one; None where that is 0."""
    return max(errors) / errors[0] if errors[0] else None


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the two figures and the tables; returns the tables as Markdown."""
    return animation_figures.draw(result, folder)


headline = animation_figures.headline
