"""Characters composed of Liberated Pixel Cup layers: any number, seeded, of both sexes, with weapons and credits.

A layer is a sheet of 13 x 21 cells of 64 x 64 pixels; a character is a few layers laid over each other. The animations
and their order are those of Reed et al.'s 672 characters, which are made of the same layers.

A folder of composed characters holds NNNN.png for each, characters.json, and CREDITS.txt to go with any picture.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from visual_dynamics.data.sheets import COMPOSED_TABLE as TABLE
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, read_json, write_atomically, write_together
from visual_dynamics.images import Pixels, open_image, read_picture
from visual_dynamics.media import encode_png

CELL = 64  # pixels
COLUMNS, ROWS = 13, 21  # cells of a sheet
HEIGHT, WIDTH = ROWS * CELL, COLUMNS * CELL
ANIMATIONS = {"spellcast": (7, 4), "thrust": (8, 4), "walk": (9, 4), "slash": (6, 4), "shoot": (13, 4), "hurt": (6, 1)}
# frames a view, and views: up, left, down, right

SEXES = ("female", "male")
WORN = ("feet", "legs", "torso", "arms", "belt", "shoulders", "hair", "head")  # in the order in which they are laid
WORN_OUT_OF_4 = {"arms": 2, "belt": 2, "shoulders": 1, "head": 1}  # the rest is always worn; head gear replaces hair
WEAPONS = ("bow", "spear", "dagger", "wand")  # ends of the names of their sheets: greatbow, woodwand
ARROW = "weapons/left hand/either/arrow.png"  # goes with every bow
NOTHING = "none"

CREDITS = "CREDITS.txt"
CACHED_LAYERS = 192  # of 1.3 MB at most, as only visible pixels are stored
MAX_ATTEMPTS = 2_000  # draws for one character before the layers are exhausted

Choice = TypeVar("Choice")


@dataclass(frozen=True, eq=False)
class LpcCharacter:
    number: int
    attributes: dict[str, str]  # sex, body, eyes, what is worn, weapon -> the choice, named alike for both sexes
    recipe: tuple[str, ...]  # layers relative to their folder, the lowest first
    sheet: Pixels  # (1344, 832, 4), alpha not multiplied in

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the pixels."""
        return hashlib.sha256(self.sheet.tobytes()).hexdigest()


@dataclass(frozen=True)
class _Layer:
    """The visible pixels of a sheet."""

    places: npt.NDArray[np.int32]  # (n,), counted through the sheet row by row
    colours: npt.NDArray[np.uint8]  # (n, 4)
    empty: tuple[str, ...]  # animations in which nothing is visible


