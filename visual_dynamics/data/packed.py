"""Animated characters packed into few files: a byte a pixel, which is a row of the character's own palette.

packed.json        what each character is, its clips, and the digests of the other files; written last
frames-000.xz ...  of CHUNK characters each: one after the other its palette (256 x RGBA) and its frames

Letters in shape comments: M frames, C characters, T frames of a character, S side of a cell.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from visual_dynamics.data.pairs import Between, Cast, IndexedFrames, Pairs, clip_moves
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, read_json, write_atomically

TABLE = "packed.json"
CHUNK = 64  # characters a file: some 2 MB of LPC art
COLOURS = 256  # rows of a palette; row 0 is transparent
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 2**26}]  # far enough back to find a layer drawn before
STANDING = "walk"  # its first frame shows a character that stands
MOVED = 30.0  # squared difference from the standing frame: of LPC's first frames the median is below 10, or 39 and more
STARTS = 0.2  # share of pairs that begin at a standing frame, where they are asked for
MAX_SIDE, MAX_CHARACTERS, MAX_FRAMES = 256, 100_000, 4_096  # a larger table is an error before anything is unpacked
MAX_BYTES = 2**30  # that a file unpacks to

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Clip:
    """One animation from one side; its frames follow each other."""

    animation: str
    view: str
    frames: int


@dataclass(frozen=True, eq=False)
class PackedCharacter:
    index: Bytes  # (T, S, S)
    colours: Bytes  # (256 at most, 4), alpha not multiplied in; row 0 is transparent
    clips: tuple[Clip, ...]
    facts: dict[str, Any] = field(default_factory=dict)  # what else is known of it: body, what it wears

    def rgba(self) -> Bytes:
        """(T, S, S, 4)"""
        return self.colours[self.index]

    def over_black(self, places: Sequence[int]) -> Bytes:
        """Some frames, (n, S, S, 3)."""
        return _over_grey(self.colours, 0)[self.index[list(places)]]

    def ranges(self) -> list[range]:
        """The places of the frames of each clip."""
        return [range(*ends) for ends in pairwise(accumulate((clip.frames for clip in self.clips), initial=0))]

    def distance(self, one: int, other: int) -> float:
        """Squared difference of two frames over black: colours in [0, 1], summed over all pixels."""
        colours = _over_grey(self.colours, 0).astype(np.float32) / 255
        changed = self.index[one] != self.index[other]
        return float(np.square(colours[self.index[one][changed]] - colours[self.index[other][changed]]).sum())

    def standing(self) -> dict[str, int]:
        """View -> the place of the standing frame."""
        clips = zip(self.clips, self.ranges(), strict=True)
        return {clip.view: places[0] for clip, places in clips if clip.animation == STANDING}

    def begins(self, limit: float = MOVED) -> dict[Clip, tuple[int, int]]:
        """Of each clip the standing frame of its view, and its first frame that is unlike this one."""
        standing, found = self.standing(), {}
        for clip, places in zip(self.clips, self.ranges(), strict=True):
            if (still := standing.get(clip.view)) is not None:
                unlike = (place for place in places if self.distance(still, place) > limit)
                if (first := next(unlike, None)) is not None:
                    found[clip] = still, first
        return found


def holds_packed(path: Path) -> bool:
    return (path / TABLE).is_file()


def pack(folder: Path, characters: Iterable[PackedCharacter], more: dict[str, bytes] | None = None) -> int:
    """Write characters, and `more` files by name; returns how many. Memory holds CHUNK of them."""
    check_folder(folder)
    table: list[dict[str, Any]] = []
    digests: dict[str, str] = {}
    side = 0
    rest = iter(characters)
    while some := list(islice(rest, CHUNK)):
        parts = []
        for one in some:
            side = side or one.index.shape[-1]
            if one.index.shape[1:] != (side, side) or one.index.dtype != np.uint8:
                raise ValueError(f"frames are uint8 (T, {side}, {side}), not {one.index.dtype} {one.index.shape}")
            palette = np.zeros((COLOURS, 4), np.uint8)
            palette[: len(one.colours)] = one.colours
            parts += [palette.tobytes(), np.ascontiguousarray(one.index).tobytes()]
            clips = [[clip.animation, clip.view, clip.frames] for clip in one.clips]
            table.append({"clips": clips, **one.facts})
        name = f"frames-{len(digests):03d}.xz"
        data = lzma.compress(b"".join(parts), filters=FILTERS)
        write_atomically(folder / name, data)
        digests[name] = hashlib.sha256(data).hexdigest()
    for name, data in (more or {}).items():
        write_atomically(folder / name, data)
    head = json.dumps({"cell": side, "chunk": CHUNK, "files": digests})
    lines = ",\n".join(json.dumps(entry) for entry in table)  # one line per character
    write_atomically(folder / TABLE, f'{head[:-1]}, "characters": [\n{lines}\n]}}\n'.encode())
    return len(table)


def read_packed(
    folder: Path,
    wanted: Callable[[int], bool] = lambda number: True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PackedCharacter]:
    """The wanted characters of a folder, by number; each file is compared with its digest."""
    side, files, entries = _read_table(folder)
    numbered = list(enumerate(entries))
    chunks = [(name, numbered[CHUNK * k : CHUNK * (k + 1)]) for k, name in enumerate(files)]
    chosen = [(name, chunk) for name, chunk in chunks if any(wanted(number) for number, _ in chunk)]

    def unpack(one: tuple[str, Sequence[tuple[int, dict[str, Any]]]]) -> list[PackedCharacter]:
        name, chunk = one
        sizes = [COLOURS * 4 + side * side * sum(clip.frames for clip in entry["clips"]) for _, entry in chunk]
        data = np.frombuffer(_unpack(folder / name, files[name], sum(sizes)), np.uint8)
        starts = np.cumsum([0, *sizes])
        made = []
        for (number, entry), start, end in zip(chunk, starts, starts[1:], strict=False):
            if wanted(number):
                own = data[start:end]
                index = own[COLOURS * 4 :].reshape(-1, side, side).copy()  # the rest of the chunk is let go
                facts = {name: value for name, value in entry.items() if name != "clips"}
                made.append(
                    PackedCharacter(index, own[: COLOURS * 4].reshape(COLOURS, 4).copy(), entry["clips"], facts)
                )
        return made

    found: list[PackedCharacter] = []
    with ThreadPoolExecutor() as pool:  # lzma lets other threads run
        for done, some in enumerate(pool.map(unpack, chosen), 1):
            found += some
            progress(done, len(chosen))
    return found


def packed_pairs(characters: Sequence[PackedCharacter], between: str, size: int, background: float) -> Pairs:
    """Pairs of frames within each clip, in the middle of size x size pixels; `background` shows where there is nothing.

    between: as `clip_moves` has it; with "any" each animation has as many pairs as another one. With "+starts" a fifth
    of the pairs go from the standing frame to the first frame of each animation seen from that side; with "+standing"
    to any frame of it.

    Frames stay one byte a pixel; a smaller network sees them made smaller, never cut.
    """
    if not characters:
        raise UserError("there are no characters to make pairs of")
    within, _, also = between.partition("+")
    side = characters[0].index.shape[-1]
    frames, owners, palettes = [], [], []
    moves: list[NDArray[np.int64]] = []  # (n, 2) each: from where to where
    kinds: list[int] = []  # of the animations that these belong to
    numbers: dict[str, int] = {}
    starts: list[tuple[int, int]] = []
    before = 0
    for number, one in enumerate(characters):
        for clip, places in zip(one.clips, one.ranges(), strict=True):
            moves.append(before + places[0] + _moves(len(places), cast(Between, within)))
            kinds.append(numbers.setdefault(clip.animation, len(numbers)))
        starts += [(before + still, before + place) for still, place in _starts(one, also)]
        before += len(one.index)
        frames.append(one.index)
        owners.append(np.full(len(one.index), number, np.int32))
        palettes.append(np.resize(_over_grey(one.colours, background), (COLOURS, 3)))
    pairs = np.concatenate(moves)  # (N, 2)
    if not len(pairs):
        raise UserError("the characters have no two frames of one animation")
    if within == "any":
        pairs = pairs[_equal_shares(np.repeat(kinds, [len(some) for some in moves]))]
    if starts:
        times = max(1, round(STARTS / (1 - STARTS) * len(pairs) / len(starts)))
        pairs = np.concatenate([pairs, np.tile(np.array(starts), (times, 1))])
    index = torch.from_numpy(np.concatenate(frames))
    if size > side:
        margin = (size - side) // 2
        index = torch.nn.functional.pad(index, (margin, size - side - margin) * 2)
    store = IndexedFrames(index, torch.from_numpy(np.stack(palettes)), torch.from_numpy(np.concatenate(owners)), size)
    first, second = torch.from_numpy(pairs).T.contiguous()
    return Pairs(store, first, second, cast=cast_of(characters))


def cast_of(characters: Sequence[PackedCharacter]) -> Cast:
    """A moment is a frame of an animation of so many frames, seen from one side."""
    numbers: dict[tuple[Clip, int], int] = {}
    shown = [
        [numbers.setdefault((clip, frame), len(numbers)) for clip in one.clips for frame in range(clip.frames)]
        for one in characters
    ]
    places = np.full((len(characters), len(numbers)), -1, np.int64)
    before = 0
    for row, moments in zip(places, shown, strict=True):
        row[moments] = before + np.arange(len(moments))
        before += len(moments)
    return Cast(torch.from_numpy(np.concatenate(shown)), torch.from_numpy(places))


@lru_cache
def _moves(frames: int, between: Between) -> NDArray[np.int64]:
    return np.array(clip_moves(range(frames), between), np.int64).reshape(-1, 2)


def _equal_shares(kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which pairs to take, in their order, so that there are as many of each kind: the mean over kinds.

    The pairs of any two frames grow with the square of an animation's length: of 13 frames there are 78 times as many
    as of 2.
    """
    found = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
    share = len(kinds) // len(found)
    return np.sort(np.concatenate([places[np.arange(share) * len(places) // share] for places in found]))


def _starts(one: PackedCharacter, also: str) -> list[tuple[int, int]]:
    """Pairs from the standing frames of a character."""
    begins = one.begins() if also else {}
    if also == "starts":
        return list(begins.values())
    clips = zip(one.clips, one.ranges(), strict=True)
    return [(begins[clip][0], place) for clip, places in clips if clip in begins for place in places]


def _over_grey(colours: Bytes, background: float) -> Bytes:
    """RGBA (256, 4) over a grey level: (256, 3)."""
    alpha = colours[:, 3:].astype(np.float32) / 255
    return np.rint(colours[:, :3] * alpha + round(255 * background) * (1 - alpha)).astype(np.uint8)


def _unpack(path: Path, digest: str, length: int) -> bytes:
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise UserError(f"{path} was changed or damaged: its digest is not that of {TABLE}")
        unpacked = lzma.LZMADecompressor().decompress(data, max_length=length + 1)
    except (OSError, lzma.LZMAError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(unpacked) != length:
        raise UserError(f"{path} does not hold the frames that {TABLE} lists")
    return unpacked


def _read_table(folder: Path) -> tuple[int, dict[str, str], list[dict[str, Any]]]:
    """Side of a cell, digests by file, and an entry for each character."""
    path = folder / TABLE
    try:
        words = read_json(path)
        side, files, entries = int(words["cell"]), dict(words["files"]), list(words["characters"])
        for entry in entries:
            entry["clips"] = tuple(Clip(str(name), str(view), int(frames)) for name, view, frames in entry["clips"])
        frames = [sum(clip.frames for clip in entry["clips"]) for entry in entries]
        in_order = list(files) == [f"frames-{n:03d}.xz" for n in range(-(-len(entries) // CHUNK))]
        if not (0 < side <= MAX_SIDE and 0 < len(entries) <= MAX_CHARACTERS and max(frames) <= MAX_FRAMES):
            raise ValueError("too large or empty")
        if max(sum(frames[k : k + CHUNK]) for k in range(0, len(frames), CHUNK)) * side**2 > MAX_BYTES:
            raise ValueError(f"a file of its frames would take more than {MAX_BYTES:,} bytes")
        if words["chunk"] != CHUNK or not in_order or any(c.frames < 1 for e in entries for c in e["clips"]):
            raise ValueError("its files or clips are not as this version writes them")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(f"{path} is no table of packed characters: {error}") from error
    return side, files, entries
