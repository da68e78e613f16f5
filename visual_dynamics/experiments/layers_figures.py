"""The galleries of learned layers, the regions of the best maps and their table, from the experiment's JSON alone."""

from __future__ import annotations

import base64
import io
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image

from visual_dynamics.experiments.futures_pictures import PAPER, Group, figure
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

TILE, LARGE_TILE = 96, 160  # pixels a side of a map in the galleries, and of a picture beside the regions
BAND = 16  # maps side by side in a gallery
ROWS = {
    "best map": "**one map for all images**",
    "best map of the image": "**the best map of each image**",
    "read-out of one scale": "read-out of one scale's maps",
    "read-out of all scales": "read-out of all maps",
    "best map, untrained": "floor: one map for all images, random weights",
    "best map of the image, untrained": "floor: the best map of each image, random weights",
    "read-out of one scale, untrained": "floor: read-out of one scale's maps, random weights",
    "read-out of all scales, untrained": "floor: read-out of all maps, random weights",
    "colour channel": "floor: a colour channel of the input",
    "colour channel of the image": "floor: the best colour channel of each image, and its best threshold",
    "mean mask": "floor: the mean mask",
    "all objects together": "floor: the true masks of all objects together",
}


def draw(result: dict[str, Any], folder: Path) -> str:
    """A gallery for each scale and the figure of regions into `folder`; returns tables and notes as Markdown.

    A result that was stripped of its pictures, for they are large, gives the tables alone.
    """
    if result["pictures"]:
        for scale in range(result["protocol"]["scales"]):
            write_atomically(folder / f"layers_scale_{scale + 1}.png", stacked(gallery(result, scale)))
        write_atomically(folder / "layers_regions.png", figure(regions(result)))
    text = f"### Learned layers\n\n{table(result)}\n\n{chosen(result)}\n\n{notes(result)}\n"
    write_atomically(folder / "layers.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    ours, floor = (
        listed([cell["iou"] for cell in result["rows"][row]["visible"].values()], 2)
        for row in ("best map of the image", "best map of the image, untrained")
    )
    measure = f"IoU of the best map with what is seen of an object: {' / '.join(result['protocol']['objects'])}"
    return Headline(measure, "no numbers", ours, f"{floor} (random weights)")


def gallery(result: dict[str, Any], scale: int) -> list[bytes]:
    """All maps of a scale under what they respond to most, in the order of how much they do; a few to a band."""
    count, rows = result["protocol"]["maps"], result["pictures"]
    names = (*result["protocol"]["objects"], "ground")
    shares = result["preferences"][scale * count : (scale + 1) * count]
    liked = [share.index(max(share)) for share in shares]
    order = sorted(range(count), key=lambda number: (liked[number], -max(shares[number])))
    strips = [_decoded(row["scales"][scale]) for row in rows]
    inputs = Group("input", [""], [[_scaled(_decoded(row["input"]), TILE)] for row in rows])
    bands = []
    for start in range(0, count, BAND):
        groups = [inputs]
        for place, some in groupby(order[start : start + BAND], lambda number: liked[number]):
            numbers = list(some)
            words = [f"{max(shares[number]):.2f}" for number in numbers]
            groups.append(Group(names[place], words, [[_map(strip, n) for n in numbers] for strip in strips]))
        bands.append(figure(groups))
    return bands


def stacked(bands: list[bytes]) -> bytes:
    """PNGs one beneath the other, as one."""
    pictures = [Image.open(io.BytesIO(band)) for band in bands]
    sheet = Image.new("RGB", (max(p.width for p in pictures), sum(p.height for p in pictures)), PAPER)
    top = 0
    for picture in pictures:
        sheet.paste(picture, (0, top))
        top += picture.height
    stream = io.BytesIO()
    sheet.save(stream, "PNG")
    return stream.getvalue()


