"""Flat regions, and motions of parts that are matched as a whole."""

import pytest
import torch

from tests.boxes import BLUE, GROUND, RED, box, canvas
from visual_dynamics.sampling.matching import (
    FLAT,
    best_mix,
    cost_surface,
    flat_regions,
    lowest,
    near,
    other_colours,
    precise,
    refined,
    sure,
)

REACH = 4


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


def test_fractions_are_found_to_a_sixteenth() -> None:
    """A box that a mix of four shifts moves by exactly (0.25, 0.6875)."""
    frame = box(canvas(), RED, 10, 10, 8, 8)
    moved = frame.lerp(torch.roll(frame, 1, 2), 0.25)
    moved = torch.roll(moved.lerp(torch.roll(moved, 1, 1), 0.6875), (2, -3), (1, 2))
    mask = near(flat_regions(frame) == 1)
    found = precise(frame, mask, moved[None], torch.zeros(1, 32, 32, dtype=torch.bool), torch.tensor([[-3.0, 3.0]]))
    assert found.tolist() == [[-2.75, 2.6875]]


def test_what_covers_a_part_does_not_pull_it() -> None:
    frame = box(canvas(), RED, 8, 10, 10, 10)
    future = box(box(canvas(), RED, 10, 10, 10, 10), BLUE, 17, 4, 8, 20)
    mask = near(flat_regions(frame) == 1)
    covered = other_colours(torch.stack([RED.flatten(), GROUND.flatten()]), future[None])
    assert covered.sum() == 8 * 20
    assert precise(frame, mask, future[None], covered, torch.tensor([[2.0, 0.0]])).tolist() == [[2.0, 0.0]]
    assert precise(frame, mask, future[None], covered & False, torch.tensor([[2.0, 0.0]])).tolist() != [[2.0, 0.0]]


def test_the_best_mix_of_shifts() -> None:
    """Misses that vanish for one mix alone: dy = -0.5, dx = 0.25."""
    weights = torch.tensor([0.5, 0.5, 0.0])[:, None] * torch.tensor([0.0, 0.75, 0.25])
    misses = torch.randn(9, 40, generator=torch.Generator().manual_seed(0))
    misses = misses - (weights.flatten() @ misses)
    assert best_mix((misses @ misses.T)[None]).tolist() == [[-0.5, 0.25]]
