"""The analogy table: a motion of one character carried over to another.

Paper      "Zero-Shot Visual Analogy-Making", the table by animation and the figure, without Exercise.
Command    visual-dynamics reproduce analogy --sprites FOLDER
Cost       about a minute on one H200; on two CPU cores --samples 500 takes some minutes.
Paper says Add 41.0 / 53.8 / 55.7 / 52.1 / 77.6, Dis 40.8 / 55.8 / 52.6 / 53.5 / 79.8,
           Dis+Cls 13.3 / 24.6 / 17.2 / 18.9 / 40.8 (Reed et al. 2015), ours 9.5 / 11.5 / 11.1 / 28.2 / 19.0
           (spellcast / thrust / walk / slash / shoot).

Protocol: Reed's 100 test characters, of which the model has seen none (though 80 of them have a twin with the other
weapon among the 500 it trained on). Questions are drawn evenly from all ordered pairs of characters and all moves of an
animation. Error: squared difference of colours in [0, 1], summed over the 60x60x3 numbers of a frame, mean over the
questions of an animation; the average is that of the five animations. Main table: neighbouring frames, same weapon.
"z = 0" is what the model makes of the target without being told a motion: what the pose alone says of the next frame.
The figure shows the first question within one sex and the first across, of each animation of the main table.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.analogies import Analogies, draw_analogies
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import analogy_figures
from visual_dynamics.experiments.futures_figure import as_pixels, encoded
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin

SUMMARY = "squared error of visual analogies between sprites, by animation (table on Sprites)"
ANIMATIONS = ("spellcast", "thrust", "walk", "slash", "shoot")
PAPER = {
    "Add (Reed et al.)": (41.0, 53.8, 55.7, 52.1, 77.6),
    "Dis (Reed et al.)": (40.8, 55.8, 52.6, 53.5, 79.8),
    "Dis+Cls (Reed et al.)": (13.3, 24.6, 17.2, 18.9, 40.8),
    "ours, paper": (9.5, 11.5, 11.1, 28.2, 19.0),
}
SAMPLES, SMALL_SAMPLES = 20_000, 50  # questions a table, over the five animations
BATCH = {"cpu": 16, "cuda": 256}


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters
    samples: int | None = None
    seed: int = 0
    small: bool = False  # a quick look: fewer questions


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """All four tables: neighbouring and any two frames, the same weapon or any."""
    started = time.monotonic()
    if options.sprites is None:
        raise UserError("this is measured on Reed's sprites: give their folder with --sprites")
    model = load(options.model, str(device))
    characters = sprites.read_characters(options.sprites, sprites.reed_split().test)
    store = Frames(characters, model.predictor.network.config.size)
    count = (options.samples or (SMALL_SAMPLES if options.small else SAMPLES)) // len(ANIMATIONS) + 1
    tables: dict[str, Any] = {}
    shown: list[dict[str, Any]] = []
    for neighbours in (True, False):
        for same_weapon in (True, False):
            name = f"{'neighbouring' if neighbours else 'any two'} frames, {'same' if same_weapon else 'any'} weapon"
            questions = [
                draw_analogies(characters, animation, count, options.seed, neighbours, same_weapon)
                for animation in ANIMATIONS
            ]
            shown = shown or examples(model, store, characters, questions, device)
            tables[name] = measure(model, store, characters, questions, device, lambda share, n=name: tell(n, share))
    return {
        "experiment": "analogy",
        "tables": tables,
        "examples": shown,
        "animations": ANIMATIONS,
        "paper": PAPER,
        "protocol": {"characters": len(characters), "split": "Reed's 100 test characters", "questions": count},
    } | origin(options, model, started, device)


class Frames:
    """All frames of some characters in the middle of the network's black square."""

    def __init__(self, characters: sprites.Characters, size: int) -> None:
        self.characters, self.size = characters, size
        self.margin = (size - sprites.SIDE) // 2

    def take(self, who: np.ndarray[Any, Any], frames: np.ndarray[Any, Any], device: torch.device) -> Tensor:
        """float (B, 3, size, size) in [0, 1]"""
        drawn = [self.characters.rgb(int(c), [int(f)]) for c, f in zip(who, frames, strict=True)]
        room = torch.zeros(len(drawn), 3, self.size, self.size)
        inside = slice(self.margin, self.margin + sprites.SIDE)
        room[:, :, inside, inside] = torch.cat(drawn).float() / 255
        return room.to(device)

    def question(self, asked: Analogies, rows: np.ndarray[Any, Any], device: torch.device) -> tuple[Tensor, ...]:
        """Before, after, target and its true next frame of some questions: four times (B, 3, size, size)"""
        whos, numbers = (asked.source, asked.target), (asked.first, asked.second)
        return tuple(self.take(who[rows], number[rows], device) for who in whos for number in numbers)

    def error(self, predicted: Tensor, truth: Tensor) -> Tensor:
        """(B,): summed over the 60x60 pixels of the sprite; colours are cut to [0, 1] as a file would."""
        inside = slice(self.margin, self.margin + sprites.SIDE)
        difference = (predicted.clamp(0, 1) - truth)[:, :, inside, inside]
        return difference.square().flatten(1).sum(dim=1).cpu()


