"""Real video, on scenes that were held out: what a motion code explains, where sampled futures move, what stays still.

Paper      "Movement in Real Videos Captured in the Wild": figures of results on Exercise and PennAction, and a study
           with people. The figure is made again, on the footage that is given; there are no people here, and what is
           measured in their place, errors, motion and the answers of a judge, does not compare with their answers.
Command    visual-dynamics reproduce video --footage DATA [--model MODEL] [--samples PAIRS]
Cost       some ten minutes on one CPU core at 64x64 for 400 pairs, and three or four for their judges.
Paper says no such numbers; people take 36.7 % of the futures for real at 32x32, 31.3 % at 64x64 (Flow 31.3 % and
           25.5 %), "our model keeps the original background intact".

Protocol: DATA is what `visual-dynamics prepare videos` made; measured are 400 pairs of its held-out scenes, brought to
the model's size, one of each scene in turn while it has any. They are drawn by the seed before anything is predicted.
A quick look, --small, does without footage: it measures drawn people (data/figures.py), each pair a take of its own.
The model is `people`.

A pixel moves if it changes by more than 16 of 255 levels in any pair of its take (one shot, one window, a steadied
camera), measured or not; moving regions are these pixels and a margin of one pixel for each 32 of the frame's side. It
never moves if it changes by less than 8 levels in all of them and is not in that margin. The row "truth" says how much
of these numbers is noise of camera and codec; as the regions are made from true pairs, no method can be asked for its
ratio.

Ours with the true motion code has seen the answer: its error says what a code can hold. Sampled futures, ten a pair,
know the input alone, as Flow does, which takes its motions from the training pairs of the same footage. The best of ten
says whether the truth is among what they think possible.

People are not asked. A judge, a small network, says in their place which of two next frames of an input is real, the
true one or a synthetic one: the first sampled future, or Flow's first; in 8-bit colours, averaged to 32x32. Judges
learn from the inputs of one half of the scenes and are asked about the other half, then the other way round, so that
all inputs are asked about once by judges that never saw their scene; of a single scene the takes are halved, of a
single take there is no judge. Scenes go into the halves in turn, from most inputs to fewest, equals as the seed orders
them. Each method has judges of its own, two for each half, 600 steps each; their answers are averaged, with an interval
by takes. 50 % would be ideal: the judge finds no difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines.flow_transfer import FlowTransfer
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.data.shard_files import holds_footage
from visual_dynamics.data.shards import Take, open_pairs, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import video_motion
from visual_dynamics.evaluation.video_motion import Regions, Sums
from visual_dynamics.experiments import video_figures, video_judge
from visual_dynamics.experiments.futures_figure import as_pixels, encoded, zoom_box
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import futures, reconstruct

SUMMARY = (
    "held-out scenes of real video: what is explained, what moves, what stays still (results on Exercise, PennAction)"
)
PAIRS, SMALL_PAIRS = 400, 12
FUTURES, SMALL_FUTURES = 10, 4  # sampled for each pair
FLOW_PAIRS, SMALL_FLOW_PAIRS = 20_000, 200  # that Flow knows at most
PEOPLE = "people"  # the model that knows video
DRAWN = 64  # pairs of drawn people
PICTURES, SMALL_PICTURES = 8, 3  # rows of the figure
CHUNK = 256  # pairs of a take that are looked at together
SHOWN = 3  # sampled futures a row
COPY, FLOW, CODE, SAMPLED, TRUTH = "copy", "Flow", "ours, true motion code", "ours, sampled", "truth"

Method = Callable[[Tensor, Tensor, int], Tensor]  # a frame and the true next one, (3, S, S), a seed -> (n, 3, S, S)


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = ""  # without it `people`, if its weights are here
    footage: Path | None = None  # a folder that `prepare videos` made
    samples: int | None = None  # pairs
    seed: int = 0
    small: bool = False  # a quick look: fewer pairs, futures and pictures, and fewer pairs for Flow


class Films(NamedTuple):
    """What is measured on."""

    name: str
    pairs: Pairs  # held out
    takes: list[Take]  # that these are from
    known: Pairs  # training pairs, for Flow


class Input(NamedTuple):
    """A held-out pair that is measured."""

    take: Take
    place: int  # among all held-out pairs
    where: Regions  # of its take


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Every method's numbers over all pairs and by scene, and the pictures of some pairs."""
    started = time.monotonic()
    folder = footage(options)
    options = replace(options, model=options.model or PEOPLE)
    model = load(options.model, str(device))
    name, pairs, takes, known = filmed(folder, model.size, options) if folder else drawn(model.size, options.seed)
    count = options.samples or (SMALL_PAIRS if options.small else PAIRS)
    inputs = draw_inputs(pairs, takes, count, options.seed)
    many = SMALL_FUTURES if options.small else FUTURES
    shown = SMALL_PICTURES if options.small else PICTURES
    methods = all_methods(model, FlowTransfer(known.to(device)), many)
    seen = video_judge.Seen((FLOW, SAMPLED))
    return {
        "experiment": "video",
        **measured(pairs, inputs, methods, options.seed, shown, tell, seen),
        "judge": video_judge.judged(seen, options.small, options.seed, device, tell),
        "protocol": {
            "footage": name,
            "held_out_pairs": len(pairs),
            "pairs": len(inputs),
            "takes": len({one.take.name for one in inputs}),
            "futures": many,
            "source": "training posteriors" if "posteriors" in model.sources else "the learned prior",
            "flow_pairs": len(known),
            "size": model.size,
        },
    } | origin(options, model, started, device)


