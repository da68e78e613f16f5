"""Futures of large pictures: is what moves sharp and in its place, and does all else stay as it is?

Paper      nothing: its results have the network's size.
Command    visual-dynamics reproduce full-size [--model MODEL] [--samples SCENES]
Cost       some three minutes on one free CPU core.

Protocol: test scenes of Shapes drawn at 512 x 512, flat and with a grain that is too fine for the model's 64 x 64. The
motion code of the true pair, averaged down to the model's size, moves the input; the result is compared with the true
next picture at 512. Errors are squared differences of colours in [0, 1], summed over 512 x 512 x 3 and divided by 64,
which makes them comparable with those at 64 x 64. Sharpness is the sum of squared differences between neighbouring
pixels, over that of the truth. Still pixels: the share of those that are the same in both true pictures and change by
less than 4/255.

"enlarged" is the model's own frame, "difference added" the input plus the enlarged difference between the model's two
frames, "optical flow" the input warped by OpenCV's DIS flow between them and corrected by the enlarged rest; "ours" is
`Model.apply(..., full_size=True)`. Never moving: pixels that no motion of the world can change, and the share of them
that changes by less than 4/255 in sampled futures.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines.flow_transfer import load_cv2, warp
from visual_dynamics.data import shapes
from visual_dynamics.data.shapes_large import draw_large
from visual_dynamics.experiments.futures_figure import as_pixels, encoded
from visual_dynamics.experiments.futures_pictures import Group, decoded, figure
from visual_dynamics.files import write_atomically
from visual_dynamics.images import Pixels
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.base import Progress as Tell
from visual_dynamics.reporting.origin import origin
from visual_dynamics.sampling.analogy import reconstruct
from visual_dynamics.sampling.full_size import FullSize

SUMMARY = "futures as large as the picture: errors, sharpness and still pixels at 512 x 512"
SIZE = 512
SCENES, SMALL_SCENES = 12, 2
FUTURES = 2  # sampled for each scene
GRAINS = {"flat": 0.0, "with grain": 0.03}  # deviation of colours in [0, 1]
PICTURES, COLOURS = 2, 128  # scenes that are shown, and in how many colours each
CHANGED = 4  # of 255
FLOW_SIZE = 256  # pixels of the frames that DIS sees: on the model's 64 it finds less
STEPS = 21  # motions tried to learn which pixels can change
MEASURES = ("error where it moves", "error", "sharpness", "still pixels, %")


@dataclass(frozen=True)
class Options:
    """What a reader may change."""

    model: str = "shapes"
    samples: int | None = None  # scenes
    seed: int = 0
    small: bool = False  # a quick look: fewer scenes


def compute(options: Options, device: torch.device, tell: Tell) -> dict[str, Any]:
    """Every method's measures, and what becomes of pixels that never move."""
    started = time.monotonic()
    count = options.samples or (SMALL_SCENES if options.small else SCENES)
    model = load(options.model, str(device))
    scenes = shapes.draw_scenes(count, options.seed, "test")
    still = []
    for number in range(count):
        still.append(never_moving(scenes.subset([number])))
        tell("pixels that never move", (number + 1) / count)
    tables: dict[str, dict[str, list[list[float]]]] = {}
    kept: dict[str, list[float]] = {}
    shown: list[dict[str, str]] = []
    for name, grain in GRAINS.items():
        tables[name], kept[name] = {}, []
        for number in range(count):
            scene = scenes.subset([number])
            before, after = (draw_large(scene, SIZE, moved, grain)[0] for moved in (False, True))
            made = methods(model, before, after)
            for method, picture in made.items():
                tables[name].setdefault(method, []).append(measures(picture, before, after))
            futures = model.full_size_futures(before, FUTURES, options.seed + number)
            kept[name] += [100 * float(unchanged(future, before)[still[number]].mean()) for future in futures]
            if grain == 0 and number < PICTURES:
                shown.append(
                    {key: encoded(_middle(picture), COLOURS) for key, picture in ({"truth": after} | made).items()}
                )
            tell(name, (number + 1) / count)
    return {
        "experiment": "full-size",
        "tables": {
            name: {method: [float(mean) for mean in np.mean(rows, 0)] for method, rows in table.items()}
            for name, table in tables.items()
        },
        "never_moving": {name: {"mean": float(np.mean(s)), "least": min(s)} for name, s in kept.items()},
        "pictures": shown,
        "protocol": {"scenes": count, "size": SIZE, "model_size": model.size, "futures": FUTURES},
    } | origin(options, model, started, device)


