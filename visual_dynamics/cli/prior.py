"""The verb `prior`: p(z | image) for a model that is trained already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import chosen_device
from visual_dynamics.cli.results import Result

EXAMPLES, STEPS, BATCH = 100_000, 20_000, 1_024  # as in training/prior.py, which imports torch


def prior(
    file: Annotated[Path, typer.Argument(help="The .safetensors file of a model that is trained already.")],
    data: Annotated[str | None, typer.Option(help="Where its training data lie now.  [default: as it says]")] = None,
    examples: Annotated[int, typer.Option(min=1, help="Training pairs to learn from, at most.")] = EXAMPLES,
    steps: Annotated[int, typer.Option(min=1, help="Steps of training.")] = STEPS,
    batch: Annotated[int, typer.Option(min=1, help="Codes a step.")] = BATCH,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, order and noise.")] = 0,
) -> Result:
    """Train p(z | image) on the model's own training data, and store it in the file: `--source conditional`.

    The network stays as it is. Sampling then draws from it unless --source says otherwise.
    """
    errors = learn_prior(file, data, examples=examples, steps=steps, batch=batch, seed=seed)
    words = (
        f"{file}: p(z | image) learned. Error of the flow on held-out pairs {errors['image']:.3f}, "
        f"without the image {errors['no_image']:.3f}"
    )
    return Result(words, {"file": file, "held_out_error": errors})


def learn_prior(file: Path, data: str | None, **options: int) -> dict[str, float]:
    """Train it with a progress bar; returns the errors on held-out pairs."""
    from rich.console import Console
    from rich.progress import Progress

    from visual_dynamics.training.prior import PriorConfig, train_prior

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading pairs", total=1.0)

        def progress(share: float, words: str) -> None:
            bar.update(task, completed=share, description=words)

        said = train_prior(file, PriorConfig(**options), data, chosen_device(), progress)
    found: dict[str, float] = said["held_out_error"]
    return found
