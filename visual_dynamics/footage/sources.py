"""The clips of a folder: their scenes, sources, licences and split; and PennAction, whose clips have labels.

A table manifest.csv in the folder may have a row per clip, named in the column `file`. `scene` names its scene. Without
it, clips with the same `source` are one scene: they may show the same people or the same moment. Any other clip is a
scene of its own. `licence` and `source` are passed on.

PennAction, as published, has 2,326 sequences of pictures, each a scene, and a box around the person in every frame:

frames/0001/000001.jpg ...   the pictures of a sequence, in order
labels/0001.mat              MATLAB 5: `bbox` (T, 4), left, top, right, bottom in pixels, counted from 1; `x`, `y` and
                             `visibility` (T, 13) of joints; `train` 1 or -1; `nframes`; `action`, `pose`, `dimensions`

Its frame rate is not stated; the smoothness of the motions suggests 30 a second. Of the paper's selection (7,705
training and 987 test pairs of 981 sequences) no list was published.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError

TABLE = "manifest.csv"
VIDEOS = re.compile(
    r"\.(3g2|3gp|asf|avi|divx|dv|f4v|flv|gif|h26[45]|hevc|ivf|m2ts|m[24]v|mjpe?g|mk3?v|mov|mp4|mpe?g|mts|mxf|nut|og[mv]|qt"
    r"|rm|rmvb|ts|vob|webm|wmv|y4m)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ListedClip:
    name: str  # below the folder, with forward slashes
    path: Path
    scene: str
    source: str = ""
    licence: str = ""
    split: str = ""  # "train" or "held-out" if it is given; else the scenes decide
    labels: Path | None = None  # file with a box for each frame

    @property
    def key(self) -> str:
        """A name for the files made from it, unique in the folder."""
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in self.name)
        return f"{plain[:60]}-{hashlib.sha256(self.name.encode(errors='surrogateescape')).hexdigest()[:8]}"


def find_clips(folder: Path) -> list[ListedClip]:
    """The clips of a folder and the folders in it, and those that only its table names, in the order of their names."""
    if holds_pennaction(folder):
        return find_sequences(folder)
    if not folder.is_dir():
        raise UserError(
            f"{folder} is {'a file, not a folder' if folder.exists() else 'missing'}: give a folder of clips"
        )
    table = _read_table(folder / TABLE)
    try:
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if _is_video(path, folder)}
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror or error}") from error
    if not names | table.keys():
        raise UserError(f"no clips in {folder} (files named *.mp4, *.mov, *.mkv, *.webm, *.avi and the like)")
    return [_listed(folder, name, table.get(name, {})) for name in sorted(names | table.keys())]


def held_out_scenes(pairs: Mapping[str, int], share: float) -> set[str]:
    """Scenes that together have at most this share of the pairs, or the smallest scene if none is as small as that.

    pairs: of each scene. The order in which scenes are tried depends on their names alone. A single scene is never held
    out: nothing would be left to train on.
    """
    most, chosen, count = share * sum(pairs.values()), set[str](), 0
    if share <= 0 or len(pairs) < 2:
        return chosen
    for scene in sorted(pairs, key=lambda scene: hashlib.sha256(scene.encode(errors="surrogateescape")).digest()):
        if count + pairs[scene] <= most and len(chosen) < len(pairs) - 1:
            chosen.add(scene)
            count += pairs[scene]
    return chosen or {min(pairs, key=lambda scene: (pairs[scene], scene))}


def _listed(folder: Path, name: str, row: Mapping[str, str]) -> ListedClip:
    source = row.get("source", "")
    licence = row.get("licence", "") or row.get("license", "")
    return ListedClip(name, folder / name, row.get("scene", "") or source or name, source, licence)


def _is_video(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.relative_to(folder).parts)
    return not hidden and VIDEOS.fullmatch(path.suffix) is not None and not path.is_dir()


def _read_table(path: Path) -> dict[str, dict[str, str]]:
    """File name -> its row."""
    if not path.is_file():
        return {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    table = {}
    for row in rows:
        known = {name.strip(): (value or "").strip() for name, value in row.items() if isinstance(name, str)}
        name = PurePosixPath(known.get("file", ""))
        if not name.parts:
            raise UserError(f"cannot read {path}: it needs a column 'file' with the name of a clip in every row")
        if name.is_absolute() or ".." in name.parts:
            raise UserError(f"cannot read {path}: {name} is not below the folder")
        table[name.as_posix()] = known
    return table


# --- PennAction ---


@dataclass(frozen=True)
class Labels:
    """The labels of a sequence of T pictures."""

    boxes: npt.NDArray[np.float64]  # (T, 4): left, top, right, bottom in pixels from 0, joints included; NaN: unknown
    train: bool


def holds_pennaction(folder: Path) -> bool:
    return (folder / "frames").is_dir() and (folder / "labels").is_dir()


def find_sequences(folder: Path) -> list[ListedClip]:
    """The sequences of PennAction that have labels, in order."""
    clips = []
    for labels in sorted((folder / "labels").glob("*.mat")):
        path = folder / "frames" / labels.stem
        try:
            split = "train" if read_labels(labels).train else "held-out"
        except UserError:  # reported when the sequence is prepared
            split = ""
        clips.append(ListedClip(f"frames/{labels.stem}", path, labels.stem, "PennAction", "", split, labels))
    if not clips:
        raise UserError(f"no labels (0001.mat, ...) in {folder / 'labels'}")
    return clips


def read_labels(path: Path) -> Labels:
    """Boxes and split of a sequence. If a box is missing or empty, that of the visible joints replaces it."""
    from scipy.io import loadmat

    try:
        content: dict[str, Any] = loadmat(path, variable_names=["bbox", "x", "y", "visibility", "train"])
        boxes = np.array(content["bbox"], np.float64).reshape(-1, 4) - 1
        x, y = (np.array(content[name], np.float64).reshape(-1, 13) - 1 for name in "xy")
        seen = np.array(content["visibility"]).reshape(-1, 13) > 0
        train = int(np.array(content["train"]).reshape(-1)[0]) == 1
    except Exception as error:  # scipy raises all kinds of errors on a broken file
        raise UserError(f"cannot read {path}: these are no labels of PennAction") from error
    if not len(boxes) or not len(boxes) == len(x) == len(y) == len(seen):
        raise UserError(f"cannot read {path}: it has {len(boxes)} boxes, but joints of {len(x)} frames")
    return Labels(_with_joints(boxes, x, y, seen), train)


def _with_joints(
    boxes: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], seen: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Boxes (T, 4) widened to hold the visible joints (T, 13)."""
    empty = ~((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))
    wide = np.where(empty[:, None], [np.inf, np.inf, -np.inf, -np.inf], boxes)
    for column, values in ((0, x), (1, y)):
        wide[:, column] = np.minimum(wide[:, column], np.where(seen, values, np.inf).min(axis=1))
        wide[:, column + 2] = np.maximum(wide[:, column + 2], np.where(seen, values, -np.inf).max(axis=1))
    wide[~np.isfinite(wide).all(axis=1)] = np.nan
    return wide
