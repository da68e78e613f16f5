"""Filmstrips, animations and tables of the traversal experiment, from its JSON alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from visual_dynamics.experiments.futures_pictures import INK, PAPER, SMALL_TEXT, Group, figure
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

PICTURE = 128  # pixels a side of a picture, about: its pixels become squares of a whole number
EVERY = 2  # value of a path is in the filmstrip
SHOW = 120  # milliseconds a picture of the animation
SHAPES = {"circle_dy": "circle dy, px", "square_dx": "square dx, px", "triangle_dx": "triangle dx, px"}

Sheet = list[list[Image.Image]]  # rows: images; columns: values


def draw(result: dict[str, Any], folder: Path) -> str:
    """A filmstrip and an animation of each model into `folder`; returns tables and notes as Markdown."""
    parts = []
    for name, found in result["sets"].items():
        values = result["protocol"]["values"]
        sheets = [_cut(picture["sheet"], len(values)) for picture in found["pictures"]]
        if sheets:
            write_atomically(folder / f"traversal_{name}.png", figure(filmstrip(found, sheets, values)))
            write_atomically(folder / f"traversal_{name}.webp", animation(found, sheets))
        parts += [f"### Dimensions of z, {name}", table(found), conclusion(found, result["protocol"])]
    text = "\n\n".join([*parts, notes(result)]) + "\n"
    write_atomically(folder / "traversal.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    measure = f"pixels moved, strongest dimensions over inactive ones: {' / '.join(result['sets'])}"
    ours = listed([found["ratio"] for found in result["sets"].values()], 1)
    return Headline(measure, "no numbers", ours, f"{result['protocol']['target']:g} (target, at least)")


def filmstrip(found: dict[str, Any], sheets: list[Sheet], values: list[float]) -> list[Group]:
    """A row a dimension, a group an image, a column a value."""
    labels = [[_label(found, picture["dimension"], sheets[0][0][0].size)] for picture in found["pictures"]]
    words = [f"{value:g}" for value in values[::EVERY]]
    return [
        Group("dimension", [""], labels),
        *(
            Group(f"image {number + 1}", words, [sheet[number][::EVERY] for sheet in sheets])
            for number in range(len(sheets[0]))
        ),
    ]


def animation(found: dict[str, Any], sheets: list[Sheet]) -> bytes:
    """All dimensions side by side, a row an image, from one end to the other and back, for ever: WebP."""
    there = range(len(sheets[0][0]))
    pages = []
    for place in (*there, *reversed(there[1:-1])):
        groups = [
            Group(f"dim. {picture['dimension']}", [_nats(found, picture["dimension"])], [[row[place]] for row in sheet])
            for picture, sheet in zip(found["pictures"], sheets, strict=True)
        ]
        pages.append(Image.open(io.BytesIO(figure(groups))))
    stream = io.BytesIO()
    pages[0].save(stream, "WEBP", save_all=True, append_images=pages[1:], duration=SHOW, loop=0, quality=90)
    return stream.getvalue()


def table(found: dict[str, Any]) -> str:
    """What each dimension moves, the strongest first, the inactive ones last."""
    more = {name: words for name, words in SHAPES.items() if name in found["rows"][0]}
    lines = [f"| {' | '.join(['dimension', 'KL, nats', 'pixels moved', *more.values()])} |"]
    lines.append("|---:|---:|---:|" + "---:|" * len(more))
    for row in found["rows"]:
        inactive = " (inactive)" if row["dimension"] in found["inactive"] else ""
        cells = [f"{row['dimension']}{inactive}", f"{row['nats']:.2f}", f"{row['moved']:.5f}"]
        lines.append(f"| {' | '.join([*cells, *(_number(row[name]) for name in more)])} |")
    return "\n".join(lines)


def conclusion(found: dict[str, Any], protocol: dict[str, Any]) -> str:
    """The ratio, or why there is none, and where the numbers come from."""
    count = len(found["inactive"])
    if not count:
        words = "No dimension is inactive: there is nothing to compare with."
    elif found["ratio"] is None:
        words = "The inactive dimensions move nothing at all."
    else:
        words = (
            f"The strongest {protocol['strongest']} move pixels by {found['moved_by_strongest']:.4f} on average, the "
            f"{count:,} inactive by {found['moved_by_inactive']:.5f} (median): ratio {found['ratio']:.1f}, "
            f"of the least of the strongest {found['least_ratio']:.1f} (target: at least {protocol['target']:g})."
        )
    return (
        f"{found['active']:,} of {found['latent']:,} dimensions are active. {words} {found['images']} images: "
        f"{found['source']}{'' if found['source'].endswith('.') else '.'} Model {found['model']}, "
        f"weights {found['weights'][:12]}."
    )


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use figures and numbers."""
    values = result["protocol"]["values"]
    return (
        f"One dimension goes from {values[0]:g} to {values[-1]:g} deviations of z over training posteriors around the "
        "code with which an image rests, where the others stay. Pixels moved: mean absolute difference of colours in "
        "[0, 1] between the two ends; px: how far apart a shape's places at the two ends lie, y down. Last in "
        f"filmstrip and animation comes an inactive dimension where there is one. "
        f"Seed {result['seed']}, commit {short_commit(result['commit'])}, {result['device']}, "
        f"{result['seconds']:.0f} s."
    )


def _nats(found: dict[str, Any], dimension: int) -> str:
    if dimension in found["inactive"]:
        return "inactive"
    return next(f"{row['nats']:.1f} nats" for row in found["rows"] if row["dimension"] == dimension)


def _number(value: float | None) -> str:
    return "none" if value is None or value != value else f"{value:+.1f}"  # NaN: no shape could be measured


def _label(found: dict[str, Any], dimension: int, size: tuple[int, int]) -> Image.Image:
    """A picture of words, to stand at the head of a row."""
    picture = Image.new("RGB", size, PAPER)
    words, place = f"{dimension}\n{_nats(found, dimension)}", (size[0] / 2, size[1] / 2)
    font = ImageFont.load_default(SMALL_TEXT)
    ImageDraw.Draw(picture).multiline_text(place, words, fill=INK, font=font, anchor="mm", align="center", spacing=8)
    return picture


def _cut(text: str, columns: int) -> Sheet:
    """A sheet of pictures, enlarged."""
    sheet = Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")
    side = sheet.width // columns
    scale = max(1, round(PICTURE / side))

    def piece(row: int, column: int) -> Image.Image:
        part = sheet.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))
        return part.resize((side * scale, side * scale), Image.Resampling.NEAREST)

    return [[piece(row, column) for column in range(columns)] for row in range(sheet.height // side)]
