"""Scenes of footage that the model did not learn from: do sampled futures fit, where do they move, are they sharp.

Paper      "Movement in Real Videos Captured in the Wild": figures of results on Exercise and PennAction, and a study
           with people. The figure is made again, on the footage that is given. There are no people here: motion and
           the answers of a judge are measured in their place, and do not compare with people's answers.
Command    visual-dynamics reproduce video --footage DATA [--set split=test] [--model MODEL] [--samples PAIRS]
Cost       half an hour on one CPU core for 48 pairs at 64x64 with `--set judges=240,1,100`, of it a minute a scene for
           what time buys; hours for all judges: give them a GPU.
Paper says no such numbers; people take 36.7 % of the futures for real at 32x32, 31.3 % at 64x64 (Flow 31.3 % and
           25.5 %), "our model keeps the original background intact".

Protocol: DATA is a folder that `visual-dynamics prepare videos` made. The model is `people`. 400 pairs are measured, at
the model's size: one of each scene in turn, while it has any, in an order that the seed draws. Without footage, --small
measures drawn people (data/figures.py), each pair a take of its own. Every metric is computed for each scene, from sums
over its pairs. Over scenes it is the mean (of inside/outside the geometric one), with a bootstrap over scenes.

Which scenes. "held-out" scenes are to look at: training watches its error on them, and recipes, stored codes and
measures were chosen on them. "test" scenes are to report on. A run whose training frames or stored codes are among what
it measures stops with an error.

Energy score: mean distance of 100 futures to the truth, less half of their mean distance to each other, divided by that
of copying the input. It is proper: no sampler does better than the true distribution. Energy: squared change of the
input, over that of the truth. Best of N: least squared error of N futures, over copying's; within some seconds: of as
many as this machine makes in that processor time (on a GPU, time by the clock), for one pair of each scene. Flow has
ten neighbours, so at most ten futures. Sharpness: root of the squared gradients where a prediction changes by more than
16 levels, over the input's there. Laplacian, MS-SSIM: distance to the truth of the best of ten, over copying's.
"Explained" (1 - squared error / copying's) is given for the true code alone, the mean of q(z | v, I), which has seen
the answer. Of samples it rewards blur. Shifted: the same code on the input shifted by 1/8 of its side (8 of 64 pixels),
in four directions, against the shifted truth.

A take is one shot, one window, one stabilised camera. A pixel moves if it changes by more than 16 of 255 levels in any
pair of its take. Moving regions are these pixels and a margin of one pixel for each 32 of the side. A pixel never moves
if it changes by less than 8 levels in all pairs and is not in that margin; it stays if it changes by less than 4.

Sets of pairs: the first future of each judged pair, against true pairs of the same takes that are not measured. Frechet
distance of all, kernel distance (as KID, unbiased) by scene, on features of a random network with fixed weights and on
histograms of optical flow (evaluation/set_distances.py). The row "truth" is their floor. Intervals of Frechet: none.

A judge, a small network, says which of two next frames is real: the true one, or the first future of a method, in 8-bit
colours, averaged to 32x32. Scenes are in six folds; judges learn from five and answer on the sixth. (The takes of a
single scene make folds instead.) 3,000 pairs or half of all, five judges for each method and fold, 600 steps each. A
second set of judges is blind for noise: where a pixel changes by less than 8 levels, they see the input's. Copy, the
true code and the truth as a JPEG of quality 90 show what judges notice. 50 % would be ideal. `--set judges=300,1,200`
is for a machine without a GPU: the notes under the tables say how many pairs, judges and steps there were.

Flow takes its motions from training pairs. Where the model warps a larger input, Flow warps the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import FlowTransfer, averaged
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.pairs import Pair, Pairs
from visual_dynamics.data.shards import Take
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import video_motion
from visual_dynamics.evaluation.judge import STEPS, Judging
from visual_dynamics.evaluation.seen_pairs import SeenPair, judge_pairs, pair_features, see, set_distances
from visual_dynamics.evaluation.video_motion import Sums
from visual_dynamics.footage.measured import (
    Footage,
    Input,
    check_codes,
    check_frames,
    draw_inputs,
    in_halves,
    open_footage,
)
from visual_dynamics.media import saved
from visual_dynamics.reporting import video_tables
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Measured, Progress
from visual_dynamics.reporting.drawing import FutureRow, future_groups, sheet, to_pixels, zoom_box
from visual_dynamics.reporting.video_tables import CODE, COPY, DRAWN_PEOPLE, FLOW, JPEG, JUDGED, SAMPLED, TRUTH
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import each_future, futures, reconstruct
from visual_dynamics.training.augment import shifted

DRAWN = 64  # pairs of drawn people
SAMPLES = 3  # sampled futures in a row of the figure
SHIFT = 8  # a code is applied to inputs shifted by this part of their side
QUALITY = 90  # of JPEG
PART = 32  # pairs whose codes are read together


@dataclass(frozen=True)
class VideoOptions(ExperimentOptions):
    model: str = "people"
    footage: Path | None = None  # a folder that `prepare videos` made
    split: str = "held-out"  # or "test"
    judges: str = ""  # "PAIRS,JUDGES,STEPS", for less than the protocol says


class Sizes(NamedTuple):
    """How much is measured."""

    pairs: int
    futures: int  # sampled for each pair
    flow_pairs: int  # that Flow knows at most
    judged: int  # pairs that judges see
    judging: Judging
    marks: tuple[float, ...]  # seconds
    shown: int  # rows of the figure


FULL = Sizes(400, 100, 20_000, 3_000, Judging(6, 5, STEPS), (1.0, 10.0, 60.0), 8)
SMALL = Sizes(12, 4, 200, 12, Judging(2, 1, 5), (0.3,), 3)


def compute(options: VideoOptions, device: torch.device, progress: Progress) -> Measured:
    """The metrics of every method by scene, what time buys, sets of pairs, judges, and a figure of some pairs."""
    sizes, seed = sizes_of(options), options.seed
    model = load(options.model, str(device))
    times = model.predictor.picture_size // model.size
    footage = find_footage(options, model.predictor.picture_size, sizes.flow_pairs)
    small, known = (pairs.resized(model.size) for pairs in (footage.pairs, footage.known))
    first, second = in_halves(draw_inputs(small, footage.takes, len(small), seed))
    inputs, judged, others = (first + second)[: sizes.pairs], first[: sizes.judged], second[: sizes.judged]
    scenes, judged_scenes, other_scenes = ([one.take.scene for one in each] for each in (inputs, judged, others))
    check_frames(known, small)
    check_codes(model.weights.posteriors, true_codes(model, small, inputs))
    ruler = Ruler(model, FlowTransfer(known.to(device)), footage.pairs, times, seed)
    sums, seen, rows = ruler.measure(inputs, sizes.futures, progress)
    seen += ruler.look(judged, len(inputs), progress)
    reference = pair_features(*small.read(torch.tensor([one.place for one in others], dtype=torch.long)))
    found = video_motion.by_scene(scenes, sums, [one.where for one in inputs])
    groups = judged_scenes if len(set(scenes)) > 1 else [one.take.name for one in judged]
    shown = sorted(range(len(inputs))[: sizes.shown], key=scenes.__getitem__)
    looked = seen[: len(judged)]
    numbers = found | {
        "differences": video_motion.differences(found["scenes"], SAMPLED, FLOW),
        "best_within": {"seconds": ruler.what_time_buys(inputs, sizes.marks, progress)},
        "sets": set_distances(looked, judged_scenes, reference, other_scenes, (TRUTH, *JUDGED)),
        "judge": judge_pairs(looked, JUDGED, groups, sizes.judging, seed, device, progress),
        "pictures": [
            {"scene": scenes[place], "take": inputs[place].take.name, "seed": seed + place, "zoom": rows[place].zoom}
            for place in shown
        ],
        "protocol": {
            "footage": footage.name,
            "split": options.split,
            "split_pairs": len(small),
            "pairs": len(inputs),
            "takes": len({one.take.name for one in inputs}),
            "futures": sizes.futures,
            "source": type(model.source()).__name__,
            "flow_pairs": len(known),
            "judged_by": "scene" if groups is judged_scenes else "take",
            "size": model.size,
            "picture_size": model.predictor.picture_size,
        },
    }
    return Measured(numbers, {"video.png": sheet(future_groups([rows[place] for place in shown]))})


def sizes_of(options: VideoOptions) -> Sizes:
    sizes = SMALL if options.small else FULL
    if options.samples:
        sizes = sizes._replace(pairs=options.samples)
    if options.judges:
        try:
            judged, judges, steps = (int(part) for part in options.judges.split(","))
            if min(judged, judges, steps) < 1:
                raise ValueError
        except ValueError:
            raise UserError(f"judges are PAIRS,JUDGES,STEPS, such as 300,1,200, not {options.judges!r}") from None
        sizes = sizes._replace(judged=judged, judging=Judging(sizes.judging.folds, judges, steps))
    return sizes


def find_footage(options: VideoOptions, size: int, most: int) -> Footage:
    """Pairs at size x size pixels of the part that is measured, and `most` training pairs; or drawn people."""
    if options.footage is not None:
        return open_footage(options.footage, options.split, size, most, options.seed)
    if not options.small:
        raise UserError("this is measured on prepared footage: give its folder with --footage")
    figures, places = figure_pairs(DRAWN, options.seed, "test", size), torch.arange(DRAWN)
    takes = [Take(DRAWN_PEOPLE, f"drawn pair {place}", places[place : place + 1]) for place in range(DRAWN)]
    return Footage(DRAWN_PEOPLE, figures, takes, figure_pairs(most, options.seed, "train", size))


def true_codes(model: Model, pairs: Pairs, inputs: list[Input]) -> Tensor:
    """Means of q(z | v, I), (n, latent)."""
    parts = torch.tensor([one.place for one in inputs]).split(PART)
    return torch.cat([model.predictor.encode(*pairs.batch(part)).mean for part in parts])


@dataclass(frozen=True)
class Ruler:
    """What is measured of each pair."""

    model: Model
    flow: FlowTransfer
    pairs: Pairs  # `times` as large as predictions
    times: int
    seed: int

    def pair(self, one: Input) -> tuple[Pair, Pair]:
        """A pair as it is given to methods, (3, times S, times S), and as it is measured, (3, S, S)."""
        large = self.pairs.batch(torch.tensor([one.place]))
        return Pair(*(x[0] for x in large)), Pair(*(averaged(x, self.times)[0] for x in large))

    def predictions(self, one: Input, seed: int, many: int) -> dict[str, Tensor]:
        """(n, 3, S, S) of each method: `many` of those that sample."""
        large, small = self.pair(one)
        predictor = self.model.predictor
        made = {
            COPY: small.frame[None],
            CODE: reconstruct(predictor, *large)[None],
            JPEG: as_jpeg(small.next_frame)[None],
            FLOW: self.flow.sample(large.frame, sample_seeds(seed, many)),
            SAMPLED: futures(predictor, large.frame, self.model.source(), many, seed),
            TRUTH: small.next_frame[None],
        }
        return {row: frames.cpu().clamp(0, 1) for row, frames in made.items()}

    def measure(
        self, inputs: list[Input], many: int, progress: Progress
    ) -> tuple[list[dict[str, Sums]], list[SeenPair], list[FutureRow]]:
        """Of every input the sums of each method, what judges see, and a row of the figure.

        `sample --seed` gives the same futures.
        """
        sums, seen, rows = [], [], []
        for place, one in enumerate(inputs):
            _, (frame, truth) = self.pair(one)
            made = self.predictions(one, self.seed + place, many)
            own = {row: video_motion.pair_sums(frame, truth, several, one.where) for row, several in made.items()}
            own[CODE] |= self.shifted_sums(one)
            sums.append(own)
            seen.append(see(frame, truth, [made[row][0] for row in JUDGED]))
            still, following, code, flow = (to_pixels(made[name][0]) for name in (COPY, TRUTH, CODE, FLOW))
            samples = [to_pixels(future) for future in made[SAMPLED][:SAMPLES]]
            rows.append(FutureRow(still, following, code, samples, flow, zoom_box(still, following)))
            progress("pairs", (place + 1) / len(inputs))
        return sums, seen, rows

    def look(self, inputs: list[Input], first: int, progress: Progress) -> list[SeenPair]:
        """What judges see of the inputs from place `first` on."""
        seen = []
        for place, one in enumerate(inputs[first:], first):
            made = self.predictions(one, self.seed + place, 1)
            seen.append(see(*self.pair(one)[1], [made[row][0] for row in JUDGED]))
            progress("further pairs for judges", (place + 1) / len(inputs))
        return seen

    def shifted_sums(self, one: Input) -> Sums:
        """The code of the pair as it is, on the pair shifted in four directions."""
        large, _ = self.pair(one)
        z = self.model.predictor.encode(*large).mean
        far = large.frame.shape[-1] // SHIFT
        offsets = torch.tensor([[0, far], [0, -far], [far, 0], [-far, 0]])[:, None].expand(-1, 2, -1)  # of both frames
        moved = shifted(Pair(*(x.expand(4, -1, -1, -1) for x in large)), offsets, self.model.size)
        made = self.model.predictor.decode_each(moved.frame, z.expand(4, -1)).cpu()
        frame, truth = (averaged(x, self.times) for x in moved)
        return video_motion.shift_sums(frame, truth, made)

    def what_time_buys(self, inputs: list[Input], marks: tuple[float, ...], progress: Progress) -> dict[str, Any]:
        """Best error / copying's within some seconds, and how many futures came: means over one input of each scene."""
        chosen = {one.take.scene: (one, self.seed + place) for place, one in reversed(list(enumerate(inputs)))}
        found: dict[str, list[list[tuple[int, float | None]]]] = {FLOW: [], SAMPLED: []}
        clock = time.process_time if self.model.predictor.device.type == "cpu" else time.monotonic
        for done, (one, seed) in enumerate(chosen.values(), 1):
            large, (frame, truth) = self.pair(one)
            copied = float((truth - frame).square().sum())
            for row, frames in ((FLOW, self.flows(large.frame, seed)), (SAMPLED, self.endless(large.frame, seed))):
                best = video_motion.best_within(frames, truth, marks, clock)
                found[row].append([(many, None if error is None else error / copied) for many, error in best])
            progress("what time buys", done / len(chosen))
        return {
            row: {
                f"{mark:g}": {
                    "best": video_motion.over_scenes([own[place][1] for own in each])[0],
                    "futures": video_motion.over_scenes([float(own[place][0]) for own in each])[0],
                }
                for place, mark in enumerate(marks)
            }
            for row, each in found.items()
        }

    def flows(self, frame: Tensor, seed: int) -> Iterator[Tensor]:
        """All that Flow can make of a frame."""
        yield from self.flow.sample(frame, sample_seeds(seed, 10 * self.flow.neighbours)).unique(dim=0)

    def endless(self, frame: Tensor, seed: int) -> Iterator[Tensor]:
        """Futures without end: 100 for each seed."""
        for more in count(seed):
            yield from each_future(self.model.predictor, frame, self.model.source(), 100, more)


def as_jpeg(frame: Tensor) -> Tensor:
    """A frame (3, S, S) as a JPEG holds it."""
    data = saved(Image.fromarray(to_pixels(frame)), "JPEG", quality=QUALITY)
    return torch.from_numpy(np.array(Image.open(BytesIO(data)))).movedim(2, 0).float() / 255


EXPERIMENT = Experiment(
    "video",
    "scenes the model did not learn from: do futures fit, where do they move, are they sharp (Exercise, PennAction)",
    __doc__,
    VideoOptions,
    compute,
    video_tables.draw,
    video_tables.headline,
    frame_size=None,
    newest=("protocol", "split"),
)
