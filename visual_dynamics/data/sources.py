"""The one place that recognises what a path holds, and opens it as pairs: to train, to validate, to test.

Training and all that is chosen look at "train" and "validation" alone; experiments and studies measure "test". Footage,
sheets and packed characters hold out one part of what a user has: it is both "validation" and "test".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args, overload

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.data import folders, reed, shapes
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.folders import has_list, read_pairs
from visual_dynamics.data.names import GENERATED, check_data
from visual_dynamics.data.packed import holds_packed, packed_pairs, read_packed
from visual_dynamics.data.pairs import Between, Pairs, clip_moves, spread
from visual_dynamics.data.posed import posed_pairs
from visual_dynamics.data.poses import holds_poses, read_poses
from visual_dynamics.data.shards import holds_footage, open_pairs
from visual_dynamics.data.sheets import COMPOSED_LAYOUT, COMPOSED_TABLE, Sheet, read_sheets_at
from visual_dynamics.errors import UserError

Kind = Literal["drawn", "footage", "characters", "packed", "sheets", "pairs"]
DataSplit = Literal["train", "validation", "test"]
HELD_OUT_PAIRS = 256  # at most, unless another number is asked for


@dataclass(frozen=True)
class DataSpec:
    """What pairs are made from, and how."""

    data: str  # one of GENERATED, or a path
    size: int  # side of the frames in pixels
    seed: int = 0
    rendering: str = "integer"  # of generated shapes
    between: str = "neighbours"  # of sprites: which two frames make a pair (see `clip_moves`)
    characters: str = "reed"  # of Reed's sprites: the split into train, validation and test, "reed" or "paper"
    sheets: str | None = None  # layout of sprite sheets: size of a cell ("64x64"), "aseprite" or "frames"
    background: float = 1.0  # grey level behind transparent pixels, in [0, 1]
    poses: str | None = None  # of drawn people: a pose file


def recognise(spec: DataSpec) -> Kind:
    """What kind of data a spec names."""
    check_data(spec.data)
    path = Path(spec.data)
    if spec.data in GENERATED or draws_people(spec.data):
        return "drawn"
    if holds_footage(path):
        return "footage"
    if reed.holds_characters(path):
        return "characters"
    if holds_packed(path):
        return "packed"
    return "sheets" if sheet_layout(spec) else "pairs"


def draws_people(data: str) -> bool:
    """Whether data are drawn people: by name, or as the pose file that moves them."""
    return data == "figures" or (data not in GENERATED and holds_poses(Path(data)))


@overload
def open_data(
    spec: DataSpec,
    split: Literal["train"],
    count: int | None = None,
    device: torch.device | str = "cpu",
    stream: bool = False,
    wear: Tensor | None = None,
) -> Pairs: ...
@overload
def open_data(
    spec: DataSpec,
    split: DataSplit,
    count: int | None = None,
    device: torch.device | str = "cpu",
    stream: bool = False,
    wear: Tensor | None = None,
) -> Pairs | None: ...
def open_data(
    spec: DataSpec,
    split: DataSplit,
    count: int | None = None,
    device: torch.device | str = "cpu",
    stream: bool = False,
    wear: Tensor | None = None,
) -> Pairs | None:
    """The pairs of one split; None where the data have none for validation or test.

    count: the first n training pairs, or n of another split, picked at random. stream: leave prepared footage in its
    files; otherwise it is read into memory if it fits. device: where figures are drawn; wear: frames they are painted
    with, uint8 (M, 3, S, S).
    """
    kind = recognise(spec)
    if stream and kind != "footage":
        raise UserError(f"{spec.data} cannot be streamed, only what visual-dynamics prepare videos has made")
    if "+" in spec.between and kind != "packed":
        raise UserError(f"between={spec.between} is for packed characters, which `prepare lpc` makes of a checkout")
    if kind == "drawn":
        return _drawn(spec, split, count, device, wear)
    if kind == "footage":
        return _footage(spec, split, count, stream)
    if kind == "pairs":
        return _own_pairs(spec, split, count)
    pairs = {"characters": _characters, "packed": _packed, "sheets": _sheets}[kind](spec, split)
    if pairs is None:
        return None
    if split == "train":
        return pairs if count is None else pairs.subset(torch.arange(min(count, len(pairs))))
    return pairs.subset(spread(len(pairs), count or HELD_OUT_PAIRS, spec.seed))


def validation_words(spec: DataSpec) -> str | None:
    """One line on which pairs of a folder or zip are for validation, or that no characters are; else None."""
    if recognise(spec) == "characters" and not len(sprite_split(spec.characters).validation):
        return "no characters are for validation: this split has none"
    return folders.validation_words(Path(spec.data)) if recognise(spec) == "pairs" else None


def sprite_split(name: str) -> reed.Split:
    return reed.paper_split() if name == "paper" else reed.reed_split()


def sheet_layout(spec: DataSpec) -> str | None:
    """How sprite sheets are cut into frames; None where the data are no sprite sheets."""
    return spec.sheets or (COMPOSED_LAYOUT if (Path(spec.data) / COMPOSED_TABLE).is_file() else None)


def _drawn(
    spec: DataSpec, split: DataSplit, count: int | None, device: torch.device | str, wear: Tensor | None
) -> Pairs:
    count = count or (shapes.TRAIN_PAIRS if split == "train" else HELD_OUT_PAIRS)
    if poses := spec.poses if spec.data == "figures" else spec.data if draws_people(spec.data) else None:
        return posed_pairs(read_poses(Path(poses)), count, spec.seed, split, spec.size, device, wear)
    if spec.data == "figures":
        return figure_pairs(count, spec.seed, split, spec.size, device, wear)
    rendering, textured = cast(shapes.Rendering, spec.rendering), spec.data == "shapes-texture"
    return shapes.shapes_pairs(count, spec.seed, split, rendering, spec.size, textured=textured)


def _footage(spec: DataSpec, split: DataSplit, count: int | None, stream: bool) -> Pairs | None:
    """In memory if it takes at most half of what is free, shared by the processes of a machine; or in its files."""
    pairs = open_pairs(Path(spec.data), "train" if split == "train" else "held-out")
    if pairs is None:
        return None
    pairs = pairs.resized(spec.size)
    if split != "train":
        return pairs.subset(spread(len(pairs), count or HELD_OUT_PAIRS, spec.seed)).in_memory()
    if count is not None:
        pairs = pairs.subset(torch.arange(min(count, len(pairs))))
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return pairs if stream or pairs.nbytes > free_memory() // (2 * processes) else pairs.in_memory()


def free_memory() -> int:
    """Bytes that a process may fill now: what the system says is available, or half of all where it says nothing."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return 4 * 2**30


