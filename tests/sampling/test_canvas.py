"""A canvas: a picture opened once, however many verbs and results follow."""

from __future__ import annotations

import builtins
import io
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from visual_dynamics.api import Model, load
from visual_dynamics.cli.main import main
from visual_dynamics.errors import UserError
from visual_dynamics.sampling.canvas import open_canvas
from visual_dynamics.weights import load_weights


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each picture file was opened for reading, and how often Pillow decoded anything."""
    counts: Counter[str] = Counter()
    usual, decode = io.open, Image.open

    def counting(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if isinstance(file, str | Path) and str(file).endswith(".png") and "r" in mode:
            counts[Path(file).name] += 1
        return usual(file, mode, *more, **named)

    def decoding(*arguments: Any, **named: Any) -> Image.Image:
        counts["decoded"] += 1
        return decode(*arguments, **named)

    monkeypatch.setattr(builtins, "open", counting)
    monkeypatch.setattr(io, "open", counting)  # Path.open
    monkeypatch.setattr(Image, "open", decoding)
    return counts


@pytest.fixture
def black(tiny_weights_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tiny model as one of sprites, in a folder with pictures."""
    monkeypatch.chdir(tmp_path)
    frame = np.full((40, 60, 3), 40, np.uint8)
    frame[10:26, 12:28] = (220, 60, 90)
    sprite = np.zeros((12, 10, 4), np.uint8)
    sprite[3:11, 2:8] = (220, 60, 90, 255)
    for name, picture in {"photo": frame, "next": np.roll(frame, 2, 1), "sprite": sprite}.items():
        Image.fromarray(picture).save(f"{name}.png")
    weights = load_weights(tiny_weights_file)
    weights.network.config = replace(weights.network.config, background=0.0)
    Model(weights).save_copy("black.safetensors", learned_prior=True)
    return "black.safetensors"


@pytest.mark.parametrize(
    "words",
    [
        "sample photo.png -n 2",
        "sample photo.png -n 2 --full-size",
        "sample sprite.png -n 2 --model black.safetensors",
        "sample sprite.png -n 2 --model black.safetensors --full-size",
        "extrapolate photo.png --steps 2",
        "extrapolate photo.png --steps 2 --full-size",
        "extrapolate sprite.png --steps 2 --model black.safetensors",
        "analogy photo.png next.png sprite.png",
        "analogy photo.png next.png sprite.png --model black.safetensors",
        "traverse photo.png -n 1",
    ],
)
@pytest.mark.usefixtures("black")
def test_a_verb_opens_each_file_once(words: str, tiny_weights_file: Path, opened: Counter[str]) -> None:
    arguments = words.split() + ([] if "--model" in words else ["--model", str(tiny_weights_file)])
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--device", "cpu", "--out", "results"])
    assert not end.value.code
    pictures = [word for word in arguments if word.endswith(".png")]
    assert opened == {"decoded": len(pictures)} | dict.fromkeys(pictures, 1)


@pytest.mark.parametrize("full_size", [False, True])
def test_the_api_opens_its_file_once(black: str, opened: Counter[str], full_size: bool) -> None:
    model = load(black)
    motion = model.encode("photo.png", "next.png")
    for verb in (
        lambda image: model.sample(image, n=2, full_size=full_size),
        lambda image: model.apply(image, motion, full_size),
        lambda image: model.extrapolate(image, steps=2, full_size=full_size),
    ):
        for name in ("photo.png", "sprite.png"):
            opened.clear()
            verb(name)
            assert opened == {"decoded": 1, name: 1}


def test_a_canvas_serves_every_verb(black: str, opened: Counter[str]) -> None:
    model = load(black)
    canvas = model.open("sprite.png")
    motion = model.encode(canvas, canvas)
    opened.clear()
    results = model.sample(canvas, n=2), model.apply(canvas, motion), model.extrapolate(canvas, steps=2)
    assert not opened
    expected = model.sample("sprite.png", n=2), model.apply("sprite.png", motion), model.extrapolate("sprite.png", 2)
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, other)


def test_colours_are_rounded_to_the_nearest_level() -> None:
    canvas = open_canvas(np.zeros((4, 4, 3), np.uint8), 4, background=1.0)
    levels = torch.tensor([0.4, 100.6, 254.9])
    pictures = canvas.pictures((levels / 255)[None, :, None, None].expand(1, 3, 4, 4))
    assert pictures[0, 0, 0].tolist() == [0, 101, 255]


def test_a_canvas_of_another_model(black: str, tiny_weights_file: Path) -> None:
    canvas = load(black).open("sprite.png")
    with pytest.raises(UserError, match="opened for another kind of model"):
        load(tiny_weights_file).sample(canvas)
