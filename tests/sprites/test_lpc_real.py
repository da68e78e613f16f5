"""The real LPC layers: distinct characters, and Reed's among them."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from tests.sprites.conftest import REED_WINDOW, cut_frames
from tests.sprites.test_lpc import check_recipes, recipes
from visual_dynamics.images import Pixels
from visual_dynamics.sprites.lpc import Layers, compose, credits_text

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
LAYERS, REED = SHARED / "lpc", SHARED / "sprites"
needs_layers = pytest.mark.skipif(not LAYERS.is_dir(), reason="needs the LPC layers")


@needs_layers
def test_the_real_layers_make_distinct_characters() -> None:
    check_recipes(LAYERS, 672)
    assert len({recipe for _, recipe in recipes(LAYERS, 672)}) == 672
    characters = list(compose(LAYERS, 4, 0))
    assert len({c.digest for c in characters}) == 4
    for character in characters:
        assert (cut_frames(character.sheet)[..., 3] > 0).any((1, 2)).all()  # a figure in each frame
        text = credits_text(LAYERS, character.recipe)
        assert "2668274d5a96c91584172f2d299b90f0a8c0caac" in text and "Stephen Challener (AKA Redshrike)" in text


REED_HAIR = ("plain/blonde", "plain/blue", "ponytail/blonde", "ponytail/blue", "mohawk/green", "bangslong/pink")


def reed_recipe(labels: list[int]) -> list[str]:
    """What Reed's seven attributes mean: sex, body, torso, hair, arms, legs, weapon; golden boots lie uppermost."""
    sex = ("male", "female")[labels[0]]
    return [
        f"body/{sex}/{('light', 'dark', 'orc', 'darkelf')[labels[1]]}.png",
        f"torso/{('gold', 'leather', 'plate')[labels[2]]}/chest_{sex}.png",
        f"hair/{sex}/{REED_HAIR[labels[3]]}.png",
        f"torso/{('gold', 'plate')[labels[4]]}/arms_{sex}.png",
        f"legs/armor/{sex}/{('metal_pants', 'golden_greaves')[labels[5]]}_{sex}.png",
        ("weapons/right hand/either/bow.png", "weapons/both hand/spear.png")[labels[6]],
        f"feet/armor/{sex}/golden_boots_{sex}.png",
    ]


def reed_frames(numbers: list[int]) -> dict[int, Pixels]:
    """number -> (178, 60, 60, 3); decodes no more of the file than it has to."""
    palette, found = np.load(REED / "palette.npy"), {}
    size = 178 * 60 * 60 * 2
    with lzma.open(REED / "frames.u16.xz") as stream:
        for number in range(max(numbers) + 1):
            indices = np.frombuffer(stream.read(size), np.uint16).reshape(178, 60, 60)
            if number in numbers:
                found[number] = palette[indices]
    return found


@needs_layers
@pytest.mark.skipif(not REED.is_dir(), reason="needs Reed's sprites")
def test_reeds_characters_are_made_of_these_layers() -> None:
    """To the bit; each value of each attribute is met."""
    numbers = [0, 1, 23, 54, 84, 145, 220, 300, 315, 320, 504, 641]
    lines = (REED / "sprite_large_labels.txt").read_text().split()
    labels = {number: [int(word) for word in lines[number].split(",")] for number in numbers}
    assert [len(set(column)) for column in zip(*labels.values(), strict=True)] == [2, 4, 3, 6, 2, 2, 2]
    layers = Layers(LAYERS)
    for number, theirs in reed_frames(numbers).items():
        ours = cut_frames(layers.compose(reed_recipe(labels[number])), *REED_WINDOW)[..., :3].copy()
        ours[172:, 55:] = 255  # beyond the sheet, below hurt, theirs is white
        # A sole of the women's boots reaches 2 pixels into the cell below, of which Reed's window shows 5 rows.
        rows = 60 if labels[number][0] == 0 else 55
        assert np.array_equal(ours[:, :rows], theirs[:, :rows]), number