def regions(result: dict[str, Any]) -> list[Group]:
    """For each object its best map, the map's region against the visible mask, and that of the read-out of all maps."""
    count, rows = result["protocol"]["maps"], result["pictures"]
    groups = [Group("input", [""], [[_scaled(_decoded(row["input"]), LARGE_TILE)] for row in rows])]
    for place, name in enumerate(result["protocol"]["objects"]):
        scale, number = divmod(result["rows"]["best map"]["visible"][name]["map"], count)
        pictures = [
            [
                _map(_decoded(row["scales"][scale]), number, LARGE_TILE),
                *(
                    _scaled(_decoded(row["regions"][way][place]), LARGE_TILE, Image.Resampling.NEAREST)
                    for way in ("best map", "read-out of all scales")
                ),
            ]
            for row in rows
        ]
        groups.append(Group(name, ["best map", "its region", "all maps"], pictures))
    return groups


def table(result: dict[str, Any]) -> str:
    """Mean IoU of every row with the visible and the whole mask of each object."""
    objects = result["protocol"]["objects"]
    heads = [f"{name}, {kind}" for kind in ("visible", "whole") for name in objects]
    lines = ["| mean IoU on test images | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name, title in ROWS.items():
        cells = [result["rows"][name][kind][thing] for kind in ("visible", "whole") for thing in objects]
        bold = "**" if title.startswith("**") else ""
        lines.append(f"| {title} | " + " | ".join(f"{bold}{_number(cell['iou'])}{bold}" for cell in cells) + " |")
    return "\n".join(lines)


def chosen(result: dict[str, Any]) -> str:
    """Which map stands for which object."""
    count = result["protocol"]["maps"]
    lines = [
        "| one map for | scale | map | responds by being | threshold | IoU where chosen | IoU on test images | "
        "share of its region inside | share of the mask covered |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for kind in ("visible", "whole"):
        for name, cell in result["rows"]["best map"][kind].items():
            scale, number = divmod(cell["map"], count)
            lines.append(
                f"| {name}, {kind} | {scale + 1} | {number + 1} | {cell['sign']} | {cell['threshold']:.2f} | "
                f"{cell['iou_choosing']:.3f} | {_number(cell['iou'], 3)} ± {_number(cell['iou_error'], 3)} | "
                f"{_number(cell['inside'])} | {_number(cell['covered'])} |"
            )
    return "\n".join(lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use tables and figures."""
    protocol = result["protocol"]
    size, seen = protocol["size"], ", ".join(f"{name} {count}" for name, count in result["seen"].items())
    sides = ", ".join(f"{size // 2**scale}x{size // 2**scale}" for scale in range(protocol["scales"]))
    return (
        f"Map, sign and threshold were chosen on {protocol['choosing']} training scenes and measured on "
        f"{protocol['images']} test images of the generated world; an image counts for an object of which at least "
        f"{protocol['least_seen'] * size**2:g} pixels are seen ({seen}). Scales 1 to {protocol['scales']} have "
        f"{protocol['maps']} maps each of {sides} pixels, taken after the ReLU and enlarged to {size}x{size}; "
        f"{protocol['levels']} thresholds a map. Read-outs are per-pixel least squares on the same training scenes. "
        "layers_scale_N.png: the maps of a scale under what they respond to most; the number is the mean response "
        "there over the sum of those on circle, square, triangle and ground (0.25: no preference); white is a "
        "map's highest response in the images shown, drawn as square roots, for the faint ones. Shown are the first "
        "test scenes with all shapes in sight. "
        "layers_regions.png: white where region and visible mask agree, red the region alone, blue the mask alone; "
        "'all maps' is the read-out of all scales. "
        f"Seed {result['seed']}, model {result['model']}, weights {result['weights'][:12]}, commit "
        f"{short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _decoded(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")


def _map(strip: Image.Image, number: int, side: int = TILE) -> Image.Image:
    """One of the square maps that stand one beneath the other; square roots make the faint responses visible."""
    width = strip.width
    part = strip.crop((0, number * width, width, (number + 1) * width))
    return _scaled(part.point([round((255 * value) ** 0.5) for value in range(256)] * 3), side)


def _scaled(picture: Image.Image, side: int, way: Image.Resampling = Image.Resampling.BILINEAR) -> Image.Image:
    return picture.resize((side, side), way)
