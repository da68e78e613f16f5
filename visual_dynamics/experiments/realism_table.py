"""Realism of sampled sprites without people: how often a judge takes a synthetic animation for the real one.

Paper      "Movement of Video Game Sprites": a study with people, who pick the real one of two animations of one input.
           Here a small trained network, the judge, picks in their place: its figures are not those of people.
Command    visual-dynamics reproduce realism --sprites FOLDER --model sprites
Cost       some four minutes on one H200; on two CPU cores two hours, most of them judges of 64x64 pictures.
Paper says Flow 29.7 % at 32x32 and 21.0 % at 64x64, ours 41.2 % and 35.7 % (people; 50 % would be ideal).

Protocol: neighbouring frames of all animations of Reed's 100 test characters, which neither Flow's database nor the
model holds (both come from his 500). One sampled next frame an input and method, in 8-bit colours; 32x32 are the same
frames averaged over 2x2 pixels. All of it twice: with colours as they were predicted, and with those of every
synthetic frame, of either method, snapped to its input's, as pixel art is written (`animate`). Judges learn from
inputs of one half of the characters and are asked about the other; characters 4n ... 4n + 3, which share frames, stay
together and are drawn together for the intervals. Each method has judges of its own, three for each number of
training inputs, with 50, 200 or all of the same 1,000 drawn anew for each judge; their answers are averaged. A
judge's size and steps were settled on the 72 validation characters.

80 of the 100 characters have a twin with another weapon among the 500, so that two inputs in five were seen there:
the others are counted apart as well.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines.flow_transfer import FlowTransfer
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import realism
from visual_dynamics.experiments import realism_figures
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.latents import TrainingPosteriors, sample_seeds
from visual_dynamics.sampling.palette import snap_to_palette

SUMMARY = "how often a judge, a small network, takes sampled sprites for real ones (Flow and ours)"
PAPER = {"Flow": {"32": 29.7, "64": 21.0}, "ours": {"32": 41.2, "64": 35.7}}  # % of people's answers, on 200 images
SIZE = 64
SIZES = (32, 64)
TRAINING_INPUTS = (50, 200, 1000)
SAMPLES = 1000  # inputs asked about
JUDGES = 3  # for each method and setting
STEPS = realism.STEPS
SMALL_CHARACTERS = 50  # that Flow knows in a quick look, of 500
SMALL_TRAINING_INPUTS, SMALL_SAMPLES, SMALL_JUDGES, SMALL_STEPS = (50,), 50, 1, 40
FAMILY = 4  # characters 4n ... 4n + 3 share frames
BATCH = {"cpu": 8, "cuda": 128}  # of the model
PART = 250  # inputs between two reports of progress; Flow searches for so many at once

SampleEach = Callable[[Tensor, Sequence[int]], Tensor]  # float (B, 3, H, W), B seeds -> float (B, 3, H, W)


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters
    samples: int | None = None  # inputs asked about
    seed: int = 0
    small: bool = False  # a quick look: fewer inputs, characters, judges and steps


@dataclass(frozen=True)
class Inputs:
    """What judges learn from and are asked about."""

    frames: Tensor  # uint8 (N, 3, 64, 64)
    real: Tensor  # uint8 (N, 3, 64, 64), the true next frames
    families: Tensor  # int64 (N,): a quarter of the character's number
    unseen: Tensor  # bool (N,): no training character has this frame
    learned: int  # so many for judges to learn from come first, then those they are asked about

    def __len__(self) -> int:
        return len(self.frames)


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Futures of all inputs once a method, then the judges of the six settings."""
    started = time.monotonic()
    if options.sprites is None:
        raise UserError("this is measured on Reed's sprites: give their folder with --sprites")
    model = load(options.model, str(device))
    if model.size != SIZE:
        raise UserError(f"{options.model} makes frames of {model.size} pixels; this is measured on {SIZE}")
    asked = options.samples or (SMALL_SAMPLES if options.small else SAMPLES)
    counts = SMALL_TRAINING_INPUTS if options.small else TRAINING_INPUTS
    judges, steps = (SMALL_JUDGES, SMALL_STEPS) if options.small else (JUDGES, STEPS)
    train, test = read_split(options.sprites, tell, SMALL_CHARACTERS if options.small else None)
    inputs = draw_inputs(train, test, max(counts), asked, options.seed)
    methods: dict[str, SampleEach] = {
        "Flow": FlowTransfer(train.to(device)).sample_each,
        "ours": posterior_sampler(model, device),
    }
    seeds = sample_seeds(options.seed, len(inputs))
    futures = {name: sample_futures(method, inputs, seeds, device, name, tell) for name, method in methods.items()}
    return {
        "experiment": "realism",
        "settings": [
            {"snapped": snapped} | setting
            for snapped, made in ((False, futures), (True, snapped_futures(inputs, futures)))
            for setting in judge_settings(inputs, made, counts, judges, steps, options.seed, device, tell)
        ],
        "paper": PAPER,
        "protocol": {
            "characters": len(test.numbers),
            "split": "Reed's 100 test characters, half for learning and half for asking",
            "learned": inputs.learned,
            "asked": len(inputs) - inputs.learned,
            "asked_unseen": int(inputs.unseen[inputs.learned :].sum()),
            "families_asked": len(inputs.families[inputs.learned :].unique()),
            "judges": judges,
            "steps": steps,
        },
    } | origin(options, model, started, device)


