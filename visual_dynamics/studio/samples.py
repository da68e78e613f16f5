"""Pictures to begin with, all drawn here: scenes of the Shapes world, plain and textured, and walking figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from visual_dynamics.cli.demo import clear_scenes
from visual_dynamics.data.shapes import images
from visual_dynamics.images import Color, Pixels

SEED = 0
SCENE = 128  # pixels a side
CELL = 60  # pixels a side of a figure's frame
STEPS = 8  # frames of a walk


@dataclass(frozen=True)
class Figure:
    """The colours of somebody who walks."""

    skin: Color
    hair: Color
    shirt: Color
    trousers: Color


FIGURES = {
    "figure-blue": Figure((244, 208, 176), (214, 170, 72), (66, 104, 190), (70, 74, 80)),
    "figure-red": Figure((236, 188, 150), (92, 58, 34), (196, 60, 52), (60, 66, 110)),
    "figure-green": Figure((172, 120, 84), (30, 28, 34), (70, 150, 90), (110, 84, 60)),
}
SHEET, SHEET_OF = "walk-sheet", "figure-red"


def draw_samples() -> dict[str, Pixels]:
    """Name -> picture, uint8 (H, W, 3), or (H, W, 4) with alpha."""
    scenes = clear_scenes(SEED)
    samples: dict[str, Pixels] = {}
    for kind, textured in (("shapes", False), ("texture", True)):
        drawn = images(scenes, rendering="smooth", size=SCENE, textured=textured).permute(0, 2, 3, 1).numpy()
        samples |= {f"{kind}-{number}": np.ascontiguousarray(scene) for number, scene in enumerate(drawn, 1)}
        # What becomes of the first scene: a pair to read a motion from.
        moved = images(scenes.subset([0]), True, "smooth", SCENE, textured=textured)[0].permute(1, 2, 0).numpy()
        samples[f"{kind}-1-next"] = np.ascontiguousarray(moved)
    samples |= {name: draw_figure(figure, 0) for name, figure in FIGURES.items()}
    samples["figure-red-next"] = draw_figure(FIGURES[SHEET_OF], 2)
    samples[SHEET] = np.concatenate([draw_figure(FIGURES[SHEET_OF], step) for step in range(STEPS)], axis=1)
    return samples


def samples_for(name: str, of_sprites: bool) -> list[str]:
    """The samples that a model knows something of."""
    if of_sprites:
        return [*FIGURES, "figure-red-next", SHEET]
    kind = "texture" if "texture" in name else "shapes"
    return [*(f"{kind}-{number}" for number in range(1, 5)), f"{kind}-1-next"]


def draw_figure(figure: Figure, step: int) -> Pixels:
    """Somebody walking to the right, at one of the steps of a cycle: uint8 (CELL, CELL, 4)."""
    swing = math.sin(2 * math.pi * step / STEPS)  # of the limbs in front, -1 to 1
    bob = round(abs(swing))  # the body sinks as the legs part
    canvas = Image.new("RGBA", (CELL, CELL))
    pen = ImageDraw.Draw(canvas)
    middle, hip, shoulder = CELL // 2, 38 + bob, 25 + bob

    def limb(top: int, length: int, angle: float, color: Color, width: int) -> None:
        end = (middle + length * math.sin(angle), top + length * math.cos(angle))
        pen.line([(middle, top), end], (*color, 255), width)

    shade = 0.75  # of the limbs behind
    limb(shoulder, 13, -0.7 * swing, _darker(figure.skin, shade), 4)
    limb(hip, 16 - bob, -0.6 * swing, _darker(figure.trousers, shade), 6)
    limb(hip, 16 - bob, 0.6 * swing, figure.trousers, 6)
    pen.rectangle([middle - 6, shoulder - 2, middle + 5, hip + 1], (*figure.shirt, 255))
    pen.ellipse([middle - 8, shoulder - 18, middle + 8, shoulder - 2], (*figure.skin, 255))
    pen.pieslice([middle - 9, shoulder - 19, middle + 8, shoulder - 3], 150, 330, (*figure.hair, 255))
    pen.rectangle([middle + 4, shoulder - 10, middle + 5, shoulder - 8], (20, 20, 24, 255))
    limb(shoulder, 13, 0.7 * swing, figure.skin, 4)
    return np.array(canvas)


def _darker(color: Color, share: float) -> Color:
    red, green, blue = (round(value * share) for value in color)
    return red, green, blue
