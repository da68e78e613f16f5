"""A folder of composed characters: NNNN.png for each, characters.json, and CREDITS.txt to go with any picture."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from visual_dynamics.data.sheets import COMPOSED_TABLE as TABLE
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_atomically, write_together
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.lpc import HEIGHT, WIDTH, LpcCharacter

CREDITS = "CREDITS.txt"


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


def write_sheets(folder: Path, characters: Iterable[LpcCharacter], layers: Path) -> int:
    """Write NNNN.png for each character, then characters.json and CREDITS.txt; returns the number of characters.

    Run again after an interruption, it keeps the sheets that are there already. characters.json comes last and holds
    digests of the pixels, so that a folder of half old, half new sheets is not taken for a whole one.
    """
    check_folder(folder)
    table: list[str] = []
    used: set[str] = set()
    for character in characters:
        path = folder / f"{character.number:04d}.png"
        if not _holds(path, character.sheet):
            data = io.BytesIO()
            Image.fromarray(character.sheet).save(data, "PNG")
            write_atomically(path, data.getvalue())
        used.update(character.recipe)
        entry = {"number": character.number, "sex": character.sex, "weapon": character.weapon}
        known = {"attributes": character.attributes, "recipe": character.recipe, "sha256": character.digest}
        table.append(json.dumps(entry | known))
    words = '{"characters": [\n' + ",\n".join(table) + "\n]}\n"  # a line for each
    write_together(folder, {TABLE: words.encode(), CREDITS: credits_text(layers, used).encode()})
    return len(table)


def read_sheets(folder: Path) -> Iterator[LpcCharacter]:
    """The characters of a folder that `write_sheets` made, one after the other; `frames` gives (178, 64, 64, 4)."""
    try:
        table = json.loads((folder / TABLE).read_bytes())["characters"]
        told = [(int(e["number"]), dict(e["attributes"]), tuple(e["recipe"]), str(e["sha256"])) for e in table]
        if any({"sex", "weapon"} - attributes.keys() for _, attributes, _, _ in told):
            raise ValueError("attributes are missing")
    except FileNotFoundError as error:
        raise UserError(f"no {TABLE} in {folder}: prepare the characters again, to the end") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{TABLE} in {folder} is not a readable table of characters") from error
    return (_read_sheet(folder, *entry) for entry in told)


def holds_sheets(folder: Path) -> bool:
    """Whether a folder has the table that `write_sheets` leaves at its end."""
    try:
        read_sheets(folder)
        return True
    except UserError:
        return False


def _read_sheet(
    folder: Path, number: int, attributes: dict[str, str], recipe: tuple[str, ...], digest: str
) -> LpcCharacter:
    path = folder / f"{number:04d}.png"
    try:
        with Image.open(path, formats=["PNG"]) as image:
            character = LpcCharacter(number, attributes, recipe, np.array(image))
    except Exception as error:  # a missing file, or whatever a broken one makes the decoder stumble over
        raise UserError(f"{path} is missing or not a readable PNG: prepare the characters again") from error
    if character.sheet.shape != (HEIGHT, WIDTH, 4) or character.digest != digest:
        raise UserError(f"{path} is not the sheet that {TABLE} tells of: prepare the characters again")
    return character


def _holds(path: Path, sheet: Pixels) -> bool:
    """Whether a file is there already and decodes to this sheet."""
    try:
        with Image.open(path, formats=["PNG"]) as image:
            return np.array_equal(np.array(image), sheet)
    except Exception:  # missing or broken: it will be written
        return False
