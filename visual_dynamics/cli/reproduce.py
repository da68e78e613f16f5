"""The verbs `reproduce` and `report` of the command line. Heavy modules are imported when they run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from visual_dynamics.cli.options import OUT, OutOption, SeedOption, busy, chosen_device
from visual_dynamics.cli.results import Output, Result
from visual_dynamics.errors import UserError

SETTINGS = {  # of one or two experiments
    "sprites_model": "model of sprites, beside that of shapes",
    "guide": "model of what comes next, for animations",
    "characters": "test or validation characters, for animations",
    "poses_model": "model of any two frames, for analogies",
    "autoencoder": "AE baseline",
    "integer_model": "model of shapes drawn at whole pixels",
    "split": "held-out or test scenes of footage",
    "judges": "PAIRS,JUDGES,STEPS: fewer judges of video",
    "layers": "folder of LPC layers, of which other sprites are composed",
    "seeds": "further models of shapes by the same recipe, between commas",
    "runs": "folder of the trainings of sweeps or kl-term, made here where they are missing",
}
SET_HELP = f"May be repeated. NAME: {'; '.join(f'{name} ({words})' for name, words in SETTINGS.items())}."


def parse_settings(settings: list[str]) -> dict[str, str | Path]:
    """["guide=none"] -> {"guide": "none"}."""
    found: dict[str, str | Path] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in SETTINGS:
            raise UserError(f"--set takes NAME=VALUE, where NAME is {', '.join(SETTINGS)}; not {setting!r}")
        found[name] = Path(value) if name in ("runs", "layers") else value
    return found


def reproduce(
    name: Annotated[str, typer.Argument(help="The table or figure, or all; without it, the list of them.")] = "",
    model: Annotated[str | None, typer.Option(help="The model, if not the one the table is about.")] = None,
    out: OutOption = OUT / "reproduce",
    seed: SeedOption = 0,
    samples: Annotated[int | None, typer.Option(help="Number to measure or show, if not the usual one.")] = None,
    sprites: Annotated[Path | None, typer.Option(help="Folder of Reed's sprites, for tables on them.")] = None,
    lpc: Annotated[Path | None, typer.Option(help="Checkout of the LPC generator, for tables on its art.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Folder or zip of pairs, to measure on or show.")] = None,
    footage: Annotated[Path | None, typer.Option(help="Folder of prepared videos, to measure on.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP)] = None,
    small: Annotated[bool, typer.Option("--small", help="A quick look: few samples, marked as such.")] = False,
) -> Result:
    """Measure a table of the paper again, and draw it; or all of them, and a page that shows them."""
    from visual_dynamics.experiments import EXPERIMENTS
    from visual_dynamics.reporting.base import run_all, run_experiment
    from visual_dynamics.reporting.report import PAGE, write_report

    if not name:
        lines = [f"{known:13} {experiment.summary}" for known, experiment in EXPERIMENTS.items()]
        return Result("\n".join(lines), {"experiments": {name: each.summary for name, each in EXPERIMENTS.items()}})
    given: dict[str, Any] = {"model": model, "sprites": sprites, "samples": samples, "pairs": pairs, "footage": footage}
    given |= {"lpc": lpc, "seed": seed, "small": small or None} | parse_settings(settings or [])
    if name == "all":
        whole = run_all(EXPERIMENTS, given, out, chosen_device(), partial(typer.echo, err=Output.as_json))
        write_report(EXPERIMENTS, out, out / PAGE)
        return Result(f"open {out / PAGE} in a browser", {"folder": out, "see": PAGE}, int(not whole))
    markdown = run_experiment(EXPERIMENTS, name, given, out, chosen_device())
    return Result(markdown, {"folder": out, "see": f"{name}.md", "result": f"{name}.json"})


def report(
    folder: Annotated[Path, typer.Argument(help="Where `reproduce` left its results.")] = OUT / "reproduce",
    out: Annotated[
        Path | None, typer.Option("--out", help="The page, .html or .md.", show_default="FOLDER/index.html")
    ] = None,
) -> Result:
    """Every table and figure of the paper beside the results of a folder, as a page."""
    from visual_dynamics.experiments import EXPERIMENTS
    from visual_dynamics.reporting.report import PAGE, write_report

    page = out or folder / PAGE
    with busy("drawing"):
        write_report(EXPERIMENTS, folder, page)
    return Result(f"open {page}", {"page": page})
