"""How results look: one sheet of pictures, one style of plots, one Markdown table, one line of provenance.

Pictures are uint8 (H, W, 3).
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

from visual_dynamics.display import to_pixels as to_pixels  # "as": the rooms above draw with it, too
from visual_dynamics.files import write_atomically
from visual_dynamics.images import Pixels
from visual_dynamics.media import encode_png
from visual_dynamics.provenance import short_commit

PICTURE = 192  # pixels a side of a picture in a sheet, about: each of its own pixels becomes a square
GAP, WIDE_GAP = 8, 28  # pixels between pictures, and between groups of them
TEXT, SMALL_TEXT = 22, 18  # pixels
HEAD = TEXT + SMALL_TEXT + 24  # height of the headings
ZOOM = 0.4  # side of the closer look, as a share of the picture's
PAPER, INK, FRAME = (255, 255, 255), (32, 32, 32), (220, 0, 140)  # FRAME: around the part that is enlarged beside
STYLE = {  # of every plot
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "savefig.dpi": 110,
}
WEIGHTS = {  # keys of digests in a result -> the words before them
    "weights": "",
    "autoencoder_weights": "AE ",
    "integer_weights": "whole pixels ",
    "guide_weights": "guide ",
    "poses_weights": "poses ",
}

Box = Sequence[int]  # left, top, side of a square in a picture


# ------------------------------------------------------------------------------------------------ sheets of pictures


class Group(NamedTuple):
    """Columns of a sheet under one heading."""

    heading: str
    columns: Sequence[str]  # words over each column
    rows: Sequence[Sequence[Pixels]]  # the pictures of each row, one for each column


def sheet(groups: Sequence[Group], labels: Sequence[str] = ()) -> bytes:
    """Groups side by side under their headings, with a label (of one or more lines) before each row: as PNG."""
    font = ImageFont.load_default(SMALL_TEXT)
    pen = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    left = GAP + int(max((pen.multiline_textbbox((0, 0), label, font)[2] + WIDE_GAP for label in labels), default=0))
    heights = [max(len(p) for group in groups for p in group.rows[row]) for row in range(len(groups[0].rows))]
    tops = np.cumsum([HEAD, *(height + GAP for height in heights)]).tolist()
    widths = [[max(row[column].shape[1] for row in g.rows) for column in range(len(g.columns))] for g in groups]
    whole = left + sum(width + GAP for group in widths for width in group) + (len(groups) - 1) * (WIDE_GAP - GAP)
    picture = Image.new("RGB", (whole, tops[-1]), PAPER)
    pen = ImageDraw.Draw(picture)
    for label, top, height in zip(labels, tops, heights, strict=False):
        pen.multiline_text((GAP, top + height / 2), label, INK, font, anchor="lm")
    for group, sides in zip(groups, widths, strict=True):
        middle = left + (sum(sides) + (len(sides) - 1) * GAP) / 2
        pen.text((middle, GAP + TEXT / 2), group.heading, INK, ImageFont.load_default(TEXT), anchor="mm")
        for column, (words, width) in enumerate(zip(group.columns, sides, strict=True)):
            pen.text((left + width / 2, HEAD - GAP - SMALL_TEXT / 2), words, INK, font, anchor="mm")
            for row, top in zip(group.rows, tops, strict=False):
                picture.paste(Image.fromarray(row[column]), (left, top))
            left += width + GAP
        left += WIDE_GAP - GAP
    return encode_png(np.array(picture))


def opened(data: bytes) -> Pixels:
    """The pixels of a PNG."""
    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


def enlarged(picture: Pixels, side: int = PICTURE) -> Pixels:
    """About `side` pixels wide: each pixel becomes a square of whole pixels."""
    scale = max(1, round(side / picture.shape[1]))
    return picture.repeat(scale, axis=0).repeat(scale, axis=1)


def framed(picture: Pixels, box: Box) -> Pixels:
    """Enlarged, with a thin frame around a box of the picture."""
    large = enlarged(picture)
    left, top, side = (len(large) // len(picture) * length for length in box)
    return _outlined(large, left, top, side)


def zoomed(picture: Pixels, box: Box) -> Pixels:
    """A box of the picture alone, as large as the enlarged picture, with the same frame."""
    left, top, side = box
    whole = len(enlarged(picture))
    part = Image.fromarray(picture[top : top + side, left : left + side])
    return _outlined(np.array(part.resize((whole, whole), Image.Resampling.NEAREST)), 0, 0, whole)


def _outlined(picture: Pixels, left: int, top: int, side: int) -> Pixels:
    image = Image.fromarray(picture)
    ImageDraw.Draw(image).rectangle((left, top, left + side - 1, top + side - 1), outline=FRAME, width=2)
    return np.array(image)


class FutureRow(NamedTuple):
    """The pictures of an input and its futures."""

    input: Pixels
    truth: Pixels
    reconstruction: Pixels
    samples: list[Pixels]
    flow: Pixels | None
    zoom: list[int]  # left, top, side of the closer look


def future_groups(rows: list[FutureRow]) -> list[Group]:
    """Columns (a) to (e) of the paper, with Flow before (e) if the rows have it."""
    numbers = [str(number + 1) for number in range(len(rows[0].samples))]
    groups = [
        Group("(a) input", [""], [[framed(row.input, row.zoom)] for row in rows]),
        Group("(b) truth", [""], [[framed(row.truth, row.zoom)] for row in rows]),
        Group("(c) reconstruction", [""], [[framed(row.reconstruction, row.zoom)] for row in rows]),
        Group("(d) samples", numbers, [[framed(sample, row.zoom) for sample in row.samples] for row in rows]),
    ]
    if all(row.flow is not None for row in rows):
        groups.append(Group("Flow", [""], [[framed(row.flow, row.zoom)] for row in rows if row.flow is not None]))
    closer = [[zoomed(picture, row.zoom) for picture in (row.truth, *row.samples)] for row in rows]
    return [*groups, Group("(e) zoomed", ["truth", *(f"sample {number}" for number in numbers)], closer)]


def zoom_box(frame: Pixels, truth: Pixels) -> list[int]:
    """[left, top, side] of the square with the most motion; of several the middle one."""
    side = round(ZOOM * len(frame))
    motion = torch.from_numpy((frame.astype(float) - truth) ** 2).sum(2)  # whole numbers: sums are exact
    inside = F.avg_pool2d(motion[None], side, stride=1, divisor_override=1)[0]
    best = (inside == inside.max()).nonzero()  # (n, 2): top, left
    middle = (best - best.double().mean(0)).square().sum(1).argmin()
    top, left = best[middle].tolist()
    return [left, top, side]


# ------------------------------------------------------------------------------------------------------------ plots


@contextmanager
def plot(path: Path, width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> Iterator[Any]:
    """Axes (rows, columns) to draw on, `width` x `height` inches in all; then saved as PNG.

    `shared`: sharex, sharey and the like, of matplotlib's `subplots`.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.subplots(rows, columns, squeeze=False, **shared)
        stream = io.BytesIO()
        figure.savefig(stream, format="png")
    write_atomically(path, stream.getvalue())


