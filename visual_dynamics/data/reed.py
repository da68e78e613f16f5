"""The 672 sprite characters of Reed et al. (2015): 60x60 pixels on black, 178 frames each, in 21 clips.

Measured on them: characters 2n and 2n + 1 differ only in the weapon (0 is a bow, drawn in shoot; 1 a spear, drawn in
thrust) and share all frames of walk, slash and hurt and all but one of spellcast. Characters 4n ... 4n + 3 share frame
176. No others share any. The five bottom rows of each hurt frame are white, outside the mask, as published. Masks are
alpha above 0; some dark outlines have none.

Art by the Liberated Pixel Cup contributors (lpc.opengameart.org), CC-BY-SA 3.0 / GPL 3.0.
"""

from __future__ import annotations

import io
import lzma
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.data.pairs import BETWEEN, Between, Pairs, clip_moves
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_together

Numbers = NDArray[np.int64]
Progress = Callable[[int, int], None]  # characters done, of how many

ANIMATIONS = {"spellcast": 7, "thrust": 8, "walk": 9, "slash": 6, "shoot": 13, "hurt": 6}  # frames a view
VIEWS = ("up", "left", "down", "right")
FRAMES = 178  # a character: 4 * (7 + 8 + 9 + 6 + 13) + 6
SIDE = 60  # pixels
CHARACTERS, ATTRIBUTES = 672, 7
SEX, WEAPON = 0, 6  # columns of the attributes
FAMILY = 4  # characters 4n ... 4n + 3 share frames
MAX_CHARACTERS = 4096  # a longer list is an error before anything is unpacked
MAX_COLOURS = 2**16

_FRAMES, _MASKS, _PALETTE, _LABELS = "frames.u16.xz", "masks.packbits.xz", "palette.npy", "sprite_large_labels.txt"
_LABEL_LINE = re.compile(r"[0-9]{1,4}(,[0-9]{1,4}){6}")
_PUBLISHED = re.compile(r"sprites_(0|[1-9][0-9]{0,3})\.mat")


class Clip(NamedTuple):
    """One animation from one side, and its place among a character's 178 frames."""

    animation: str
    view: str
    frames: slice


def _clips() -> Iterator[Clip]:
    start = 0
    for animation, length in ANIMATIONS.items():
        for view in VIEWS if animation != "hurt" else ("down",):  # hurt is seen from the front only
            yield Clip(animation, view, slice(start, start := start + length))


CLIPS = tuple(_clips())  # the 21 cells of a published file, in its order


