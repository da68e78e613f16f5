"""One file per table or figure of the paper: its protocol, what it measures, how it is drawn.

An experiment is described in reporting/base.py. To add one, write its file and name it here, in the paper's order.
"""

from __future__ import annotations

from types import ModuleType

from visual_dynamics.experiments import (
    analogy,
    animation,
    disocclusion,
    full_size,
    futures,
    latents,
    layers,
    realism,
    relations,
    shapes,
    sweeps_table,
    toy,
    traversal,
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
        None if name == "video" else SIZE,
    )


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        toy.EXPERIMENT,
        shapes.EXPERIMENT,
        futures.FUTURES,
        futures.FUTURES_SPRITES,
        analogy.EXPERIMENT,
        animation.EXPERIMENT,
        realism.EXPERIMENT,
        latents.EXPERIMENT,
        of_module("sweeps", sweeps_table),
        traversal.EXPERIMENT,
        layers.EXPERIMENT,
        disocclusion.EXPERIMENT,
        relations.EXPERIMENT,
        full_size.EXPERIMENT,
        video.EXPERIMENT,
    )
}
