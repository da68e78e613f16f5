"""A critic for sprite sheets: what is wrong, where, by how much, and why that is too much.

`reproduce sheet-check` measures how often real art breaks the limits, and how often faults that were put in do not.

T frames, H, W height and width of a frame in pixels; P colours. Arrays are uint8 RGBA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.images import Pixels
from visual_dynamics.sampling.palette import OPAQUE
from visual_dynamics.sprites.faults import (
    DISPLACED,
    LEAST_SHIFT,
    MOST_FRAMES,
    SEAM,
    SWAP,
    SWAP_ALONE,
    Motion,
    displaced_frames,
    repeats_first,
    seam,
    sliding_feet,
    swapped_frames,
)

CHECKS = {  # name -> the fault
    "anchor": "a frame stands elsewhere than its neighbours",
    "feet": "feet slide sideways",
    "seam": "a cycle does not close",
    "order": "two frames have changed places",
    "still": "an animation hardly moves, or stops halfway",
    "palette": "a stray colour",
    "alpha": "half-transparent dirt",
}
CYCLES = ("walk", "run", "climb", "idle", "fly", "swim", "crawl", "hover", "float", "cycle", "loop")  # in a tag's name
RESTING = ("idle", "stand", "breathe", "blink", "rest")  # may hold frames for long, and move a few pixels
CHANGING = 0.01  # share of the visible pixels that ever change; the calmest clips of LPC art have 0.13
FROZEN, FROZEN_FRAMES = 0.5, 3  # share of the frames that are one and the same in a row, and their number, at least
STRAY_PIXELS, STRAY_SHARE = 4, 0.01  # a stray colour has no more pixels, or this share of its frame's: no spark
STRAY_DISTANCE = 48.0  # in RGB, 0 to 441, from every other colour of the sheet
STRAY_FRAMES = 24  # of a sheet: in fewer, colours of one frame are common
MOST_COLOURS = 512  # a sheet of more is painted or antialiased: no colour is stray
SOFT = 0.01  # share of the visible pixels that are half transparent, from which on the art is soft by design
DESIGNED_FRAMES, DESIGNED_SHARE = 2, 0.05  # frames that have a level of alpha by design, and their share of all

Colours = NDArray[np.uint32]  # red, green and blue in one number


@dataclass(frozen=True)
class Finding:
    """Something wrong. `value` is beyond `limit`; frames are counted from 0 in the sheet."""

    check: str
    animation: str  # name of its tag; "" without one
    frames: tuple[int, ...]
    value: float
    limit: float
    words: str


@dataclass(frozen=True)
class Judged:
    """An animation, and whether it was taken for a cycle."""

    tag: Tag
    cycle: bool
    changing: float  # share of its visible pixels that ever change


@dataclass(frozen=True)
class Criticism:
    findings: tuple[Finding, ...]
    animations: tuple[Judged, ...]

    def marked(self) -> dict[int, list[str]]:
        """Frame -> the checks that found something in it."""
        found: dict[int, list[str]] = {}
        for finding in self.findings:
            for frame in finding.frames:
                checks = found.setdefault(frame, [])
                checks += [finding.check] if finding.check not in checks else []
        return found

    def as_json(self) -> dict[str, Any]:
        animations = [
            {"name": one.tag.name, "first": one.tag.first, "last": one.tag.last, "cycle": one.cycle}
            | {"changing": round(one.changing, 4)}
            for one in self.animations
        ]
        findings = [
            asdict(finding) | {"value": round(finding.value, 4), "frames": list(finding.frames)}
            for finding in self.findings
        ]
        return {"clean": not findings, "animations": animations, "findings": findings}


def criticise(
    sheet: Sheet,
    checks: Collection[str] = tuple(CHECKS),
    cycles: bool | None = None,
    palette: Pixels | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Criticism:
    """Everything that is wrong with a sheet. A sheet without tags is one animation.

    cycles: whether animations are; None: those whose name says so. palette: (P, 3), the only colours allowed; without
    one, colours are stray that are rare and far from all others.
    """
    frames = without_background(sheet.frames)
    tags = sheet.tags or (Tag("", 0, len(frames) - 1),)
    animations = [Judged(tag, _is_cycle(tag, cycles), changing(frames[tag.first : tag.last + 1])) for tag in tags]
    judged = not {"anchor", "feet", "seam", "order"}.isdisjoint(checks)
    moving = [one for one in animations if judged and one.tag.last > one.tag.first and one.changing > 0]
    motions = {one.tag: Motion.of(frames[_shown(one.tag)]) for one in moving}
    findings: list[Finding] = []
    for done, one in enumerate(animations, 1):
        if "still" in checks:
            findings += _still(one, frames)
        if motion := motions.get(one.tag):
            others = [motions[tag] for tag in motions if tag.first > one.tag.last or tag.last < one.tag.first]
            related = [other for other in others if len(other) == len(motion) <= MOST_FRAMES]
            findings += [fault for fault in _of_motion(one, motion, related) if fault.check in checks]
        progress(done, len(animations))
    if "palette" in checks:
        findings += list(_foreign(frames, palette) if palette is not None else _stray(frames))
    if "alpha" in checks:
        findings += list(_dirt(frames))
    names = {frame: one.tag.name for one in reversed(animations) for frame in _shown(one.tag)}
    named = [replace(found, animation=found.animation or names.get(found.frames[0], "")) for found in findings]
    return Criticism(tuple(sorted(named, key=lambda found: found.frames)), tuple(animations))


def without_background(frames: Pixels) -> Pixels:
    """(T, H, W, 4): where no pixel is transparent, those of the colour that most of the edge has become so."""
    if (frames[..., 3] < 255).any():
        return frames
    packed = _packed(frames)
    edge = np.concatenate([part.ravel() for part in (packed[:, 0], packed[:, -1], packed[:, :, 0], packed[:, :, -1])])
    colours, counts = np.unique(edge, return_counts=True)
    cut = frames.copy()
    cut[packed == colours[counts.argmax()]] = 0
    return cut


def changing(frames: Pixels) -> float:
    """The share of the pixels visible in some frame that are not the same in all; 0 where nothing is visible."""
    seen = frames[..., 3] > 0
    differs = ((frames != frames[:1]).any(axis=-1) & (seen | seen[:1])).any(axis=0)
    return float(differs.sum()) / max(1, int(seen.any(axis=0).sum()))


def _is_cycle(tag: Tag, cycles: bool | None) -> bool:
    """Back and forth there is no seam."""
    return not tag.direction.startswith("pingpong") and (_named(tag, CYCLES) if cycles is None else cycles)


def _named(tag: Tag, names: Sequence[str]) -> bool:
    return not set(names).isdisjoint(re.split("[^a-z]+", tag.name.lower()))


def _shown(tag: Tag) -> list[int]:
    """Its frames in the order in which they are shown, once each."""
    frames = list(range(tag.first, tag.last + 1))
    return frames[::-1] if tag.direction == "reverse" else frames


def _of_motion(one: Judged, motion: Motion, relatives: Sequence[Motion]) -> Iterator[Finding]:
    name, numbers = one.tag.name, _shown(one.tag)
    elsewhere = displaced_frames(motion, relatives)
    for place, found in elsewhere:
        words = f"stands {_in_words(found.shift)} where it fits its neighbours ({found.gain:.0%} less difference)"
        yield Finding("anchor", name, (numbers[place],), found.gain, DISPLACED, words)
    displaced = {place + after for place, _ in elsewhere for after in (0, 1)}
    for places, pixels in sliding_feet(motion, relatives):
        if displaced.isdisjoint(places):
            words = f"feet slide {abs(pixels)} px to the {'right' if pixels > 0 else 'left'} without a step"
            yield Finding("feet", name, tuple(numbers[place] for place in places), abs(pixels), LEAST_SHIFT, words)
    if one.cycle and repeats_first(motion):
        words = "the last frame repeats the first: the cycle halts there"
        yield Finding("seam", name, (numbers[-1], numbers[0]), 0.0, 0.0, words)
    elif one.cycle and (size := seam(motion)) > SEAM:
        words = f"from the last frame to the first is the largest step, {size:.1f} times the usual one"
        yield Finding("seam", name, (numbers[-1], numbers[0]), size, SEAM, words)
    swap = swapped_frames(motion, relatives)
    if swap and not {place for place, _ in elsewhere} & {*swap.frames}:
        first, second = (numbers[place] for place in swap.frames)
        words = f"exchanging frames {first} and {second} makes the animation {swap.gain:.0%} smoother"
        yield Finding("order", name, (first, second), swap.gain, SWAP if relatives else SWAP_ALONE, words)


def _in_words(shift: tuple[int, int]) -> str:
    """From where a frame should be moved, as (down, right), to where it stands."""
    names = (("below", "above"), ("to the right of", "to the left of"))
    return " and ".join(f"{abs(by)} px {name[by > 0]}" for by, name in zip(shift, names, strict=True) if by)


def _still(one: Judged, frames: Pixels) -> Iterator[Finding]:
    first, last = one.tag.first, one.tag.last
    count = last - first + 1
    if count == 1 or not frames[first : last + 1, ..., 3].any():
        return
    resting = _named(one.tag, RESTING)
    if one.changing == 0 or (one.changing < CHANGING and not resting):
        words = f"hardly moves: {one.changing:.1%} of its pixels ever change"
        yield Finding("still", one.tag.name, tuple(range(first, last + 1)), one.changing, CHANGING, words)
        return
    same = [not (frames[k] != frames[k - 1]).any() for k in range(first + 1, last + 1)]
    runs = [(held, len(list(run))) for held, run in groupby(same)]
    place = first
    for held, length in runs:
        if held and not resting and length + 1 >= max(FROZEN_FRAMES, FROZEN * count):
            share = (length + 1) / count
            words = f"stands still for {length + 1} of {count} frames"
            yield Finding("still", one.tag.name, tuple(range(place, place + length + 1)), share, FROZEN, words)
        place += length


# --- colours and alpha: the whole sheet ---


def _foreign(frames: Pixels, palette: Pixels) -> Iterator[Finding]:
    """Colours that a given palette lacks."""
    known = np.unique(_packed(palette))
    for number, frame in enumerate(frames):
        colours, counts = np.unique(_packed(frame[frame[..., 3] > 0]), return_counts=True)
        strange = ~np.isin(colours, known)
        if pixels := int(counts[strange].sum()):
            names = _hex(colours[strange])
            words = f"{pixels} px in colours that the palette lacks: {names}"
            yield Finding("palette", "", (number,), pixels, 0, words)


def _stray(frames: Pixels) -> Iterator[Finding]:
    """Colours of a few pixels of one frame that are far from all others."""
    used = [np.unique(_packed(frame[frame[..., 3] >= OPAQUE]), return_counts=True) for frame in frames]
    owners = np.repeat(np.arange(len(frames)), [len(found) for found, _ in used])
    counts = np.concatenate([pixels for _, pixels in used])
    colours, places, times = np.unique(
        np.concatenate([found for found, _ in used]), return_index=True, return_counts=True
    )
    if len(colours) > MOST_COLOURS or len(frames) < STRAY_FRAMES:
        return
    for colour, place in zip(colours[times == 1], places[times == 1], strict=True):
        number, pixels = int(owners[place]), int(counts[place])
        distance = _nearest(colour, colours[colours != colour])
        few = pixels <= max(STRAY_PIXELS, STRAY_SHARE * counts[owners == number].sum())
        if few and distance > STRAY_DISTANCE:
            words = f"{pixels} px of {_hex(np.array([colour]))}, which no other frame has, nor a colour near it"
            yield Finding("palette", "", (number,), distance, STRAY_DISTANCE, words)


def _dirt(frames: Pixels) -> Iterator[Finding]:
    """Half-transparent pixels of levels that few frames have, in a sheet that has few such pixels."""
    alpha = frames[..., 3]
    half = (alpha > 0) & (alpha < 255)
    if half.sum() > SOFT * max(1, int((alpha > 0).sum())):
        return
    marked = np.flatnonzero(half.any(axis=(1, 2)))
    levels = {int(frame): np.unique(alpha[frame][half[frame]], return_counts=True) for frame in marked}
    often = np.bincount(np.concatenate([found for found, _ in levels.values()] or [np.zeros(0, int)]), minlength=256)
    designed = often >= max(DESIGNED_FRAMES, DESIGNED_SHARE * len(frames))
    for frame, (found, counts) in levels.items():
        dirty = ~designed[found]
        if pixels := int(counts[dirty].sum()):
            values = ", ".join(map(str, found[dirty].tolist()[:4]))
            words = f"{pixels} px half transparent, with alpha {values} of 255"
            yield Finding("alpha", "", (frame,), pixels, 0, words)


def _packed(pixels: Pixels) -> Colours:
    """(..., 3 or more) -> (...)"""
    wide = pixels.astype(np.uint32)
    packed: Colours = (wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]).astype(np.uint32)
    return packed


def _unpacked(colours: Colours) -> NDArray[np.float64]:
    """(P,) -> (P, 3)"""
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=-1).astype(np.float64)


def _nearest(colour: np.uint32, others: Colours) -> float:
    if not len(others):
        return 0.0
    return float(np.sqrt(np.square(_unpacked(others) - _unpacked(np.array([colour]))).sum(axis=1).min()))


def _hex(colours: Colours, most: int = 4) -> str:
    names = [f"#{colour:06x}" for colour in colours.tolist()]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
