"""Animations drawn for characters that no model has seen: run, jump, sit and climb, from the rest of their sheets.

Paper      beyond it: it has no whole characters.
Command    visual-dynamics reproduce complete --lpc FOLDER
Cost       some 40 s a character on one CPU core, so 20 minutes for the default 30.

Protocol: characters composed of a checkout of the LPC generator, of five body types in turn, which have all
animations of their body. (Clothes of the sixth, the child, are drawn for walk alone; the muscular body does not
climb. A zombie, which has none of the four, is left out.) Each wears held-out items (sprites/lpc_held_out.txt), which
`prepare lpc --items train` leaves out. Their sheets of run, jump, sit and climb are taken away, and `complete` draws
them after the bare bodies that come with the package. It finds the body type itself.

Error: squared difference of colours in [0, 1] over black, summed over a frame; the tables show the sum over that of the
nearest standing frame: the first frame of idle or walk in that view, whichever has the smaller error. "known frame":
the nearest of the known frames that the draft is made from, as it is. Exact frames: at least 90 % of the pixels that
are opaque in truth have the true colour. Intervals: characters are drawn again.

The result of commit c9dc406 has a mistake that was mended after it: frames that look exactly like a known one were
drawn anew, which cost exact frames, and divided by nothing, so that its mean doubt says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from visual_dynamics.api import load
from visual_dynamics.data.packed import PackedCharacter
from visual_dynamics.evaluation.intervals import bootstrap_interval
from visual_dynamics.experiments.sprite_futures import CREDIT
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress, lpc_checkout
from visual_dynamics.reporting.drawing import Group, enlarged, number, sheet, table, with_interval
from visual_dynamics.sampling.palette import OPAQUE
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.bodies import clips_of, shipped_bodies
from visual_dynamics.sprites.cast import draw_cast
from visual_dynamics.sprites.characters import Character, Key
from visual_dynamics.sprites.complete import DOUBTFUL, complete, squared_errors
from visual_dynamics.sprites.generator import Generator
from visual_dynamics.sprites.missing import STANDING, plan

HIDDEN = ("run", "jump", "sit", "climb")
BODIES = ("male", "female", "teen", "pregnant", "muscular")
CHARACTERS, SMALL_CHARACTERS = 30, 2
EXACT = 0.9  # share of a frame's opaque pixels
WORST = 10  # frames in the figure
BEHIND = 150  # grey behind sprites
SIDE = 128  # pixels of a picture in the figure


@dataclass(frozen=True)
class CompleteOptions(ExperimentOptions):
    model: str = "sprites-lpc-poses"
    lpc: Path | None = None  # a checkout of the LPC generator


class Frame(NamedTuple):
    """A draft against the truth."""

    character: int
    key: Key
    frame: int
    error: float
    still: float  # that of the nearest standing frame
    known: float  # that of the frame it is made from
    exact: float  # share of the opaque pixels that have the true colour
    doubt: float
    pictures: tuple[Pixels, ...]  # reference, known frame, draft, truth


def compute(options: CompleteOptions, device: torch.device, progress: Progress) -> Measured:
    generator = Generator(lpc_checkout(options))
    predictor = load(options.model, str(device)).predictor
    count = options.samples or (SMALL_CHARACTERS if options.small else CHARACTERS)
    drawn = draw_cast(generator, count, options.seed, "held-out", BODIES, whole=True)
    cast = [one for one in drawn if hidden_of(one)]
    frames: list[Frame] = []
    facts = []
    worst: list[Frame] = []
    for place, one in enumerate(cast):
        found, body = completed(predictor, one, place)
        frames += [each._replace(pictures=()) for each in found]
        worst = sorted([*worst, *found], key=lambda each: -each.error)[:WORST]
        facts.append({"number": one.facts["number"], "body": one.facts["body"], "reference": body} | ratios(found))
        progress("characters", (place + 1) / len(cast))
    by_name = {name: [each for each in frames if each.key[0] == name] for name in HIDDEN}
    numbers = {
        "animations": {name: summary(found, len(cast)) for name, found in by_name.items() if found},
        "all": summary(frames, len(cast)),
        "doubts": doubts(frames),
        "characters": facts,
        "worst": [
            {"character": facts[each.character]["number"], "frame": f"{' '.join(each.key)} {each.frame}"}
            | ratios([each])
            for each in worst
        ],
    }
    return Measured(numbers, {"complete_worst.png": worst_ten(worst, facts)})


def hidden_of(one: PackedCharacter) -> list[str]:
    """Which of the animations to hide a character has."""
    return [name for name in HIDDEN if any(clip.animation == name for clip in one.clips)]


def completed(predictor: Predictor, one: PackedCharacter, place: int) -> tuple[list[Frame], str]:
    """Each frame of the hidden animations, and the body type of the reference that was found."""
    truth = clips_of(one)
    known = {key: frames for key, frames in truth.items() if key[0] not in HIDDEN}
    parts = plan(Character("it", known), shipped_bodies(), hidden_of(one), layer=False)
    _, drafts = complete(predictor, parts, force=True)
    found = []
    for part in parts:
        starts = {step.made: step.starts[0] for step in part.steps}
        for (key, frame), start in starts.items():
            true, made = truth[key][frame], drafts.clips[key][frame]
            from_known = known[start.key][start.frame]
            standing = [known[name, key[1]][0] for name in STANDING if (name, key[1]) in known]
            error, near, *still = squared_errors([(each, true) for each in (made, from_known, *standing)]).tolist()
            pictures = (part.reference.clips[key][frame], from_known, made, true)
            doubt = float(drafts.doubts[key][frame])
            nearest = min(still, default=near)
            found.append(Frame(place, key, frame, error, nearest, near, exact_share(made, true), doubt, pictures))
    return found, parts[0].reference.body


def exact_share(made: Pixels, truth: Pixels) -> float:
    """Of the opaque pixels of the truth (H, W, 4), those that have the same colour."""
    opaque = truth[..., 3] >= OPAQUE
    same = (made == truth).all(axis=-1) & opaque
    return float(same.sum() / max(1, opaque.sum()))


def ratios(frames: Sequence[Frame]) -> dict[str, float]:
    error, still = sum(each.error for each in frames), sum(each.still for each in frames)
    known = sum(each.known for each in frames)
    return {"ours": error / still, "known frame": known / still, "still": still / max(1, len(frames))}


def summary(frames: Sequence[Frame], count: int) -> dict[str, Any]:
    sums = np.zeros((count, 2))
    for each in frames:
        sums[each.character] += each.error, each.still

    def ratio(drawn: NDArray[np.int64]) -> float:
        error, still = sums[drawn].sum(0)
        return float(error / still) if still else float("nan")

    return ratios(frames) | {
        "interval": bootstrap_interval(ratio, count),
        "frames": len(frames),
        "characters": len({each.character for each in frames}),
        "exact frames": float(np.mean([each.exact >= EXACT for each in frames])),
        "exact pixels": float(np.mean([each.exact for each in frames])),
    }


def doubts(frames: Sequence[Frame]) -> dict[str, Any]:
    """How well a frame's doubt tells its error as a share of that of standing still."""
    doubt = np.array([each.doubt for each in frames])
    share = np.array([each.error / max(each.still, 1e-6) for each in frames])
    sure = [each for each in frames if each.doubt <= DOUBTFUL]
    ranks = np.stack([values.argsort(kind="stable").argsort(kind="stable") for values in (doubt, share)])
    return {
        "limit": DOUBTFUL,
        "rank correlation": float(np.atleast_2d(np.corrcoef(ranks))[0, 1]),
        "expected": float(np.mean(doubt)),
        "marked": 1 - len(sure) / len(frames),
        "ours, unmarked": ratios(sure)["ours"] if sure else None,
    }


