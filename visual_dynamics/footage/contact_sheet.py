"""A picture of some pairs of every scene: whether crops, cuts and cameras are right is seen at a glance."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from visual_dynamics.data.shard_files import open_shard
from visual_dynamics.images import Pixels

SCENES = 40  # at most, spread over all of them
PAIRS = 6  # of a scene
TILE = 96  # pixels
GAP = 4
LABEL = 14  # pixels of a line of words above each row
STRONGER = 3  # so many times stronger are differences shown
GROUND = 24  # grey level


def contact_sheet(folder: Path, files: list[dict[str, Any]]) -> bytes:
    """A PNG with a row a scene: frame, next frame and the difference between them, of pairs from its beginning to end.

    `files` are the entries of the manifest.
    """
    scenes: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        scenes.setdefault(file["scene"], []).append(file)
    names = sorted(scenes)
    names = [names[place] for place in _spread(len(names), SCENES)]
    high, wide = TILE + LABEL + GAP, 3 * TILE + 2 * GAP
    sheet = Image.new("RGB", (GAP + PAIRS * wide, GAP + len(names) * high), (GROUND,) * 3)
    draw = ImageDraw.Draw(sheet)
    for row, name in enumerate(names):
        top = GAP + row * high
        pairs = sum(file["pairs"] for file in scenes[name])
        words = f"{name}: {pairs} pairs, {scenes[name][0]['split']}"
        draw.text((GAP, top), words.encode("ascii", "replace").decode(), fill=(220, 220, 220))
        for column, (frame, next_frame) in enumerate(_pairs(folder, scenes[name])):
            change = np.abs(next_frame.astype(np.int16) - frame) * STRONGER
            for place, picture in enumerate((frame, next_frame, np.minimum(change, 255).astype(np.uint8))):
                tile = Image.fromarray(picture).resize((TILE, TILE), Image.Resampling.BOX)
                sheet.paste(tile, (GAP + column * wide + place * TILE, top + LABEL))
    stream = io.BytesIO()
    sheet.save(stream, "PNG")
    return stream.getvalue()


def _pairs(folder: Path, files: list[dict[str, Any]]) -> list[tuple[Pixels, Pixels]]:
    """Pairs of frames (S, S, 3), spread over the files of a scene."""
    shards = [shard for file in files for shard in file["shards"]]
    ends = np.cumsum([shard["pairs"] for shard in shards])
    chosen = []
    for place in _spread(int(ends[-1]), PAIRS):
        which = int(np.searchsorted(ends, place, side="right"))
        shard = open_shard(folder / shards[which]["file"])
        number = place - int(ends[which]) + shards[which]["pairs"]
        frame, next_frame = (np.array(shard.frames[places[number]]) for places in (shard.first, shard.second))
        chosen.append((frame.transpose(1, 2, 0), next_frame.transpose(1, 2, 0)))
    return chosen


def _spread(total: int, count: int) -> list[int]:
    """Up to `count` places among `total`, from the first to the last."""
    if total <= count:
        return list(range(total))
    return [place * (total - 1) // (count - 1) for place in range(count)]
