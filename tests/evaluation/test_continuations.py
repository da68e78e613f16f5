"""What may follow a frame, and how well samples meet it: worked out by hand, on characters of one pixel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.test_packed import levels_character
from visual_dynamics.data.packed import Clip
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.continuations import error_limit, moving_questions, score, standing_questions

STEP = 3 * (25 / 255) ** 2  # squared difference of neighbouring grey levels
LIMIT = 1.5 * STEP  # one level is alike, two are not

# Places:      walk up 0-3        walk down 4-7        run up 8-10   sit up 11-13   slash up 14-15   slash down 16-17
CLIPS = {
    ("walk", "up"): [0, 3, 6, 9],
    ("walk", "down"): [9, 7, 6, 2],
    ("run", "up"): [5, 7, 1],
    ("sit", "up"): [1, 4, 8],
    ("slash", "up"): [1, 1],
    ("slash", "down"): [8, 3],
}


def test_the_limit_is_half_of_the_usual_distance() -> None:
    one = levels_character({("walk", "up"): [0, 2, 2, 6], ("run", "up"): [3, 4], ("sit", "up"): [0, 9]})
    # Steps: 2 and 4 of walk, 1 of run; a held frame and sit do not count. Squared: 4, 16, 1; their median is 4.
    assert error_limit([one]) == pytest.approx(4 * STEP / 4)
    with pytest.raises(UserError, match="no animation"):
        error_limit([levels_character({("walk", "up"): [1, 1], ("sit", "up"): [0, 9]})])


def test_any_animation_of_the_same_view_follows_a_standing_frame() -> None:
    """Faults: a truth of another direction; a frame like the standing one; a pose of sit that is left out."""
    asked = standing_questions([levels_character(CLIPS)], LIMIT, 2)
    assert [question.frame for question in asked] == [0, 4]
    assert [dict(question.truths) for question in asked] == [
        {"walk": [1], "run": [8], "sit": [12, 13]},  # slash up never leaves the standing frame
        {"walk": [5], "slash": [17]},  # its first frame is like the standing one
    ]
    assert all(question.standing and question.character == 0 for question in asked)


def test_the_next_frame_follows_amid_an_animation_and_what_follows_its_like() -> None:
    """Fault: what follows a like frame of another direction, or of sit, counts."""
    asked = moving_questions([levels_character(CLIPS)], LIMIT, 99)
    found = {question.frame: dict(question.truths) for question in asked}
    assert found == {
        1: {"walk": [2]},  # 3 -> 6; the 4 of sit is alike, but no frame follows it
        2: {"walk": [3], "run": [10]},  # 6 -> 9; the 7 of run is alike, the 7 and 6 of walk down are of another view
        6: {"walk": [7]},  # 6 -> 2; from 7 to 6 nothing moves
        9: {"walk": [3], "run": [10]},  # 7 -> 1, and the 6 of walk up
    }
    assert all(not question.standing for question in asked)
    assert next(question for question in asked if question.frame == 9).clip == Clip("run", "up", 3)


def test_questions_are_drawn_by_the_seed_and_from_every_character() -> None:
    both = [levels_character(CLIPS), levels_character(CLIPS)]
    chosen = {seed: moving_questions(both, LIMIT, 2, seed) for seed in range(6)}
    assert all([question.character for question in asked] == [0, 0, 1, 1] for asked in chosen.values())
    assert chosen[3] == moving_questions(both, LIMIT, 2, 3)
    assert len({tuple(question.frame for question in asked) for asked in chosen.values()}) > 1


def pixels(*levels: int) -> np.ndarray:
    return np.array(levels, np.uint8)[:, None, None, None] * np.full((1, 1, 1, 3), 25, np.uint8)


def test_precision_and_recall_by_hand() -> None:
    """Five samples; 0 and 1 meet walk, 4 meets a pose of sit and run; 7 and 9 meet nothing."""
    truths = {"walk": pixels(1), "run": pixels(4), "sit": pixels(5, 3), "jump": pixels(10)}
    found = score(pixels(0, 1, 4, 7, 8), truths, LIMIT)
    assert found.precision == pytest.approx(3 / 5)
    assert found.met == {"walk": True, "run": True, "sit": True, "jump": False}
    assert found.recall == pytest.approx(3 / 4)
    assert score(pixels(7, 7), truths, LIMIT).precision == 0 and score(pixels(7), truths, LIMIT).recall == 0


def test_a_sample_at_the_limit_is_right_and_beyond_it_wrong() -> None:
    for level, right in ((2, True), (3, False)):
        assert score(pixels(level), {"walk": pixels(0)}, 4 * STEP).recall == right
