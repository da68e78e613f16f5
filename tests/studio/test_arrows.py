"""Arrows: a thing that moves is seen to move, its way is named, and stillness has no arrows."""

from __future__ import annotations

import pytest
import torch

from visual_dynamics.studio.arrows import arrows_between, in_words


@pytest.mark.parametrize(
    ("dx", "dy", "words"), [(5, 0, "left–right"), (0, -4, "up–down"), (4, -4, "diagonal ↗"), (4, 4, "diagonal ↘")]
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
    assert in_words(inside) == words


def test_nothing_moves() -> None:
    still = torch.rand(3, 16, 16)
    assert arrows_between(still, still) == [] and in_words([]) == "shape or colour"
