"""Futures as large as the picture: what moves should be sharp and in its place, all else should stay as it is.

Paper      nothing: its results have the network's size.
Command    visual-dynamics reproduce full-size [--model MODEL] [--samples SCENES]
Cost       some three minutes on one free CPU core.

Protocol: test scenes of Shapes drawn at 512 x 512, flat and with a grain that is too fine for the model's 64 x 64. The
motion code of the true pair, averaged down to the model's size, moves the input. The result is compared with the true
next picture at 512. Errors are squared differences of colours in [0, 1], summed over 512 x 512 x 3 and divided by 64:
they compare with errors at 64 x 64. Sharpness is the sum of squared differences between neighbouring pixels, divided by
that of the truth. Still pixels are those that are the same in both true pictures; their row is the share that changes
by less than 4/255. Means over scenes, with intervals over scenes.

"enlarged" is the model's own frame. "difference added" is the input plus the enlarged difference between the model's
two frames. "optical flow" is the input warped by OpenCV's DIS flow between these frames, plus the enlarged rest. "ours"
is `Model.apply(..., full_size=True)`. Pixels that never move are those that no motion of the world can change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import load_cv2, warp
from visual_dynamics.data import shapes
from visual_dynamics.data.shapes import draw_large
from visual_dynamics.evaluation.intervals import Interval, cluster_interval
from visual_dynamics.images import Pixels
from visual_dynamics.reporting.base import Experiment, ExperimentOptions, Headline, Measured, Progress
from visual_dynamics.reporting.drawing import Group, number, sheet, table, to_pixels, with_interval
from visual_dynamics.sampling.moves import reconstruct

SIZE = 512
SCENES, SMALL_SCENES = 12, 2
FUTURES = 2  # sampled for each scene
GRAINS = {"flat": 0.0, "with grain": 0.03}  # standard deviation of colours in [0, 1]
SHOWN = 2  # scenes in the figure
CHANGED = 4  # of 255 levels
FLOW_SIZE = 256  # pixels of the frames that DIS gets: on the model's 64 it finds less
STEPS = 21  # motions tried to learn which pixels can change
METRICS = {"error where it moves": 1, "error": 1, "sharpness": 2, "still pixels, %": 2}  # digits


@dataclass(frozen=True)
class FullSizeOptions(ExperimentOptions):
    model: str = "shapes"


def compute(options: FullSizeOptions, device: torch.device, progress: Progress) -> Measured:
    """The metrics of every method, and what becomes of pixels that never move."""
    count = options.samples or (SMALL_SCENES if options.small else SCENES)
    model = load(options.model, str(device))
    scenes = [shapes.draw_scenes(count, options.seed, "test").subset([place]) for place in range(count)]
    still = []
    for scene in scenes:
        still.append(never_moving(scene))
        progress("pixels that never move", len(still) / count)
    tables: dict[str, dict[str, list[list[float]]]] = {}
    kept: dict[str, list[float]] = {}
    rows: list[list[Pixels]] = []  # of the figure
    for name, grain in GRAINS.items():
        tables[name], kept[name] = {}, []
        for place, scene in enumerate(scenes):
            before, after = (draw_large(scene, SIZE, moved, grain)[0] for moved in (False, True))
            made = methods(model, before, after)
            for method, picture in made.items():
                tables[name].setdefault(method, []).append(metrics(picture, before, after))
            futures = model.each_sample(before, FUTURES, options.seed + place, full_size=True)
            kept[name] += [100 * float(unchanged(future, before)[still[place]].mean()) for future in futures]
            if grain == 0 and place < SHOWN:
                rows.append([_middle(picture) for picture in (before, after, *list(made.values())[1:])])
            progress(name, (place + 1) / count)
    numbers = {
        "tables": {
            name: {method: [float(mean) for mean in np.mean(each, 0)] for method, each in found.items()}
            for name, found in tables.items()
        },
        "intervals": {
            name: {method: intervals(np.array(each)) for method, each in found.items()}
            for name, found in tables.items()
        },
        "never_moving": {name: {"mean": float(np.mean(shares)), "least": min(shares)} for name, shares in kept.items()},
        "protocol": {"scenes": count, "size": SIZE, "model_size": model.size, "futures": FUTURES},
    }
    columns = ["input", "truth", *list(tables["flat"])[1:]]
    return Measured(numbers, {"full-size.png": sheet([Group("", columns, rows)])})


def methods(model: Model, before: Pixels, after: Pixels) -> dict[str, Pixels]:
    """The next picture, (SIZE, SIZE, 3), that each method makes from the model's prediction; "copy" first."""
    canvas, truth = model.open(before, check=False), model.open(after, check=False).frame
    frame = canvas.frame
    predicted = reconstruct(model.predictor, frame, truth).cpu()
    large = torch.from_numpy(before).permute(2, 0, 1) / 255
    flow = _resized(optical_flow(frame, predicted), SIZE) * (SIZE / FLOW_SIZE)
    warped = warp(large, flow)
    rest = predicted - F.interpolate(warped[None], model.size, mode="area")[0]
    return {
        "copy": before,
        "enlarged": to_pixels(_resized(predicted, SIZE)),
        "difference added": to_pixels(large + _resized(predicted - frame, SIZE)),
        "optical flow": to_pixels(warped + _resized(rest, SIZE)),
        "ours": canvas.large.future(predicted),
    }


