"""One file per table or figure of the paper: its protocol, what it measures, how it is drawn.

An experiment is described in reporting/base.py. To add one, write its file and name it here, in the paper's order.
"""

from __future__ import annotations

from visual_dynamics.experiments import (
    analogy,
    animation,
    characters,
    complete,
    disocclusion,
    familiarity,
    full_size,
    futures,
    kl_term,
    latents,
    layers,
    poke,
    realism,
    relations,
    shapes,
    sheet_check,
    sprite_futures,
    sweeps,
    toy,
    traversal,
    video,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        toy.EXPERIMENT,
        shapes.EXPERIMENT,
        kl_term.EXPERIMENT,
        futures.FUTURES,
        futures.FUTURES_SPRITES,
        analogy.EXPERIMENT,
        animation.EXPERIMENT,
        characters.EXPERIMENT,
        complete.EXPERIMENT,
        realism.EXPERIMENT,
        sprite_futures.EXPERIMENT,
        latents.EXPERIMENT,
        sweeps.EXPERIMENT,
        traversal.EXPERIMENT,
        layers.EXPERIMENT,
        disocclusion.EXPERIMENT,
        relations.EXPERIMENT,
        full_size.EXPERIMENT,
        video.EXPERIMENT,
        poke.EXPERIMENT,
        familiarity.EXPERIMENT,
        sheet_check.EXPERIMENT,
    )
}