def methods(model: Model, before: Pixels, after: Pixels) -> dict[str, Pixels]:
    """The next picture, (SIZE, SIZE, 3), as each method makes it of the model's prediction."""
    (frame, box), (truth, _) = model.prepare(before), model.prepare(after)
    predicted = reconstruct(model.predictor, frame, truth).cpu()
    large = torch.from_numpy(before).permute(2, 0, 1) / 255
    flow = _enlarged(optical_flow(frame, predicted), SIZE) * (SIZE / FLOW_SIZE)
    warped = warp(large, flow)
    rest = predicted - F.interpolate(warped[None], model.size, mode="area")[0]
    return {
        "copy": before,
        "enlarged": as_pixels(_enlarged(predicted, SIZE).clamp(0, 1)),
        "difference added": as_pixels((large + _enlarged(predicted - frame, SIZE)).clamp(0, 1)),
        "optical flow": as_pixels((warped + _enlarged(rest, SIZE)).clamp(0, 1)),
        "ours": FullSize(before, frame, box).future(predicted),
    }


def optical_flow(frame: Tensor, next_frame: Tensor) -> Tensor:
    """Where each pixel came from, (2, FLOW_SIZE, FLOW_SIZE) in pixels of that size, by OpenCV's DIS."""
    cv2 = load_cv2()
    meter = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    meter.setFinestScale(0)
    large = (as_pixels(_enlarged(x, FLOW_SIZE).clamp(0, 1)) for x in (next_frame, frame))
    grey = [cv2.cvtColor(np.ascontiguousarray(x), cv2.COLOR_RGB2GRAY) for x in large]
    return torch.from_numpy(meter.calc(*grey, None)).permute(2, 0, 1).contiguous()


def measures(picture: Pixels, before: Pixels, after: Pixels) -> list[float]:
    """The MEASURES of one picture, in their order."""
    moving = (before != after).any(-1)
    error = np.square(picture / 255 - after / 255).sum(-1) / (SIZE / 64) ** 2
    still = unchanged(picture, before)[~moving].mean()
    return [float(error[moving].sum()), float(error.sum()), _edges(picture) / _edges(after), 100 * float(still)]


def unchanged(picture: Pixels, before: Pixels) -> NDArray[np.bool_]:
    return np.abs(picture.astype(np.int16) - before).max(-1) < CHANGED


def never_moving(scene: shapes.Scenes) -> NDArray[np.bool_]:
    """(SIZE, SIZE): where no motion changes the picture of a scene. Each shape's way hangs on one number only."""
    before = draw_large(scene, SIZE)[0]
    same = np.ones((SIZE, SIZE), bool)
    for way in np.linspace(*shapes.MOTION_RANGE, STEPS):
        moved = replace(scene, motions=np.array([[[0, way], [way, 0], [way, -way]]]))
        same &= (draw_large(moved, SIZE, True)[0] == before).all(-1)
    return same


def draw(result: dict[str, Any], folder: Path) -> str:
    """Write the figure and the tables; returns the tables as Markdown."""
    if result["pictures"]:
        names = [name for name in result["pictures"][0] if name != "copy"]
        rows = [[decoded(one[name]) for name in ("copy", *names)] for one in result["pictures"]]
        write_atomically(folder / "full-size.png", figure([Group("", ["input", *names], rows)]))
    parts = [part for name, table in result["tables"].items() for part in (f"### Shapes, {name}", _table(table))]
    text = "\n\n".join([*parts, _notes(result)]) + "\n"
    write_atomically(folder / "full-size.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    table = result["tables"]["flat"]
    ours, other = table["ours"][1], table["enlarged"][1]
    return Headline("squared error at full size", "", f"{ours:.1f}", f"{other:.1f} (the model's frame, enlarged)")


def _table(table: dict[str, list[float]]) -> str:
    lines = [f"| | {' | '.join(MEASURES)} |", f"|---|{'---:|' * len(MEASURES)}"]
    for method, (moving, whole, sharpness, still) in table.items():
        bold = "**" if method == "ours" else ""
        cells = (f"{moving:.1f}", f"{whole:.1f}", f"{sharpness:.2f}", f"{still:.2f}")
        lines.append(f"| {bold}{method}{bold} | {' | '.join(f'{bold}{cell}{bold}' for cell in cells)} |")
    return "\n".join(lines)


def _notes(result: dict[str, Any]) -> str:
    protocol = result["protocol"]
    never = "; ".join(
        f"{name} {found['mean']:.2f} % (least {found['least']:.2f} %)" for name, found in result["never_moving"].items()
    )
    return (
        f"Pixels that never move and change by less than {CHANGED}/255 in sampled futures, {protocol['futures']} of "
        f"each scene: {never}. {protocol['scenes']} test scenes at {SIZE} x {SIZE}. "
        f"Seed {result['seed']}, model {result['model']}, weights {result['weights'][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def _enlarged(frame: Tensor, size: int) -> Tensor:
    return F.interpolate(frame[None].cpu(), (size, size), mode="bicubic", align_corners=False)[0]


def _edges(picture: Pixels) -> float:
    colours = picture / 255
    return float(sum(np.square(np.diff(colours, axis=axis)).sum() for axis in (0, 1)))


def _middle(picture: Pixels) -> Pixels:
    """What the figure shows of a picture (SIZE, SIZE, 3), pixel by pixel."""
    edge = SIZE // 5
    return picture[edge : SIZE - edge, edge : SIZE - edge]