def footage(options: Options) -> Path | None:
    """The folder that was given; None where drawn people will do."""
    if options.footage is None and options.small:
        return None
    if options.footage is None:
        raise UserError("this is measured on prepared footage: give its folder with --footage")
    if not holds_footage(options.footage):
        raise UserError(f"{options.footage} holds no footage that visual-dynamics prepare videos made")
    return options.footage


def filmed(folder: Path, size: int, options: Options) -> Films:
    known = flow_pairs(folder, size, SMALL_FLOW_PAIRS if options.small else FLOW_PAIRS, options.seed)
    return Films(folder.resolve().name, *held_out(folder, size), known)


def drawn(size: int, seed: int) -> Films:
    """People that are drawn, for a quick look without footage."""
    figures, places = figure_pairs(DRAWN, seed, "test", size), torch.arange(DRAWN)
    takes = [Take("drawn people", f"drawn pair {place}", places[place : place + 1]) for place in range(DRAWN)]
    return Films("drawn people", figures, takes, figure_pairs(SMALL_FLOW_PAIRS, seed, "train", size))


def held_out(folder: Path, size: int) -> tuple[Pairs, list[Take]]:
    """The pairs of the scenes that no model should have seen, and the takes they are from."""
    stored = open_pairs(folder, "held-out")
    if stored is None or not len(stored):
        raise UserError(f"{folder} has no held-out scenes: prepare it with more scenes, or a larger --held-out")
    return stored.resized(size).in_memory(), split_takes(folder, "held-out")


def flow_pairs(folder: Path, size: int, most: int, seed: int) -> Pairs:
    """Training pairs, at most so many of them, drawn by the seed."""
    stored = open_pairs(folder, "train")
    assert stored is not None  # of this split there are always some
    return Pairs.of(*stored.resized(size).read(spread(len(stored), most, seed).sort().values))


def draw_inputs(pairs: Pairs, takes: list[Take], count: int, seed: int) -> list[Input]:
    """Pairs in random order, one of each scene in turn while it has any; the first `count`."""
    scenes: dict[str, list[tuple[Take, int]]] = {}
    for take in takes:
        scenes.setdefault(take.scene, []).extend((take, place) for place in take.places.tolist())
    shuffled = [[own[i] for i in spread(len(own), len(own), seed).tolist()] for own in scenes.values()]
    chosen = [one for turn in zip_longest(*shuffled) for one in turn if one is not None][:count]
    where = {take.name: take_regions(pairs, take) for take in {one[0].name: one[0] for one in chosen}.values()}
    return [Input(take, place, where[take.name]) for take, place in chosen]


def take_regions(pairs: Pairs, take: Take) -> Regions:
    """What moves in any pair of a take, and what in none."""
    parts = [video_motion.most_change(*pairs.read(part)) for part in take.places.split(CHUNK)]
    return video_motion.regions(torch.stack(parts).amax(0))


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


def measured(
    pairs: Pairs,
    inputs: list[Input],
    methods: dict[str, Method],
    seed: int,
    shown: int,
    tell: Tell,
    seen: video_judge.Seen,
) -> dict[str, Any]:
    """Numbers of every method over all inputs and by scene; the first `shown` inputs as pictures, by scene.

    What judges are to see of the inputs goes into `seen`.
    """
    sums: dict[str, dict[str, list[Sums]]] = {}  # scene -> row -> of each pair
    pictures: list[dict[str, Any]] = []
    for number, (take, place, where) in enumerate(inputs):
        frame, truth = (x[0].cpu() for x in pairs.batch(torch.tensor([place])))
        own = seed + number  # `sample --seed` gives the same futures
        made = {name: method(frame, truth, own).cpu().clamp(0, 1) for name, method in methods.items()}
        for name, predicted in made.items():
            of_scene = sums.setdefault(take.scene, {row: [] for row in methods})
            of_scene[name].append(video_motion.pair_sums(frame, truth, predicted, where))
        seen.add(take, frame, truth, made)
        if number < shown:
            pictures.append({"scene": take.scene, "take": take.name, "seed": own} | picture(made))
        tell("pairs", (number + 1) / len(inputs))
    order = {scene: position for position, scene in enumerate(sums)}
    return {
        "rows": {row: video_motion.numbers(one for scene in sums.values() for one in scene[row]) for row in methods},
        "scenes": {
            scene: {
                "pairs": len(found[COPY]),
                "rows": {row: video_motion.numbers(own) for row, own in found.items()},
            }
            for scene, found in sums.items()
        },
        "regions": shares([one.where for one in inputs]),
        "pictures": sorted(pictures, key=lambda one: order[one["scene"]]),
    }


def shares(where: list[Regions]) -> dict[str, float]:
    """How much of the frames moves, and never moves, on average over the inputs."""
    return {
        name: float(torch.stack([getattr(one, name) for one in where]).double().mean()) for name in ("moving", "still")
    }


def picture(made: dict[str, Tensor]) -> dict[str, Any]:
    """The frames of a row of the figure as base64 PNG, and the square with the most true motion."""
    frames = {name: [as_pixels(one) for one in predicted[:SHOWN]] for name, predicted in made.items()}
    first = {name: encoded(several[0]) for name, several in frames.items()}
    return {
        "pictures": {
            "input": first[COPY],
            "truth": first[TRUTH],
            "reconstruction": first[CODE],
            "samples": [encoded(one) for one in frames[SAMPLED]],
            "flow": first[FLOW],
        },
        "zoom": zoom_box(frames[COPY][0], frames[TRUTH][0]),
    }


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figure and the tables; returns the tables as Markdown."""
    return video_figures.draw(result, folder)


headline = video_figures.headline