def optical_flow(frame: Tensor, next_frame: Tensor) -> Tensor:
    """The source of each pixel of the next frame, (2, FLOW_SIZE, FLOW_SIZE) in pixels of that size, by OpenCV's DIS."""
    cv2 = load_cv2()
    estimator = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    estimator.setFinestScale(0)
    large = (np.ascontiguousarray(to_pixels(_resized(x, FLOW_SIZE))) for x in (next_frame, frame))
    grey = [cv2.cvtColor(x, cv2.COLOR_RGB2GRAY) for x in large]
    return torch.from_numpy(estimator.calc(*grey, None)).permute(2, 0, 1).contiguous()


def metrics(picture: Pixels, before: Pixels, after: Pixels) -> list[float]:
    """The METRICS of one picture, in their order."""
    moving = (before != after).any(-1)
    error = np.square(picture / 255 - after / 255).sum(-1) / (SIZE / 64) ** 2
    still = unchanged(picture, before)[~moving].mean()
    return [float(error[moving].sum()), float(error.sum()), _edges(picture) / _edges(after), 100 * float(still)]


def intervals(scenes: NDArray[np.float64]) -> list[Interval]:
    """Of the mean of each metric, (scenes, metrics), over the scenes."""
    return [cluster_interval(torch.from_numpy(values), torch.arange(len(values))) for values in scenes.T]


def unchanged(picture: Pixels, before: Pixels) -> NDArray[np.bool_]:
    return np.abs(picture.astype(np.int16) - before).max(-1) < CHANGED


def never_moving(scene: shapes.Scenes) -> NDArray[np.bool_]:
    """(SIZE, SIZE): the pixels that no motion changes. The motion of each shape depends on one number only."""
    before = draw_large(scene, SIZE)[0]
    same = np.ones((SIZE, SIZE), bool)
    for step in np.linspace(*shapes.MOTION_RANGE, STEPS):
        moved = replace(scene, motions=np.array([[[0, step], [step, 0], [step, -step]]]))
        same &= (draw_large(moved, SIZE, True)[0] == before).all(-1)
    return same


def _resized(frame: Tensor, size: int) -> Tensor:
    return F.interpolate(frame[None].cpu(), (size, size), mode="bicubic", align_corners=False)[0]


def _edges(picture: Pixels) -> float:
    colours = picture / 255
    return float(sum(np.square(np.diff(colours, axis=axis)).sum() for axis in (0, 1)))


def _middle(picture: Pixels) -> Pixels:
    """What the figure shows of a picture (SIZE, SIZE, 3), pixel by pixel."""
    edge = SIZE // 5
    return picture[edge : SIZE - edge, edge : SIZE - edge]


def draw(result: dict[str, Any], folder: Path) -> str:
    """A table for each grain, and the shares of still pixels."""
    parts = []
    for name, found in result["tables"].items():
        rows = [[method, *(metric(result, name, method, place) for place in range(len(METRICS)))] for method in found]
        parts += [f"### Shapes, {name}", table(["mean of scenes (95 % interval)", *METRICS], rows, bold=["ours"])]
    never = "; ".join(
        f"{name} {number(found['mean'], 2)} % (least {number(found['least'], 2)} %)"
        for name, found in result["never_moving"].items()
    )
    protocol = result["protocol"]
    parts.append(
        f"Pixels that never move and change by less than {CHANGED}/255 in sampled futures: {never}. "
        f"{protocol['scenes']} test scenes at {SIZE} x {SIZE}, {protocol['futures']} futures each."
    )
    return "\n\n".join(parts)


def metric(result: dict[str, Any], name: str, method: str, place: int) -> str:
    """One cell of a table."""
    interval = result["intervals"][name][method][place] if "intervals" in result else None
    return with_interval(result["tables"][name][method][place], interval, list(METRICS.values())[place])


def headline(result: dict[str, Any]) -> Headline:
    ours, other = (metric(result, "flat", method, list(METRICS).index("error")) for method in ("ours", "enlarged"))
    return Headline("squared error at full size", "", ours, f"{other} (the model's frame, enlarged)")


EXPERIMENT = Experiment(
    "full-size",
    "futures as large as the picture: errors, sharpness and still pixels at 512 x 512",
    __doc__,
    FullSizeOptions,
    compute,
    draw,
    headline,
)
