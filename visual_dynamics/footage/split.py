"""Which scenes are for what. No scene, and no clip under another name, is in two parts.

train      to learn from
held-out   to look at: training watches its error on them, and choices are made on them
test       to report on, once a model is finished; nothing else opens them

A table, with a row for each clip or scene and the columns `scene` and `split`, says it for every scene. Without one, a
share of the pairs is held out, and there is no test part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import ListedClip, read_rows

SPLITS = ("train", "held-out", "test")


def read_split(path: Path) -> dict[str, str]:
    """Scene -> its part, from a table."""
    if not path.is_file():
        raise UserError(f"cannot read {path}: there is no such file")
    found: dict[str, str] = {}
    for row in read_rows(path):
        scene, split = row.get("scene", ""), row.get("split", "")
        if not scene or split not in SPLITS:
            raise UserError(f"cannot read {path}: every row needs a scene and, as its split, {', '.join(SPLITS)}")
        if found.setdefault(scene, split) != split:
            raise UserError(f"cannot read {path}: the scene {scene!r} is in {found[scene]} and in {split}")
    if "train" not in found.values():
        raise UserError(f"cannot read {path}: no scene is there to train on")
    return found


def split_clips(clips: Iterable[ListedClip], split: Mapping[str, str]) -> list[ListedClip]:
    """The clips, each with the part of its scene."""
    clips = list(clips)
    if unknown := sorted({clip.scene for clip in clips} - split.keys()):
        raise UserError(
            f"the split does not have the scene {unknown[0]!r} ({len(unknown)} such): give every scene a part"
        )
    return [replace(clip, split=split[clip.scene]) for clip in clips]


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


def check_apart(files: Iterable[Mapping[str, Any]]) -> None:
    """Raise UserError where the bytes of one clip are in two parts; files: entries of a manifest."""
    known: dict[str, Mapping[str, Any]] = {}
    for file in files:
        other = known.setdefault(file["sha256"], file)
        if other["split"] != file["split"]:
            raise UserError(
                f"{other['file']} and {file['file']} are the same clip, in {other['split']} and in {file['split']}: "
                "give both one scene in manifest.csv"
            )
