"""What a character lacks: which reference has it, and from which known frame each missing frame is made. Without torch.

n frames of a stack, T of a clip, H, W height and width in pixels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sampling.palette import OPAQUE, over_black
from visual_dynamics.sprites.characters import Character, Clips, Key
from visual_dynamics.sprites.frames import in_squares, standing_boxes
from visual_dynamics.sprites.lpc import blend

STANDING = ("idle", "walk")  # animations whose first frame is a standing pose
STARTS = 6  # known frames that a frame is made from, at most
LAYER = 0.7  # share of a body that a whole character covers; in the walk of 40 characters 0.95, of 100 layers 0.5
CLOTHES = 0.2  # weight of pixels beside a body: finds 93 % of 59 body types, 66 % with 1, 88 % with 0.1
UNLIKE = 0.5  # intersection over union of the silhouettes below which a reference is of another shape


class Place(NamedTuple):
    """A frame of a clip."""

    key: Key
    frame: int


class Step(NamedTuple):
    """A frame to make, and the frames known of reference and character that it is made from, the nearest first."""

    made: Place
    starts: tuple[Place, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """The clips that are made after one reference."""

    reference: Character
    character: Character
    target: Clips  # the character's clips that both have; those of a layer are laid over the reference
    layer: bool
    recoloured: Clips  # made already: the reference in the character's colours
    steps: tuple[Step, ...]  # to be drawn by a model

    @property
    def animations(self) -> list[str]:
        made = list(self.recoloured) + [step.made.key for step in self.steps]
        return list(dict.fromkeys(animation for animation, _ in made))


def plan(
    character: Character,
    references: Sequence[Character],
    asked: Sequence[str] = (),
    body: str = "",
    layer: bool | None = None,
) -> list[Part]:
    """Which reference each missing animation is made after: the one most like the character of those that have it.

    body: a body type whose references come first. layer: whether the character is only worn by one; None: find out.
    """
    wanted = wanted_animations(character, references, asked)
    usable = [each for each in references if common(character.clips, each.clips)]
    if not usable:
        names = ", ".join(character.animations)
        raise UserError(f"no reference has an animation in common with {character.name}, which has {names}")
    layer = is_layer(character, usable) if layer is None else layer
    ordered = by_likeness(character, usable, body, layer)
    chosen: dict[int, list[str]] = {}
    for animation in wanted:
        able = [place for place, each in enumerate(ordered) if animation in each.animations]
        if able:
            chosen.setdefault(able[0], []).append(animation)
    parts = [_part(character, ordered[place], names, layer) for place, names in chosen.items()]
    if lacking := [name for name in asked if all(name not in part.animations for part in parts)]:
        views = ", ".join(dict.fromkeys(view for _, view in character.clips))
        raise UserError(f"{', '.join(lacking)} cannot be drawn: {character.name} is known from {views} only")
    if not (parts := [part for part in parts if part.animations]):
        raise UserError(f"no reference shows what {character.name} lacks from a side that it is known from")
    return parts


def described(parts: Sequence[Part]) -> list[str]:
    """A line on each reference, and one where the character is taken for a layer."""
    lines = [f"{', '.join(part.animations)}: after {part.reference.name}" for part in parts]
    if parts and parts[0].layer:
        name = parts[0].character.name
        lines.append(f"{name} is taken for a layer, as it covers little of a body (else say that it is whole)")
    for part in parts:
        if (shared := overlap_of(part.target, part.reference.clips).union) < UNLIKE:
            lines.append(f"{part.reference.name} has another shape: {shared:.0%} of the silhouettes are in common")
    return lines


def _part(character: Character, reference: Character, animations: Collection[str], layer: bool) -> Part:
    known = common(character.clips, reference.clips)
    keys = [key for key in reference.clips if key[0] in animations]
    target = {key: character.clips[key] for key in known}
    colours = colour_map(reference.clips, target, known)
    ready = {key: recoloured(reference.clips[key], colours) for key in keys} if colours else {}
    exact = {key: frames for key, frames in ready.items() if frames is not None}
    if layer:
        one = known[0]
        if character.clips[one].shape != reference.clips[one].shape:
            raise UserError(f"{character.name} is a layer, but its cells are not as large as {reference.name}'s")
        target = {key: laid_over(frames, reference.clips[key]) for key, frames in target.items()}
    drawn = steps(reference.clips, target, [key for key in keys if key not in exact], known)
    return Part(reference, character, target, layer, exact, tuple(drawn))


def wanted_animations(character: Character, references: Sequence[Character], asked: Sequence[str]) -> list[str]:
    """Those that are asked for, or else all that some reference has; an error for what nobody has."""
    there = list(dict.fromkeys(animation for each in references for animation in each.animations))
    if unknown := [name for name in asked if name not in there]:
        raise UserError(f"no reference has {', '.join(unknown)}: there are {', '.join(there)}")
    has = {*character.animations, *character.unread}
    if asked and (kept := [name for name in asked if name in has]):
        raise UserError(f"{character.name} has {', '.join(kept)}, which is not drawn again: ask for what it lacks")
    wanted = [name for name in asked or there if name not in has]
    if not wanted:
        raise UserError(f"{character.name} lacks no animation of {', '.join(each.name for each in references[:3])}")
    return wanted


def common(one: Clips, other: Clips) -> list[Key]:
    """Clips of both, of equally many frames."""
    return [key for key in one if key in other and len(one[key]) == len(other[key])]


def by_likeness(
    character: Character, references: Sequence[Character], body: str = "", layer: bool = False
) -> list[Character]:
    """The references, those of the body type first, and then by how well each fits into the character's silhouette."""
    if body and all(each.body != body for each in references):
        known = ", ".join(each.body for each in references if each.body) or "none is known"
        raise UserError(f"no reference is of body type {body!r}: {known}")
    body = body or character.body

    def order(reference: Character) -> tuple[bool, float]:
        overlap = overlap_of(character.clips, reference.clips)
        return not body or reference.body != body, -(overlap.inside if layer else overlap.fit)

    return sorted(references, key=order)


