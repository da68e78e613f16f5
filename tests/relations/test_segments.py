"""Segments by common fate: drawn pictures whose parts and motions are known."""

import pytest
import torch
from torch import Tensor

from tests.boxes import BLUE, GREEN, RED, box, canvas
from visual_dynamics.relations.segments import motion_segments, unexplained
from visual_dynamics.sampling.matching import flat_regions

REACH = 4


def drawn(moves: list[tuple[int, int, int, int]]) -> tuple[Tensor, Tensor]:
    """A striped box (red and green) and a blue one over it; moves: dx, dy of the one, dx, dy of the other."""

    def scene(dx: int, dy: int, ex: int, ey: int) -> Tensor:
        picture = canvas()
        for stripe, colour in enumerate((RED, GREEN, RED)):
            box(picture, colour, 6 + dx, 6 + 3 * stripe + dy, 9, 3)
        return box(picture, BLUE, 18 + ex, 16 + ey, 8, 8)

    return scene(0, 0, 0, 0), torch.stack([scene(*move) for move in moves])


def random_moves(count: int, seed: int = 0) -> list[tuple[int, int, int, int]]:
    moves = torch.randint(-3, 4, (count, 4), generator=torch.Generator().manual_seed(seed))
    return [(dx, dy, ex, ey) for dx, dy, ex, ey in moves.tolist()]


def test_a_textured_thing_is_put_together_by_its_motion() -> None:
    moves = random_moves(24)
    frame, futures = drawn(moves)
    assert flat_regions(frame).max() == 4  # three stripes and a box
    found = motion_segments(frame, futures, REACH)
    assert len(found.masks) == 2 and found.masks.sum((1, 2)).tolist() == [81, 64]
    assert bool(found.masks[0, 6:15, 6:15].all()) and bool(found.masks[1, 16:24, 18:26].all())
    truth = torch.tensor(moves).float().view(-1, 2, 2)
    known = found.motions.isfinite().all(2)
    assert known.float().mean() > 0.9
    assert (found.motions - truth)[known].abs().max() < 0.35


def test_a_thing_cut_in_two_is_one() -> None:
    """A blue bar that stays lies over the middle of a red box that moves beneath it."""

    def scene(dx: int, dy: int) -> Tensor:
        return box(box(canvas(), RED, 10 + dx, 8 + dy, 8, 14), BLUE, 4, 12, 24, 5)

    moves = [(dx, dy) for dx in (-3, -1, 2, 3) for dy in (-3, -2, 1, 3)]
    found = motion_segments(scene(0, 0), torch.stack([scene(*move) for move in moves]), REACH)
    red = found.masks[:, 9, 12].nonzero().flatten().tolist()
    assert len(red) == 1 and bool(found.masks[red[0], 20, 12])
    assert not found.masks[:, 14, 6].any()  # what stays is ground
    known = found.motions[:, red[0]].isfinite().all(1)
    assert known.float().mean() > 0.8
    assert (found.motions[:, red[0]] - torch.tensor(moves))[known].abs().max() < 0.35


def test_what_is_hidden_is_not_pulled_along() -> None:
    """A box half under another one: where it goes does not depend on what lies over it."""

    def scene(dx: int, dy: int, ex: int) -> Tensor:
        return box(box(canvas(), RED, 6 + dx, 8 + dy, 12, 10), BLUE, 13 + ex, 6, 12, 14)

    moves = torch.randint(-3, 4, (32, 3), generator=torch.Generator().manual_seed(2)).tolist()
    found = motion_segments(scene(0, 0, 0), torch.stack([scene(*move) for move in moves]), REACH)
    assert len(found.masks) == 2
    red = int(found.masks[:, 12, 8].nonzero())
    known = found.motions[:, red].isfinite().all(1)
    assert known.float().mean() > 0.8
    assert (found.motions[:, red] - torch.tensor(moves)[:, :2])[known].abs().max() < 0.5


def test_nothing_moves_in_a_still_picture() -> None:
    frame, futures = drawn([(0, 0, 0, 0)] * 4)
    assert len(motion_segments(frame, futures, REACH).masks) == 0
    blank = canvas()
    found = motion_segments(blank, blank.expand(5, -1, -1, -1), REACH)
    assert found.masks.shape == (0, 32, 32) and found.motions.shape == (5, 0, 2)


def test_how_well_a_motion_explains() -> None:
    surface = torch.full((2, 5, 5), 8.0)
    surface[:, 3, 2] = 0.0  # dx 0, dy 1
    assert unexplained(surface, torch.tensor([[0.0, 1.0]] * 2)) == 0
    for noise in (0, 100):  # what no motion explains is held against none
        assert unexplained(surface + noise, torch.tensor([[0.0, 1.0], [2.0, 0.0]])) == pytest.approx(0.5 / 0.96)


def test_pictures_of_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="futures"):
        motion_segments(canvas(), canvas(16)[None])
