"""What may follow, as a distribution: samples of the next frame of sprites that no model has seen.

Paper      has no such table. Its figure of results on Sprites shows samples of characters whose frames have one
           continuation. A standing character may begin any animation: there samples must differ.
Command    visual-dynamics reproduce sprite-futures --lpc FOLDER
Cost       on one CPU core --samples 10 takes about three minutes.

Protocol: characters composed of a checkout of the LPC generator. Each wears held-out items (sprites/lpc_held_out.txt),
which `prepare lpc --items train` leaves out, and has every animation of its body type. Body types take turns; child is
left out, as its clothes are drawn for walk alone. Frames are shown as the generator draws them in their cells.

A standing frame is the first frame of walk. From it each animation of the same view may follow: by the first of its
frames that is unlike the standing one; sit and emote, which are separate poses, by any of theirs. A frame amid an
animation is none of its first ones, and unlike the standing and the next frame. There the next frame may follow, and
the frame after any that it cannot be told from, of the same view.

Unlike, and wrong, is what is further than the limit: a quarter of the median squared difference between neighbouring
frames of these characters, which is half of their distance. So a copy of the input is always wrong.

Precision: share of 50 samples that are within the limit of a frame that may follow. Recall: share of the animations
that may follow which some sample meets. Samples are those of `Model.sample`, as predicted, and with the colours of
each pixel snapped to those of the input. Flow takes its motions from characters composed of the other items: pairs of
neighbouring frames, and of standing frames with the first frame of each animation.

Intervals: a bootstrap over characters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.data.packed import PackedCharacter, packed_pairs
from visual_dynamics.evaluation.continuations import (
    FutureQuestion,
    Score,
    error_limit,
    moving_questions,
    score,
    standing_questions,
)
from visual_dynamics.evaluation.intervals import cluster_interval
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, lpc_checkout
from visual_dynamics.reporting.drawing import Group, enlarged, number, sheet, table, with_interval
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.palette import snap_to_palette
from visual_dynamics.sprites.cast import draw_cast
from visual_dynamics.sprites.generator import BODY_TYPES, CELL, Generator
from visual_dynamics.sprites.outfits import Items

BODIES = tuple(body for body in BODY_TYPES if body != "child")
CHARACTERS, SMALL_CHARACTERS = 40, 2
STANDING, MOVING = 2, 4  # frames of a character
SAMPLES, SMALL_SAMPLES = 50, 8  # of a frame
FLOW_CHARACTERS, SMALL_FLOW_CHARACTERS = 100, 4
FLOW_SEED = 1  # of Flow's characters, which are the same whatever is measured
CREDIT = "Art of the Liberated Pixel Cup (lpc.opengameart.org); the checkout's CREDITS.csv names the authors."
COPY, FLOW, OURS, POSES = "copy", "Flow", "ours", "ours, poses"
WAYS = ("as predicted", "snapped")
KINDS = ("standing", "moving")
PICTURE = 128  # pixels a side in the figure
SHOWN, COLUMNS = 2, 15  # frames of each kind in the figure, and pictures of each row

Sampler = Callable[[Pixels, int, int], Pixels]  # frame (S, S, 3) over black, n, seed -> (n, S, S, 3)
Scores = Mapping[str, Mapping[str, Score]]  # row -> way -> of one frame


@dataclass(frozen=True)
class DistributionOptions(ExperimentOptions):
    model: str = "sprites"
    poses_model: str = "sprites-poses"
    lpc: Path | None = None  # a checkout of the LPC generator


class Wall(NamedTuple):
    """What may follow a frame, and samples, in rows of COLUMNS pictures."""

    labels: list[str]
    pictures: list[list[Pixels]]


def compute(options: DistributionOptions, device: torch.device, progress: Progress) -> Measured:
    generator, small = Generator(lpc_checkout(options)), options.small

    def cast(count: int, seed: int, items: Items, step: str, **which: Any) -> list[PackedCharacter]:
        return draw_cast(generator, count, seed, items, progress=lambda done, of: progress(step, done / of), **which)

    count = options.samples or (SMALL_CHARACTERS if small else CHARACTERS)
    characters = cast(count, options.seed, "held-out", "characters", bodies=BODIES, whole=True)
    known = cast(SMALL_FLOW_CHARACTERS if small else FLOW_CHARACTERS, FLOW_SEED, "train", "characters for Flow")
    limit = error_limit(characters)
    asked = standing_questions(characters, limit, STANDING, options.seed)
    asked += moving_questions(characters, limit, MOVING, options.seed)
    names = {OURS: options.model, POSES: options.poses_model}
    samplers = samplers_of({row: load(name, str(device)) for row, name in names.items()}, known, device)
    samples = SMALL_SAMPLES if small else SAMPLES
    scores: list[Scores] = []
    walls: list[Wall] = []
    drawn: dict[bool, set[int]] = {True: set(), False: set()}  # standing or not -> characters in the figure
    for place, question in enumerate(asked):
        one = characters[question.character]
        frame = one.over_black([question.frame])[0]
        made = {row: sample(frame, samples, options.seed + place) for row, sample in samplers.items()}
        scores.append(judge(made, one, question, limit))
        if question.character not in drawn[question.standing] and len(drawn[question.standing]) < SHOWN:
            drawn[question.standing].add(question.character)
            walls.append(draw_wall(made, one, question, scores[-1]))
        progress("frames", (place + 1) / len(asked))
    protocol = {
        "characters": len(characters),
        "bodies": sorted({str(one.facts["body"]) for one in characters}),
        "standing": sum(question.standing for question in asked),
        "moving": sum(not question.standing for question in asked),
        "continuations": float(np.mean([len(question.truths) for question in asked if question.standing])),
        "samples": samples,
        "flow_characters": len(known),
        "models": {row: Path(name).name for row, name in names.items()},
    }
    figure = sheet(
        [Group("", [""] * COLUMNS, [row for wall in walls for row in wall.pictures])],
        [label for wall in walls for label in wall.labels],
    )
    numbers = {"limit": limit, "rows": summary(asked, scores, options.seed), "protocol": protocol}
    return Measured(numbers, {"sprite-futures.png": figure})


def samplers_of(
    models: Mapping[str, Model], known: Sequence[PackedCharacter], device: torch.device
) -> dict[str, Sampler]:
    """Every row as a function of a sprite, a number of samples and a seed."""
    flow = FlowTransfer(packed_pairs(known, "neighbours+starts", CELL, 0).in_memory().to(device))

    def transferred(frame: Pixels, n: int, seed: int) -> Pixels:
        levels = torch.from_numpy(frame).movedim(2, 0).to(device).float() / 255
        made = flow.sample(levels, sample_seeds(seed, n)).clamp(0, 1)
        return (made * 255).round().to(torch.uint8).movedim(1, 3).cpu().numpy()

    def sampler(model: Model) -> Sampler:
        return lambda frame, n, seed: model.sample(model.open(frame, check=False), n, seed)

    rows: dict[str, Sampler] = {COPY: lambda frame, n, seed: frame[None].repeat(n, 0), FLOW: transferred}
    return rows | {row: sampler(model) for row, model in models.items()}


def judge(made: Mapping[str, Pixels], one: PackedCharacter, question: FutureQuestion, limit: float) -> Scores:
    """Of each row, as predicted and snapped."""
    palette = np.unique(one.over_black([question.frame]).reshape(-1, 3), axis=0)
    truths = {animation: one.over_black(places) for animation, places in question.truths.items()}
    return {
        row: {
            way: score(snap_to_palette(samples, palette) if way == WAYS[1] else samples, truths, limit) for way in WAYS
        }
        for row, samples in made.items()
    }


def summary(asked: Sequence[FutureQuestion], scores: Sequence[Scores], seed: int) -> dict[str, Any]:
    """row -> way -> kind of frames -> precision, recall and their intervals; how often each animation is met."""
    found: dict[str, Any] = {}
    for row, way, kind in product(scores[0], WAYS, KINDS):
        own = [place for place, question in enumerate(asked) if question.standing == (kind == KINDS[0])]
        of = [scores[place][row][way] for place in own]
        who = torch.tensor([asked[place].character for place in own])
        cell = {}
        for what in ("precision", "recall"):
            values = torch.tensor([getattr(each, what) for each in of], dtype=torch.float64)
            cell[what] = {"mean": float(values.mean()), "interval": cluster_interval(values, who, seed)}
        met: dict[str, list[bool]] = defaultdict(list)
        for each in of:
            for animation, is_met in each.met.items():
                met[animation].append(is_met)
        shares = {animation: float(np.mean(values)) for animation, values in sorted(met.items())}
        found.setdefault(row, {}).setdefault(way, {})[kind] = cell | {"met": shares}
    return found


def draw_wall(made: Mapping[str, Pixels], one: PackedCharacter, question: FutureQuestion, scores: Scores) -> Wall:
    """Frames that may follow, the input first; under them samples as predicted."""
    truths = [places[0] for places in question.truths.values()]
    known = one.over_black([question.frame, *truths])
    rows = {"": list(known)} | {row: list(samples) for row, samples in made.items() if row != COPY}
    blank = np.full_like(known[0], 255)
    labels = [f"{one.facts['body']}, {question.clip.animation}, {question.clip.view}\ninput, and what may follow"]
    for row, found in ((row, scores[row][WAYS[0]]) for row in rows if row):
        share = f"{number(found.precision, 0, 100)} % right"
        labels.append(f"{row}\n{share}; {sum(found.met.values())} of {len(found.met)} met")
    pictures = [[enlarged(each, PICTURE) for each in [*row, *[blank] * COLUMNS][:COLUMNS]] for row in rows.values()]
    return Wall(labels, pictures)


def draw(result: dict[str, Any], folder: Path) -> str:
    """Precision and recall of all rows, and which animations are met."""
    protocol, rows = result["protocol"], result["rows"]
    head = ["% (95 % interval)"] + [f"{what}, {kind}" for kind in KINDS for what in ("precision", "recall")]
    lines = [
        [f"{row}, {way}", *(cell(ways[way][kind][what]) for kind in KINDS for what in ("precision", "recall"))]
        for row, ways in rows.items()
        for way in WAYS
    ]
    known = {row: ways[WAYS[0]][KINDS[0]]["met"] for row, ways in rows.items()}
    animations = sorted(set().union(*known.values()))
    met = [[row, *(number(shares.get(name), 0, 100) for name in animations)] for row, shares in known.items()]
    notes = (
        f"{protocol['characters']} characters ({', '.join(protocol['bodies'])}). Standing frames: "
        f"{protocol['standing']}, with {number(protocol['continuations'], 1)} continuations each; amid an animation: "
        f"{protocol['moving']}. {protocol['samples']} samples of each. Limit: {number(result['limit'], 1)} (squared "
        f"differences of colours in [0, 1], summed over a frame). Flow knows {protocol['flow_characters']} characters. "
        f"Models: {'; '.join(f'{row}: {name}' for row, name in protocol['models'].items())}. {CREDIT}"
    )
    return "\n\n".join(
        [
            "### Samples of what may follow",
            table(head, lines),
            "### From a standing frame: how often some sample as predicted meets an animation",
            table(["% of frames", *animations], met),
            notes,
        ]
    )


def cell(found: dict[str, Any]) -> str:
    return with_interval(found["mean"], found["interval"], 0, 100)


def headline(result: dict[str, Any]) -> Headline:
    def words(row: str) -> str:
        of = result["rows"][row][WAYS[0]]
        parts = of["moving"]["precision"], of["standing"]["precision"], of["standing"]["recall"]
        return " / ".join(map(cell, parts))

    models = result["protocol"]["models"]
    return Headline(
        "%, precision amid an animation / precision from a standing frame / recall from there, as predicted",
        "",
        "; ".join(f"{words(row)} ({name})" for row, name in models.items()),
        f"Flow {words(FLOW)}; copy {words(COPY)}",
    )


EXPERIMENT = Experiment(
    "sprite-futures",
    "precision and recall of sampled next frames of sprites that no model has seen",
    __doc__,
    DistributionOptions,
    compute,
    draw,
    headline,
)
