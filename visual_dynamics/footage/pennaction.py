"""PennAction as published: 2,326 sequences of pictures, and for each a box around the person in every frame.

frames/0001/000001.jpg ...   the pictures of a sequence, taken one after the other
labels/0001.mat              MATLAB 5: `bbox` (T, 4), left, top, right, bottom in pixels, counted from 1; `x`, `y` and
                             `visibility` (T, 13) of joints; `train` 1 or -1; `nframes`; `action`, `pose`, `dimensions`

A sequence is a scene, and the labels say on which side of the split it is. At what rate the pictures were taken is not
told; they are counted as 30 a second, which the smoothness of the motions suggests. Of the paper's own selection (7,705
training and 987 test pairs of 981 sequences) no list was published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from visual_dynamics.errors import UserError
from visual_dynamics.footage.reading import Clip, Frame
from visual_dynamics.footage.sources import Source
from visual_dynamics.images import read_image

RATE = 30.0  # pictures a second
SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Labels:
    """What is known of the T pictures of a sequence."""

    boxes: npt.NDArray[np.float64]  # (T, 4): left, top, right, bottom in pixels from 0, joints included; NaN: not known
    train: bool
    action: str


class PictureFolder(Clip):
    """Pictures of a folder, in the order of their names, as the frames of a clip."""

    def __init__(self, path: Path) -> None:
        self.path, self.rate, self.broken = path, RATE, None
        self.files = pictures(path)
        if not self.files:
            raise UserError(f"cannot read {path}: no pictures (*.jpg, *.png) in it")
        self.seconds = len(self.files) / RATE
        height, width = read_image(self.files[0]).shape[:2]
        self.size = (height, width)

    def __iter__(self) -> Iterator[Frame]:
        self.broken = None
        for number, file in enumerate(self.files):
            try:
                pixels = read_image(file)
            except UserError:
                self.broken = f"{file.name} cannot be read"
                return
            if pixels.shape[:2] != self.size:
                self.broken = "its frames change in size"
                return
            yield Frame(pixels, number / RATE)


def pictures(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )


def holds_pennaction(folder: Path) -> bool:
    return (folder / "frames").is_dir() and (folder / "labels").is_dir()


def find_sequences(folder: Path) -> list[Source]:
    """The sequences that have pictures and labels, in order."""
    if not holds_pennaction(folder):
        raise UserError(f"{folder} does not hold PennAction: give the folder with `frames` and `labels` in it")
    sources = []
    for labels in sorted((folder / "labels").glob("*.mat")):
        path = folder / "frames" / labels.stem
        try:
            split = "train" if read_labels(labels).train else "held-out"
        except UserError:  # told when it is the sequence's turn
            split = ""
        sources.append(Source(f"frames/{labels.stem}", path, labels.stem, "PennAction", "", split, labels))
    if not sources:
        raise UserError(f"no labels (0001.mat, ...) in {folder / 'labels'}")
    return sources


def read_labels(path: Path) -> Labels:
    """Boxes, split and action of a sequence. A box that is missing or empty is that of the visible joints."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise UserError("labels of PennAction need SciPy: pip install visual-dynamics[video]") from error
    try:
        content: dict[str, Any] = loadmat(path, variable_names=["bbox", "x", "y", "visibility", "train", "action"])
        boxes = np.array(content["bbox"], np.float64).reshape(-1, 4) - 1
        x, y = (np.array(content[name], np.float64).reshape(-1, 13) - 1 for name in "xy")
        seen = np.array(content["visibility"]).reshape(-1, 13) > 0
        train = int(np.array(content["train"]).reshape(-1)[0]) == 1
        action = str(np.array(content["action"]).reshape(-1)[0])
    except Exception as error:  # scipy raises whatever a broken file makes it stumble over
        raise UserError(f"cannot read {path}: these are no labels of PennAction") from error
    if not len(boxes) or not len(boxes) == len(x) == len(y) == len(seen):
        raise UserError(f"cannot read {path}: it has {len(boxes)} boxes, but joints of {len(x)} frames")
    return Labels(_with_joints(boxes, x, y, seen), train, action)


def _with_joints(
    boxes: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], seen: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Boxes (T, 4) that hold the visible joints (T, 13), too."""
    empty = ~((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))
    wide = np.where(empty[:, None], [np.inf, np.inf, -np.inf, -np.inf], boxes)
    for column, values in ((0, x), (1, y)):
        wide[:, column] = np.minimum(wide[:, column], np.where(seen, values, np.inf).min(axis=1))
        wide[:, column + 2] = np.maximum(wide[:, column + 2], np.where(seen, values, -np.inf).max(axis=1))
    wide[~np.isfinite(wide).all(axis=1)] = np.nan
    return wide