class Overlap(NamedTuple):
    """Pixels of two silhouettes in common clips: of both, of the first alone, of the second alone."""

    both: int
    first: int
    second: int

    @property
    def union(self) -> float:
        """Intersection over union."""
        return self.both / max(1, sum(self))

    @property
    def covered(self) -> float:
        """Share of the second."""
        return self.both / max(1, self.both + self.second)

    @property
    def inside(self) -> float:
        """Share of the first."""
        return self.both / max(1, self.both + self.first)

    @property
    def fit(self) -> float:
        """Of a body, the second, in clothes."""
        return self.both / max(1, self.both + CLOTHES * self.first + self.second)


def overlap_of(one: Clips, other: Clips) -> Overlap:
    counts = np.zeros(3, np.int64)
    for key in common(one, other):
        first, second = _silhouettes(one[key], other[key])
        counts += [(first & second).sum(), (first & ~second).sum(), (~first & second).sum()]
    return Overlap(*counts.tolist())


def is_layer(character: Character, references: Sequence[Character]) -> bool:
    """Whether it covers so little of every body, in cells of the same size, that it can be no whole character."""
    sizes = {next(iter(each.clips.values())).shape[1:] for each in (character, *references)}
    return len(sizes) == 1 and max(overlap_of(character.clips, each.clips).covered for each in references) < LAYER


def colour_map(reference: Clips, target: Clips, keys: Collection[Key]) -> dict[int, int] | None:
    """Colour of the reference -> colour of the target, if the target is the reference in other colours; else None."""
    found: dict[int, int] = {}
    for key in keys:
        if reference[key].shape != target[key].shape:
            return None
        one, other = packed(reference[key]).ravel(), packed(target[key]).ravel()
        for before, after in np.unique(np.stack([one, other]), axis=1).T.tolist():
            if found.setdefault(before, after) != after or (before == 0) != (after == 0):
                return None
    return found or None


