"""Tables and figure of the disocclusion experiment, from its JSON alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from visual_dynamics.experiments.futures_pictures import FRAME, PICTURE, Group, figure
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

COLUMNS = {
    "circle": "circles",
    "square": "squares",
    "triangle": "triangles",
    "objects": "all objects",
    "background": "background",
    "frame": "whole frame",
}
ZOOMED = {
    "copy": "input = copy",
    "truth": "truth",
    "ours": "ours",
    "ours, code of another scene": "ours, other code",
    "true flow": "true flow",
    "Flow": "Flow",
}
LIGHT, DARK = (255, 255, 255), (0, 0, 0)  # the outline: one beside the other shows on any colour


def draw(result: dict[str, Any], folder: Path) -> str:
    """The figure into `folder`; returns tables and notes as Markdown."""
    if result["pictures"]:
        write_atomically(folder / "disocclusion.png", figure(groups(result["pictures"])))
    parts = ["### Revealed by the motion: squared error of a colour, in thousandths", table(result, "mean", 1000, 1)]
    parts += ["### The same, summed over the region of a scene", table(result, "sum", 1, 2), notes(result)]
    text = "\n\n".join(parts) + "\n"
    write_atomically(folder / "disocclusion.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    ours, floor = (
        listed([result["rows"][row]["objects"]["mean"]], 4) for row in ("ours", "true shapes without texture")
    )
    measure = "squared error of a colour where an object is revealed"
    return Headline(measure, "no numbers", ours, f"{floor} (truth without texture)")


def table(result: dict[str, Any], what: str, scale: float, digits: int) -> str:
    """One number of every method and region."""
    lines = [f"| {what} | {' | '.join(COLUMNS.values())} |", f"|---|{'---:|' * len(COLUMNS)}"]
    lines.append("| pixels | " + " | ".join(f"{result['pixels'][name]:,}" for name in COLUMNS) + " |")
    for row, found in result["rows"].items():
        values = [found[name][what] for name in COLUMNS]
        bold = "**" if row == "ours" else ""
        cells = ["none" if v is None else f"{bold}{scale * v:.{digits}f}{bold}" for v in values]
        lines.append(f"| {bold}{row}{bold} | {' | '.join(cells)} |")
    return "\n".join(lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use numbers and pictures."""
    protocol, size = result["protocol"], result["protocol"]["size"]
    shown = ", ".join(f"{one['scene']} ({one['object']})" for one in result["pictures"])
    return (
        f"{protocol['scenes']} test scenes of Shapes+Texture at {size}x{size}, {protocol['rendering']} drawing. "
        "Revealed: parts of an object that the true next frame shows and that were covered or out of the frame before; "
        "background that an object covered; pixels of which this is half or more. Colours in [0, 1]. "
        "Ours: the input moved by the motion code of its true pair, which has seen the answer, or of another scene "
        "that moves alike. True flow: each pixel from where its material was, whatever covered it there. "
        f"Flow: one sample of flow transfer from {protocol['flow_pairs']:,} training pairs, which has to guess the "
        "motion. True shapes without texture: the true next frame with every object in its mean colour. "
        "The figure shows the scenes that reveal most of a circle, a square, a triangle, chosen by the truth alone: "
        f"{shown or 'none'}; outlined is what was revealed of objects. "
        f"Seed {result['seed']}, model {result['model']}, weights {result['weights'][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def groups(pictures: list[dict[str, Any]]) -> list[Group]:
    """Whole frames before and after the motion, then what lies in the pink frame, enlarged and outlined."""
    whole = [[_framed(one["frames"][name], one["zoom"]) for name in ("copy", "truth")] for one in pictures]
    closer = [[_outlined(one["frames"][name], one["region"], one["zoom"]) for name in ZOOMED] for one in pictures]
    return [
        Group("whole frames", ["input", "truth"], whole),
        Group("zoomed; outlined: what the input does not show of objects", list(ZOOMED.values()), closer),
    ]


def _decoded(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text)))


def _framed(text: str, zoom: list[int]) -> Image.Image:
    """Enlarged, with a thin frame around what is zoomed into."""
    picture = _decoded(text).convert("RGB")
    left, top, side = (length * PICTURE / picture.width for length in zoom)
    picture = picture.resize((PICTURE, PICTURE), Image.Resampling.NEAREST)
    ImageDraw.Draw(picture).rectangle((left, top, left + side - 1, top + side - 1), outline=FRAME, width=2)
    return picture


def _outlined(text: str, region: str, zoom: list[int]) -> Image.Image:
    """The zoomed part alone, with a line around the region: dark outside of it, light inside."""
    left, top, side = zoom
    box = (left, top, left + side, top + side)
    picture = _decoded(text).convert("RGB").crop(box).resize((PICTURE, PICTURE), Image.Resampling.NEAREST)
    inside = np.array(_decoded(region).crop(box).resize((PICTURE, PICTURE), Image.Resampling.NEAREST)) > 0
    pixels = np.array(picture)
    pixels[_near(inside) & ~inside] = DARK
    pixels[_near(~inside) & inside] = LIGHT
    return Image.fromarray(pixels)


def _near(region: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The region and the pixels that touch it."""
    padded = np.pad(region, 1)
    rows, columns = region.shape
    return np.any([padded[y : y + rows, x : x + columns] for y in range(3) for x in range(3)], axis=0)
