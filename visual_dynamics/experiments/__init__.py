"""One file per table or figure of the paper: its protocol, what it measures, how it is drawn.

An experiment is described in reporting/base.py. To add one, write its file and name it here, in the paper's order.
"""

from __future__ import annotations

from types import ModuleType

from visual_dynamics.experiments import (
    analogy_table,
    animation_table,
    disocclusion,
    full_size,
    futures,
    latents,
    layers_table,
    realism,
    relations,
    shapes,
    sweeps_table,
    toy_world,
    traversal_figure,
    video,
)
from visual_dynamics.reporting.base import SIZE, Experiment, Measured


def of_module(name: str, module: ModuleType) -> Experiment:
    """An experiment whose module does not name it yet."""
    return Experiment(
        name,
        module.SUMMARY,
        module.__doc__ or "",
        module.Options,
        lambda options, device, progress: Measured(module.compute(options, device, progress)),
        module.draw,
        getattr(module, "headline", None),
        None if name in ("traversal", "video") else SIZE,
    )


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        of_module("toy", toy_world),
        shapes.EXPERIMENT,
        futures.FUTURES,
        futures.FUTURES_SPRITES,
        of_module("analogy", analogy_table),
        of_module("animation", animation_table),
        realism.EXPERIMENT,
        latents.EXPERIMENT,
        of_module("sweeps", sweeps_table),
        of_module("traversal", traversal_figure),
        of_module("layers", layers_table),
        disocclusion.EXPERIMENT,
        relations.EXPERIMENT,
        full_size.EXPERIMENT,
        video.EXPERIMENT,
    )
}