@dataclass(frozen=True)
class HeldOut:
    """Neighbouring pairs of the test characters, character after character."""

    pairs: Pairs
    numbers: Tensor  # int64, of the characters


def read_split(folder: Path, tell: Tell, most: int | None = None) -> tuple[Pairs, HeldOut]:
    """Reed's training pairs, 78,500 of 64x64 pixels (1.1 GB) or those of the first `most` characters, and his test
    pairs, 15,700."""
    split = sprites.reed_split()

    def read(numbers: sprites.Numbers, what: str) -> sprites.Characters:
        return sprites.read_characters(folder, numbers, lambda done, of: tell(what, done / of))

    train = sprites.sprite_pairs(read(split.train[:most], "training characters"), size=SIZE)
    test = read(split.test, "test characters")
    return train, HeldOut(sprites.sprite_pairs(test, size=SIZE), torch.from_numpy(test.numbers))


def draw_inputs(train: Pairs, test: HeldOut, learned: int, asked: int, seed: int) -> Inputs:
    """Random inputs, `learned` of one half of the characters and `asked` of the other, if there are."""
    each = len(test.pairs) // len(test.numbers)
    families = (test.numbers // FAMILY).repeat_interleave(each)  # (pairs,)
    learning = torch.isin(families, half_of_families(test.numbers, seed))
    chance = torch.Generator().manual_seed(seed)
    chosen = []
    for side, count in ((learning, learned), (~learning, asked)):
        places = side.nonzero()[:, 0]
        chosen.append(places[torch.randperm(len(places), generator=chance)[:count]])
    if len(chosen[0]) < learned or not len(chosen[1]):
        raise UserError(f"judges need {learned} inputs to learn from and some to be asked about")
    pairs, picked = test.pairs, torch.cat(chosen)
    frames = pairs.store[pairs.first[picked]]
    known = {_digest(frame) for part in torch.arange(len(train.store)).split(1024) for frame in train.store[part]}
    unseen = torch.tensor([_digest(frame) not in known for frame in frames])
    return Inputs(frames, pairs.store[pairs.second[picked]], families[picked], unseen, len(chosen[0]))


def half_of_families(numbers: Tensor, seed: int) -> Tensor:
    """Families (a character's number by FAMILY), in random order so many that they hold half of the characters."""
    families, sizes = (numbers // FAMILY).unique(return_counts=True)
    order = torch.randperm(len(families), generator=torch.Generator().manual_seed(seed))
    within = sizes[order].cumsum(0) <= len(numbers) / 2
    return families[order[within]]


def _digest(frame: Tensor) -> bytes:
    return hashlib.blake2b(frame.numpy().tobytes(), digest_size=16).digest()


def posterior_sampler(model: Model, device: torch.device) -> SampleEach:
    """The model with z from its training posteriors. Batches of different images: the predictor takes one at a time."""
    network, source = model.predictor.network, TrainingPosteriors(model.weights.posteriors)

    @torch.inference_mode()
    def sample_each(frames: Tensor, seeds: Sequence[int]) -> Tensor:
        kernels = (network.kernel_decoder(z) for z in source.draw(seeds).to(device).split(BATCH[device.type]))
        parts = zip(frames.split(BATCH[device.type]), kernels, strict=True)
        return torch.cat([part + network.decode(network.encode_image(part), kernel) for part, kernel in parts])

    return sample_each


def sample_futures(
    method: SampleEach, inputs: Inputs, seeds: list[int], device: torch.device, name: str, tell: Tell
) -> Tensor:
    """One next frame of each input, uint8 (N, 3, 64, 64) as a file would hold it."""
    parts = []
    for start in range(0, len(inputs), PART):
        frames = inputs.frames[start : start + PART].to(device).float() / 255
        made = method(frames, seeds[start : start + PART])
        parts.append((made.clamp(0, 1) * 255).round().to(torch.uint8).cpu())
        tell(f"futures, {name}", min(1.0, (start + PART) / len(inputs)))
    return torch.cat(parts)


def snapped_futures(inputs: Inputs, futures: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same frames, every pixel in the nearest colour of the input they follow: uint8 (N, 3, 64, 64)."""
    palettes = [np.unique(frame.flatten(1).T.numpy(), axis=0) for frame in inputs.frames]  # (P, 3) each
    return {
        name: torch.from_numpy(
            np.stack([snap_to_palette(x, own) for x, own in zip(made.movedim(1, 3).numpy(), palettes, strict=True)])
        ).movedim(3, 1)
        for name, made in futures.items()
    }


def judge_settings(
    inputs: Inputs,
    futures: dict[str, Tensor],
    counts: Sequence[int],
    judges: int,
    steps: int,
    seed: int,
    device: torch.device,
    tell: Tell,
) -> list[dict[str, Any]]:
    """Every size with every number of training inputs, `counts`, in the order of the table."""
    settings = []
    for size in SIZES:
        frames, real = (at_size(x, size, device) for x in (inputs.frames, inputs.real))
        synthetic = {name: at_size(x, size, device) for name, x in futures.items()}
        for count in counts:
            answers = {
                name: ask_judges(frames, real, made, inputs.learned, count, judges, steps, seed)
                for name, made in synthetic.items()
            }
            settings.append({"size": size, "inputs": count} | summary(answers, inputs, seed))
            tell("judges", len(settings) / (len(SIZES) * len(counts)))
    return settings


def at_size(frames: Tensor, size: int, device: torch.device) -> Tensor:
    """uint8 (N, 3, 64, 64) -> float (N, 3, size, size) in [0, 1], made smaller by averaging."""
    return (frames if size == SIZE else resize_frames(frames, size)).to(device).float() / 255


def ask_judges(
    frames: Tensor, real: Tensor, synthetic: Tensor, learned: int, count: int, judges: int, steps: int, seed: int
) -> Tensor:
    """Which judge is fooled on which input asked about: bool (judges, N - learned).

    A judge learns from `count` of the first `learned` inputs: of its own random order of them the first ones, for each
    method the same.
    """
    answers = []
    for number in range(judges):
        own = seed * 100 + number
        order = torch.randperm(learned, generator=torch.Generator().manual_seed(own))[:count].to(frames.device)
        judge = realism.train_judge(frames[order], real[order], synthetic[order], own, steps)
        answers.append(realism.fooled(judge, frames[learned:], real[learned:], synthetic[learned:], own))
    return torch.stack(answers)


def summary(answers: dict[str, Tensor], inputs: Inputs, seed: int) -> dict[str, Any]:
    """Rows of one setting, and how much more often ours fools than Flow: means over the same inputs, in [-1, 1]."""
    families, unseen = (x[inputs.learned :] for x in (inputs.families, inputs.unseen))
    rows: dict[str, Any] = {}
    for name, given in answers.items():
        rows[name] = asdict(realism.fooled_share(given, families, seed))
        if unseen.any():
            rows[name]["unseen"] = asdict(realism.fooled_share(given[:, unseen], families[unseen], seed))
    more = answers["ours"].double().mean(0) - answers["Flow"].double().mean(0)  # (asked,)
    difference = {"mean": float(more.mean()), "interval": realism.cluster_interval(more, families, seed)}
    return {"rows": rows, "ours_minus_flow": difference}


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figure and the tables; returns the tables as Markdown."""
    return realism_figures.draw(result, folder)


headline = realism_figures.headline
