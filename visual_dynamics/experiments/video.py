"""Held-out scenes of footage: what a motion code explains, where sampled futures move, what stays still.

Paper      "Movement in Real Videos Captured in the Wild": figures of results on Exercise and PennAction, and a study
           with people. The figure is made again, on the footage that is given. There are no people here: errors, motion
           and the answers of a judge are measured in their place, and do not compare with people's answers.
Command    visual-dynamics reproduce video --footage DATA [--model MODEL] [--samples PAIRS]
Cost       some ten minutes on one CPU core at 64x64 for 400 pairs, and three or four for their judges.
Paper says no such numbers; people take 36.7 % of the futures for real at 32x32, 31.3 % at 64x64 (Flow 31.3 % and
           25.5 %), "our model keeps the original background intact".

Protocol: DATA is a folder that `visual-dynamics prepare videos` made. 400 pairs of its held-out scenes are measured, at
the model's size: one of each scene in turn, while it has any, in an order that the seed draws beforehand. The model is
`people`. Without footage, --small measures drawn people (data/figures.py), each pair a take of its own.

The held-out scenes are not fresh. Training watches its error on them. The recipe of `people`, the codes that it keeps
and its fp16 were chosen, and the split was drawn anew, while its authors looked at held-out scenes; see its card.

A take is one shot, one window, one stabilised camera. A pixel moves if it changes by more than 16 of 255 levels in any
pair of its take, measured or not. Moving regions are these pixels and a margin of one pixel for each 32 of the frame's
side. A pixel never moves if it changes by less than 8 levels in all pairs and is not in that margin; it stays if it
changes by less than 4. The row "truth" is the true next frame, with the noise of camera and codec. The regions come
from true pairs, so the ratio of no method can be compared with that of the truth.

Explained is 1 - squared error / that of copying the input; of several samples the mean. Motion is the squared change of
a pixel. Two samples differ by their squared difference, divided by that of the true pair. "Ours, true motion code" is
the mean of q(z | v, I) and has seen the answer: its error says what a code can hold. Sampled futures, ten a pair, know
the input alone. So does Flow, which takes its motions from the training pairs of the same footage. The best of ten says
whether the truth is among the futures. Intervals are over scenes, each with all of its pairs; with a handful of scenes
they are wide, and rough themselves.

A judge, a small network, says which of two next frames of an input is real: the true one, or the first future of a
method, in 8-bit colours, averaged to 32x32. Judges learn from the inputs of one half of the scenes and answer on the
other half, then the other way round. So no judge has seen a scene that it answers on. (The takes of a single scene are
halved instead; for a single take there is no judge.) Each method has judges of its own, two for each half, 600 steps
each; their answers are averaged, with an interval by takes. 50 % would be ideal: the judge finds no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.pairs import Pairs, resize_frames, spread
from visual_dynamics.data.shards import Take, holds_footage, open_pairs, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import judge, video_motion
from visual_dynamics.evaluation.video_motion import Regions, Sums, take_regions
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import FutureRow, future_groups, number, sheet, to_pixels, zoom_box
from visual_dynamics.reporting.video_tables import (
    CODE,
    COPY,
    FLOW,
    JUDGED,
    METRICS,
    SAMPLED,
    TRUTH,
    interval_cell,
    judge_table,
    method_table,
    scene_table,
)
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import futures, reconstruct

PAIRS, SMALL_PAIRS = 400, 12
FUTURES, SMALL_FUTURES = 10, 4  # sampled for each pair
FLOW_PAIRS, SMALL_FLOW_PAIRS = 20_000, 200  # that Flow knows at most
DRAWN_PEOPLE, DRAWN = "drawn people", 64  # pairs of them
SHOWN, SMALL_SHOWN = 8, 3  # rows of the figure
SAMPLES = 3  # sampled futures in a row
JUDGES, SMALL_JUDGES = 2, 1  # for each half and method
STEPS, SMALL_STEPS = judge.STEPS, 20  # on one CPU core a judge takes 24 s at 32x32 with 200 training inputs
JUDGED_SIZE = 32  # pixels a side that judges see at most
Method = Callable[[Tensor, Tensor, int], Tensor]  # a frame and the true next one, (3, S, S), a seed -> (n, 3, S, S)


@dataclass(frozen=True)
class VideoOptions(ExperimentOptions):
    model: str = "people"
    footage: Path | None = None  # a folder that `prepare videos` made


class Footage(NamedTuple):
    name: str
    pairs: Pairs  # held out
    takes: list[Take]  # that these are from
    known: Pairs  # training pairs, for Flow


class Input(NamedTuple):
    """A held-out pair that is measured."""

    take: Take
    place: int  # among all held-out pairs
    where: Regions  # of its take


def compute(options: VideoOptions, device: torch.device, progress: Progress) -> Measured:
    """The metrics of every method over all pairs and by scene, the answers of judges, and a figure of some pairs."""
    small, seed = options.small, options.seed
    model = load(options.model, str(device))
    name, pairs, takes, known = open_footage(options, model.size)
    inputs = draw_inputs(pairs, takes, options.samples or (SMALL_PAIRS if small else PAIRS), seed)
    many = SMALL_FUTURES if small else FUTURES
    methods = all_methods(model, FlowTransfer(known.to(device)), many)
    sums, seen, rows = measure(pairs, inputs, methods, seed, progress)
    scenes, takes_of = [one.take.scene for one in inputs], [one.take.name for one in inputs]
    split = "scene" if len(set(scenes)) > 1 else "take"
    groups = scenes if split == "scene" else takes_of
    judging = (SMALL_JUDGES, SMALL_STEPS) if small else (JUDGES, STEPS)
    found = judge.judge_halves(seen.to(device), JUDGED, groups, takes_of, *judging, seed, progress)
    shown = sorted(range(len(inputs))[: SMALL_SHOWN if small else SHOWN], key=lambda place: scenes.index(scenes[place]))
    numbers = video_motion.by_scene(scenes, sums, [one.where for one in inputs]) | {
        "intervals": video_motion.scene_intervals(scenes, sums, list(METRICS)),
        "pictures": [
            {"scene": scenes[place], "take": takes_of[place], "seed": seed + place, "zoom": rows[place].zoom}
            for place in shown
        ],
        "judge": found and found | {"split": split},
        "protocol": {
            "footage": name,
            "held_out_pairs": len(pairs),
            "pairs": len(inputs),
            "takes": len(set(takes_of)),
            "futures": many,
            "source": "training posteriors" if "posteriors" in model.sources else "the learned prior",
            "flow_pairs": len(known),
            "size": model.size,
        },
    }
    return Measured(numbers, {"video.png": sheet(future_groups([rows[place] for place in shown]))})


def open_footage(options: VideoOptions, size: int) -> Footage:
    """The pairs of the held-out scenes, and training pairs for Flow, drawn by the seed; or drawn people."""
    folder = options.footage
    if folder is None and options.small:
        return draw_people(size, options.seed)
    if folder is None:
        raise UserError("this is measured on prepared footage: give its folder with --footage")
    if not holds_footage(folder):
        raise UserError(f"{folder} holds no footage that visual-dynamics prepare videos made")
    train, stored = open_pairs(folder, "train"), open_pairs(folder, "held-out")
    if stored is None or not len(stored):
        raise UserError(f"{folder} has no held-out scenes: prepare it with more scenes, or a larger --held-out")
    assert train is not None  # this split is never empty
    most = SMALL_FLOW_PAIRS if options.small else FLOW_PAIRS
    known = Pairs.of(*train.resized(size).read(spread(len(train), most, options.seed).sort().values))
    return Footage(folder.resolve().name, stored.resized(size).in_memory(), split_takes(folder, "held-out"), known)


def draw_people(size: int, seed: int) -> Footage:
    """Drawn people, for a quick look without footage."""
    figures, places = figure_pairs(DRAWN, seed, "test", size), torch.arange(DRAWN)
    takes = [Take(DRAWN_PEOPLE, f"drawn pair {place}", places[place : place + 1]) for place in range(DRAWN)]
    return Footage(DRAWN_PEOPLE, figures, takes, figure_pairs(SMALL_FLOW_PAIRS, seed, "train", size))


def draw_inputs(pairs: Pairs, takes: list[Take], count: int, seed: int) -> list[Input]:
    """Pairs in random order, one of each scene in turn while it has any; the first `count`."""
    scenes: dict[str, list[tuple[Take, int]]] = {}
    for take in takes:
        scenes.setdefault(take.scene, []).extend((take, place) for place in take.places.tolist())
    shuffled = [[own[i] for i in spread(len(own), len(own), seed).tolist()] for own in scenes.values()]
    chosen = [one for turn in zip_longest(*shuffled) for one in turn if one is not None][:count]
    where = {name: take_regions(pairs, places) for name, places in {t.name: t.places for t, _ in chosen}.items()}
    return [Input(take, place, where[take.name]) for take, place in chosen]


def all_methods(model: Model, flow: FlowTransfer, many: int) -> dict[str, Method]:
    """The rows of the table; sampled rows give `many` futures, the others one."""
    predictor, source = model.predictor, model.source()
    return {
        COPY: lambda frame, truth, seed: frame[None],
        FLOW: lambda frame, truth, seed: flow.sample(frame, sample_seeds(seed, many)),
        CODE: lambda frame, truth, seed: reconstruct(predictor, frame, truth)[None],
        SAMPLED: lambda frame, truth, seed: futures(predictor, frame, source, many, seed),
        TRUTH: lambda frame, truth, seed: truth[None],
    }


def measure(
    pairs: Pairs, inputs: list[Input], methods: dict[str, Method], seed: int, progress: Progress
) -> tuple[list[dict[str, Sums]], Tensor, list[FutureRow]]:
    """Of every input the sums of each method, what judges see, and a row of the figure.

    Judges see uint8 (N, 2 + methods, 3, s, s). `sample --seed` gives the same futures.
    """
    sums, seen, rows = [], [], []
    for place, one in enumerate(inputs):
        frame, truth = (x[0].cpu() for x in pairs.batch(torch.tensor([one.place])))
        made = {row: method(frame, truth, seed + place).cpu().clamp(0, 1) for row, method in methods.items()}
        sums.append({row: video_motion.pair_sums(frame, truth, several, one.where) for row, several in made.items()})
        seen.append(as_judged(frame, truth, *(made[name][0] for name in JUDGED)))
        still, following, code, flow = (to_pixels(made[name][0]) for name in (COPY, TRUTH, CODE, FLOW))
        samples = [to_pixels(future) for future in made[SAMPLED][:SAMPLES]]
        rows.append(FutureRow(still, following, code, samples, flow, zoom_box(still, following)))
        progress("pairs", (place + 1) / len(inputs))
    return sums, torch.stack(seen), rows


def as_judged(*frames: Tensor) -> Tensor:
    """Frames (3, S, S) as judges see them: 8-bit colours first, as in a file, then averaged; uint8 (n, 3, s, s)."""
    pixels = (torch.stack(frames).clamp(0, 1) * 255).round().to(torch.uint8).cpu()
    return resize_frames(pixels, min(JUDGED_SIZE, pixels.shape[-1]))


def draw(result: dict[str, Any], folder: Path) -> str:
    """Every method over all pairs, the judges, and ours by scene."""
    footage = result["protocol"]["footage"]
    drawn = "### Drawn people, not footage: a quick look"
    parts = [drawn if footage == DRAWN_PEOPLE else "### Held-out scenes of footage", method_table(result)]
    if result["judge"]:
        parts += ["### Judge", judge_table(result["judge"])]
    return "\n\n".join([*parts, "### By scene", scene_table(result["scenes"]), notes(result)])


def headline(result: dict[str, Any]) -> Headline:
    measure = (
        "% explained by the true code; of samples: % explained / motion inside over outside / % of still pixels kept"
    )
    drawn = " (drawn people)" if result["protocol"]["footage"] == DRAWN_PEOPLE else ""
    ours, flow = (
        f"{interval_cell(result, code, 'explained')}; "
        + " / ".join(interval_cell(result, sampled, name) for name in ("explained", "ratio", "still"))
        for code, sampled in ((CODE, SAMPLED), (COPY, FLOW))
    )
    return Headline(measure + drawn, "no such numbers", ours, f"{flow} (copying; Flow)")


def notes(result: dict[str, Any]) -> str:
    """The counts behind the numbers."""
    protocol, moving, found = result["protocol"], result["regions"], result["judge"]
    judged = "Judge: none, as all pairs are from one take."
    if found:
        one, two = found["halves"]
        judged = (
            f"Judge: a trained network, not people; halves of {one:,} and {two:,} pairs with no {found['split']} in "
            f"both; {found['judges']} for each half and method, {found['steps']:,} steps each."
        )
    shown = "; ".join(f"{row} {one['take']}" for row, one in enumerate(result["pictures"], 1))
    footage = protocol["footage"] + " (the part that training watches)" * (protocol["footage"] != DRAWN_PEOPLE)
    return (
        f"Pairs: {protocol['pairs']:,} of the {protocol['held_out_pairs']:,} held-out ones of {footage}, "
        f"at {protocol['size']}x{protocol['size']}; takes: {protocol['takes']:,}; scenes: {len(result['scenes']):,}. "
        f"Moving regions are {number(moving['moving'], 0, 100)} % of a frame on average, pixels that never move "
        f"{number(moving['still'], 0, 100)} %. The squared difference of a true pair is "
        f"{number(result['rows'][CODE]['true_motion'], 1)} on average (colours in [0, 1], summed over the frame). "
        f"{protocol['futures']} futures a pair, z from {protocol['source']}; Flow knows {protocol['flow_pairs']:,} "
        f"pairs. {judged} Rows of the figure, drawn by the seed: {shown}."
    )


EXPERIMENT = Experiment(
    "video",
    "held-out scenes: what a motion code explains, what moves, what stays still (results on Exercise, PennAction)",
    __doc__,
    VideoOptions,
    compute,
    draw,
    headline,
    frame_size=None,
)
