"""Characters composed of the LPC generator's items: drawn by a seed, each choice alone, and laid over each other.

Letters in shape comments: F cells of all animations, n visible pixels, P colours.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.data.packed import COLOURS, Clip, PackedCharacter
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.generator import (
    ANIMATIONS,
    BODY_TYPES,
    CELL,
    CELLS,
    STARTS,
    Drawn,
    Generator,
    Item,
    Palette,
    Worn,
    views_of,
)
from visual_dynamics.sprites.lpc import blend

BODIES_OF_16 = {"male": 4, "female": 4, "teen": 3, "muscular": 2, "pregnant": 2, "child": 1}  # how often each is drawn
WORN_OUT_OF_16 = {  # how often a slot is worn, in the order of drawing: what is drawn first may be needed by the others
    "body": 16,
    "head": 16,
    "dress": 2,
    "legs": 15,
    "shoes": 14,
    "clothes": 15,
    "hair": 14,
    "armour": 3,
    "jacket": 2,
    "vest": 2,
    "sleeves": 2,
    "belt": 3,
    "cape": 3,
    "gloves": 3,
    "socks": 3,
    "hat": 4,
    "beard": 2,
    "mustache": 1,
    "expression": 4,
    "weapon": 6,
    "shield": 2,
    "shoulders": 2,
    "ears": 2,
}
RARELY = 0.4  # of 16: any other slot
NEVER = ("shadow", "wheelchair")
REPLACED = {"dress": ("clothes", "legs")}  # what is not worn with it
# A character has the animations for which all of these have sheets. Other items are held, or seen from one side only:
# they are drawn where they have a sheet.
COVERING = frozenset(
    "body head hair legs shoes clothes dress armour jacket vest sleeves overalls gloves socks hat".split()  # noqa: SIM905
)
NEEDED = "walk"  # that every character has
ATTEMPTS = 200  # draws for one character

HELD_OUT = Path(__file__).with_name("lpc_held_out.txt")  # items that models of ours have never seen, a key a line
HELD_OUT_SHARE = 0.15  # of the families of a slot that has LEAST_FAMILIES at least
LEAST_FAMILIES = 4
KEPT = ("head/heads/human/heads_human_male", "head/heads/human/heads_human_female")  # families of the usual heads

Items = Literal["all", "train", "held-out"]
ITEMS: tuple[Items, ...] = get_args(Items)
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Outfit:
    """What a character is composed of."""

    body: str  # one of BODY_TYPES
    worn: tuple[Worn, ...]

    @property
    def head(self) -> str:
        """The name of its head."""
        return next((one.item.name for one in self.worn if one.item.slot == "head"), "")


@dataclass(frozen=True, eq=False)
class Composed:
    """A composed character as palette indices. The cells of animations that it has not got are empty."""

    outfit: Outfit
    index: NDArray[np.uint8]  # (F, 64, 64), 0: nothing
    colours: Pixels  # (P + 1, 4), alpha not multiplied in; row 0 is transparent
    animations: tuple[str, ...]
    files: frozenset[str]  # of the layers used, below spritesheets

    def sheet(self, animation: str) -> Pixels:
        """(64 views, 64 frames, 4): as the generator writes it."""
        frames, views = ANIMATIONS[animation]
        cells = self.colours[self.index[cells_of(animation)]]  # (views * frames, 64, 64, 4)
        return cells.reshape(views, frames, CELL, CELL, 4).swapaxes(1, 2).reshape(views * CELL, frames * CELL, 4)

    def packed(self, number: int) -> PackedCharacter:
        """The same with the cells of its animations only."""
        clips = [Clip(name, view, ANIMATIONS[name][0]) for name in self.animations for view in views_of(name)]
        index = np.concatenate([self.index[cells_of(name)] for name in self.animations])
        worn = {one.item.slot: [one.item.key, *(p.name for p in one.palettes), one.variant] for one in self.outfit.worn}
        digest = hashlib.sha256(self.colours.tobytes() + index.tobytes()).hexdigest()
        facts = {"number": number, "body": self.outfit.body, "worn": worn, "sha256": digest}
        return PackedCharacter(index, self.colours, tuple(clips), facts)


def cells_of(animation: str) -> slice:
    """The places of an animation among all cells."""
    frames, views = ANIMATIONS[animation]
    return slice(STARTS[animation], STARTS[animation] + frames * views)


def families(items: Collection[Item]) -> dict[str, str]:
    """Key of an item -> that of its family. Items of one folder are of one family if their names begin alike:
    longsleeve, longsleeve2 and longsleeve2_buttoned."""
    folders: dict[str, list[str]] = defaultdict(list)
    for item in items:
        folder, _, name = item.key.rpartition("/")
        folders[folder].append(name)
    found = {}
    for folder, names in folders.items():
        stems = sorted({name.rstrip("0123456789") for name in names}, key=len)
        for name in names:
            found[f"{folder}/{name}"] = f"{folder}/{next(stem for stem in stems if name.startswith(stem))}"
    return found


def draw_held_out(generator: Generator, seed: int = 0) -> list[str]:
    """Keys of the items to hold out: whole families of each slot that has several, by the order of their hashes."""
    family = families(generator.items.values())
    slots: dict[str, set[str]] = defaultdict(set)
    for item in generator.items.values():
        slots[item.slot].add(family[item.key])
    chosen: set[str] = set()
    for slot, names in slots.items():
        if slot != "body" and len(names) >= LEAST_FAMILIES:
            order = sorted(names.difference(KEPT), key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
            chosen.update(order[: max(1, round(HELD_OUT_SHARE * len(names)))])
    return sorted(key for key in generator.items if family[key] in chosen)


def held_out_items() -> frozenset[str]:
    """The committed list."""
    return frozenset(HELD_OUT.read_text("utf-8").split())


def draw_outfit(
    generator: Generator,
    seed: int,
    number: int,
    attempt: int = 0,
    items: Items = "all",
    bodies: Sequence[str] = BODY_TYPES,
) -> Outfit:
    """The outfit of a character. Each choice is a hash of the arguments, so that no choice moves another one.

    items: "train" wears none of the held-out items, "held-out" one of them wherever a slot has one. Three of four
    characters wear only what is drawn in all animations of their body: the rarer ones are seen often enough.
    """

    def share(what: str) -> float:
        digest = hashlib.sha256(f"{seed} {number} {attempt} {what}".encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56

    def pick(what: str, options: Sequence[Choice]) -> Choice:
        return options[int(share(what) * len(options))]

    known = [name for name in bodies if generator.wearable(name).get("body")]
    body = pick("body type", [name for name in known for _ in range(BODIES_OF_16[name])])
    there = generator.wearable(body)
    whole = max((generator.animations(item, body) for item in there["body"]), key=len) if number % 4 else frozenset()
    held_out = held_out_items() if items != "all" else frozenset()
    outfit: list[Worn] = []
    skin: Palette | None = None
    for slot in (*WORN_OUT_OF_16, *sorted(there.keys() - WORN_OUT_OF_16.keys())):
        if slot in NEVER or share(f"{slot} worn") * 16 >= WORN_OUT_OF_16.get(slot, RARELY):
            continue
        if any(slot in REPLACED.get(one.item.slot, ()) for one in outfit):
            continue
        tags = {tag for one in outfit for tag in one.item.tags}
        options = [item for item in there.get(slot, []) if item.required <= tags]
        if slot in COVERING:
            options = [item for item in options if whole <= generator.animations(item, body)] or options
        if items == "train":
            options = [item for item in options if item.key not in held_out]
        elif items == "held-out":
            options = [item for item in options if item.key in held_out] or options
        if not options:
            continue
        item = pick(f"{slot} item", _usual(slot, options, pick(f"{slot} kind", range(4))))
        palettes = [pick(f"{slot} colour {k}", part.palettes) for k, part in enumerate(item.recolours)]
        if item.matches_body and palettes:
            palettes[0] = skin = skin or palettes[0]
        outfit.append(Worn(item, tuple(palettes), pick(f"{slot} variant", item.variants) if item.variants else ""))
    return Outfit(body, tuple(outfit))


def _usual(slot: str, items: list[Item], kind: int) -> list[Item]:
    """Three of four bodies are living ones, and three of four heads human; the rest is of any kind."""
    if kind and slot == "body":
        return [item for item in items if item.key == "body/body"] or items
    if kind and slot == "head":
        return [item for item in items if "human" in item.tags] or items
    return items


def compose(generator: Generator, outfit: Outfit) -> Composed:
    """Lay the layers over each other, the lowest first; an error if they have too many colours together."""
    layers: list[tuple[int, Drawn]] = []
    animations = frozenset(ANIMATIONS)
    for worn in outfit.worn:
        own = list(generator.layers(worn, outfit.body, outfit.head))
        layers += own
        if worn.item.slot in COVERING:
            animations &= frozenset[str]().union(*(drawn.animations for _, drawn in own))
    canvas = np.zeros(CELLS * CELL * CELL, np.uint16)  # rows of the table of colours
    table = np.zeros((1, 4), np.uint8)
    for _, drawn in sorted(layers, key=lambda layer: layer[0]):  # stable: among equals the item drawn first is lower
        upper = drawn.rows + np.uint16(len(table))
        table = np.concatenate([table, drawn.colours])
        if (drawn.colours[:, 3] < 255).any():
            glassy = np.flatnonzero((drawn.colours[drawn.rows, 3] < 255) & (canvas[drawn.places] > 0))
            both = np.stack([upper[glassy], canvas[drawn.places[glassy]]], 1)
            pairs, which = np.unique(both, axis=0, return_inverse=True)
            upper[glassy] = which.reshape(-1) + len(table)
            table = np.concatenate([table, blend(table[pairs[:, 0]], table[pairs[:, 1]])])
        canvas[drawn.places] = upper
    cells = canvas.reshape(CELLS, CELL, CELL)
    for name in ANIMATIONS.keys() - animations:
        cells[cells_of(name)] = 0
    index, colours = _packed(canvas, table)
    files = frozenset(file for _, drawn in layers for name, file in drawn.files.items() if name in animations)
    has = tuple(name for name in ANIMATIONS if name in animations)
    return Composed(outfit, index.reshape(CELLS, CELL, CELL), colours, has, files)


def _packed(canvas: NDArray[np.uint16], table: Pixels) -> tuple[NDArray[np.uint8], Pixels]:
    """Indices of one byte into the colours that are seen."""
    used = np.zeros(len(table), bool)
    used[canvas] = True
    seen = np.flatnonzero(used[1:]) + 1
    packed, which = np.unique(table[seen].view(np.uint32)[:, 0], return_inverse=True)
    if len(packed) >= COLOURS:
        raise UserError(f"a character has {len(packed)} colours, more than {COLOURS - 1}")
    rows = np.zeros(len(table), np.uint8)
    rows[seen] = which.reshape(-1) + 1
    return rows[canvas], np.concatenate([np.zeros((1, 4), np.uint8), packed.view(np.uint8).reshape(-1, 4)])
