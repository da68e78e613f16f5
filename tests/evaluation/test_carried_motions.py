"""Questions of carried motions: who is asked about, where they stand, what the truth is."""

from __future__ import annotations

import numpy as np
import torch

from visual_dynamics.data.packed import Clip, PackedCharacter
from visual_dynamics.evaluation.carried_motions import CarriedMotions, draw_motions, same_body

CLIPS = (Clip("walk", "up", 3), Clip("walk", "down", 3), Clip("hurt", "down", 2))


def square(number: int, body: str, clips: tuple[Clip, ...] = CLIPS) -> PackedCharacter:
    """A square of 2 x 2 pixels of a colour of its own in a cell of 8 x 8, at another column in each frame."""
    index = np.zeros((sum(clip.frames for clip in clips), 8, 8), np.uint8)
    for place in range(len(index)):
        index[place, 3:5, place % 4 + 1 : place % 4 + 3] = 1
    colours = np.array([[0, 0, 0, 0], [50 * number + 50, 7, 7, 255]], np.uint8)
    return PackedCharacter(index, colours, clips, {"number": number, "body": body})


CHARACTERS = [square(0, "male"), square(1, "male"), square(2, "female", CLIPS[:2]), square(3, "female")]


def drawn(animation: str, neighbours: bool = True, count: int = 60) -> CarriedMotions:
    questions = draw_motions(CHARACTERS, animation, count, 0, neighbours)
    assert questions is not None and len(questions) == count
    return questions


def test_targets_take_turns_and_sources_are_others_of_both_kinds() -> None:
    questions = drawn("walk")
    assert np.bincount(questions.target).tolist() == [15] * 4
    assert (questions.source != questions.target).all()
    alike = [same_body(CHARACTERS, *pair) for pair in zip(questions.source, questions.target, strict=True)]
    assert sum(alike) == 30
    hurt = drawn("hurt")  # which character 2 does not have
    assert set(hurt.source) | set(hurt.target) == {0, 1, 3}
    assert draw_motions(CHARACTERS[2:], "hurt", 4, 0, True) is None


def test_frames_are_those_of_one_clip_at_one_place_each() -> None:
    """Faults: the truth moves away from the input; a view or frame is mixed up; a sprite leaves its cell."""
    for neighbours in (True, False):
        questions = drawn("walk", neighbours)
        before, after, frame, truth = questions.frames(CHARACTERS, range(60))
        for row, move in enumerate(questions.moves):
            assert move.clip.animation == "walk"
            assert (move.second == move.first + 1) or not neighbours
            start = {"up": 0, "down": 3}[move.clip.view]
            for role, who, pictures in ((0, questions.source, before), (1, questions.target, truth)):
                one = CHARACTERS[int(who[row])]
                place = start + (move.second if role else move.first)
                still = torch.from_numpy(one.over_black([place])[0]).movedim(2, 0) / 255
                assert torch.equal(pictures[row].roll([-step for step in move.shifts[role]], (1, 2)), still)
        for pictures in (before, after, frame, truth):  # whole: 2 x 2 pixels side by side
            seen = pictures.amax(1) > 0
            assert (seen.sum((1, 2)) == 4).all() and (seen.any(1).sum(1) == 2).all()
            columns = seen.any(1).float() @ torch.arange(8.0) / 2 - 0.5
            assert all(bool(seen[row].any(0)[int(columns[row])]) for row in range(60))
    shifts = {shift for move in drawn("walk").moves for shift in move.shifts}
    assert {down for down, _ in shifts} == set(range(-3, 4))  # every row of the cell
