"""What must not change by accident, as plain values: pictures of every shipped model, the API, the command line.

`python -m tests.golden.make_golden NAME ...` records these again, after a change that is meant to change them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer

import visual_dynamics as vd
from visual_dynamics.cli.main import app

FOLDER = Path(__file__).parent
MODELS = ("people", "shapes", "shapes-ae", "shapes-integer", "shapes-texture", "sprites", "sprites-poses")


def picture() -> np.ndarray:
    """Three flat things on a light ground, uint8 (64, 64, 3)."""
    frame = np.full((64, 64, 3), (220, 230, 240), np.uint8)
    frame[20:35, 10:25], frame[8:20, 40:56], frame[44:58, 34:50] = (200, 30, 20), (20, 190, 40), (30, 40, 200)
    return frame


def samples() -> dict[str, dict[str, Any]]:
    """Results of each verb of every model: the mean of every 8 x 8 pixels, and the digest of all of them."""
    found = {}
    for name in MODELS:
        model, frame = vd.load(name), picture()
        results = {
            "sample": model.sample(frame, n=2, seed=3),
            "learned": model.sample(frame, n=1, seed=4, source="learned"),
            "extrapolate": model.extrapolate(frame, steps=2, seed=5),
            "full_size": model.sample(frame.repeat(2, 0).repeat(2, 1), n=1, seed=6, full_size=True),
        }
        if model.weights.encodes_motion:
            results["apply"] = model.apply(frame, model.encode(frame, np.roll(frame, 2, axis=1)))[None]
        found[name] = {
            verb: {
                "blocks": blocks(frames).round(1).tolist(),
                "sha256": hashlib.sha256(frames.tobytes()).hexdigest(),
            }
            for verb, frames in results.items()
        }
    return found


def blocks(frames: np.ndarray) -> np.ndarray:
    """(n, H, W, 3) -> (n, 8, 8): grey means."""
    count, height, width, _ = frames.shape
    return frames.astype(np.float64).reshape(count, 8, height // 8, 8, width // 8, 3).mean((2, 4, 5))


def openapi() -> dict[str, Any]:
    """The studio's API as it describes itself."""
    from visual_dynamics.studio.app import create_app
    from visual_dynamics.studio.state import Settings

    with tempfile.TemporaryDirectory() as folder:
        described = json.loads(json.dumps(create_app(Settings(store=Path(folder))).openapi()))
    del described["info"]["version"]  # the package's
    return described


def verbs() -> Iterator[tuple[str, Any]]:
    """Every verb of the command line."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk(inner, (*path, name))
        else:
            yield " ".join(path), command

    return walk(typer.main.get_command(app), ())


def command_line() -> dict[str, Any]:
    """Of every verb: what it does, its arguments and options, what they default to and what is said of them."""
    return {
        verb: {
            "help": command.help,
            "parameters": [
                {
                    "names": [*parameter.opts, *parameter.secondary_opts],
                    "default": str(parameter.default),
                    "help": getattr(parameter, "help", None),
                }
                for parameter in command.params
            ],
        }
        for verb, command in verbs()
    }


FROZEN = {"samples": samples, "openapi": openapi, "command_line": command_line}


def recorded(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())