def _characters(spec: DataSpec, split: DataSplit) -> Pairs | None:
    numbers: reed.Numbers = getattr(sprite_split(spec.characters), split)
    if not len(numbers):
        return None
    characters = reed.read_characters(Path(spec.data), numbers)
    # A smaller network sees sprites made smaller, never cut.
    return reed.sprite_pairs(characters, cast(Between, spec.between), size=max(64, spec.size)).resized(spec.size)


def _packed(spec: DataSpec, split: DataSplit) -> Pairs | None:
    characters = read_packed(Path(spec.data), lambda number: is_held_out(number) == (split != "train"))
    if not characters:
        return None
    return packed_pairs(characters, spec.between, max(64, spec.size), spec.background).resized(spec.size)


def _sheets(spec: DataSpec, split: DataSplit) -> Pairs | None:
    sheets = read_sheets_at(Path(spec.data), sheet_layout(spec) or "")
    sheets = [sheet for place, sheet in enumerate(sheets) if is_held_out(place) == (split != "train")]
    return sheet_pairs(sheets, cast(Between, spec.between), spec.size, spec.background) if sheets else None


def is_held_out(place: int) -> bool:
    """Of more than ten sheets or characters, every twentieth is held out: whole ones, as frames of one are alike."""
    return place % 20 == 10


def sheet_pairs(sheets: Sequence[Sheet], between: Between, size: int, background: float) -> Pairs:
    """Pairs of frames within each tag (all frames of a sheet without tags), in the middle of size x size pixels.

    Alpha shows `background`, a grey level in [0, 1]. Pixel art is never scaled: a frame larger than size is an error.
    """
    stores: list[Tensor] = []
    places: list[tuple[int, int]] = []
    count = 0
    for sheet in sheets:
        _, height, width, _ = sheet.frames.shape
        if max(height, width) > size:
            raise UserError(f"frames of {width} x {height} pixels do not fit into the model's {size} x {size}")
        clips = [range(tag.first, tag.last + 1) for tag in sheet.tags] or [range(len(sheet.frames))]
        for clip in clips:
            places += [(count + first, count + second) for first, second in clip_moves(clip, between)]
        stores.append(over_grey(sheet.frames, size, background))
        count += len(sheet.frames)
    if not places:
        raise UserError("the sprite sheets have no two frames of one animation")
    first, second = torch.tensor(places, dtype=torch.int64).unbind(1)
    return Pairs(torch.cat(stores), first, second)


def over_grey(frames: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], size: int, background: float) -> Tensor:
    """RGBA (T, H, W, 4) in the middle of a grey square: uint8 (T, 3, size, size)."""
    count, height, width, _ = frames.shape
    alpha = frames[..., 3:].astype(np.float32) / 255
    level = round(255 * background)
    mixed = np.rint(frames[..., :3] * alpha + level * (1 - alpha)).astype(np.uint8)
    room = np.full((count, size, size, 3), level, np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    room[:, top : top + height, left : left + width] = mixed
    return torch.from_numpy(room).permute(0, 3, 1, 2).contiguous()


def _own_pairs(spec: DataSpec, split: DataSplit, count: int | None) -> Pairs | None:
    """By lists; without a validation.txt a share of the pairs to train on is for validation. Test pairs are listed."""
    path, grey = Path(spec.data), round(255 * spec.background)
    lists = {name for name in get_args(DataSplit) if has_list(path, name)}
    if lists and "train" not in lists and split == "train":
        raise UserError(f"{path} has a {max(lists)}.txt but no train.txt, which would list the pairs to train on")
    share = split if split != "test" and "validation" not in lists else None
    listed = "train" if share and lists else split
    if listed not in lists and (lists or split == "test"):
        return None
    count = count or (None if split == "train" else HELD_OUT_PAIRS)
    pairs = read_pairs(path, listed if lists else None, spec.size, count, None, (grey, grey, grey), share)
    return pairs if len(pairs) else None