# ------------------------------------------------------------------------------------------------- tables and words


def table(head: Sequence[str], rows: Iterable[Sequence[str]], bold: Collection[str] = (), numbers: bool = True) -> str:
    """A Markdown table. `bold`: rows to stress, by their first cell; `numbers`: columns after the first align right."""
    lines = [_line(head), "|---|" + ("---:|" if numbers else "---|") * (len(head) - 1)]
    for row in rows:
        lines.append(_line([f"**{cell}**" if cell else "" for cell in row] if row[0] in bold else row))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def number(value: float | None, digits: int, scale: float = 1, form: str = "") -> str:
    """`none` for what could not be measured. `form`: "+" for a sign, "," for thousands."""
    return "none" if value is None else f"{scale * value:{form}.{digits}f}"


def with_interval(
    value: float | None, interval: Sequence[float | None] | None, digits: int, scale: float = 1, form: str = ""
) -> str:
    """A number and its 95 % interval: `5.4 (5.1 to 5.8)`. The number alone if it, or the interval, was not measured."""
    if value is None or interval is None:
        return number(value, digits, scale, form)
    mid, low, high = (number(part, digits, scale, form) for part in (value, *interval))
    return f"{mid} ({low} to {high})"


def average(values: Iterable[float | None]) -> float | None:
    """None if one of them could not be measured, or there is none."""
    every = list(values)
    known = [value for value in every if value is not None]
    return fmean(known) if known and len(known) == len(every) else None


def listed(values: Iterable[float | None], digits: int) -> str:
    """Numbers between slashes."""
    return " / ".join(number(value, digits) for value in values)


def provenance_facts(result: dict[str, Any]) -> dict[str, str]:
    """Where a result comes from, in words."""
    digests = [f"{words}{result[key][:12]}" for key, words in WEIGHTS.items() if result.get(key)]
    several = [*result.get("sets", {}).values(), *result.get("runs", {}).values()]
    if each := [found for found in several if "weights" in found]:  # a model of its own for each
        digests = [f"{found['model']} {found['weights'][:12]}" for found in each]
    facts = {
        "seed": str(result.get("seed", "unknown")),
        "commit": short_commit(str(result.get("commit", "unknown"))),
        "weights (sha256)": ", ".join(digests) or "none",
        "device": f"{result.get('device', 'unknown')}, torch {result.get('torch', 'unknown')}",
    }
    return facts | ({"time": f"{result['seconds']:,.0f} s"} if "seconds" in result else {})


def footer(result: dict[str, Any]) -> str:
    """The line of provenance under a result."""
    words = "; ".join(f"{what} {found}" for what, found in provenance_facts(result).items())
    return f"S{words[1:]}."  # begins with the seed
