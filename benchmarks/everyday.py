"""How long an animation takes, and a command to start: parts of `speed.py`, which says how it is timed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import Times
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.images import Pixels
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.predictor import EncodedImage, Predictor
from visual_dynamics.sprites.matches import find_matches
from visual_dynamics.sprites.sheets import animate_sheet

ROOT = Path(__file__).parents[1]
COMMANDS = {  # what people wait for; the last needs the network
    "--help": "--help",
    "models": "models",
    "a picture that is missing": "sample missing.png --out new",
    "eight futures": "sample picture.png --out new --device cpu --force",
}


class Plain(Predictor):
    """Encodes with the network as it is, and decodes a single code in a block of four."""

    @property
    def _form(self) -> VisualDynamics:  # type: ignore[override]
        return self.network

    def preview(self, image: EncodedImage, z: Tensor) -> Tensor:
        return self.decode(image, z)


def figure(length: int, side: int, colour: tuple[int, int, int], pace: float) -> Pixels:
    """Somebody who swings arms and legs: (T, side, side, 4)."""
    frames = np.zeros((length, side, side, 4), np.uint8)
    middle, part = side // 2, max(1, side // 10)
    for number, frame in enumerate(frames):
        swing = round(part * np.sin(pace * number))
        frame[part : 4 * part, middle - part : middle + part] = (230, 180, 150, 255)  # the head
        frame[4 * part : 7 * part, middle - part : middle + part] = (*colour, 255)
        for sign in (-1, 1):
            left = middle + sign * part + sign * swing - part // 2
            frame[7 * part :, left : left + part] = (*colour[::-1], 255)
    return frames


def drawn_sheet(lengths: tuple[int, ...], side: int, colour: tuple[int, int, int], first_only: bool) -> Sheet:
    """A clip of each length, with a tag; or the first frame of each."""
    clips = [figure(1 if first_only else length, side, colour, 0.4 + 0.2 * k) for k, length in enumerate(lengths)]
    ends = np.cumsum([len(clip) for clip in clips]).tolist()
    tags = [Tag(f"clip {k}", end - len(clip), end - 1) for k, (clip, end) in enumerate(zip(clips, ends, strict=True))]
    return Sheet(np.concatenate(clips), np.full(ends[-1], 100), tuple(tags))


def time_animation(
    poses: VisualDynamics, guide: VisualDynamics, lengths: tuple[int, ...], rounds: int, device: torch.device
) -> dict[str, Any]:
    """A sheet of drawn clips by the verb's own function, with both kinds of predictors in turns."""
    side = poses.config.size - 4
    reference = drawn_sheet(lengths, side, (40, 80, 200), first_only=False)
    target = drawn_sheet(lengths, side, (200, 60, 40), first_only=True)
    matches = find_matches(reference, target)
    seconds = {"batched and folded": Times(), "plain": Times()}
    results: dict[str, Pixels] = {}
    kinds = dict(zip(seconds, (Predictor, Plain), strict=True))
    predictors = {name: [kind(network, device) for network in (poses, guide)] for name, kind in kinds.items()}
    for _ in range(rounds):
        for name, (one, other) in predictors.items():
            made = partial(animate_sheet, one, reference, target, matches, guide=other)
            results[name] = seconds[name].add(made, device).sheet.frames
    fast, plain = seconds.values()
    return {
        "frames": len(reference.frames),
        "seconds": {name: times.summary() for name, times in seconds.items()},
        "times_faster": plain.shortest / fast.shortest,
        "largest_pixel_difference": int(np.abs(np.subtract(*results.values(), dtype=np.int64)).max()),
    }


def time_starts(rounds: int) -> dict[str, dict[str, float]]:
    """User time of commands in processes of their own, and of the import of torch alone."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        Image.fromarray(figure(1, 60, (40, 80, 200), 1.0)[0, ..., :3]).save(f"{folder}/picture.png")
        program = {name: ["-m", "visual_dynamics", *words.split()] for name, words in COMMANDS.items()}
        work = {"import torch": ["-c", "import torch"]} | program
        found = {name: Times() for name in work}
        for number in range(rounds):
            for name, arguments in work.items():
                changed = [word.replace("new", f"new{number}") for word in arguments]
                found[name].seconds.append(user_seconds(changed, folder))
    return {name: times.summary() for name, times in found.items()}


def user_seconds(arguments: list[str], folder: str) -> float:
    """Of a process, without the time that the system takes; other programs distort it little."""
    before, environment = os.times().children_user, os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, env=environment, check=False)
    return os.times().children_user - before


def everyday_table(animation: dict[str, Any], starts: dict[str, dict[str, float]]) -> list[str]:
    return [
        f"| animate, {animation['frames']} frames | seconds | median |",
        "|---|---:|---:|",
        *(f"| {name} | {t['shortest']:.1f} | {t['median']:.1f} |" for name, t in animation["seconds"].items()),
        "",
        f"{animation['times_faster']:.1f} times faster; "
        f"largest pixel difference {animation['largest_pixel_difference']} / 255.",
        "",
        "| start of a process | user time, seconds | median |",
        "|---|---:|---:|",
        *(f"| {name} | {each['shortest']:.2f} | {each['median']:.2f} |" for name, each in starts.items()),
        "",
    ]
