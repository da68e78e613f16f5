"""Questions of analogies: what may be asked; the interval of the error against draws by hand."""

import numpy as np
import pytest
import torch

from tests.characters import noise_characters
from visual_dynamics.data.reed import CLIPS, SEX, WEAPON
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.analogies import Questions, average_interval, by_families, draw_questions, squared_error

CHARACTERS = noise_characters(8)


@pytest.mark.parametrize("animation", ["spellcast", "slash", "shoot"])
def test_neighbours_of_one_clip_and_one_weapon(animation: str) -> None:
    asked = draw_questions(CHARACTERS, animation, 500, seed=0)
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
    asked = draw_questions(CHARACTERS, "walk", 3000, seed=0, neighbours=False, same_weapon=False)
    assert len(set(zip(asked.first, asked.second, strict=True))) == 4 * 9 * 8
    assert len(set(zip(asked.source, asked.target, strict=True))) == 8 * 7
    alike = asked.within_one_sex(CHARACTERS)
    sexes = CHARACTERS.attributes[:, SEX]
    np.testing.assert_array_equal(alike, sexes[asked.source] == sexes[asked.target])
    assert 0.3 < alike.mean() < 0.6


def test_seeds() -> None:
    one, same, other = (draw_questions(CHARACTERS, "walk", 50, seed).first for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_lone_character_has_no_analogies() -> None:
    with pytest.raises(UserError, match="two characters"):
        draw_questions(CHARACTERS.subset([0]), "walk", 5, seed=0)


def test_both_kinds_of_frames_are_asked_about_the_same_characters() -> None:
    one, other = (draw_questions(CHARACTERS, "slash", 50, 3, neighbours) for neighbours in (True, False))
    np.testing.assert_array_equal(one.source, other.source)
    np.testing.assert_array_equal(one.target, other.target)


def test_only_the_sprite_counts_and_colours_are_cut() -> None:
    truth, made = torch.zeros(1, 3, 64, 64), torch.zeros(1, 3, 64, 64)
    made[0, 0, 2, 2], made[0, 1, 61, 61], made[0, 2, 0, 0] = 0.5, 7.0, 1.0  # the last one: outside the 60x60
    assert squared_error(made, truth).tolist() == [0.25 + 1]


def test_frames_are_of_the_source_then_of_the_target() -> None:
    questions = Questions(np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([10, 20, 30]), np.array([11, 21, 31]))
    expected = [((2, 30), (0, 10)), ((2, 31), (0, 11)), ((5, 30), (3, 10)), ((5, 31), (3, 11))]
    for frames, drawn in zip(questions.frames(CHARACTERS, torch.tensor([2, 0])), expected, strict=True):
        assert frames.shape == (2, 3, 64, 64)
        for picture, (who, frame) in zip(frames, drawn, strict=True):
            assert torch.equal(picture[:, 2:62, 2:62], CHARACTERS.rgb(who, [frame])[0] / 255)


def asked(*pairs: tuple[int, int]) -> Questions:
    source, target = np.array(pairs).T
    return Questions(source, target, np.zeros(len(pairs), int), np.ones(len(pairs), int))


def test_sums_by_family() -> None:
    families = np.array([0, 0, 1, 2])
    one, other = asked((0, 2), (1, 2), (0, 1), (3, 0)), asked((2, 3), (2, 3))
    errors = [torch.tensor([1.0, 2, 4, 8]), torch.tensor([16.0, 32])]
    found = by_families(errors, [one, other], [np.array([True, True, True, False]), np.array([True, True])], families)
    expected = np.zeros((2, 2, 3, 3))
    expected[:, 0, 0, 1] = 3, 2
    expected[:, 0, 0, 0] = 4, 1
    expected[:, 1, 1, 2] = 48, 2
    np.testing.assert_array_equal(found, expected)


def test_families_are_drawn_for_both_roles() -> None:
    """Against questions repeated one by one, with the same draws."""
    random = np.random.default_rng(0)
    animations, families, questions = 3, 4, 40
    asked = random.integers(0, families, (animations, questions, 2))
    errors = random.random((animations, questions)) * (1 + asked[..., 0])
    totals = np.zeros((2, animations, families, families))
    for animation in range(animations):
        for (source, target), error in zip(asked[animation], errors[animation], strict=True):
            totals[:, animation, source, target] += error, 1
    draws, means = np.random.default_rng(0), []
    for _ in range(1000):
        drawn = draws.integers(families, size=families).tolist()
        by_animation = []
        for animation in range(animations):
            values = []
            for (source, target), error in zip(asked[animation], errors[animation], strict=True):
                often = drawn.count(source) * (drawn.count(target) if target != source else 1)
                values += [error] * often
            by_animation.append(np.mean(values) if values else np.nan)
        means.append(np.mean(by_animation))
    np.testing.assert_allclose(average_interval(totals), np.nanquantile(means, (0.025, 0.975)), rtol=1e-9)


def test_the_interval_of_a_ratio() -> None:
    """Each error is a quarter of that of copying: so is the average of every draw, though the averages differ."""
    random = np.random.default_rng(0)
    copies = np.stack([random.random((3, 4, 4)), np.full((3, 4, 4), 2.0)])
    totals = copies * np.array([0.25, 1])[:, None, None, None]
    low, high = average_interval(totals)
    assert low < high < 0.25
    np.testing.assert_allclose(average_interval(totals, copies), (0.25, 0.25))


def test_the_interval_holds_the_truth_where_questions_alone_would_not() -> None:
    """Characters differ, and each is asked about often: an interval over questions would be too narrow."""
    held, tries, families = 0, 60, 20
    for seed in range(tries):
        random = np.random.default_rng(seed)
        own = random.normal(5, 1, families)  # of a character, in both roles; the mean of all characters is 5
        totals = np.zeros((2, 1, families, families))
        totals[1] = 10 * (1 - np.eye(families))
        totals[0, 0] = totals[1, 0] * (own[:, None] + own) / 2
        low, high = average_interval(totals)
        held += low <= 5 <= high
    assert 50 <= held < 60
