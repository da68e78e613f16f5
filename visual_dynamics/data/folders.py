"""Pairs from a folder or a zip: `N_im1.EXT` and `N_im2.EXT`, with optional lists `train.txt`, `test.txt` of the N.

This is how the authors' group lays out Shapes and Exercise. A `validation.txt` may be there, too. The files of a zip
may lie in a folder inside it.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pairs, resize_frames, spread
from visual_dynamics.errors import UserError
from visual_dynamics.images import WHITE, Color, read_picture

MAX_BYTES = 2**28  # of one picture's file
MAX_LIST_BYTES = 2**25  # of a list: more than a million numbers
HELD_OUT_SHARE = 10  # without validation.txt, one pair in 10 to train on is for validation in place of training ...
MOST_HELD_OUT = 256  # ... at most n pairs

_NAME = re.compile(r"([0-9]{1,18})_im([12])\.(png|webp|jpe?g|bmp|gif|tiff?|ppm)", re.IGNORECASE)
Part = Literal["train", "validation"]


@dataclass(frozen=True)
class _Source:
    """The files of one folder, on disk or in a zip."""

    path: Path
    files: Collection[str]
    read: Callable[[str, int], bytes]  # of a file, at most the first n bytes


def read_pairs(
    path: Path,
    split: str | None = None,
    size: int | None = None,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    background: Color = WHITE,
    part: Part | None = None,
) -> Pairs:
    """The pairs of a folder or zip in the order of their N, as RGB; `progress(done, total)` follows each pair.

    split: only the pairs that SPLIT.txt lists. part: of these all but a share for validation, or only that share.
    limit: only the first n. size: every frame becomes size x size; without it all frames must have one size.
    """
    if limit is not None and limit < 1:
        raise UserError(f"the limit of pairs is at least 1, not {limit}")
    if size is not None and size < 1:
        raise UserError(f"the size of frames is at least 1 pixel, not {size}")
    with _open(Path(path)) as source:
        names = _paired(source)
        numbers = sorted(names if split is None else _listed(source, split, names))
        if part:
            held_out = held_out_share(len(numbers))
            numbers = [number for place, number in enumerate(numbers) if (place in held_out) == (part == "validation")]
        numbers = numbers[:limit]
        for number in numbers:
            if missing := {"1", "2"} - names[number].keys():
                (present,) = names[number].values()
                raise UserError(f"{present} in {path} has no partner {number}_im{missing.pop()}")
        store = torch.empty(0, 3, size or 1, size or 1, dtype=torch.uint8)  # frames, then next frames
        for done, number in enumerate(numbers):
            pair = [_frame(source, names[number][which], background) for which in "12"]
            if pair[0].shape != pair[1].shape:
                sizes = f"{_extent(pair[0])} and {_extent(pair[1])}"
                raise UserError(f"the frames of pair {number} in {path} differ in size: {sizes}")
            first, second = pair if size is None else (_resized(frame, size) for frame in pair)
            if done == 0:
                store = torch.empty(2 * len(numbers), *first.shape, dtype=torch.uint8)
            if first.shape != store.shape[1:]:
                raise UserError(
                    f"{names[number]['1']} in {path} is {_extent(first)}, the frames before it are {_extent(store)}; "
                    "give a size to bring all to one"
                )
            store[done], store[len(numbers) + done] = first, second
            if progress is not None:
                progress(done + 1, len(numbers))
    places = torch.arange(len(numbers))
    return Pairs(store, places, places + len(numbers))


def has_list(path: Path, split: str) -> bool:
    """Whether a folder or zip of pairs holds SPLIT.txt."""
    with _open(path) as source:
        return f"{split}.txt" in source.files


def held_out_share(count: int) -> set[int]:
    """Places of the pairs for validation where no list says which: always the same, whatever the run's seed."""
    return set(spread(count, min(MOST_HELD_OUT, count // HELD_OUT_SHARE), seed=0).tolist())


def validation_words(path: Path) -> str:
    """One line on which pairs are for validation."""
    with _open(path) as source:
        if "validation.txt" in source.files:
            return "validation: the pairs of validation.txt"
        names = _paired(source)
        count = len(_listed(source, "train", names) if "train.txt" in source.files else names)
    if not (share := len(held_out_share(count))):
        return f"no pairs are for validation: {count} are too few"
    return (
        f"validation: {share} of {count} pairs, picked at random and not trained on (a validation.txt would list them)"
    )


def _paired(source: _Source) -> dict[int, dict[str, str]]:
    """N -> {"1": file name of the first frame, "2": of the second}"""
    names: dict[int, dict[str, str]] = {}
    for name in source.files:
        if match := _NAME.fullmatch(name):
            pair = names.setdefault(int(match[1]), {})
            if match[2] in pair:
                raise UserError(f"{pair[match[2]]} and {name} in {source.path} are the same frame twice")
            pair[match[2]] = name
    if not names:
        raise UserError(f"no N_im1/N_im2 pairs in {source.path}")
    return names


def _listed(source: _Source, split: str, names: dict[int, dict[str, str]]) -> set[int]:
    """The numbers that SPLIT.txt holds."""
    name = f"{split}.txt"
    if name not in source.files:
        raise UserError(f"no {name} in {source.path}, which would list its {split} pairs")
    numbers = set()
    for word in _read(source, name, MAX_LIST_BYTES).decode(errors="replace").split():
        if not re.fullmatch("[0-9]{1,18}", word):
            raise UserError(f"{name} in {source.path} lists {word[:40]!r}, which is not a number")
        if int(word) not in names:
            raise UserError(f"{name} in {source.path} lists {word}, but there is no {word}_im1")
        numbers.add(int(word))
    if not numbers:
        raise UserError(f"{name} in {source.path} is empty")
    return numbers


def _frame(source: _Source, name: str, background: Color) -> Tensor:
    """uint8 (3, H, W)"""
    picture = read_picture(_read(source, name, MAX_BYTES), f"{name} in {source.path}")
    return torch.from_numpy(picture.over(background)).permute(2, 0, 1)


def _read(source: _Source, name: str, limit: int) -> bytes:
    try:
        data = source.read(name, limit + 1)
    except Exception as error:  # no permission; zipfile raises many kinds of error for a damaged or encrypted zip
        raise UserError(f"cannot read {name} in {source.path}: the file is damaged or not readable") from error
    if len(data) > limit:
        raise UserError(f"cannot read {name} in {source.path}: the file is too large (at most {limit:,} bytes)")
    return data


def _resized(frame: Tensor, size: int) -> Tensor:
    return frame if frame.shape[1:] == (size, size) else resize_frames(frame[None], size)[0]


def _extent(frames: Tensor) -> str:
    return f"{frames.shape[-1]}x{frames.shape[-2]}"


@contextmanager
def _open(path: Path) -> Iterator[_Source]:
    if path.is_dir():
        try:
            files = {entry.name for entry in path.iterdir() if entry.is_file()}
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from error

        def read_file(name: str, limit: int) -> bytes:
            with (path / name).open("rb") as stream:
                return stream.read(limit)

        yield _Source(path, files, read_file)
    elif path.is_file():
        try:
            archive = zipfile.ZipFile(path)
        except Exception as error:  # zipfile raises many kinds of error for a damaged file
            raise UserError(f"{path} is neither a folder nor a readable zip") from error
        with archive:
            folder = _folder_of_pairs(archive, path)
            entries = {
                PurePosixPath(entry.filename).name: entry
                for entry in archive.infolist()
                if not entry.is_dir() and PurePosixPath(entry.filename).parent == folder
            }

            def read_entry(name: str, limit: int) -> bytes:
                entry = entries[name]
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("zipfile cannot bound what other compressions unpack")
                with archive.open(entry) as stream:  # unpacks no more than this, whatever the zip says of its size
                    return stream.read(min(limit, entry.file_size + 1))

            yield _Source(path, entries, read_entry)
    else:
        raise UserError(f"no such folder or zip: {path}")


def _folder_of_pairs(archive: zipfile.ZipFile, path: Path) -> PurePosixPath:
    """The one folder inside the zip that holds frames."""
    places = (PurePosixPath(name) for name in archive.namelist() if not name.startswith("__MACOSX"))
    folders = sorted({place.parent for place in places if _NAME.fullmatch(place.name)})
    if len(folders) > 1:
        raise UserError(f"{path} holds pairs in several folders: {folders[0]} and {folders[1]}")
    return folders[0] if folders else PurePosixPath(".")
