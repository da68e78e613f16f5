"""Which clips a folder holds, which scene each shows, under what licence; and which scenes are held out.

A table manifest.csv in the folder may tell: a row a clip, with its name in the column `file`. `scene` names the scene;
where it does not, clips with the same `source` are one scene, as they may show the same people or the same moment. A
clip that no table speaks of is a scene of its own. `licence` and `source` are passed on.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from visual_dynamics.errors import UserError

TABLE = "manifest.csv"
VIDEOS = re.compile(
    r"\.(3g2|3gp|asf|avi|divx|dv|f4v|flv|gif|h26[45]|hevc|ivf|m2ts|m[24]v|mjpe?g|mk3?v|mov|mp4|mpe?g|mts|mxf|nut|og[mv]|qt"
    r"|rm|rmvb|ts|vob|webm|wmv|y4m)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Source:
    """A clip of a folder."""

    name: str  # below the folder, with forward slashes
    path: Path
    scene: str
    source: str = ""  # where it comes from
    licence: str = ""
    split: str = ""  # train or held-out, where that is given; else the scenes decide
    labels: Path | None = None  # a file that tells where in its frames people are

    @property
    def key(self) -> str:
        """A name for files made from it, that no other clip of the folder has."""
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in self.name)
        return f"{plain[:60]}-{hashlib.sha256(self.name.encode(errors='surrogateescape')).hexdigest()[:8]}"


def find_sources(folder: Path) -> list[Source]:
    """The clips of a folder and of the folders in it, in the order of their names; those that its table names, too."""
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
    return [_source(folder, name, table.get(name, {})) for name in sorted(names | table.keys())]


def held_out_scenes(pairs: Mapping[str, int], share: float) -> set[str]:
    """Scenes that together have at most a share of the pairs; the smallest one where none is as small as that.

    `pairs` says how many each scene has. Scenes are tried in an order that only their names decide. A single scene is
    never held out: nothing would be left to train on.
    """
    most, chosen, count = share * sum(pairs.values()), set[str](), 0
    if share <= 0 or len(pairs) < 2:
        return chosen
    for scene in sorted(pairs, key=lambda scene: hashlib.sha256(scene.encode(errors="surrogateescape")).digest()):
        if count + pairs[scene] <= most and len(chosen) < len(pairs) - 1:
            chosen.add(scene)
            count += pairs[scene]
    return chosen or {min(pairs, key=lambda scene: (pairs[scene], scene))}


def _source(folder: Path, name: str, row: Mapping[str, str]) -> Source:
    source = row.get("source", "")
    licence = row.get("licence", "") or row.get("license", "")
    return Source(name, folder / name, row.get("scene", "") or source or name, source, licence)


def _is_video(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.relative_to(folder).parts)
    return not hidden and VIDEOS.fullmatch(path.suffix) is not None and not path.is_dir()


def _read_table(path: Path) -> dict[str, dict[str, str]]:
    """File name -> what the table says of it."""
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
