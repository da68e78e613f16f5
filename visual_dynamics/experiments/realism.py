"""Realism of sampled sprites without people: how often a judge takes a synthetic animation for the real one.

Paper      "Movement of Video Game Sprites": a study with people, who pick the real one of two animations of one input.
           Here a small trained network, the judge, picks in their place: its figures are not those of people.
Command    visual-dynamics reproduce realism --sprites FOLDER --model sprites
Cost       some four minutes on one H200; on two CPU cores two hours, most of them judges of 64x64 pictures.
Paper says Flow 29.7 % at 32x32 and 21.0 % at 64x64, ours 41.2 % and 35.7 % (people; 50 % would be ideal).

Protocol: neighbouring frames of all animations of Reed's 100 test characters; Flow's database and the model's training
pairs come from his 500. Each method gives one next frame an input, in 8-bit colours; at 32x32 the same frames are
averaged over 2x2 pixels. All of it is done twice: with colours as predicted, and with the colours of every synthetic
frame, Flow's as ours, snapped to those of its input. `animate` and studies with people snap; `sample` does not. The
paper's people saw other characters: 20, which it does not name; it trained on the other 652.

Judges learn from inputs of one half of the characters and answer on the other half. Characters 4n ... 4n + 3 share
frames: they stay together, and are drawn together for the intervals (a bootstrap over these families). Each method has
judges of its own: three for each number of training inputs, with 50, 200 or all of the same 1,000, drawn anew for each
judge. Their answers are averaged. A judge's size and steps were settled on the 72 validation characters.

Training watched the model's error on 256 test pairs. 80 of the 100 characters have a twin among the 500, and two inputs
in five are a frame of it that Flow and the model have seen: the other inputs are also counted apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.baselines import FlowTransfer
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import judge
from visual_dynamics.evaluation.intervals import cluster_interval
from visual_dynamics.experiments.futures import read_split
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, sprites_folder
from visual_dynamics.reporting.drawing import listed, plot, table, with_interval
from visual_dynamics.sampling.latents import TrainingPosteriors, sample_seeds
from visual_dynamics.sampling.palette import snap_to_palette

PAPER = {"Flow": {"32": 29.7, "64": 21.0}, "ours": {"32": 41.2, "64": 35.7}}  # % of people's answers, on 200 images
SIZE = 64
SIZES = (32, 64)
SAMPLES, SMALL_SAMPLES = 1000, 50  # inputs that judges answer on
SMALL_CHARACTERS = 50  # that Flow knows in a quick look, of 500
PART = 250  # inputs between two reports of progress; Flow searches for as many at once
PEOPLE = "people, paper"
COLOURS = {"Flow": "tab:orange", "ours": "tab:blue"}
WAYS = {"as predicted": False, "snapped": True}  # the colours of synthetic frames


class Judging(NamedTuple):
    """How many judges, and how they learn."""

    counts: Sequence[int]  # training inputs, a setting for each
    judges: int  # for each method and setting
    steps: int


FULL, SMALL = Judging((50, 200, 1000), 3, judge.STEPS), Judging((50,), 1, 40)
SampleEach = Callable[[Tensor, Sequence[int]], Tensor]  # float (B, 3, H, W), B seeds -> float (B, 3, H, W)


@dataclass(frozen=True)
class RealismOptions(ExperimentOptions):
    model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters


class Judged(NamedTuple):
    """The inputs of judges: first those to learn from, then those to answer on."""

    frames: Tensor  # uint8 (N, 3, 64, 64)
    real: Tensor  # the true next frames, alike
    families: Tensor  # int64 (N,): a quarter of the character's number
    unseen: Tensor  # bool (N,): no training character has this frame
    learned: int  # how many to learn from


def compute(options: RealismOptions, device: torch.device, progress: Progress) -> Measured:
    """One future of every input and method, then the judges of all settings."""
    folder, seed, small = sprites_folder(options), options.seed, options.small
    model = load(options.model, str(device))
    judging = SMALL if small else FULL
    train, test = read_split(folder, progress, SMALL_CHARACTERS if small else None)
    asked = options.samples or (SMALL_SAMPLES if small else SAMPLES)
    known = sprites.sprite_pairs(train, size=SIZE)  # 78,500, 1.1 GB
    inputs = draw_inputs(known, test, max(judging.counts), asked, seed)
    source = model.source("posteriors")
    assert isinstance(source, TrainingPosteriors)
    methods: dict[str, SampleEach] = {
        "Flow": FlowTransfer(known.to(device)).sample_each,
        "ours": lambda frames, seeds: model.predictor.decode_each(frames, source.draw(seeds)),
    }
    futures = {name: sample_futures(method, inputs, seed, device, name, progress) for name, method in methods.items()}
    in_colours = {name: snapped(made, inputs.frames) for name, made in futures.items()}
    settings = [
        {"snapped": made is in_colours} | setting
        for made in (futures, in_colours)
        for setting in judge_settings(inputs, made, judging, seed, device, progress)
    ]
    protocol = {
        "characters": len(test.numbers),
        "split": "Reed's 100 test characters, half for learning and half for asking",
        "learned": inputs.learned,
        "asked": len(inputs.frames) - inputs.learned,
        "asked_unseen": int(inputs.unseen[inputs.learned :].sum()),
        "families_asked": len(inputs.families[inputs.learned :].unique()),
        "judges": judging.judges,
        "steps": judging.steps,
    }
    return Measured({"settings": settings, "paper": PAPER, "protocol": protocol})


def draw_inputs(known: Pairs, test: sprites.Characters, learned: int, asked: int, seed: int) -> Judged:
    """Random inputs: `learned` of one half of the test characters and at most `asked` of the other."""
    pairs, numbers = sprites.sprite_pairs(test, size=SIZE), torch.from_numpy(test.numbers)
    families = (numbers // sprites.FAMILY).repeat_interleave(len(pairs) // len(numbers))  # (pairs,), as these follow
    learning = torch.isin(families, half_of_families(numbers, seed))
    chance = torch.Generator().manual_seed(seed)
    chosen = []
    for side, count in ((learning, learned), (~learning, asked)):
        places = side.nonzero()[:, 0]
        chosen.append(places[torch.randperm(len(places), generator=chance)[:count]])
    if len(chosen[0]) < learned or not len(chosen[1]):
        raise UserError(f"judges need {learned} inputs to learn from and some others to answer on")
    picked = torch.cat(chosen)
    frames, real = pairs.read(picked)
    seen = {_digest(frame) for part in torch.arange(len(known.store)).split(1024) for frame in known.store[part]}
    unseen = torch.tensor([_digest(frame) not in seen for frame in frames])
    return Judged(frames, real, families[picked], unseen, len(chosen[0]))


def half_of_families(numbers: Tensor, seed: int) -> Tensor:
    """Families (a character's number by sprites.FAMILY), drawn at random until they hold half of the characters."""
    families, sizes = (numbers // sprites.FAMILY).unique(return_counts=True)
    order = torch.randperm(len(families), generator=torch.Generator().manual_seed(seed))
    within = sizes[order].cumsum(0) <= len(numbers) / 2
    return families[order[within]]


def _digest(frame: Tensor) -> bytes:
    return hashlib.blake2b(frame.numpy().tobytes(), digest_size=16).digest()


def sample_futures(
    method: SampleEach, inputs: Judged, seed: int, device: torch.device, name: str, progress: Progress
) -> Tensor:
    """One next frame of each input, uint8 (N, 3, 64, 64) as a file would hold it."""
    parts, count = [], len(inputs.frames)
    seeds = sample_seeds(seed, count)
    for start in range(0, count, PART):
        frames = inputs.frames[start : start + PART].to(device).float() / 255
        made = method(frames, seeds[start : start + PART])
        parts.append((made.clamp(0, 1) * 255).round().to(torch.uint8).cpu())
        progress(f"futures, {name}", min(1.0, (start + PART) / count))
    return torch.cat(parts)


def snapped(made: Tensor, frames: Tensor) -> Tensor:
    """The same frames, every pixel in the nearest colour of the frame before: uint8 (N, 3, 64, 64)."""
    pairs = zip(made.movedim(1, 3).numpy(), frames.flatten(2).mT.numpy(), strict=True)
    found = np.stack([snap_to_palette(one, np.unique(own, axis=0)) for one, own in pairs])
    return torch.from_numpy(found).movedim(3, 1)


def judge_settings(
    inputs: Judged, futures: dict[str, Tensor], judging: Judging, seed: int, device: torch.device, progress: Progress
) -> list[dict[str, Any]]:
    """Every size with every number of training inputs, in the order of the table."""
    settings = []
    for size in SIZES:
        shown = (inputs.frames, inputs.real, *futures.values())
        frames, real, *made = (resize_frames(x, size).to(device).float() / 255 for x in shown)
        for count in judging.counts:
            answers = {
                name: judge.judge_rest(frames, real, one, inputs.learned, count, judging.judges, judging.steps, seed)
                for name, one in zip(futures, made, strict=True)
            }
            settings.append({"size": size, "inputs": count} | summary(answers, inputs, seed))
            progress("judges", len(settings) / (len(SIZES) * len(judging.counts)))
    return settings


def summary(answers: dict[str, Tensor], inputs: Judged, seed: int) -> dict[str, Any]:
    """Rows of one setting, and how much more often ours fools than Flow: means over the same inputs, in [-1, 1]."""
    families, unseen = (x[inputs.learned :] for x in (inputs.families, inputs.unseen))
    rows: dict[str, Any] = {}
    for name, given in answers.items():
        rows[name] = asdict(judge.fooled_share(given, families, seed))
        if unseen.any():
            rows[name]["unseen"] = asdict(judge.fooled_share(given[:, unseen], families[unseen], seed))
    more = answers["ours"].double().mean(0) - answers["Flow"].double().mean(0)  # (asked,)
    difference = {"mean": float(more.mean()), "interval": cluster_interval(more, families, seed)}
    return {"rows": rows, "ours_minus_flow": difference}


def draw(result: dict[str, Any], folder: Path) -> str:
    """The plot; a table for each kind of colours, and one of unseen inputs."""
    plot_shares(result, folder / "realism.png")
    protocol = result["protocol"]
    return "\n\n".join(
        [
            "### How often a judge (a small network) takes the synthetic animation for the real one",
            share_table(result),
            "### The same with synthetic colours snapped to the input's",
            share_table(result, snapped=True),
            "### Only of inputs that no training character shares",
            unseen_table(result),
            "The judge is a trained network, not people; near 50 % it finds no difference. "
            f"{protocol['split']}; answers on {protocol['asked']:,} inputs, {protocol['asked_unseen']:,} of them in no "
            f"training character, from {protocol['families_asked']} families; mean of {protocol['judges']} judges a "
            "setting.",
        ]
    )


def headline(result: dict[str, Any]) -> Headline:
    """With the judges that learned from most inputs: colours as predicted and snapped, Flow beside ours."""
    sizes = _sizes(result)
    words: dict[str, list[str]] = {"ours": [], "Flow": []}
    for way, snapped in WAYS.items():
        last = [_of_size(result, size, snapped)[-1] for size in sizes]
        for name, parts in words.items():
            rows = [setting["rows"][name] for setting in last]
            parts.append(f"{way} {' / '.join(with_interval(x['share'], x['interval'], 1, 100) for x in rows)}")
        words["Flow"][-1] += f" ({winner(last)})"
    ours, flow = map("; ".join, words.values())
    paper = listed([result["paper"]["ours"][str(size)] for size in sizes], 1)
    measure = f"% taken for real, 50 is best: {' / '.join(f'{size}x{size}' for size in sizes)}"
    return Headline(measure, f"{paper} (people)", f"{ours} (a judge)", f"Flow: {flow}")


def winner(settings: Sequence[dict[str, Any]]) -> str:
    """Who fools the judges more often in all of these settings, beyond the interval of the difference."""
    lows, highs = zip(*(setting["ours_minus_flow"]["interval"] for setting in settings), strict=True)
    if None in lows or None in highs:
        return "winner: none"
    return "ours wins" if min(lows) > 0 else "Flow wins" if max(highs) < 0 else "neither wins"


def share_table(result: dict[str, Any], snapped: bool = False) -> str:
    """A row for each setting; after those of a size, people's answers in the paper."""
    lines = []
    for size in _sizes(result):
        for setting in _of_size(result, size, snapped):
            more = setting["ours_minus_flow"]
            shares = (
                with_interval(setting["rows"][name]["share"], setting["rows"][name]["interval"], 1, 100)
                for name in COLOURS
            )
            lines.append([_title(setting), *shares, with_interval(more["mean"], more["interval"], 1, 100, "+")])
        flow, ours = (result["paper"][name][str(size)] for name in COLOURS)
        lines.append([f"{size}x{size}, {PEOPLE}", f"{flow:.1f}", f"{ours:.1f}", f"{ours - flow:+.1f}"])
    return table(["% fooled (95 % interval)", "Flow", "ours", "ours - Flow"], lines)


def unseen_table(result: dict[str, Any]) -> str:
    lines = []
    for setting in result["settings"]:
        found = (setting["rows"][name].get("unseen") for name in COLOURS)
        cells = (with_interval(row["share"], row["interval"], 1, 100) if row else "none" for row in found)
        lines.append([f"{_title(setting)}{', snapped' if setting['snapped'] else ''}", *cells])
    return table(["% fooled (95 % interval)", "Flow", "ours"], lines)


def _title(setting: dict[str, Any]) -> str:
    return f"{setting['size']}x{setting['size']}, {setting['inputs']:,} training inputs"


def plot_shares(result: dict[str, Any], path: Path) -> None:
    """A panel for each size and kind of colours: share fooled by training inputs; people's answers as dashed lines."""
    sizes = _sizes(result)
    with plot(path, 9, 8, rows=2, columns=len(sizes), sharey=True) as axes:
        for axis, (snapped, size) in zip(axes.flat, [(s, size) for s in (False, True) for size in sizes], strict=True):
            settings = _of_size(result, size, snapped)
            counts = [setting["inputs"] for setting in settings]
            axis.axhline(50, color="0.6", linewidth=1, label="no difference")
            for name, colour in COLOURS.items():
                rows = [setting["rows"][name] for setting in settings]
                shares = 100 * np.array([row["share"] for row in rows], float)
                low, high = 100 * np.array([row["interval"] for row in rows], float).T
                bars = np.maximum([shares - low, high - shares], 0)  # a bootstrap may miss its share by rounding
                axis.errorbar(counts, shares, yerr=bars, color=colour, marker="o", capsize=3, label=f"{name}, judge")
                people = result["paper"][name][str(size)]
                axis.axhline(people, color=colour, linestyle="--", linewidth=1, label=f"{name}, {PEOPLE}")
            axis.set_xscale("log")
            axis.set_xticks(counts, [f"{count:,}" for count in counts])
            axis.minorticks_off()
            axis.set_ylim(0, 60)
            axis.set_title(f"{size}x{size}{', colours snapped' if snapped else ''}")
            axis.set_xlabel("inputs that the judge learned from")
        axes[0, 0].set_ylabel("% fooled")
        axes[-1, -1].legend()


def _sizes(result: dict[str, Any]) -> list[int]:
    return sorted({setting["size"] for setting in result["settings"]})


def _of_size(result: dict[str, Any], size: int, snapped: bool) -> list[dict[str, Any]]:
    return [each for each in result["settings"] if (each["size"], each["snapped"]) == (size, snapped)]


EXPERIMENT = Experiment(
    "realism",
    "how often a judge, a small network, takes sampled sprites for real ones (Flow and ours)",
    __doc__,
    RealismOptions,
    compute,
    draw,
    headline,
)
