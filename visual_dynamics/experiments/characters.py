"""Motions carried over between characters that no model has seen, at any place in their cells.

Paper      has no such table: its "Zero-Shot Visual Analogy-Making" is about Reed's characters, see `analogy`.
Command    visual-dynamics reproduce characters --lpc FOLDER
Cost       on one CPU core some 17 minutes.

Protocol: characters composed of a checkout of the LPC generator, of its six body types in turn. Each wears held-out
items (sprites/lpc_held_out.txt), which `prepare lpc --items train` leaves out. "ours" learned from characters of the
other items, the other two models from Reed's characters in one place. The motion code is read from two frames
of the source and applied to the first of the same two frames of the target; the target's second frame is the truth.
Two kinds of moves: from a frame to the next one, and between any two frames of an animation. The source is of the
target's body type, or of another one, by turns. Both stand at places of their own, drawn from all at which they lie
within the cell of 64x64.

Error: squared difference of colours in [0, 1], summed over a frame. The tables show it in units of copying: the mean
error over that of the unmoved target, of the same questions. The average is that of the animations' errors, over that
of copying. Targets take turns, so that a character has as many questions as another one with the same animations.

What a target holds, or a part of it that its first frame hides, cannot be known from that frame. Such questions are
counted all the same.

Intervals: a bootstrap over characters, drawn once for both roles (see `analogy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data.packed import PackedCharacter
from visual_dynamics.evaluation.analogies import average_interval, by_families
from visual_dynamics.evaluation.carried_motions import CarriedMotions, draw_motions, same_body
from visual_dynamics.evaluation.intervals import Interval
from visual_dynamics.experiments.sprite_futures import CREDIT
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, lpc_checkout
from visual_dynamics.reporting.drawing import Group, enlarged, number, sheet, table, to_pixels, with_interval
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.cast import draw_cast
from visual_dynamics.sprites.generator import ANIMATIONS, Generator

CHARACTERS, SMALL_CHARACTERS = 48, 6
SAMPLES, SMALL_SAMPLES = 9_000, 30  # questions of each kind, over the animations
COPY, OURS = "copy", "ours"
REED, REED_POSES = "ours, of Reed's sprites", "ours, poses of Reed's sprites"
HEADS = {OURS: "ours", REED: "of Reed's", REED_POSES: "poses of his"}  # in the figure
KINDS = {"neighbouring frames": True, "any two frames": False}
ALL, WITHIN, ACROSS = "all", "within one body type", "across"
CHUNK = 64  # questions whose frames are held at once
PICTURE = 128  # pixels a side in the figure
SHOWN = ("walk", "slash", "shoot", "jump", "sit", "run", "climb")  # in the figure

Asked = Mapping[str, CarriedMotions]  # by animation
Errors = Mapping[str, Mapping[str, Tensor]]  # animation -> row -> (N,)


@dataclass(frozen=True)
class CharactersOptions(ExperimentOptions):
    model: str = "sprites-lpc-poses"  # of characters of the generator; the others are of Reed's
    guide: str = "sprites"
    poses_model: str = "sprites-poses"
    lpc: Path | None = None  # a checkout of the LPC generator


def compute(options: CharactersOptions, device: torch.device, progress: Progress) -> Measured:
    generator = Generator(lpc_checkout(options))
    names = {OURS: options.model, REED: options.guide, REED_POSES: options.poses_model}
    predictors = {row: load(name, str(device)).predictor for row, name in names.items()}
    count = SMALL_CHARACTERS if options.small else CHARACTERS
    characters = draw_cast(
        generator, count, options.seed, "held-out", progress=lambda done, of: progress("characters", done / of)
    )
    each = -(-(options.samples or (SMALL_SAMPLES if options.small else SAMPLES)) // len(ANIMATIONS))
    tables, asked = {}, {}
    for kind, neighbours in KINDS.items():
        drawn = {name: draw_motions(characters, name, each, options.seed, neighbours) for name in ANIMATIONS}
        asked[kind] = {name: questions for name, questions in drawn.items() if questions}
        errors = {}
        for done, (name, questions) in enumerate(asked[kind].items(), 1):
            errors[name] = answer(predictors, characters, questions)
            progress(kind, done / len(asked[kind]))
        tables[kind] = measure(characters, asked[kind], errors)
    protocol = {
        "questions": each,
        "models": {row: Path(name).name for row, name in names.items()},
        "characters": [
            {"number": one.facts["number"], "body": one.facts["body"], "slots": sorted(one.facts["worn"])}
            for one in characters
        ],
    }
    figure = show(predictors, characters, asked)
    return Measured({"tables": tables, "protocol": protocol}, {"characters.png": figure})


def answer(
    predictors: Mapping[str, Predictor], characters: Sequence[PackedCharacter], questions: CarriedMotions
) -> dict[str, Tensor]:
    """Errors (N,) of each row."""
    errors: dict[str, list[Tensor]] = {}
    for rows in torch.arange(len(questions)).split(CHUNK):
        before, after, frame, truth = questions.frames(characters, rows.tolist())
        made = {COPY: frame} | {
            name: predictor.decode_each(frame, predictor.encode(before, after).mean).cpu()
            for name, predictor in predictors.items()
        }
        for name, predicted in made.items():
            errors.setdefault(name, []).append((predicted - truth).square().flatten(1).sum(1))
    return {name: torch.cat(values) for name, values in errors.items()}


def measure(characters: Sequence[PackedCharacter], asked: Asked, errors: Errors) -> dict[str, Any]:
    """Of each row the ratio to copying: by animation and part, its average, and by target."""
    alike = {
        name: np.array([same_body(characters, *pair) for pair in zip(each.source, each.target, strict=True)])
        for name, each in asked.items()
    }
    chosen = {ALL: {n: a | True for n, a in alike.items()}, WITHIN: alike, ACROSS: {n: ~a for n, a in alike.items()}}
    copies = {name: found[COPY] for name, found in errors.items()}
    found: dict[str, Any] = {"copy": {name: float(values.mean()) for name, values in copies.items()}}
    for row in [row for row in next(iter(errors.values())) if row != COPY]:
        own = {name: rows[row] for name, rows in errors.items()}
        found[row] = {part: ratios(asked, own, copies, which, len(characters)) for part, which in chosen.items()} | {
            "targets": by_target(asked, own, copies, len(characters))
        }
    return found


def ratios(
    asked: Asked, errors: Mapping[str, Tensor], copies: Mapping[str, Tensor], chosen: Mapping[str, Any], count: int
) -> dict[str, Any]:
    """Of the animations with such questions."""
    names = [name for name in asked if chosen[name].any()]
    which, questions, places = [chosen[n] for n in names], [asked[n] for n in names], np.arange(count)
    if not names:
        return {"animations": {}, "average": None, "interval": (None, None)}
    own, copying = (by_families([of[n] for n in names], questions, which, places) for of in (errors, copies))
    sums, floors = own.sum((2, 3)), copying.sum((2, 3))  # (2, A)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = dict(zip(names, (sums[0] / floors[0]).tolist(), strict=True))
    interval: Interval = average_interval(own, copying)
    return {
        "animations": each,
        "average": float((sums[0] / sums[1]).mean() / (floors[0] / floors[1]).mean()),
        "interval": interval,
    }


def by_target(
    asked: Asked, errors: Mapping[str, Tensor], copies: Mapping[str, Tensor], count: int
) -> list[float | None]:
    """Of each character the mean error over that of copying; None without a question."""
    targets = np.concatenate([each.target for each in asked.values()])
    own, copying = (
        np.bincount(targets, torch.cat([of[name] for name in asked]).double().numpy(), count) for of in (errors, copies)
    )
    return [float(mine / floor) if floor > 0 else None for mine, floor in zip(own, copying, strict=True)]


def show(
    predictors: Mapping[str, Predictor], characters: Sequence[PackedCharacter], asked: Mapping[str, Asked]
) -> bytes:
    """The last question of some animations."""
    groups: list[Group] = []
    labels: dict[str, str] = {}  # animation -> from whom to whom, in each group
    for kind, of in asked.items():
        rows: list[list[Pixels]] = []
        for name in (name for name in SHOWN if name in of):
            questions = of[name]
            frames = questions.frames(characters, [len(questions) - 1])
            z = {row: predictor.encode(*frames[:2]).mean for row, predictor in predictors.items()}
            made = [predictor.decode_each(frames[2], z[row]).cpu() for row, predictor in predictors.items()]
            rows.append([enlarged(to_pixels(x[0]), PICTURE) for x in (*frames[:3], *made, frames[3])])
            ends = (characters[who[-1]].facts["body"] for who in (questions.source, questions.target))
            labels[name] = f"{labels.get(name, name)}\n{' to '.join(ends)}"
        groups.append(Group(kind, ["before", "after", "input", *(HEADS[row] for row in predictors), "truth"], rows))
    return sheet(groups, list(labels.values()))


def draw(result: dict[str, Any], folder: Path) -> str:
    """By animation and part; then by character."""
    protocol, tables = result["protocol"], result["tables"]
    models, known = protocol["models"], protocol["characters"]
    parts = []
    for kind, found in tables.items():
        names = list(found["copy"])
        lines = [["copy, squared error", *(number(found["copy"][name], 1) for name in names), ""]]
        for row in models:
            for part in (ALL, WITHIN, ACROSS):
                cells = [number(found[row][part]["animations"].get(name), 2) for name in names]
                mean = with_interval(found[row][part]["average"], found[row][part]["interval"], 2)
                lines.append([f"{row}, {part}", *cells, mean])
        head = ["error / error of copying", *names, "average (95 % interval)"]
        parts += [f"### Motions carried over to unseen characters, {kind}", table(head, lines)]
    head = ["error / error of copying", *(f"{row}, {kind}" for row in models for kind in tables)]
    lines = [
        [
            f"{one['number']}, {one['body']}{', with weapon' * ('weapon' in one['slots'])}",
            *(number(tables[kind][row]["targets"][place], 2) for row in models for kind in tables),
        ]
        for place, one in enumerate(known)
    ]
    parts += ["### By target", table(head, lines)]
    notes = (
        f"{len(known)} characters, {protocol['questions']} questions an animation and kind. "
        f"Models: {'; '.join(f'{row}: {name}' for row, name in models.items())}. {CREDIT}"
    )
    return "\n\n".join([*parts, notes])


def headline(result: dict[str, Any]) -> Headline:
    def words(row: str, part: str) -> str:
        found = [result["tables"][kind][row][part] for kind in KINDS]
        return " / ".join(with_interval(each["average"], each["interval"], 2) for each in found)

    models = result["protocol"]["models"]
    return Headline(
        "error / error of copying, unseen characters at any place: neighbouring / any two frames",
        "",
        "; ".join(f"{words(row, ALL)} ({name})" for row, name in models.items()),
        "; ".join(f"across body types {words(row, ACROSS)} ({name})" for row, name in models.items()),
    )


EXPERIMENT = Experiment(
    "characters",
    "error of motions carried over between characters that no model has seen",
    __doc__,
    CharactersOptions,
    compute,
    draw,
    headline,
)
