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
"z = 0" is what the model makes of the target without a motion code: what the pose alone says about the next frame.
The figure shows the first question within one sex and the first across, of each animation of the main table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data.reed import Characters, Numbers
from visual_dynamics.errors import UserError
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, sprites_folder
from visual_dynamics.reporting.drawing import Group, average, enlarged, number, sheet, table, to_pixels
from visual_dynamics.sampling.predictor import Predictor

ANIMATIONS = ("spellcast", "thrust", "walk", "slash", "shoot")
PAPER = {
    "Add (Reed et al.)": (41.0, 53.8, 55.7, 52.1, 77.6),
    "Dis (Reed et al.)": (40.8, 55.8, 52.6, 53.5, 79.8),
    "Dis+Cls (Reed et al.)": (13.3, 24.6, 17.2, 18.9, 40.8),
    "ours, paper": (9.5, 11.5, 11.1, 28.2, 19.0),
}
OURS, OWN = "ours", "ours, own motion"
ALL, WITHIN, ACROSS = "all", "within one sex", "across"
SAMPLES, SMALL_SAMPLES = 20_000, 50  # questions a table, over the five animations
CHUNK = 256  # questions whose frames are held at once
PICTURE = 128  # pixels a side in the figure


@dataclass(frozen=True)
class AnalogyOptions(ExperimentOptions):
    model: str = "sprites"
    sprites: Path | None = None  # the folder of Reed's characters


@dataclass(frozen=True)
class Questions:
    """N questions: source goes from frame `first` to `second`; where does target go from its own frame `first`?"""

    source: Numbers  # (N,) places of characters
    target: Numbers  # (N,) places of other characters
    first: Numbers  # (N,) frames, 0 to 177
    second: Numbers  # (N,) frames of the same clip

    def __len__(self) -> int:
        return len(self.source)

    def within_one_sex(self, characters: Characters) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(N,): whether source and target are of one sex; the two sexes are drawn, and pose, differently."""
        sexes = characters.attributes[:, sprites.SEX]
        return sexes[self.source] == sexes[self.target]

    def frames(self, characters: Characters, size: int, rows: Tensor) -> list[Tensor]:
        """Before, after, target and its true next frame of some questions: four times (B, 3, size, size)."""
        found, margin = [], (size - sprites.SIDE) // 2
        for who in (self.source, self.target):
            for frame in (self.first, self.second):
                drawn = [characters.rgb(int(who[row]), [int(frame[row])]) for row in rows.tolist()]
                frames = torch.zeros(len(drawn), 3, size, size)  # the sprite stands in the middle of a black square
                inside = slice(margin, margin + sprites.SIDE)
                frames[:, :, inside, inside] = torch.cat(drawn).float() / 255
                found.append(frames)
        return found


def draw_questions(
    characters: Characters, animation: str, count: int, seed: int, neighbours: bool = True, same_weapon: bool = True
) -> Questions:
    """Questions of one animation, drawn evenly from all ordered pairs of different characters and all pairs of frames.

    `neighbours`: from a frame to the next one; otherwise between any two frames of a clip. `same_weapon`: only between
    characters that carry the same one; if an animation shows the weapon, other questions have no right answer.
    """
    weapons = characters.attributes[:, sprites.WEAPON]
    allowed = ~np.eye(len(characters), dtype=bool)
    if same_weapon:
        allowed &= weapons[:, None] == weapons[None, :]
    pairs = np.argwhere(allowed)
    if not len(pairs):
        raise UserError("analogies need two characters with the same weapon")
    clips = [clip for clip in sprites.CLIPS if clip.animation == animation]
    every = [move for clip in clips for move in permutations(range(sprites.FRAMES)[clip.frames], 2)]
    moves = np.array([(first, second) for first, second in every if second == first + 1 or not neighbours])
    random = np.random.default_rng(np.random.SeedSequence([seed, len(characters), sprites.CLIPS.index(clips[0])]))
    source, target = pairs[random.integers(len(pairs), size=count)].T
    first, second = moves[random.integers(len(moves), size=count)].T
    return Questions(source, target, first, second)


def compute(options: AnalogyOptions, device: torch.device, progress: Progress) -> Measured:
    """All four tables: neighbouring and any two frames, the same weapon or any."""
    folder = sprites_folder(options)
    predictor = load(options.model, str(device)).predictor
    characters = sprites.read_characters(folder, sprites.reed_split().test)
    count = (options.samples or (SMALL_SAMPLES if options.small else SAMPLES)) // len(ANIMATIONS) + 1
    tables: dict[str, Any] = {}
    examples: list[dict[str, Any]] = []
    pictures = b""
    for neighbours in (True, False):
        for same_weapon in (True, False):
            name = f"{'neighbouring' if neighbours else 'any two'} frames, {'same' if same_weapon else 'any'} weapon"
            tables[name] = {}
            asked = [
                draw_questions(characters, animation, count, options.seed, neighbours, same_weapon)
                for animation in ANIMATIONS
            ]
            if not examples:
                examples, pictures = show(predictor, characters, asked)
            for done, questions in enumerate(asked, 1):
                alike = torch.from_numpy(questions.within_one_sex(characters))
                for row, errors in answer(predictor, characters, questions).items():
                    parts = {ALL: errors, WITHIN: errors[alike], ACROSS: errors[~alike]}
                    for part, chosen in parts.items():
                        tables[name].setdefault(row, {}).setdefault(part, []).append(float(chosen.mean()))
                progress(name, done / len(asked))
    protocol = {"characters": len(characters), "split": "Reed's 100 test characters", "questions": count}
    return Measured(
        {"tables": tables, "examples": examples, "animations": ANIMATIONS, "paper": PAPER, "protocol": protocol},
        {"analogy.png": pictures},
    )


def answer(predictor: Predictor, characters: Characters, questions: Questions) -> dict[str, Tensor]:
    """Errors (N,) of each method; "own motion" is the source's motion on the source itself."""
    errors: dict[str, list[Tensor]] = {}
    for rows in torch.arange(len(questions)).split(CHUNK):
        before, after, frame, truth = questions.frames(characters, predictor.size, rows)
        z = predictor.encode(before, after).mean
        made = {
            "copy": (frame, truth),
            "pixel addition": (frame + after - before, truth),
            "ours, z = 0": (predictor.decode_each(frame, torch.zeros_like(z)), truth),
            OURS: (predictor.decode_each(frame, z), truth),
            OWN: (predictor.decode_each(before, z), after),
        }
        for name, (predicted, true) in made.items():
            errors.setdefault(name, []).append(squared_error(predicted.cpu(), true))
    return {name: torch.cat(values) for name, values in errors.items()}


