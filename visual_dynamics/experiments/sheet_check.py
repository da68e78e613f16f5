"""What a critic of sprite sheets finds, and how often it finds fault with clean sheets. Beyond the paper.

Paper      nothing: it takes sprites as they are.
Command    visual-dynamics reproduce sheet-check --sprites FOLDER --lpc FOLDER --set layers=FOLDER [--samples SHEETS]
Cost       about five minutes on one CPU core.

Protocol: sheets of characters by professional artists, as they are: Reed's 672 (sprites), characters composed of LPC
layers (layers), and of a checkout of the LPC generator (lpc); ten of each. A finding of `check` in one of their
animations counts as a false alarm. Not each is one: some layers hold single pixels with an alpha of 4 of 255, or
colours that recolouring left out, which no artist wants. Then faults are put in, one at a time, into eight animations
of each sheet, drawn from all that can have the fault. A fault is found if the right check names the animation and one
of the frames. Both are measured on whole sheets, which show most motions from several sides, and on sheets of that
animation alone, which say less.

Faults: (1) a frame, neither the first nor the last, moved by 2 pixels up, down, left or right; (2) feet (the lowest
12 % of the sprite) moved by 2 pixels sideways from one frame on; the same by a pixel more in each frame; (3) a cycle
(walk, run, climb) that ends at the frame least like its first; one that repeats its first frame at the end; (4) two
frames exchanged, any two and neighbours, that differ by 5 % of their pixels at least; (5) an animation of which all
frames are the first; one that stops in the middle; (6) three pixels of a frame in one random colour, the same where
the palette is given; (7) one visible pixel of random alpha between 1 and 254.

Limits were set on other characters (seed 1), whose motions are the same: all of this is LPC art. How often the critic
is wrong about other art is not measured. Intervals are Wilson's, over animations; those of one sheet are alike, so
true intervals are wider.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from visual_dynamics.data import reed
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.intervals import wilson_interval
from visual_dynamics.evaluation.sheet_faults import (
    Put,
    cut_cycle,
    dirty_pixel,
    doubled_cycle,
    drifting_feet,
    exchanged_frames,
    exchanged_neighbours,
    frozen,
    moved_frame,
    slid_feet,
    stopped,
    stray_colour,
)
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import number, table, with_interval
from visual_dynamics.sampling.palette import palette_of
from visual_dynamics.sprites import lpc
from visual_dynamics.sprites.cast import draw_cast
from visual_dynamics.sprites.critic import CHECKS, CYCLES, Criticism, criticise
from visual_dynamics.sprites.generator import Generator
from visual_dynamics.sprites.named_sheets import sheet_of

CHARACTERS, SMALL_CHARACTERS = 10, 1  # of each source
EACH = 8  # animations of a sheet that get a fault
SOURCES = {"reed": "Reed's characters", "layers": "LPC layers", "generator": "LPC generator"}
SETTINGS = {"whole": "whole sheet", "alone": "animation alone"}


@dataclass(frozen=True)
class SheetCheckOptions(ExperimentOptions):
    sprites: Path | None = None  # Reed's characters
    layers: Path | None = None  # of LPC characters
    lpc: Path | None = None  # a checkout of the LPC generator


class Fault(NamedTuple):
    check: str  # that should find it
    put: Put
    cycles: bool = False  # only cycles can have it
    palette: bool = False  # the critic is given the palette


FAULTS = {
    "a frame moved by 2 pixels": Fault("anchor", moved_frame),
    "feet moved by 2 pixels": Fault("feet", slid_feet),
    "feet that drift": Fault("feet", drifting_feet),
    "a cycle cut off": Fault("seam", cut_cycle, cycles=True),
    "a cycle's first frame repeated": Fault("seam", doubled_cycle, cycles=True),
    "two frames exchanged": Fault("order", exchanged_frames),
    "neighbours exchanged": Fault("order", exchanged_neighbours),
    "a frozen animation": Fault("still", frozen),
    "one that stops halfway": Fault("still", stopped),
    "a stray colour": Fault("palette", stray_colour),
    "the same, palette given": Fault("palette", stray_colour, palette=True),
    "a half-transparent pixel": Fault("alpha", dirty_pixel),
}


def compute(options: SheetCheckOptions, device: torch.device, progress: Progress) -> Measured:
    sheets = sheets_of(options)
    if not sheets:
        raise UserError("give at least one of --sprites, --lpc and --set layers=FOLDER: real sheets to measure on")
    clean: dict[str, Any] = {}
    for source, some in sheets.items():
        judged = []
        for done, sheet in enumerate(some, 1):
            judged.append(alarms(sheet))
            progress(f"clean sheets: {SOURCES[source]}", done / len(some))
        clean[source] = {setting: shares([one[setting] for one in judged], list(CHECKS)) for setting in SETTINGS}
    every = [sheet for some in sheets.values() for sheet in some]
    faults: dict[str, Any] = {}
    for kind, (name, fault) in enumerate(FAULTS.items()):
        tried = []
        for place, sheet in enumerate(every):
            tried += list(detections(sheet, fault, np.random.default_rng([options.seed, place, kind])))
            progress(f"faults: {name}", (place + 1) / len(every))
        found = {setting: share([one[setting] for one in tried]) for setting in SETTINGS}
        faults[name] = {"check": fault.check} | found
    return Measured({"clean": clean, "faults": faults})


def share(found: Sequence[bool]) -> dict[str, Any]:
    """What share of the animations, with its interval."""
    if not found:
        return {"animations": 0, "share": None, "interval": None}
    part = sum(found) / len(found)
    return {"animations": len(found), "share": part, "interval": wilson_interval(part, len(found))}


def shares(sheets: Sequence[dict[str, list[bool]]], checks: Sequence[str]) -> dict[str, Any]:
    """For each check, and for any of them, over the animations of all sheets."""
    by_check = {check: [alarm for sheet in sheets for alarm in sheet[check]] for check in checks}
    by_check["any"] = [any(row) for row in zip(*by_check.values(), strict=True)]
    return {check: share(found) for check, found in by_check.items()}


def alarms(sheet: Sheet) -> dict[str, dict[str, list[bool]]]:
    """Setting -> check -> whether it finds fault with each animation."""
    found: dict[str, dict[str, list[bool]]] = {setting: defaultdict(list) for setting in SETTINGS}
    whole = criticise(sheet)
    for tag in sheet.tags:
        alone = criticise(part_of(sheet, [tag]))
        for check in CHECKS:
            found["whole"][check].append(names(whole, check, tag.name))
            found["alone"][check].append(names(alone, check, tag.name))
    return found


def names(criticism: Criticism, check: str, animation: str, frames: Sequence[int] | None = None) -> bool:
    """Whether it found fault with an animation, in one of its frames where these are given."""
    return any(
        finding.check == check
        and finding.animation == animation
        and (frames is None or not set(frames).isdisjoint(finding.frames))
        for finding in criticism.findings
    )


def detections(sheet: Sheet, fault: Fault, draws: np.random.Generator) -> Iterator[dict[str, bool]]:
    """Setting -> whether a fault was found, for some animations."""
    able = [tag for tag in sheet.tags if not fault.cycles or tag.name.split()[0] in CYCLES]
    palette = palette_of(sheet.frames) if fault.palette else None
    tried = 0
    for place in draws.permutation(len(able)):
        tag = able[place]
        faulty = fault.put(sheet.frames[tag.first : tag.last + 1], draws)
        if faulty is None or tried == EACH:
            continue
        tried += 1
        own = (tag.name, faulty.frames)
        others = [(t.name, sheet.frames[t.first : t.last + 1]) for t in sheet.tags if t != tag]
        if fault.check not in ("palette", "alpha"):  # others say nothing of its motion
            others = [other for other in others if len(other[1]) == len(faulty.frames)]
        settings = {"whole": sheet_of([own, *others]), "alone": sheet_of([own])}
        yield {
            setting: names(criticise(some, [fault.check], palette=palette), fault.check, tag.name, faulty.places)
            for setting, some in settings.items()
        }


# --- sheets ---


def sheets_of(options: SheetCheckOptions) -> dict[str, list[Sheet]]:
    count = options.samples or (SMALL_CHARACTERS if options.small else CHARACTERS)
    found = {}
    if options.sprites:
        found["reed"] = list(reed_sheets(options.sprites, count, options.seed))
    if options.layers:
        found["layers"] = [layered_sheet(one.sheet) for one in lpc.compose(options.layers, count, options.seed)]
    if options.lpc:
        found["generator"] = list(generator_sheets(options.lpc, count, options.seed))
    return found


def reed_sheets(folder: Path, count: int, seed: int) -> Iterator[Sheet]:
    chosen = np.sort(np.random.default_rng(seed).choice(reed.CHARACTERS, count, replace=False)).tolist()
    characters = reed.read_characters(folder, chosen)
    for place in range(count):
        frames = characters.rgba(place).permute(0, 2, 3, 1).contiguous().numpy()
        yield sheet_of([(f"{clip.animation} {clip.view}", frames[clip.frames]) for clip in reed.CLIPS])


def layered_sheet(picture: Pixels) -> Sheet:
    """13 x 21 cells with the names of their animations; a hand that holds nothing else has empty cells at the end."""
    rows = [(name, view) for name, (_, views) in lpc.ANIMATIONS.items() for view in range(views)]
    cells = picture.reshape(lpc.ROWS, lpc.CELL, lpc.COLUMNS, lpc.CELL, 4).swapaxes(1, 2)
    return sheet_of(
        [(f"{name} {view}", row[: lpc.ANIMATIONS[name][0]]) for (name, view), row in zip(rows, cells, strict=True)]
    )


def generator_sheets(checkout: Path, count: int, seed: int) -> Iterator[Sheet]:
    for one in draw_cast(Generator(checkout), count, seed, "all"):
        ends = np.cumsum([clip.frames for clip in one.clips])
        parts = np.split(one.rgba(), ends[:-1])
        yield sheet_of([(f"{c.animation} {c.view}", part) for c, part in zip(one.clips, parts, strict=True)])


def part_of(sheet: Sheet, tags: Sequence[Tag]) -> Sheet:
    return sheet_of([(tag.name, sheet.frames[tag.first : tag.last + 1]) for tag in tags])


# --- drawing ---


def draw(result: dict[str, Any], folder: Path) -> str:
    """False alarms by source, then faults found."""
    rows = []
    for check in (*CHECKS, "any"):
        cells = [cell(found[setting][check]) for found in result["clean"].values() for setting in SETTINGS]
        rows.append([check if check == "any" else f"{check}: {CHECKS[check]}", *cells])
    counts = [
        f"{found['whole']['any']['animations']:,} of {SOURCES[source]}" for source, found in result["clean"].items()
    ]
    heads = [f"{SOURCES[source]}, {words}" for source in result["clean"] for words in SETTINGS.values()]
    kinds = [
        [name, found["check"], str(found["whole"]["animations"]), *(cell(found[setting]) for setting in SETTINGS)]
        for name, found in result["faults"].items()
    ]
    return "\n\n".join(
        [
            f"Clean animations in which something was found, % (95 % interval); {', '.join(counts)}:",
            table(["check", *heads], rows),
            "Faults found, % (95 % interval):",
            table(["fault", "check", "animations", *SETTINGS.values()], kinds),
        ]
    )


def cell(found: dict[str, Any]) -> str:
    return with_interval(found["share"], found["interval"], 1, 100)


def headline(result: dict[str, Any]) -> Headline:
    alarms = [found["whole"]["any"]["share"] for found in result["clean"].values()]
    known = [found["whole"]["share"] for found in result["faults"].values()]
    worst = max(alarms) if alarms and None not in alarms else None
    lowest, most = (min(known), max(known)) if known and None not in known else (None, None)
    measure = "faults of sprite sheets found, by kind; clean animations in which something is found, at most"
    return Headline(
        measure,
        "none",
        f"{number(lowest, 0, 100)} to {number(most, 0, 100)} %",
        f"{number(worst, 1, 100)} % false alarms",
    )


EXPERIMENT = Experiment(
    "sheet-check",
    "what a critic of sprite sheets finds",
    __doc__,
    SheetCheckOptions,
    compute,
    draw,
    headline,
    frame_size=None,
)