class Layers:
    """A folder of layers: the choices for each sex, and layers laid over each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.choices: dict[str, dict[str, list[str]]] = {sex: defaultdict(list) for sex in SEXES}
        self.oversize = 0  # sheets of weapons that need larger cells
        if not folder.is_dir():
            raise UserError(f"no such folder of layers: {folder}")
        for path in sorted(folder.rglob("*.png")):
            name = path.relative_to(folder).as_posix()
            self.oversize += name.startswith("weapons/oversize/")
            if slot := _slot(PurePosixPath(name)):
                self._check_size(name)
                words = set(re.split(r"[/_. ]", name))
                for sex in SEXES:
                    if sex in words or words.isdisjoint(SEXES):
                        self.choices[sex][slot].append(name)
        self.sexes = [sex for sex in SEXES if self.choices[sex]["body"]]
        if not self.sexes:
            raise UserError(f"no layers in {folder}: a body lies in body/female/NAME.png or body/male/NAME.png")
        self.has_arrow = (folder / ARROW).is_file()
        if self.has_arrow:
            self._check_size(ARROW)
        self.layer = lru_cache(CACHED_LAYERS)(self._read)

    def remarks(self) -> list[str]:
        """What the folder lacks, and what is left out; a line each."""
        lines = [f"no {sex} bodies in {self.folder}: no {sex} characters" for sex in SEXES if sex not in self.sexes]
        for sex in self.sexes:
            if missing := [slot for slot in ("eyes", *WORN, *WEAPONS) if not self.choices[sex][slot]]:
                lines.append(f"no layers for {', '.join(missing)} of {sex} characters, which do without")
        if self.oversize:
            lines.append(f"{self.oversize} oversize weapons are left out: their cells are larger than {CELL}x{CELL}")
        return lines

    def compose(self, recipe: Sequence[str]) -> Pixels:
        """Lay layers over each other, the lowest first -> (1344, 832, 4).

        Alpha is rounded so that 640 of Reed's 672 characters are equal to the bit, and the others but for two pixels
        (soles that reach out of their cell aside, see `_read`).
        """
        canvas = np.zeros((HEIGHT * WIDTH, 4), np.uint8)
        for name in recipe:
            layer = self.layer(name)
            below = canvas[layer.places]
            glassy = np.flatnonzero((layer.colours[:, 3] < 255) & (below[:, 3] > 0))  # few pixels, if any
            canvas[layer.places] = layer.colours
            canvas[layer.places[glassy]] = blend(layer.colours[glassy], below[glassy])
        return canvas.reshape(HEIGHT, WIDTH, 4)

    def _read(self, name: str) -> _Layer:
        pixels = read_picture(self.folder / name, formats=["PNG"]).rgba.reshape(-1, 4)
        places = np.flatnonzero(pixels[:, 3]).astype(np.int32)
        if name.startswith("feet/"):  # the soles of some shoes reach into the uppermost row of the cell below
            places = places[places // WIDTH % CELL > 0]
        rows = np.bincount(places // (CELL * WIDTH), minlength=ROWS)  # visible pixels in each row of cells
        views = np.repeat(list(ANIMATIONS), [views for _, views in ANIMATIONS.values()])
        empty = tuple(animation for animation in ANIMATIONS if not rows[views == animation].any())
        return _Layer(places, pixels[places], empty)

    def _check_size(self, name: str) -> None:
        with open_image(self.folder / name, formats=["PNG"]) as image:  # reads the header only
            size = image.size
        if size != (WIDTH, HEIGHT):
            raise UserError(f"{name} in {self.folder} is {size[0]}x{size[1]}, a sheet of layers is {WIDTH}x{HEIGHT}")


def blend(upper: Pixels, lower: Pixels) -> Pixels:
    """Pixels (n, 4) over others, alpha not multiplied in: each product is rounded to 8 bits."""
    above, below = upper.astype(np.uint32), lower.astype(np.uint32)
    share = above[:, 3:], _times(below[:, 3:], 255 - above[:, 3:])
    alpha = share[0] + share[1]
    colour = _times(above[:, :3], share[0]) + _times(below[:, :3], share[1])
    colour = np.minimum((colour * 255 + alpha // 2) // alpha, 255)
    return np.concatenate([colour, alpha], axis=1).astype(np.uint8)


def _times(values: npt.NDArray[np.uint32], share: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """values * share / 255, rounded; both in 0-255."""
    return (values * share + 127) // 255


def _slot(path: PurePosixPath) -> str:
    """Where a layer belongs: body, eyes, one of WORN, a kind of weapon; "" if it is not used."""
    group, stem = path.parts[0], re.sub(r"_(fe)?male$", "", path.stem)
    if group == "body":
        sex, *below = path.parts[1:-1] or ("",)
        return {"": "body", "eyes": "eyes"}.get("/".join(below), "") if sex in SEXES else ""
    if group == "torso" and stem in ("arms", "shoulders"):
        return stem
    if group == "weapons":  # only the right hand: "both hand/spear.png" is the same spear, but not seen in walk
        kinds = (kind for kind in WEAPONS if stem.endswith(kind))
        return next(kinds, "") if path.parts[1] == "right hand" else ""
    return group if group in WORN else ""


def _neutral(name: str) -> str:
    """torso/gold/chest_female.png -> gold/chest: the same for both sexes."""
    path = PurePosixPath(re.sub(r"(/|_)(fe)?male(?=[/.])", "", name))
    return "/".join(path.with_suffix("").parts[1:]).removeprefix("eyes/")


def draw_recipe(layers: Layers, seed: int, number: int, attempt: int = 0) -> tuple[dict[str, str], tuple[str, ...]]:
    """Attributes and layers of a character: each choice is a hash of the arguments, so no choice moves another."""

    def pick(what: str, options: Sequence[Choice]) -> Choice:
        digest = hashlib.sha256(f"{seed} {number} {attempt} {what}".encode()).digest()
        return options[int.from_bytes(digest[:8], "big") % len(options)]

    sex = pick("sex", layers.sexes)
    there = layers.choices[sex]
    worn = [slot for slot in ("body", "eyes", *WORN) if there[slot]]
    worn = [slot for slot in worn if pick(f"{slot} worn", range(4)) < WORN_OUT_OF_4.get(slot, 4)]
    if "head" in worn and "hair" in worn:
        worn.remove("hair")
    chosen = {slot: pick(slot, there[slot]) for slot in worn}
    weapon = pick("weapon", [NOTHING, *(kind for kind in WEAPONS if there[kind])])
    recipe = list(chosen.values())
    if weapon != NOTHING:
        recipe += [ARROW] if weapon == "bow" and layers.has_arrow else []
        recipe.append(pick(weapon, there[weapon]))
    attributes = {slot: _neutral(chosen[slot]) if slot in chosen else NOTHING for slot in ("body", "eyes", *WORN)}
    return {"sex": sex, **attributes, "weapon": weapon}, tuple(recipe)


def compose(
    folder: Path,
    count: int,
    seed: int,
    report: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[LpcCharacter]:
    """`count` characters of a folder of layers, no two with the same pixels; number k is the same for every count.

    report: called with a line on what the folder lacks and what is left out; progress: with (done, total).
    """
    if count < 1:
        raise UserError(f"the number of characters is at least 1, not {count}")
    layers = Layers(folder)
    for line in layers.remarks():
        report(line)
    tried: set[tuple[str, ...]] = set()
    digests: set[str] = set()
    left_out: set[str] = set()
    for number in range(count):
        for attempt in range(MAX_ATTEMPTS):
            attributes, recipe = draw_recipe(layers, seed, number, attempt)
            if recipe in tried or not left_out.isdisjoint(recipe):
                continue
            tried.add(recipe)
            for name in recipe:  # clothes that vanish in a whole animation (the golden helm, in hurt) are mistakes
                if not name.startswith("weapons/") and (empty := layers.layer(name).empty):
                    left_out.add(name)
                    report(f"{name} is left out: it is empty in {', '.join(empty)}")
            if left_out.isdisjoint(recipe):
                character = LpcCharacter(number, attributes, recipe, layers.compose(recipe))
                if character.digest not in digests:
                    break
        else:
            raise UserError(f"the layers of {layers.folder} make {number} distinct characters, not {count}")
        digests.add(character.digest)
        yield character
        progress(number + 1, count)


def write_characters(folder: Path, characters: Iterable[LpcCharacter], layers: Path) -> int:
    """Write NNNN.png for each character, then characters.json and CREDITS.txt; returns the number of characters.

    After an interruption, sheets that are there already are kept. characters.json is written last and holds digests of
    the pixels: a folder of half old, half new sheets has none.
    """
    check_folder(folder)
    table: list[str] = []
    used: set[str] = set()
    for character in characters:
        path = folder / f"{character.number:04d}.png"
        data = encode_png(character.sheet)
        if not path.is_file() or path.read_bytes() != data:
            write_atomically(path, data)
        used.update(character.recipe)
        entry = {
            "number": character.number,
            "sex": character.attributes["sex"],
            "weapon": character.attributes["weapon"],
            "attributes": character.attributes,
            "recipe": character.recipe,
            "sha256": character.digest,
        }
        table.append(json.dumps(entry))
    words = '{"characters": [\n' + ",\n".join(table) + "\n]}\n"  # one line per character
    write_together(folder, {TABLE: words.encode(), CREDITS: credits_text(layers, used).encode()})
    return len(table)


def holds_characters(folder: Path) -> bool:
    """Whether a folder has the table that `write_characters` leaves at its end."""
    try:
        table = read_json(folder / TABLE)["characters"]
        return all({"number", "attributes", "recipe", "sha256"} <= entry.keys() for entry in table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def credits_text(layers: Path, used: Iterable[str]) -> str:
    """Whom to credit, and under which licence, for characters made of the layers `used`; the folder's own words."""
    lines = [
        "Characters composed from layers of the Liberated Pixel Cup (http://lpc.opengameart.org).",
        "Licence: CC-BY-SA 3.0 (http://creativecommons.org/licenses/by-sa/3.0/) or GNU GPL 3.0",
        "(http://www.gnu.org/licenses/gpl-3.0.html), the layers as well as these characters.",
        f"Changes: layers were laid over each other; {TABLE} lists those of each character.",
    ]
    for name, what in (("ATTRIBUTION.txt", "the source and version"), ("AUTHORS.txt", "the authors")):
        try:
            words = (layers / name).read_text(encoding="utf-8-sig", errors="replace").strip()
            lines += ["", f"---- {name} of the layers ----", "", words]
        except OSError:
            lines += ["", f"CREDITS ARE MISSING: the layers came without {name}, which would name {what} of the art."]
    names = sorted(set(used))
    return "\n".join([*lines, "", f"---- the {len(names)} layers used ----", "", *names, ""])
