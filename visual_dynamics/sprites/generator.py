"""A checkout of the Universal LPC Spritesheet Character Generator: its items and their colours, drawn as layers.

An item lies in one slot (hair, legs, ...) and has layers, each with a sheet for every animation and body type. Colours
are of two kinds: most sheets are drawn in a base palette and recoloured, the others have a file for each variant.

Letters in shape comments: F cells of all animations, n visible pixels, P colours.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visual_dynamics.errors import UserError
from visual_dynamics.files import read_json
from visual_dynamics.images import Pixels, open_image

CELL = 64  # pixels
ANIMATIONS = {  # name of the sheet -> frames of a view, and views: up, left, down, right
    "spellcast": (7, 4),
    "thrust": (8, 4),
    "walk": (9, 4),
    "slash": (6, 4),
    "shoot": (13, 4),
    "hurt": (6, 1),
    "climb": (6, 1),
    "idle": (2, 4),
    "jump": (5, 4),
    "sit": (3, 4),
    "emote": (3, 4),
    "run": (8, 4),
    "combat_idle": (2, 4),
    "backslash": (13, 4),
    "halfslash": (6, 4),
}
VIEWS = {4: ("up", "left", "down", "right")}  # by their number; the other animations have one view
ONE_VIEW = {"hurt": "down", "climb": "up"}
STARTS = dict(zip(ANIMATIONS, np.cumsum([0, *(f * v for f, v in ANIMATIONS.values())]).tolist(), strict=False))
CELLS = sum(frames * views for frames, views in ANIMATIONS.values())  # 352
BODY_TYPES = ("male", "muscular", "female", "pregnant", "teen", "child")
CACHED = 1_500  # drawn layers kept, some 150 kB each

Colour = tuple[int, int, int]


def views_of(animation: str) -> tuple[str, ...]:
    """The sides that it is seen from, in the order of its rows."""
    return VIEWS.get(ANIMATIONS[animation][1], (ONE_VIEW.get(animation, "down"),))


class Palette(NamedTuple):
    """A choice of colours for a part of an item."""

    name: str  # family.colour, as in "ulpc.light"
    colours: tuple[Colour, ...]


@dataclass(frozen=True)
class Recolour:
    """One recoloured part of an item: colour i of the base becomes colour i of the chosen palette."""

    material: str  # body, hair, cloth, metal, wood, eye, all
    base: tuple[Colour, ...]
    palettes: tuple[Palette, ...]


@dataclass(frozen=True)
class Layer:
    z: int  # drawn by rising z
    paths: Mapping[str, str]  # body type -> where its sheets begin; "${head}" stands for a kind of head


@dataclass(frozen=True, eq=False)
class Item:
    key: str  # path of its definition, as in "hair/pigtails/hair_pigtails"
    name: str
    slot: str
    layers: tuple[Layer, ...]  # of ordinary cells
    tags: frozenset[str]
    required: frozenset[str]  # tags that another worn item must have
    recolours: tuple[Recolour, ...]
    variants: tuple[str, ...]  # one of the two is empty
    matches_body: bool  # its first recolour takes the colour of the body
    heads: Mapping[str, str]  # name of a head -> what replaces "${head}"


@dataclass(frozen=True)
class Worn:
    """An item in the colours that were chosen."""

    item: Item
    palettes: tuple[Palette, ...] = ()  # one for each recolour
    variant: str = ""


class Drawn(NamedTuple):
    """The visible pixels of a layer in all animations."""

    places: NDArray[np.int32]  # (n,) in F cells of 64 x 64, counted row by row
    rows: NDArray[np.uint8]  # (n,) of the colours
    colours: Pixels  # (P, 4), at most 255
    files: dict[str, str]  # animation -> its sheet, below spritesheets

    @property
    def animations(self) -> frozenset[str]:
        """Those that it has sheets for."""
        return frozenset(self.files)


class Generator:
    """The items of a checkout. `remarks` has a line on each file or item that is left out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        definitions = folder / "sheet_definitions"
        if not definitions.is_dir() or not (folder / "spritesheets").is_dir():
            raise UserError(
                f"{folder} is no checkout of the LPC generator: no sheet_definitions and spritesheets in it"
            )
        self.remarks: list[str] = []
        self._files = frozenset(_pngs(folder / "spritesheets"))
        self._palettes = _Palettes(folder / "palette_definitions")
        self.items: dict[str, Item] = {}
        for path in sorted(definitions.rglob("*.json")):
            if path.name.startswith("meta_"):
                continue
            key = path.relative_to(definitions).with_suffix("").as_posix()
            try:
                item = self._item(key, read_json(path))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError) as error:
                reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                self.remarks.append(f"{key} is left out: its definition cannot be read ({reason})"[:300])
                continue
            if item.layers:
                self.items[key] = item
            else:
                self.remarks.append(f"{key} is left out: its cells are larger than {CELL} x {CELL}")
        if not any(item.slot == "body" for item in self.items.values()):
            raise UserError(f"no item of {folder} is a body, so there are no characters")
        self.drawn = lru_cache(CACHED)(self._draw)
        self.animations = lru_cache(None)(self._animations)
        self.wearable = lru_cache(None)(self._wearable)

    def _wearable(self, body: str) -> dict[str, list[Item]]:
        """Slot -> the items that this body type can wear."""
        found: dict[str, list[Item]] = defaultdict(list)
        for item in self.items.values():
            if any(body in layer.paths for layer in item.layers):
                found[item.slot].append(item)
        return found

    def _animations(self, item: Item, body: str) -> frozenset[str]:
        """Those that at least one of its layers has a sheet for; a layer that would be empty often has none."""
        bases = [
            self._place(item, layer, body, next(iter(item.heads), "")) for layer in item.layers if body in layer.paths
        ]
        variant, one_file = next(iter(item.variants), ""), bool(item.recolours)
        return frozenset(a for a in ANIMATIONS if any(self._sheet(base, a, variant, one_file) for base in bases))

    def layers(self, worn: Worn, body: str, head: str) -> Iterator[tuple[int, Drawn]]:
        """The layers of a worn item with their z, recoloured. `head`: the name of the head that is worn."""
        for layer in worn.item.layers:
            if body in layer.paths:
                drawn = self.drawn(self._place(worn.item, layer, body, head), worn.variant, bool(worn.item.recolours))
                yield layer.z, drawn._replace(colours=recoloured(drawn.colours, worn))

    def _place(self, item: Item, layer: Layer, body: str, head: str) -> str:
        return layer.paths[body].replace("${head}", item.heads.get(head.replace(" ", "_"), ""))

    def _draw(self, base: str, variant: str, one_file: bool) -> Drawn:
        places, pixels, files = [], [], {}
        for animation, (frames, views) in ANIMATIONS.items():
            name = self._sheet(base, animation, variant, one_file)
            if not name:
                continue
            with open_image(f"{self.folder}/spritesheets/{name}", formats=["PNG"]) as image:
                size, expected = image.size, (frames * CELL, views * CELL)
                if size == expected:
                    sheet = np.array(image.convert("RGBA")).view("<u4")[..., 0]  # alpha in the highest byte
            if size != expected:
                sizes = " not ".join(f"{width} x {height}" for width, height in (size, expected))
                self.remarks.append(f"{name} is left out: it is {sizes}")
                continue
            cells = sheet.reshape(views, CELL, frames, CELL).swapaxes(1, 2).reshape(-1)
            seen = np.flatnonzero(cells >= 1 << 24)
            places.append((seen + STARTS[animation] * CELL * CELL).astype(np.int32))
            pixels.append(cells[seen])
            files[animation] = name
        if not places:
            return Drawn(np.empty(0, np.int32), np.empty(0, np.uint8), np.empty((0, 4), np.uint8), {})
        packed, index = np.unique(np.concatenate(pixels), return_inverse=True)
        if len(packed) > 255:
            raise UserError(f"{base} has {len(packed)} colours, more than 255")
        colours = packed.view(np.uint8).reshape(-1, 4)
        return Drawn(np.concatenate(places), index.astype(np.uint8), colours, files)

    def _sheet(self, base: str, animation: str, variant: str, one_file: bool) -> str:
        """The file of an animation, below spritesheets; "" if there is none."""
        names = [f"{base}{animation}.png"] if one_file else [f"{base}{animation}/{variant.replace(' ', '_')}.png"]
        names += [f"{base}{animation}/white.png"] if one_file else []  # a few recoloured items have the old files only
        return next((name for name in names if name in self._files), "")

    def _item(self, key: str, words: dict[str, Any]) -> Item:
        layers = []
        for number in range(1, 9):
            layer = words.get(f"layer_{number}", {})
            if layer and "custom_animation" not in layer and not layer.get("is_mask"):
                layers.append(Layer(int(layer["zPos"]), {body: layer[body] for body in BODY_TYPES if body in layer}))
        heads = (words.get("replace_in_path") or {}).get("head", {})
        recolours = words.get("recolors") or {}
        parts = [recolours] if "material" in recolours else [recolours[part] for part in sorted(recolours)]
        return Item(
            key,
            str(words["name"]),
            str(words["type_name"]),
            tuple(layers),
            frozenset(words.get("tags", ())),
            frozenset(words.get("required_tags", ())),
            tuple(self._palettes.recolour(part) for part in parts),
            () if parts else tuple(self._drawn_variants(layers, heads, words["variants"])),
            bool(words.get("match_body_color")),
            heads,
        )

    def _drawn_variants(self, layers: list[Layer], heads: Mapping[str, str], variants: list[str]) -> list[str]:
        """Those variants that have at least one file."""
        paths = {path for layer in layers for path in layer.paths.values()}
        bases = [path.replace("${head}", head) for path in paths for head in {*heads.values()} or {""}]
        return [v for v in variants if any(self._sheet(base, a, v, False) for base in bases for a in ANIMATIONS)]