def worst_ten(frames: Sequence[Frame], facts: Sequence[dict[str, Any]]) -> bytes:
    rows = [[enlarged(over_grey(picture), SIDE) for picture in each.pictures] for each in frames]
    labels = [f"character {facts[each.character]['number']}\n{' '.join(each.key)} {each.frame}" for each in frames]
    return sheet([Group("largest errors", ["reference", "known frame", "draft", "truth"], rows)], labels)


def over_grey(frame: Pixels) -> Pixels:
    alpha = frame[..., 3:].astype(np.float32) / 255
    shown: Pixels = np.rint(frame[..., :3] * alpha + BEHIND * (1 - alpha)).astype(np.uint8)
    return shown


def draw(result: dict[str, Any], folder: Path) -> str:
    """By animation; then by character, and the worst frames."""
    found = result["animations"] | {"all": result["all"]}
    head = ["", *found]
    lines = [
        ["ours", *(with_interval(each["ours"], each["interval"], 2) for each in found.values())],
        ["known frame", *(number(each["known frame"], 2) for each in found.values())],
        ["standing still, squared error", *(number(each["still"], 1) for each in found.values())],
        ["exact frames, %", *(number(each["exact frames"], 1, 100) for each in found.values())],
        ["exact pixels, %", *(number(each["exact pixels"], 1, 100) for each in found.values())],
        ["characters", *(str(each["characters"]) for each in found.values())],
        ["frames", *(str(each["frames"]) for each in found.values())],
    ]
    people, sure = result["characters"], result["doubts"]
    right = sum(one["body"] == one["reference"] for one in people)
    by_one = [
        [f"{one['number']}, {one['body']}", one["reference"], number(one["ours"], 2), number(one["known frame"], 2)]
        for one in people
    ]
    worst = "; ".join(f"{one['character']} {one['frame']}" for one in result["worst"])
    notes = (
        f"Body type found: {right} of {len(people)}. Doubts: rank correlation with the error as a share of standing "
        f"still {number(sure['rank correlation'], 2)}; mean doubt {number(sure['expected'], 2)}; above "
        f"{number(sure['limit'], 2)}: {number(sure['marked'], 1, 100)} % of the frames; error of the others "
        f"{number(sure['ours, unmarked'], 2)} of standing still. Largest errors: {worst}. {CREDIT}"
    )
    parts = ["### Missing animations drawn for unseen characters: error / error of the nearest standing frame"]
    parts += [table(head, lines), "### By character", table(["", "reference", "ours", "known frame"], by_one), notes]
    return "\n\n".join(parts)


def headline(result: dict[str, Any]) -> Headline:
    found = result["animations"]
    ours, known = (" / ".join(number(each[name], 2) for each in found.values()) for name in ("ours", "known frame"))
    measure = f"error / error of the nearest standing frame, {', '.join(found)} of unseen characters"
    return Headline(measure, "", ours, f"{known} (nearest known frame)")


EXPERIMENT = Experiment(
    "complete",
    "run, jump, sit and climb drawn for characters that no model has seen",
    __doc__,
    CompleteOptions,
    compute,
    draw,
    headline,
)