def packed(frames: Pixels) -> NDArray[np.uint32]:
    """(..., 4) -> (...): a number for each colour with its alpha, 0 for what is not there."""
    numbers: NDArray[np.uint32] = np.ascontiguousarray(frames).view(np.uint32)[..., 0]
    return np.where(frames[..., 3] > 0, numbers, np.uint32(0))


def recoloured(frames: Pixels, colours: Mapping[int, int]) -> Pixels | None:
    """The same in other colours; None if the map lacks one of them."""
    before, places = np.unique(packed(frames), return_inverse=True)
    if any(colour not in colours for colour in before.tolist() if colour):
        return None
    after = np.array([colours.get(colour, 0) for colour in before.tolist()], np.uint32)
    return after[places].reshape(frames.shape[:-1])[..., None].view(np.uint8)


def laid_over(layer: Pixels, body: Pixels) -> Pixels:
    """(T, H, W, 4) both"""
    result = body.copy()
    there = layer[..., 3] > 0
    result[there] = blend(layer[there], body[there])
    return result


def taken_off(frames: Pixels, body: Pixels, colours: Pixels) -> Pixels:
    """A layer drawn on a body, without it: pixels in one of its colours (P, 3) that are not the body's."""
    one, layers = packed(frames) & 0xFFFFFF, packed(np.insert(colours, 3, 255, axis=-1)) & 0xFFFFFF
    own = np.isin(one, layers) & (frames[..., 3] >= OPAQUE) & (packed(frames) != packed(body))
    return np.where(own[..., None], frames, np.uint8(0))


def steps(reference: Clips, target: Clips, keys: Collection[Key], known: Collection[Key]) -> list[Step]:
    """For each frame of these clips of the reference the known ones of the same view that look most like it.

    These are STARTS at most, each with a look of its own; one alone if it is the frame itself. Of equals a standing
    frame: elsewhere the character may hold something. A clip that is known itself is made from other animations; if
    there are none, from its own first frame.
    """
    found = []
    for key in keys:
        others = [each for each in known if each[1] == key[1] and each[0] != key[0]]
        starts = [Place(each, frame) for each in others for frame in range(len(reference[each]))]
        if not others and key in known:
            starts = [Place(key, 0)]
        starts.sort(key=lambda start: start.key[0] not in STANDING)
        starts = [one for one in starts if all(seen(clips[one.key][one.frame]) for clips in (reference, target))]
        frames = [frame for frame in range(len(reference[key])) if seen(reference[key][frame])]
        if starts and frames:
            stack = np.stack([reference[one.key][one.frame] for one in starts])
            first = np.sort(np.unique(over_black(stack), axis=0, return_index=True)[1])  # of each look
            starts, distances = [starts[place] for place in first], _distances(stack[first], reference[key][frames])
            for frame, own in zip(frames, distances.T, strict=True):
                nearest = np.argsort(own, kind="stable")[: STARTS if own.min() > 0 else 1]
                found.append(Step(Place(key, frame), tuple(starts[place] for place in nearest)))
    return found


def seen(frame: Pixels) -> bool:
    return bool((frame[..., 3] >= OPAQUE).any())


def _distances(one: Pixels, other: Pixels) -> NDArray[np.float64]:
    """Squared distances of sprites (n, H, W, 4), (T, H, W, 4) over black, exact whole numbers: (n, T)."""
    a, b = (over_black(frames).reshape(len(frames), -1).astype(np.float64) for frames in (one, other))
    distances: NDArray[np.float64] = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * (a @ b.T)
    return distances


def _silhouettes(one: Pixels, other: Pixels) -> list[NDArray[np.bool_]]:
    """What is visible, on the same ground line."""
    size = max(*one.shape[1:3], *other.shape[1:3])
    boxes = standing_boxes(one.shape[1:3], other.shape[1:3], size)
    return [
        in_squares(frames[..., 3:], box, size)[..., 0] >= OPAQUE
        for frames, box in zip((one, other), boxes, strict=True)
    ]
