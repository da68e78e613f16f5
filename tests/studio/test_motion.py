"""Arrows: they show the direction of a motion, name it, and a still picture has none."""

from __future__ import annotations

import pytest
import torch

from visual_dynamics.studio.motion import REACH, Arrow, arrows_between, in_words


@pytest.mark.parametrize(
    ("dx", "dy", "words"),
    [
        *((5, 0, "left–right"), (0, -4, "up–down"), (4, -4, "diagonal ↗"), (4, 4, "diagonal ↘")),
        *((REACH, 0, "left–right"), (-REACH, 0, "left–right"), (0, REACH, "up–down"), (0, -REACH, "up–down")),
    ],
)
def test_a_square_that_moves(dx: int, dy: int, words: str) -> None:
    torch.manual_seed(0)
    before, after = torch.zeros(2, 3, 64, 64)
    texture = torch.rand(3, 20, 20)
    before[:, 20:40, 20:40] = texture
    after[:, 20 + dy : 40 + dy, 20 + dx : 40 + dx] = texture
    arrows = arrows_between(before, after)
    inside = [arrow for arrow in arrows if 26 <= arrow.x <= 34 and 26 <= arrow.y <= 34]
    assert inside and all((arrow.dx, arrow.dy) == (dx, dy) for arrow in inside)
    assert in_words([Arrow(a.x / 64, a.y / 64, a.dx / 64, a.dy / 64) for a in inside], 1.0) == f"{words}, at the centre"


def test_nothing_moves() -> None:
    still = torch.rand(3, 16, 16)
    assert arrows_between(still, still) == [] and in_words([], 1.0) == "shape or colour"


@pytest.mark.parametrize(("x", "y", "where"), [(0.1, 0.1, "top left"), (0.5, 0.45, "bottom"), (0.9, 0.25, "right")])
def test_words_say_where_things_move(x: float, y: float, where: str) -> None:
    """In a picture that is half as high as wide."""
    assert in_words([Arrow(x, y, 0.1, 0.0)], 0.5) == f"left–right, at the {where}"
