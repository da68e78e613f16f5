"""A cast: distinct characters from a checkout of the LPC generator, packed, with the credits of their art."""

from __future__ import annotations

import csv
import io
import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from visual_dynamics.data.packed import PackedCharacter, pack
from visual_dynamics.errors import UserError
from visual_dynamics.sprites.generator import BODY_TYPES, Generator
from visual_dynamics.sprites.outfits import (
    ATTEMPTS,
    NEEDED,
    Composed,
    Items,
    compose,
    draw_outfit,
    held_out_items,
)

CREDITS = "CREDITS.csv"  # in a checkout, and beside what is made of it
COLUMNS = ("filename", "notes", "authors", "licenses", "urls")
BATCH = 8  # characters that a process makes at a time

_generator: Generator  # of a worker process


@dataclass
class Cast:
    """What was made, beside the characters themselves."""

    written: int = 0
    files: set[str] = field(default_factory=set)  # sheets used
    remarks: list[str] = field(default_factory=list)  # what was left out, and why
    uncredited: list[str] = field(default_factory=list)  # sheets without a line in the checkout's credits


def is_checkout(folder: Path) -> bool:
    return (folder / "sheet_definitions").is_dir()


def write_cast(
    checkout: Path,
    out: Path,
    count: int,
    seed: int = 0,
    items: Items = "all",
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Cast:
    """Compose `count` characters, no two with the same pixels, and pack them with the credits of exactly their layers.

    Number k is the same for every count and number of workers.
    """
    if count < 1:
        raise UserError(f"the number of characters is at least 1, not {count}")
    cast = Cast(remarks=list(Generator(checkout).remarks))
    more: dict[str, bytes] = {}

    def characters() -> Iterator[PackedCharacter]:
        digests: set[str] = set()
        for number, attempts in enumerate(_attempts(checkout, count, seed, items, workers)):
            for made in attempts:
                packed = made.packed(number)
                if packed.facts["sha256"] not in digests:
                    break
            else:
                raise UserError(f"the items of {checkout} make {number} distinct characters, not {count}")
            digests.add(packed.facts["sha256"])
            cast.files |= made.files
            progress(number + 1, count)
            yield packed
        more[CREDITS], cast.uncredited = credits_of(checkout, cast.files)

    cast.written = pack(out, characters(), more)
    return cast


def draw_cast(
    generator: Generator,
    count: int,
    seed: int,
    items: Items,
    bodies: Sequence[str] = BODY_TYPES,
    whole: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PackedCharacter]:
    """Distinct characters in memory, of the body types in turn; of held-out items, each wears at least one.

    whole: only characters that have every animation of their body.
    """
    found: dict[str, PackedCharacter] = {}
    held_out = held_out_items()
    known = [body for body in bodies if generator.wearable(body).get("body")]
    if not known:
        raise UserError(f"{generator.folder} has no body that is {' or '.join(bodies)}")
    for number in range(count):
        body = known[number % len(known)]
        for attempt in range(ATTEMPTS):
            made = _make(generator, seed, number, attempt, items, (body,))
            if made is None or (items == "held-out" and not any(w.item.key in held_out for w in made.outfit.worn)):
                continue
            own = next(worn.item for worn in made.outfit.worn if worn.item.slot == "body")
            if whole and generator.animations(own, body) != set(made.animations):
                continue
            packed = made.packed(number)
            if packed.facts["sha256"] not in found:
                found[packed.facts["sha256"]] = packed
                break
        else:
            raise UserError(f"the {items} items of {generator.folder} make no further {body} character, after {number}")
        progress(number + 1, count)
    return list(found.values())


def _attempts(checkout: Path, count: int, seed: int, items: Items, workers: int) -> Iterator[Iterator[Composed]]:
    """For each number the first good draw, made by the workers, and then further ones, made here when asked for."""
    own = Generator(checkout)

    def more(number: int, after: int) -> Iterator[Composed]:
        for attempt in range(after + 1, ATTEMPTS):
            if made := _make(own, seed, number, attempt, items):
                yield made

    if workers == 1:
        yield from (more(number, -1) for number in range(count))
        return
    context = multiprocessing.get_context("spawn")  # threads of PyTorch do not survive a fork
    with ProcessPoolExecutor(workers, context, _start, (checkout,)) as pool:
        drawn = pool.map(_first, ((seed, number, items) for number in range(count)), chunksize=BATCH)
        for number, (attempt, made) in enumerate(drawn):
            yield itertools.chain([made] if made else [], more(number, attempt))


def _start(checkout: Path) -> None:
    global _generator
    _generator = Generator(checkout)


def _first(what: tuple[int, int, Items]) -> tuple[int, Composed | None]:
    seed, number, items = what
    for attempt in range(ATTEMPTS):
        if made := _make(_generator, seed, number, attempt, items):
            return attempt, made
    return ATTEMPTS, None


def _make(
    generator: Generator, seed: int, number: int, attempt: int, items: Items, bodies: Sequence[str] = BODY_TYPES
) -> Composed | None:
    """None: a draw that cannot be used, as it has no walk, or too many colours."""
    outfit = draw_outfit(generator, seed, number, attempt, items, bodies)
    try:
        made = compose(generator, outfit)
    except UserError:
        return None
    return made if NEEDED in made.animations else None


def credits_of(checkout: Path, files: set[str]) -> tuple[bytes, list[str]]:
    """The lines of the checkout's CREDITS.csv on these sheets, as CSV; and the sheets that have none."""
    path = checkout / CREDITS
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = {row["filename"]: row for row in csv.DictReader(file, skipinitialspace=True) if row.get("filename")}
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise UserError(f"cannot read {path}, which names the artists: {error}") from error
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", restval="")
    writer.writeheader()
    used = sorted(files)
    writer.writerows(
        {name: (value or "").strip() for name, value in rows[file].items()} for file in used if file in rows
    )
    return text.getvalue().encode(), [file for file in used if file not in rows]
