"""The bare bodies of the LPC generator, which come with the package: every body type in each animation it is drawn in.

`lpc_bodies` holds them packed, and CREDITS.csv with a line for each sheet. To write it again from a checkout:

    from visual_dynamics.sprites.bodies import write_bodies; write_bodies(Path("checkout"))
"""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

from visual_dynamics.data.packed import PackedCharacter, pack, read_packed
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.cast import CREDITS, credits_of
from visual_dynamics.sprites.characters import Character, Key
from visual_dynamics.sprites.generator import BODY_TYPES, Generator, Palette, Worn
from visual_dynamics.sprites.outfits import Outfit, compose

FOLDER = Path(__file__).with_name("lpc_bodies")
BODY = "body/body"
HEADS = {"female": "female", "pregnant": "female", "teen": "female", "child": "child"}  # else male


def write_bodies(checkout: Path, folder: Path = FOLDER) -> None:
    """Compose and pack them, drawn as their sheets are, with the credits of exactly these sheets."""
    generator = Generator(checkout)
    used: set[str] = set()
    packed = []
    for number, body in enumerate(BODY_TYPES):
        head = f"head/heads/human/heads_human_{HEADS.get(body, 'male')}"
        items = [generator.items[key] for key in (BODY, head)]
        worn = [Worn(item, tuple(Palette("base", part.base) for part in item.recolours)) for item in items]
        made = compose(generator, Outfit(body, tuple(worn)))
        one = made.packed(number)
        packed.append(PackedCharacter(one.index, one.colours, one.clips, {"body": body, "files": sorted(made.files)}))
        used |= made.files
    credits, uncredited = credits_of(checkout, used)
    if uncredited:
        raise UserError(f"{checkout / CREDITS} has no line for {', '.join(uncredited)}")
    pack(folder, packed, {CREDITS: credits})


@cache
def shipped_bodies(folder: Path = FOLDER) -> tuple[Character, ...]:
    """One for each body type."""
    with (folder / CREDITS).open(encoding="utf-8", newline="") as file:
        rows = {row["filename"]: row for row in csv.DictReader(file)}
    found = []
    for one in read_packed(folder):
        body = str(one.facts["body"])
        credits: dict[str, list[str]] = defaultdict(list)
        for name in one.facts["files"]:
            row = rows[name]
            words = f"{name}: by {row['authors']}. License(s): {row['licenses']}. {row['urls']}"
            credits[Path(name).stem].append(f"{words} ({row['notes']})" if row["notes"] else words)
        texts = {animation: "\n".join(lines) for animation, lines in credits.items()}
        found.append(Character(f"the {body} body of the LPC generator", clips_of(one), credits=texts, body=body))
    return tuple(found)


def clips_of(one: PackedCharacter) -> dict[Key, Pixels]:
    frames = one.rgba()
    ends = pairwise(accumulate((clip.frames for clip in one.clips), initial=0))
    return {(clip.animation, clip.view): frames[first:end] for clip, (first, end) in zip(one.clips, ends, strict=True)}