@dataclass(frozen=True)
class Characters:
    """N characters as palette indices: 1.3 MB each, 0.9 GB for all 672; colours are made when asked for."""

    frames: NDArray[np.uint16]  # (N, 178, 60, 60) rows of the palette
    palette: NDArray[np.uint8]  # (P, 3)
    masks: NDArray[np.uint8]  # (N, 178, 450): which pixels the character covers, eight a byte, first pixel highest
    attributes: Numbers  # (N, 7), columns SEX ... WEAPON
    numbers: Numbers  # (N,): the N of sprites_N.mat

    def __post_init__(self) -> None:
        shapes = {"frames": (FRAMES, SIDE, SIDE), "masks": (FRAMES, SIDE**2 // 8), "attributes": (ATTRIBUTES,)}
        for name, shape in (shapes | {"numbers": ()}).items():
            if (found := getattr(self, name).shape) != (len(self), *shape):
                raise ValueError(f"{name} of {len(self)} characters are {(len(self), *shape)}, not {found}")

    def __len__(self) -> int:
        return len(self.frames)

    def subset(self, indices: Numbers | Sequence[int] | slice) -> Characters:
        """The characters at these places, in the order given; where all were read, a number is a place."""
        chosen = indices if isinstance(indices, slice) else np.asarray(indices, dtype=np.int64)
        frames, masks, attributes, numbers = self.frames, self.masks, self.attributes, self.numbers
        return Characters(frames[chosen], self.palette, masks[chosen], attributes[chosen], numbers[chosen])

    def rgb(self, character: int, frames: slice | Sequence[int] = slice(None)) -> Tensor:
        """Frames of the character at a place: uint8 (T, 3, 60, 60), colours as published."""
        indices = self.frames[character, frames]
        return torch.from_numpy(np.stack([np.take(channel, indices) for channel in self.palette.T], axis=1))

    def rgba(self, character: int, frames: slice | Sequence[int] = slice(None)) -> Tensor:
        """uint8 (T, 4, 60, 60): the same with alpha, 255 where the character is and 0 elsewhere."""
        alpha = torch.from_numpy(255 * np.unpackbits(self.masks[character, frames], axis=-1))
        return torch.cat([self.rgb(character, frames), alpha.view(-1, 1, SIDE, SIDE)], dim=1)


class Split(NamedTuple):
    """Numbers of characters, ascending."""

    train: Numbers
    validation: Numbers
    test: Numbers


def paper_split() -> Split:
    """652 characters to train on and 20 to test on: the paper's counts, but our choice, as it does not name the 20.

    These counts leave none for validation.
    They are five times four neighbours, evenly spaced, so that no test frame is also a training frame.
    """
    return _split([], [4 * group + member for group in (16, 50, 84, 117, 151) for member in range(4)])


def reed_split() -> Split:
    """The 500 / 72 / 100 characters of Reed et al.'s sprites_splits.mat, for visual analogies.

    80 of the 100 differ from one of the 500 in the weapon alone, and share half of their frames with it.
    """
    lines = Path(__file__).with_name("reed_split.txt").read_text("utf-8").splitlines()  # a name, then numbers from 1
    return _split(*([int(word) - 1 for word in line.split()[1:]] for line in lines))


def without_twin(split: Split) -> Numbers:
    """The test characters whose twin, the one that differs in the weapon alone, is not in training: 20 of Reed's 100.

    They share no frame with a training character but frame 176, of hurt. Twins of 12 of them are for validation.
    """
    return split.test[~np.isin(split.test ^ 1, split.train)]


def _split(validation: list[int], test: list[int]) -> Split:
    train = np.setdiff1d(np.arange(CHARACTERS), validation + test)
    return Split(train, np.array(validation, dtype=np.int64), np.array(test, dtype=np.int64))


def sprite_pairs(
    characters: Characters,
    between: Between = "neighbours",
    animations: Collection[str] = tuple(ANIMATIONS),
    size: int = 64,
) -> Pairs:
    """Pairs within clips, character after character in reading order; 60x60 in the middle of size x size black ones.

    "neighbours": a frame and the one after it, 157 a character. "any": two frames of a clip in any order, 1,454.
    "mixed", "mostly": those with neighbours repeated, see `clip_moves`.
    """
    if not animations or not set(animations) <= ANIMATIONS.keys():
        raise UserError(f"choose sprite animations of {', '.join(ANIMATIONS)}; not {', '.join(animations) or 'none'}")
    if between not in BETWEEN:
        raise UserError(f"sprite pairs are between {', '.join(BETWEEN)} frames, not {between!r}")
    if size < SIDE:
        raise UserError(f"sprites are {SIDE} pixels a side and do not fit into {size}")
    clips = [clip for clip in CLIPS if clip.animation in animations]
    kept = [frame for clip in clips for frame in range(FRAMES)[clip.frames]]  # of a character's 178
    store = torch.zeros(len(characters), len(kept), 3, size, size, dtype=torch.uint8)
    inside = slice((size - SIDE) // 2, (size - SIDE) // 2 + SIDE)
    for place in range(len(characters)):
        store[place, :, :, inside, inside] = characters.rgb(place, kept)
    pairs = [pair for clip in clips for pair in clip_moves(range(FRAMES)[clip.frames], between)]
    of_one = torch.from_numpy(np.searchsorted(kept, np.array(pairs, dtype=np.int64).reshape(-1, 2)))
    of_all = torch.arange(len(characters))[:, None, None] * len(kept) + of_one  # (N, pairs of one, 2)
    first, second = of_all.flatten(0, 1).unbind(1)
    return Pairs(store.flatten(0, 1), first, second)


def holds_characters(path: Path) -> bool:
    """Whether a folder looks like the sprites, packed or as published."""
    return path.is_dir() and ((path / _FRAMES).exists() or any(_PUBLISHED.fullmatch(f.name) for f in path.iterdir()))


def holds_packed_characters(path: Path) -> bool:
    """Whether a folder holds all that `pack_characters` writes, and so was written by it."""
    return all((path / name).is_file() for name in (_FRAMES, _MASKS, _PALETTE, _LABELS))


def read_characters(path: Path, numbers: Iterable[int] | None = None, progress: Progress | None = None) -> Characters:
    """The characters of a folder, or those with the given numbers, in ascending order.

    The folder holds the packed form (see `pack_characters`), which is read in seconds, or the published files
    sprites_0.mat ... sprites_671.mat, which takes minutes and h5py: `progress(done, total)` follows each of them.
    """
    try:
        names = [entry.name for entry in path.iterdir()]
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise UserError(f"cannot read the sprites in {path}: {getattr(error, 'strerror', None) or error}") from error
    packed = _FRAMES in names
    published = {int(match[1]): path / name for name in names if (match := _PUBLISHED.fullmatch(name))}
    attributes = _read_labels(path / _LABELS) if packed else np.empty((0, ATTRIBUTES), dtype=np.int64)
    present = range(len(attributes)) if packed else published.keys()
    if not present:
        raise UserError(f"no sprites in {path}: neither {_FRAMES} nor sprites_0.mat, sprites_1.mat, ...")
    wanted = sorted(present if numbers is None else {int(number) for number in numbers})
    if missing := [number for number in wanted if number not in present]:
        raise UserError(f"no sprite character {missing[0]} among the {len(present)} in {path}")
    if not packed:
        return _read_published({number: published[number] for number in wanted}, progress)
    palette = _read_palette(path / _PALETTE)
    masks = _unpack(path / _MASKS, np.dtype(np.uint8), (FRAMES, SIDE**2 // 8), wanted, len(present))
    frames = _unpack(path / _FRAMES, np.dtype(np.uint16), (FRAMES, SIDE, SIDE), wanted, len(present))
    if frames.max(initial=0) >= len(palette):
        raise UserError(f"{path / _FRAMES} has colour {frames.max()}, but {_PALETTE} only {len(palette)} of them")
    return Characters(frames, palette, masks, attributes[wanted], np.array(wanted, dtype=np.int64))


def pack_characters(characters: Characters, folder: Path) -> None:
    """Write the packed form: indices and masks under xz, palette and attributes. Some 3 MB and 20 s for all 672."""
    if not np.array_equal(characters.numbers, np.arange(len(characters))):
        raise UserError("only characters 0, 1, 2, ... without a gap can be packed: the packed form holds no numbers")
    palette = io.BytesIO()
    np.save(palette, characters.palette, allow_pickle=False)
    labels = "".join(",".join(map(str, row)) + "\n" for row in characters.attributes.tolist())
    # A fast search, but far enough back to find the same frame in a dozen characters before.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 2**24}]
    frames = lzma.compress(np.ascontiguousarray(characters.frames, dtype="<u2").data, filters=filters)
    masks = lzma.compress(np.ascontiguousarray(characters.masks).data, filters=filters)
    write_together(folder, {_FRAMES: frames, _MASKS: masks, _PALETTE: palette.getvalue(), _LABELS: labels.encode()})


def _unpack(path: Path, kind: np.dtype[Any], shape: tuple[int, ...], wanted: list[int], count: int) -> NDArray[Any]:
    """The wanted ones of the `count` characters in an xz file, (len(wanted), *shape), one at a time in memory."""
    length = math.prod(shape) * kind.itemsize  # bytes
    unpacked = np.empty((len(wanted), *shape), dtype=kind)
    rows = {number: row for row, number in enumerate(wanted)}
    try:
        with lzma.open(path) as file:
            for number in range(count):
                if len(data := file.read(length)) < length:
                    raise UserError(f"{path} holds only {number} of the {count} characters of {_LABELS}")
                if number in rows:
                    unpacked[rows[number]] = np.frombuffer(data, kind.newbyteorder("<")).reshape(shape)
            if file.read(1):
                raise UserError(f"{path} holds more than the {count} characters of {_LABELS}")
    except (OSError, EOFError, lzma.LZMAError, MemoryError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return unpacked


def _read_labels(path: Path) -> Numbers:  # (N, 7)
    try:
        with path.open("rb") as file:
            lines = file.read(64 * MAX_CHARACTERS).decode("ascii", "replace").split()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    if not 0 < len(lines) <= MAX_CHARACTERS or not all(_LABEL_LINE.fullmatch(line) for line in lines):
        raise UserError(f"{path} is not a list of 1 to {MAX_CHARACTERS} lines of {ATTRIBUTES} numbers")
    return np.array([[int(word) for word in line.split(",")] for line in lines], dtype=np.int64)


def _read_palette(path: Path) -> NDArray[np.uint8]:  # (P, 3)
    try:
        palette = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a false size in it allocates nothing
        if palette.dtype != np.uint8 or palette.shape[1:] != (3,) or not 0 < len(palette) <= MAX_COLOURS:
            raise ValueError("not a palette")
    except Exception as error:  # numpy raises many kinds of error for a damaged file
        raise UserError(f"cannot read {path}: not a palette of 8-bit colours that numpy saved") from error
    return np.array(palette)


def _read_published(paths: dict[int, Path], progress: Progress | None) -> Characters:
    frames = np.empty((len(paths), FRAMES, SIDE, SIDE), dtype=np.uint16)
    masks = np.empty((len(paths), FRAMES, SIDE**2 // 8), dtype=np.uint8)
    attributes = np.empty((len(paths), ATTRIBUTES), dtype=np.int64)
    own, every = [], np.zeros(1, dtype=np.uint32)  # colours of each character and of all, ascending; black is always 0
    for row, path in enumerate(paths.values()):
        colours, covered, attributes[row] = _read_character(path)
        own.append(np.unique(colours))
        every = np.union1d(every, own[row])
        if len(every) > MAX_COLOURS:
            raise UserError(f"{path} brings the sprites to {len(every)} colours, too many for a palette")
        frames[row] = np.searchsorted(own[row], colours)
        masks[row] = np.packbits(covered.reshape(FRAMES, -1), axis=-1)
        if progress is not None:
            progress(row + 1, len(paths))
    for row in range(len(paths)):
        frames[row] = np.searchsorted(every, own[row])[frames[row]]
    palette = np.stack([every >> 16, every >> 8 & 255, every & 255], axis=1).astype(np.uint8)
    return Characters(frames, palette, masks, attributes, np.array(list(paths), dtype=np.int64))


def _read_character(path: Path) -> tuple[NDArray[np.uint32], NDArray[np.bool_], Numbers]:
    """One published file: colours as 0xRRGGBB (178, 60, 60), the mask (178, 60, 60), and the attributes (7,).

    MATLAB 7.3 is HDF5 with every array transposed: 21 cells (T, 3 * 60 * 60) of colours and (T, 60 * 60) of alpha,
    floats in [0, 1], each frame channel by channel and column by column.
    """
    try:
        import h5py
    except ImportError as error:
        raise UserError("reading the published sprites needs h5py: pip install 'visual-dynamics[sprites]'") from error

    def read(place: str | h5py.Reference, shape: tuple[int, ...], most: float | None = None) -> NDArray[Any]:
        if file[place].shape != shape:  # an error before it is read
            raise ValueError(f"{file[place].shape} instead of {shape}")
        values = file[place][()]
        if most is not None and not (values.min() >= 0 and values.max() <= most):
            raise ValueError(f"not in [0, {most}]")
        return values

    def read_clips(name: str, channels: int) -> NDArray[np.uint32]:  # (channels, 178, 60, 60), 0 to 255
        shapes = [(ANIMATIONS[clip.animation], channels * SIDE**2) for clip in CLIPS]
        cells = zip(read(name, (len(CLIPS), 1)).flat, shapes, strict=True)
        values = np.rint(255 * np.concatenate([read(cell, shape, most=1) for cell, shape in cells]))
        return values.astype(np.uint32).reshape(FRAMES, channels, SIDE, SIDE).transpose(1, 0, 3, 2)

    try:
        with h5py.File(path, "r") as file:
            red, green, blue = read_clips("sprites", 3)
            (alpha,) = read_clips("masks", 1)
            attributes = read("labels", (ATTRIBUTES, 1), most=9999)[:, 0].astype(np.int64)
    except Exception as error:  # h5py raises many kinds of error for a damaged file
        raise UserError(f"{path} is not a readable file of the published sprites") from error
    return red << 16 | green << 8 | blue, alpha > 0, attributes
