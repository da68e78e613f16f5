"""The verb `train` of the command line. Heavy modules are imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import DeviceOption, SeedOption, find_device

DATA_HELP = "'shapes', 'shapes-texture', 'figures', a folder or zip of pairs, prepared videos, a folder of sprites."


def train(
    out: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run; a new one, or one to resume.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    data: Annotated[str, typer.Option(help=DATA_HELP)] = "shapes",
    stream: Annotated[bool, typer.Option("--stream", help="Read prepared videos from the disk as needed.")] = False,
    also: Annotated[str | None, typer.Option(help="More data, mixed in.")] = None,
    also_pairs: Annotated[int | None, typer.Option(help="Only the first so many pairs of these.")] = None,
    rendering: Annotated[str, typer.Option(help="Of the shapes: integer, smooth (sub-pixel).")] = "integer",
    sheets: Annotated[str | None, typer.Option(help="Data are sprite sheets: 64x64 (cells), aseprite, frames.")] = None,
    split: Annotated[str, typer.Option(help="Sprites to train on: reed (500), paper (652).")] = "reed",
    between: Annotated[str, typer.Option(help="Pairs of sprites: neighbours, any two, mixed, mostly.")] = "neighbours",
    preset: Annotated[str, typer.Option(help="The network: paper, paper-128, paper-z8, ..., tiny.")] = "paper",
    start: Annotated[str | None, typer.Option("--from", help="A model to start from: name, path or Hub id.")] = None,
    pairs: Annotated[int | None, typer.Option(help="Only the first so many training pairs.")] = None,
    recolour: Annotated[bool, typer.Option("--recolour", help="Hide colours from the motion code.")] = False,
    light: Annotated[
        bool, typer.Option("--light", help="Show each pair in a light of its own: hue, contrast, brightness.")
    ] = False,
    mirror: Annotated[bool, typer.Option("--mirror", help="Mirror half of the pairs left to right.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="Let half of the pairs run backwards.")] = False,
    zoom: Annotated[float, typer.Option(help="Enlarge half of the pairs, up to so many times.")] = 1.0,
    shift: Annotated[int, typer.Option(min=0, help="Displace whole pairs by up to so many pixels.")] = 0,
    jitter: Annotated[int, typer.Option(min=0, help="Hide shifts of whole frames by up to so many pixels.")] = 0,
    batch: Annotated[int, typer.Option(help="Pairs a step, over all processes.")] = 128,
    steps: Annotated[int | None, typer.Option(min=1, help="Budget in steps (6,000 unless --minutes is given).")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Budget in minutes.")] = None,
    learning_rate: Annotated[float, typer.Option(help="Of Muon, falling along a cosine.")] = 1e-3,
    warmup: Annotated[int, typer.Option(min=0, help="Steps over which the learning rate grows.")] = 50,
    sigma: Annotated[float, typer.Option(help="Deviation of p(v | z, I); lambda = 1 / (2 sigma^2).")] = 0.1,
    kl_warmup: Annotated[int, typer.Option(min=0, help="Steps over which the KL term is phased in.")] = 500,
    bottleneck: Annotated[
        float, typer.Option(help="Weight of the KL term at the end; above 1 for shorter codes.")
    ] = 1.0,
    autoencoder: Annotated[bool, typer.Option("--autoencoder", help="The AE baseline.")] = False,
    seed: SeedOption = 0,
    log_every: Annotated[int, typer.Option(help="Steps between lines of the log.")] = 50,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 1_000,
    device: DeviceOption = "auto",
    compiled: Annotated[bool | None, typer.Option("--compile/--no-compile", help="torch.compile (on GPUs).")] = None,
) -> None:
    """Train a network; alone, or in many processes under torchrun."""
    from visual_dynamics.cli.training_bar import train_with_bar
    from visual_dynamics.training.config import TrainingConfig

    config = None
    if not resume:
        config = TrainingConfig(
            data=data,
            stream=stream,
            also=also,
            also_pairs=also_pairs,
            rendering=rendering,
            sheets=sheets,
            split=split,
            between=between,
            preset=preset,
            start=start,
            pairs=pairs,
            recolour=recolour,
            light=light,
            mirror=mirror,
            reverse=reverse,
            zoom=zoom,
            shift=shift,
            jitter=jitter,
            batch=batch,
            steps=6_000 if steps is None and minutes is None else steps,
            minutes=minutes,
            learning_rate=learning_rate,
            warmup=warmup,
            sigma=sigma,
            kl_warmup=kl_warmup,
            bottleneck=bottleneck,
            autoencoder=autoencoder,
            seed=seed,
            log_every=log_every,
            checkpoint_every=checkpoint_every,
        )
    train_with_bar(config, out, find_device(device), compiled)
