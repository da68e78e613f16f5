"""Pairs from a folder or a zip: `N_im1.EXT` and `N_im2.EXT`, with optional lists `train.txt`, `test.txt` of the N.

This is how the authors' group lays out Shapes and Exercise. The files of a zip may lie in a folder inside it.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.errors import UserError

MAX_PIXELS = 64_000_000  # an image beyond this is refused before it is decoded
MAX_BYTES = 4 * MAX_PIXELS  # as is a file larger than any such image

_NAME = re.compile(r"([0-9]{1,18})_im([12])\.(png|webp|jpe?g|bmp|gif|tiff?|ppm)", re.IGNORECASE)


@dataclass(frozen=True)
class _Source:
    """The files of one folder, on disk or in a zip."""

    path: Path
    files: dict[str, int]  # name -> bytes
    read: Callable[[str], bytes]


def read_pairs(
    path: Path,
    split: str | None = None,
    size: int | None = None,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Pairs:
    """The pairs of a folder or zip in the order of their N, as RGB; `progress(done, total)` follows each pair.

    With `split` only those that SPLIT.txt lists, with `limit` only the first so many. With `size` every frame becomes
    size x size; without it all frames must be of one size.
    """
    if limit is not None and limit < 1:
        raise UserError(f"the limit of pairs is at least 1, not {limit}")
    if size is not None and size < 1:
        raise UserError(f"the size of frames is at least 1 pixel, not {size}")
    with _open(Path(path)) as source:
        names = _paired(source)
        numbers = sorted(names if split is None else _listed(source, split, names))[:limit]
        for number in numbers:
            if missing := {"1", "2"} - names[number].keys():
                (present,) = names[number].values()
                raise UserError(f"{present} in {path} has no partner {number}_im{missing.pop()}")
        frames = next_frames = torch.empty(0)
        for done, number in enumerate(numbers):
            first, second = (_frame(source, names[number][which], size) for which in "12")
            if done == 0:
                frames, next_frames = (torch.empty(len(numbers), *first.shape, dtype=torch.uint8) for _ in "12")
            for which, frame in (("1", first), ("2", second)):
                if frame.shape != frames.shape[1:]:
                    raise UserError(
                        f"{names[number][which]} in {path} is {_extent(frame)}, the frames before it are "
                        f"{_extent(frames)}; give a size to bring all to one"
                    )
            frames[done], next_frames[done] = first, second
            if progress is not None:
                progress(done + 1, len(numbers))
    return Pairs(frames, next_frames)


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
    try:
        words = source.read(name).decode(errors="replace").split()
    except Exception as error:  # a missing right to read, a damaged or encrypted zip
        raise UserError(f"{name} in {source.path} is not readable") from error
    for word in words:
        if not re.fullmatch("[0-9]{1,18}", word):
            raise UserError(f"{name} in {source.path} lists {word[:40]!r}, which is not a number")
        if int(word) not in names:
            raise UserError(f"{name} in {source.path} lists {word}, but there is no {word}_im1")
        numbers.add(int(word))
    if not numbers:
        raise UserError(f"{name} in {source.path} is empty")
    return numbers


def _frame(source: _Source, name: str, size: int | None) -> Tensor:
    """uint8 (3, H, W), or (3, size, size)."""
    where = f"{name} in {source.path}"
    if source.files[name] > MAX_BYTES:
        raise UserError(f"{where} is too large ({source.files[name] / 1e6:.0f} MB)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own, lower limit follows
            image = Image.open(io.BytesIO(source.read(name)))
        if image.width * image.height > MAX_PIXELS:
            raise UserError(f"{where} is too large ({image.width}x{image.height} pixels; 64 megapixels at most)")
        pixels = np.array(image.convert("RGB"))
    except UserError:
        raise
    except Image.DecompressionBombError as error:
        raise UserError(f"{where} is too large (64 megapixels at most)") from error
    except Exception as error:  # decoders raise whatever a broken file makes them stumble over
        raise UserError(f"{where} is not a readable image") from error
    frame = torch.from_numpy(pixels).permute(2, 0, 1)
    return frame if size is None or frame.shape[1:] == (size, size) else resize_frames(frame[None], size)[0]


def _extent(frames: Tensor) -> str:
    return f"{frames.shape[-1]}x{frames.shape[-2]}"


@contextmanager
def _open(path: Path) -> Iterator[_Source]:
    if path.is_dir():
        try:
            files = {entry.name: entry.stat().st_size for entry in path.iterdir() if entry.is_file()}
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from error
        yield _Source(path, files, lambda name: (path / name).read_bytes())
    elif path.is_file():
        try:
            archive = zipfile.ZipFile(path)
        except Exception as error:  # zipfile, too, raises whatever a broken file makes it stumble over
            raise UserError(f"{path} is neither a folder nor a readable zip") from error
        with archive:
            folder = _folder_of_pairs(archive, path)
            entries = {
                PurePosixPath(entry.filename).name: entry
                for entry in archive.infolist()
                if not entry.is_dir() and PurePosixPath(entry.filename).parent == folder
            }
            files = {name: entry.file_size for name, entry in entries.items()}
            yield _Source(path, files, lambda name: archive.read(entries[name]))
    else:
        raise UserError(f"no such folder or zip: {path}")


def _folder_of_pairs(archive: zipfile.ZipFile, path: Path) -> PurePosixPath:
    """The one folder inside the zip that holds frames."""
    places = (PurePosixPath(name) for name in archive.namelist() if not name.startswith("__MACOSX"))
    folders = sorted({place.parent for place in places if _NAME.fullmatch(place.name)})
    if len(folders) > 1:
        raise UserError(f"{path} holds pairs in several folders: {folders[0]} and {folders[1]}")
    return folders[0] if folders else PurePosixPath(".")