def squared_error(predicted: Tensor, truth: Tensor) -> Tensor:
    """(B,): summed over the 60x60 pixels of the sprite; colours are cut to [0, 1] as a file would."""
    margin = (truth.shape[-1] - sprites.SIDE) // 2
    inside = slice(margin, margin + sprites.SIDE)
    return (predicted.clamp(0, 1) - truth)[:, :, inside, inside].square().flatten(1).sum(1)


def show(predictor: Predictor, characters: Characters, asked: list[Questions]) -> tuple[list[dict[str, Any]], bytes]:
    """The figure's rows in words, and the figure: the motion, the other character, its next frame as made and true."""
    examples, rows = [], []
    for animation, questions in zip(ANIMATIONS, asked, strict=True):
        alike = questions.within_one_sex(characters)
        for part, which in ((WITHIN, alike), (ACROSS, ~alike)):
            if not which.any():
                continue
            place = int(which.argmax())  # the first one
            before, after, frame, truth = questions.frames(characters, predictor.size, torch.tensor([place]))
            made = predictor.decode_each(frame, predictor.encode(before, after).mean)
            rows.append([enlarged(to_pixels(x[0]), PICTURE) for x in (before, after, frame, made, truth)])
            who = (characters.numbers[questions.source[place]], characters.numbers[questions.target[place]])
            examples.append({"animation": animation, "part": part, "from": int(who[0]), "to": int(who[1])})
    labels = [f"{one['animation']}\n{one['part']}\ncharacter {one['from']} to {one['to']}" for one in examples]
    return examples, sheet([Group("", ["before", "after", "input", "ours", "truth"], rows)], labels)


def draw(result: dict[str, Any], folder: Path) -> str:
    """The main table with the paper's rows, then what changes with weapon, sex and frames."""
    main, *_ = tables = result["tables"]
    head = ["squared error", *result["animations"], "average"]
    rows = [line(name, values) for name, values in result["paper"].items()]
    rows += [line(name, parts[ALL]) for name, parts in tables[main].items()]
    others = [
        line(f"{row}: {name}, {part}", tables[name][row][part])
        for name in tables
        for row in ("copy", OURS)
        for part in (ALL, WITHIN, ACROSS)
    ]
    protocol = result["protocol"]
    notes = (
        f"{protocol['questions']:,} questions an animation, {protocol['characters']} characters ({protocol['split']}). "
        "Squared differences of colours in [0, 1], summed over 60x60x3. The paper's rows are quoted."
    )
    parts = [f"### Visual analogies between sprites: {main}", table(head, rows, bold=(OURS,))]
    return "\n\n".join([*parts, "### The same by sex, weapon and frames", table(head, others), notes])


def line(name: str, values: list[float | None]) -> list[str]:
    return [name, *(number(value, 1) for value in (*values, average(values)))]


def headline(result: dict[str, Any]) -> Headline:
    rows = next(iter(result["tables"].values()))
    errors = (result["paper"]["ours, paper"], rows[OURS][ALL], rows[OWN][ALL])
    paper, ours, own = (number(average(each), 1) for each in errors)
    floor = f"{own} (a motion on its own character)"
    return Headline("squared error, average of five animations", paper, ours, floor)


EXPERIMENT = Experiment(
    "analogy",
    "squared error of visual analogies between sprites, by animation (table on Sprites)",
    __doc__,
    AnalogyOptions,
    compute,
    draw,
    headline,
)
