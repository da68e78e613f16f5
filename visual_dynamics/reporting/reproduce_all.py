"""All experiments one after the other: what cannot be made is told in a line, and the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.files import check_folder
from visual_dynamics.reporting.report import PAGE, write_report
from visual_dynamics.reporting.reproduction import run_experiment

ONE_BY_ONE = ("model", "samples")  # options that mean something else to each experiment


def run_all(given: dict[str, Any], folder: Path, device: torch.device, say: Callable[[str], object]) -> bool:
    """Run every experiment with those of the given options that it has, then write the report.

    Each JSON is written when its experiment is done. Returns whether all of them were made or, for want of data or of
    a model, could not be: False where one broke.
    """
    for option in ONE_BY_ONE:
        if given.get(option) is not None:
            raise UserError(f"reproduce all has no option --{option}: give it to one experiment")
    for place in ("sprites", "pairs", "footage"):
        if given.get(place) is not None and not given[place].exists():
            raise UserError(f"no such folder or zip: {given[place]}")
    check_folder(folder)
    whole = True
    for number, (name, experiment) in enumerate(EXPERIMENTS.items(), 1):
        say(f"[{number}/{len(EXPERIMENTS)}] {name}: {experiment.SUMMARY}")
        known = {"small", *(field.name for field in fields(experiment.Options))}
        started = time.monotonic()
        try:
            run_experiment(name, {option: given[option] for option in given if option in known}, folder, device)
            say(f"    done in {time.monotonic() - started:.0f} s")
        except UserError as error:
            say(f"    not made: {_one_line(error)}")
        except Exception as error:  # one that breaks must not cost the others, which may take hours
            say(f"    failed: {_one_line(error) or 'no reason given'} ({type(error).__name__})")
            whole = False
    write_report(folder, folder / PAGE)
    return whole


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
