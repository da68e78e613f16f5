"""Segments by common fate: drawn pictures whose parts and motions are known."""

import pytest
import torch
from torch import Tensor

from visual_dynamics.relations.segments import (
    FLAT,
    cost_surface,
    flat_regions,
    lowest,
    motion_segments,
    near,
    refined,
    sure,
    unexplained,
)

GROUND, RED, GREEN, BLUE = (
    torch.tensor(c)[:, None, None] for c in ([0.9] * 3, [0.9, 0.1, 0.1], [0.1, 0.8, 0.2], [0.1, 0.1, 0.9])
)
REACH = 4


def canvas(size: int = 32) -> Tensor:
    return GROUND.expand(3, size, size).clone()


def box(picture: Tensor, colour: Tensor, x: int, y: int, wide: int, tall: int) -> Tensor:
    picture[:, max(0, y) : y + tall, max(0, x) : x + wide] = colour
    return picture


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


def test_regions_are_of_one_colour_and_connected() -> None:
    picture = box(box(box(canvas(), RED, 2, 2, 6, 6), RED, 12, 2, 5, 5), BLUE, 8, 20, 7, 3)
    labels = flat_regions(picture)
    assert [int((labels == k).sum()) for k in range(4)] == [32 * 32 - 36 - 25 - 21, 36, 25, 21]
    assert labels.max() == 3 and labels[3, 3] == 1 and labels[3, 13] == 2 and labels[21, 9] == 3


def test_soft_edges_go_to_the_nearer_colour() -> None:
    picture = box(canvas(), RED, 4, 4, 8, 8)
    picture[:, 4:12, 12] = (0.7 * RED + 0.3 * GROUND)[:, :, 0]  # mostly red, one pixel thick
    picture[:, 4:12, 3] = (0.3 * RED + 0.7 * GROUND)[:, :, 0]
    labels = flat_regions(picture)
    assert labels.max() == 1 and bool((labels[4:12, 4:13] == 1).all()) and int((labels == 1).sum()) == 72


def test_a_thin_line_belongs_to_what_it_comes_from() -> None:
    """Red, one pixel thick, between blue and the ground: followed to its end before its sides are shared."""
    picture = box(box(box(canvas(), RED, 2, 4, 4, 6), RED, 6, 9, 10, 1), BLUE, 6, 10, 12, 8)
    labels = flat_regions(picture)
    assert bool((labels[9, 2:16] == labels[5, 3]).all())


def test_pictures_without_flat_parts_or_with_one_colour_are_one_region() -> None:
    noise = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert flat_regions(noise).max() == 0 and flat_regions(torch.full((3, 16, 16), 0.5)).max() == 0
    assert flat_regions(torch.full((3, 16, 16), 0.5) + FLAT / 8 * noise).max() == 0


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


def test_half_a_pixel_is_measured() -> None:
    frame = box(canvas(), RED, 10, 10, 8, 8)
    right, down = torch.roll(frame, 1, 2), torch.roll(frame, 2, 1)
    futures = torch.stack([(frame + right) / 2, down])
    mask = flat_regions(frame) == 1
    surface = cost_surface(frame, mask, near(mask) & ~mask, futures, None, REACH)
    assert refined(surface)[0].tolist() == pytest.approx([0.5, 0], abs=0.15)
    assert refined(surface)[1].tolist() == pytest.approx([0, 2], abs=0.15)
    assert lowest(surface)[1].tolist() == [0, 2] and bool(sure(surface).all())


def test_a_long_edge_alone_says_not_where() -> None:
    """A band across the whole frame: any displacement along it fits."""
    frame = box(canvas(), RED, 0, 10, 32, 6)
    mask = flat_regions(frame) == 1
    surface = cost_surface(frame, mask, near(mask) & ~mask, torch.roll(frame, 2, 1)[None], None, 3)
    loose = surface.clone()
    loose[:, 5] = surface[:, 5].amin()
    assert not bool(sure(loose))


def test_how_well_a_motion_explains() -> None:
    surface = torch.full((2, 5, 5), 8.0)
    surface[:, 3, 2] = 0.0  # dx 0, dy 1
    assert unexplained(surface, torch.tensor([[0.0, 1.0]] * 2)) == 0
    assert unexplained(surface, torch.tensor([[0.0, 1.0], [2.0, 0.0]])) == pytest.approx(0.5 / 0.96)


def test_pictures_of_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="futures"):
        motion_segments(canvas(), canvas(16)[None])
