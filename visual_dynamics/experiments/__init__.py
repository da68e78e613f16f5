"""One file per table or figure of the paper.

An experiment is a module with a SUMMARY, its Options (a dataclass: what a reader may change), `compute` (options in, a
JSON result out) and `draw` (tables and figures from that JSON alone). `Options.small` is a quick look, within a minute
or two on two CPU cores. `headline`, if there is one, is the line of an overview; which table or figure of the paper an
experiment makes: paper_items.py. What all results say of themselves: origin.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from visual_dynamics.experiments import (
    analogy_table,
    animation_table,
    disocclusion_table,
    full_size_table,
    futures_figure,
    futures_sprites,
    latents_table,
    layers_table,
    realism_table,
    relations_table,
    shapes_table,
    sweeps_table,
    toy_world,
    traversal_figure,
    video_table,
)

Tell = Callable[[str, float], None]  # what is being done, and the share of it that is done


class Experiment(Protocol):
    SUMMARY: str
    Options: type

    def compute(self, options: Any, device: torch.device, tell: Tell) -> dict[str, Any]: ...

    def draw(self, result: dict[str, Any], folder: Path) -> str: ...


EXPERIMENTS: dict[str, Experiment] = {
    "toy": toy_world,  # type: ignore[dict-item]
    "shapes": shapes_table,  # type: ignore[dict-item]
    "futures": futures_figure,  # type: ignore[dict-item]
    "futures-sprites": futures_sprites,  # type: ignore[dict-item]
    "analogy": analogy_table,  # type: ignore[dict-item]
    "animation": animation_table,  # type: ignore[dict-item]
    "realism": realism_table,  # type: ignore[dict-item]
    "latents": latents_table,  # type: ignore[dict-item]
    "sweeps": sweeps_table,  # type: ignore[dict-item]
    "traversal": traversal_figure,  # type: ignore[dict-item]
    "layers": layers_table,  # type: ignore[dict-item]
    "disocclusion": disocclusion_table,  # type: ignore[dict-item]
    "relations": relations_table,  # type: ignore[dict-item]
    "full-size": full_size_table,  # type: ignore[dict-item]
    "video": video_table,  # type: ignore[dict-item]
}