def measure(
    model: Model,
    store: Frames,
    characters: sprites.Characters,
    questions: list[Analogies],
    device: torch.device,
    tell: Any,
) -> dict[str, Any]:
    """Rows of one table: row -> {"all" | "within one sex" | "across": five errors, one an animation}."""
    rows: dict[str, dict[str, list[float]]] = {}
    for number, asked in enumerate(questions):
        errors = answer(model, store, asked, device)
        alike = torch.from_numpy(asked.within_one_sex(characters))
        for row, values in errors.items():
            parts = {"all": values, "within one sex": values[alike], "across": values[~alike]}
            for part, chosen in parts.items():
                rows.setdefault(row, {}).setdefault(part, []).append(float(chosen.mean()))
        tell((number + 1) / len(questions))
    return rows


@torch.no_grad()
def examples(
    model: Model, store: Frames, characters: sprites.Characters, questions: list[Analogies], device: torch.device
) -> list[dict[str, Any]]:
    """The figure's rows: the motion, the other character, its next frame as predicted and in truth, as base64 PNGs."""
    network, rows = model.predictor.network, []
    for animation, asked in zip(ANIMATIONS, questions, strict=True):
        alike = asked.within_one_sex(characters)
        for part, which in (("within one sex", alike), ("across", ~alike)):
            chosen = np.flatnonzero(which)[:1]
            if not len(chosen):
                continue
            before, after, frame, truth = store.question(asked, chosen, device)
            kernels = network.kernel_decoder(network.encode_motion(before, after - before).mean)
            moved = frame + network.decode(network.encode_image(frame), kernels)
            shown = {"before": before, "after": after, "input": frame, "ours": moved, "truth": truth}
            rows.append(
                {
                    "animation": animation,
                    "part": part,
                    "from": int(characters.numbers[asked.source[chosen[0]]]),
                    "to": int(characters.numbers[asked.target[chosen[0]]]),
                    "pictures": {name: encoded(as_pixels(picture[0])) for name, picture in shown.items()},
                }
            )
    return rows


@torch.no_grad()
def answer(model: Model, store: Frames, asked: Analogies, device: torch.device) -> dict[str, Tensor]:
    """Errors (N,) of each method; `own` is the source's motion on the source itself."""
    network = model.predictor.network
    rows = ("copy", "pixel addition", "ours, z = 0", "ours", "ours, own motion")
    errors: dict[str, list[Tensor]] = {row: [] for row in rows}
    untold = network.kernel_decoder(torch.zeros(1, network.config.latent, device=device))
    for batch in torch.arange(len(asked)).split(BATCH[device.type]):
        before, after, frame, truth = store.question(asked, batch.numpy(), device)
        kernels = network.kernel_decoder(network.encode_motion(before, after - before).mean)
        seen = network.encode_image(frame)
        moved = frame + network.decode(seen, kernels)
        guessed = frame + network.decode(seen, tuple(kernel.expand(len(frame), *kernel.shape[1:]) for kernel in untold))
        own = before + network.decode(network.encode_image(before), kernels)
        errors["copy"].append(store.error(frame, truth))
        errors["pixel addition"].append(store.error(frame + after - before, truth))
        errors["ours, z = 0"].append(store.error(guessed, truth))
        errors["ours"].append(store.error(moved, truth))
        errors["ours, own motion"].append(store.error(own, after))
    return {name: torch.cat(values) for name, values in errors.items()}


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the tables; returns them as Markdown."""
    return analogy_figures.draw(result, folder)


headline = analogy_figures.headline
