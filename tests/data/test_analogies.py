"""Analogies between characters are drawn as the protocol says."""

import numpy as np
import pytest

from tests.characters import noise_characters
from visual_dynamics.data.analogies import draw_analogies
from visual_dynamics.data.reed import CLIPS, SEX, WEAPON
from visual_dynamics.errors import UserError

CHARACTERS = noise_characters(8)


@pytest.mark.parametrize("animation", ["spellcast", "slash", "shoot"])
def test_neighbours_of_one_clip_and_one_weapon(animation: str) -> None:
    asked = draw_analogies(CHARACTERS, animation, 500, seed=0)
    assert len(asked) == 500 and (asked.source != asked.target).all() and (asked.second == asked.first + 1).all()
    weapons = CHARACTERS.attributes[:, WEAPON]
    np.testing.assert_array_equal(weapons[asked.source], weapons[asked.target])
    clips = [clip for clip in CLIPS if clip.animation == animation]
    for first, second in zip(asked.first, asked.second, strict=True):
        assert sum(first in range(178)[c.frames] and second in range(178)[c.frames] for c in clips) == 1
    assert len(set(zip(asked.first, asked.second, strict=True))) == sum(
        len(range(178)[c.frames]) - 1 for c in clips
    )  # every move is asked


def test_any_two_frames_and_any_weapon() -> None:
    asked = draw_analogies(CHARACTERS, "walk", 3000, seed=0, neighbours=False, same_weapon=False)
    assert len(set(zip(asked.first, asked.second, strict=True))) == 4 * 9 * 8
    assert len(set(zip(asked.source, asked.target, strict=True))) == 8 * 7
    alike = asked.within_one_sex(CHARACTERS)
    sexes = CHARACTERS.attributes[:, SEX]
    np.testing.assert_array_equal(alike, sexes[asked.source] == sexes[asked.target])
    assert 0.3 < alike.mean() < 0.6


def test_seeds() -> None:
    one, same, other = (draw_analogies(CHARACTERS, "walk", 50, seed).first for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_lone_character_has_no_analogies() -> None:
    with pytest.raises(UserError, match="two characters"):
        draw_analogies(CHARACTERS.subset([0]), "walk", 5, seed=0)