def recoloured(colours: Pixels, worn: Worn) -> Pixels:
    """Colours (P, 4) of a layer after recolouring; alpha stays. One level of difference is the same colour."""
    result = colours.copy()
    for part, palette in zip(worn.item.recolours, worn.palettes, strict=True):
        for before, after in zip(part.base, palette.colours, strict=False):
            same = (np.abs(colours[:, :3].astype(np.int16) - before) <= 1).all(1)
            result[same, :3] = after
    return result


class _Palettes:
    """palette_definitions: MATERIAL/MATERIAL_FAMILY.json, and each material's default family and base colour."""

    def __init__(self, folder: Path) -> None:
        self.families: dict[tuple[str, str], dict[str, tuple[Colour, ...]]] = {}
        self.defaults: dict[str, tuple[str, str]] = {}
        for path in sorted(folder.glob("*/*.json")):
            material = path.parent.name
            try:
                words = read_json(path)
                if path.name.startswith("meta_"):
                    self.defaults[material] = words["default"], words["base"]
                else:
                    family = path.stem.removeprefix(f"{material}_")
                    self.families[material, family] = {name: _colours(value) for name, value in words.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise UserError(f"cannot read {path}: it is no palette of the LPC generator") from error

    def recolour(self, words: dict[str, Any]) -> Recolour:
        """From the entry of a definition."""
        material = words["material"]
        base = _colours(words["source"]) if words.get("source") else self._base(material, words.get("base"))
        palettes = []
        for entry in words["palettes"]:
            other, _, family = entry.rpartition(".")
            named = self.families.get((other or material, family), {})
            palettes += [Palette(f"{entry}.{name}", colours) for name, colours in named.items()]
        if not palettes:
            raise UserError(f"no palette of {', '.join(words['palettes'])} for {material}")
        return Recolour(material, base, tuple(palettes))

    def _base(self, material: str, name: str | None) -> tuple[Colour, ...]:
        family, base = self.defaults[material]
        if name:
            own, _, base = name.rpartition(".")
            family = own or family
        return self.families[material, family][base]


def _colours(words: list[str]) -> tuple[Colour, ...]:
    """["#26180d", ...] as numbers."""
    return tuple((int(w[1:3], 16), int(w[3:5], 16), int(w[5:7], 16)) for w in words)


def _pngs(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        below = Path(place).relative_to(folder)
        yield from ((below / name).as_posix() for name in names if name.endswith(".png"))
