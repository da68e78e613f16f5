"""Displacements against pictures drawn here at known positions; histograms and KL against numpy and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.special import rel_entr
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.motion_distribution import (
    BINS,
    EPSILON,
    MIN_VISIBLE,
    RANGE,
    bins,
    histogram,
    joint_histogram,
    kl_divergence,
    measure_displacement,
    measured_shares,
    motion_correlations,
    motion_table,
)

SIZE = 64
BACKGROUND = np.array([0.9, 0.8, 0.75])
RED, GREEN, BLUE = np.array([0.9, 0.1, 0.2]), np.array([0.1, 0.8, 0.25]), np.array([0.05, 0.2, 0.95])


def box(x: float, y: float, half: float) -> np.ndarray:
    """Exact coverage (H, W) by an upright square: the overlap of two intervals along each axis."""

    def overlap(centre: float) -> np.ndarray:
        pixel = np.arange(SIZE)
        return np.clip(np.minimum(pixel + 1, centre + half) - np.maximum(pixel, centre - half), 0, 1)

    return overlap(y)[:, None] * overlap(x)[None, :]


def disc(x: float, y: float, radius: float, fine: int = 16) -> np.ndarray:
    """Coverage (H, W) by a disc, counted on a grid `fine` times finer."""
    place = (np.arange(SIZE * fine) + 0.5) / fine
    inside = (place[None, :] - x) ** 2 + (place[:, None] - y) ** 2 < radius**2
    return inside.reshape(SIZE, fine, SIZE, fine).mean((1, 3))


def paint(*layers: tuple[np.ndarray, np.ndarray]) -> tuple[Tensor, Tensor]:
    """Frame (3, H, W), rounded to 8 bits, and visible masks (K, H, W) of (coverage, colour) layers, the last on top."""
    picture = np.broadcast_to(BACKGROUND[:, None, None], (3, SIZE, SIZE))
    masks: list[np.ndarray] = []
    for cover, colour in layers:
        picture = picture * (1 - cover) + colour[:, None, None] * cover
        masks = [mask * (1 - cover) for mask in masks] + [cover]
    return torch.tensor(np.round(picture * 255) / 255).float(), torch.tensor(np.array(masks)).float()


def measure(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> Tensor:
    return measure_displacement(before[0][None], before[1][None], after[0][None])[0]  # (K, 2)


def random_boxes(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chance = np.random.default_rng(seed)
    frames, masks, futures, moves = [], [], [], []
    for _ in range(count):
        x, y = chance.uniform(18, 46, 2)
        half = chance.uniform(5, 9)
        dx, dy = chance.uniform(-5, 5, 2)
        frame, mask = paint((box(x, y, half), RED))
        frames.append(frame)
        masks.append(mask)
        futures.append(paint((box(x + dx, y + dy, half), RED))[0])
        moves.append([[dx, dy]])
    return torch.stack(frames), torch.stack(masks), torch.stack(futures), torch.tensor(moves).float()


class TestDisplacement:
    def test_boxes_at_any_fraction_of_a_pixel(self) -> None:
        frames, masks, futures, moves = random_boxes(200)
        error = measure_displacement(frames, masks, futures) - moves
        assert error.norm(dim=2).median() < 0.05
        assert error.abs().max() < 0.15
        assert error.mean((0, 1)).abs().max() < 0.01, "biased"

    @pytest.mark.parametrize(("dx", "dy"), [(0.0, 0.0), (0.5, -4.75), (3.25, 2.125), (-4.9375, 4.9375)])
    def test_discs(self, dx: float, dy: float) -> None:
        moved = measure(paint((disc(30.3, 33.1, 7.7), BLUE)), paint((disc(30.3 + dx, 33.1 + dy, 7.7), BLUE)))
        assert (moved - torch.tensor([dx, dy])).abs().max() <= 1 / 16

    def test_x_is_to_the_right_and_y_down(self) -> None:
        moved = measure(paint((box(30, 30, 6), RED)), paint((box(33, 32, 6), RED)))
        assert moved.tolist() == [[3.0, 2.0]]

    @pytest.mark.parametrize("far", [-7.75, 7.75])
    def test_the_search_reaches_seven_pixels_and_a_fraction_in_every_direction(self, far: float) -> None:
        for dx, dy in ((far, 0), (0, far), (far, far)):
            moved = measure(paint((box(32, 32, 6), RED)), paint((box(32 + dx, 32 + dy, 6), RED)))
            assert (moved - torch.tensor([dx, dy])).abs().max() <= 1 / 16

    def test_each_object_has_its_own_motion_under_a_cover(self) -> None:
        """The square on top hides part of the disc in both frames, another part in each."""
        before = paint((disc(30, 30, 8), BLUE), (box(37, 34, 6), RED))
        after = paint((disc(30, 33.5, 8), BLUE), (box(33, 34, 6), RED))
        moved = measure(before, after)
        assert (moved - torch.tensor([[0.0, 3.5], [-4.0, 0.0]])).abs().max() <= 0.125

    def test_a_neighbour_of_the_same_colour_does_not_pull(self) -> None:
        """They touch, and part: only the masks say whose pixels these are."""
        before = paint((box(39, 30, 6), RED), (box(30, 30, 3), RED))
        after = paint((box(44, 30, 6), RED), (box(30, 33, 3), RED))
        assert (measure(before, after) - torch.tensor([[5.0, 0.0], [0.0, 3.0]])).abs().max() <= 0.125

    def test_an_object_that_was_not_seen_before(self) -> None:
        """A third colour comes out from behind: it is neither the square nor the background."""
        before = paint((box(30, 30, 7), GREEN), (box(30, 30, 8), RED))
        after = paint((box(30, 30, 7), GREEN), (box(34.5, 30, 8), RED))
        assert (measure(before, after)[1] - torch.tensor([4.5, 0.0])).abs().max() <= 0.125

    def test_leaving_and_entering_the_frame(self) -> None:
        centre, out, inwards = (paint((disc(x, 32, 8), GREEN)) for x in (4.0, 1.0, 7.0))
        assert (measure(centre, out) - torch.tensor([-3.0, 0.0])).abs().max() <= 0.125
        assert (measure(centre, inwards) - torch.tensor([3.0, 0.0])).abs().max() <= 0.125

    def test_blur_and_slightly_wrong_colours_do_not_matter(self) -> None:
        frames, masks, futures, moves = random_boxes(50, seed=1)
        kernel = torch.ones(3, 1, 3, 3) / 9
        soft = torch.nn.functional.pad(futures, (1, 1, 1, 1), mode="replicate")
        soft = torch.nn.functional.conv2d(soft, kernel, groups=3) + torch.tensor([0.02, -0.03, 0.02]).view(3, 1, 1)
        error = (measure_displacement(frames, masks, soft) - moves).norm(dim=2)
        assert error.median() < 0.05
        assert error.max() < 0.2

    def test_not_measured_when_nearly_hidden(self) -> None:
        half = math.sqrt(MIN_VISIBLE) / 2
        small, large = (paint((box(30, 30, half + grow), RED)) for grow in (-0.1, 0.1))
        assert measure(small, small).isnan().all()
        assert measure(large, large).tolist() == [[0.0, 0.0]]

    def test_not_measured_when_empty_or_of_the_background_s_colour(self) -> None:
        frame, mask = paint((box(30, 30, 6), BACKGROUND))
        assert measure((frame, mask), (frame, mask)).isnan().all()
        frame, _ = paint((box(30, 30, 6), RED))
        assert measure((frame, torch.zeros(1, SIZE, SIZE)), (frame, mask)).isnan().all()

    def test_not_measured_along_a_straight_line(self) -> None:
        band = np.zeros((SIZE, SIZE))
        band[40:] = 1
        assert measure(paint((band, GREEN)), paint((band, GREEN))).isnan().all()

    def test_chunk_and_company_do_not_matter(self) -> None:
        frames, masks, futures, _ = random_boxes(20, seed=2)
        together = measure_displacement(frames, masks, futures)
        assert torch.equal(together, measure_displacement(frames, masks, futures, chunk=3))
        alone = [
            measure_displacement(frames[i : i + 1], masks[i : i + 1], futures[i : i + 1]) for i in range(len(frames))
        ]
        assert torch.equal(together, torch.cat(alone))

    def test_precision_chosen_for_networks_does_not_matter(self) -> None:
        frames, masks, futures, _ = random_boxes(4, seed=3)
        plain = measure_displacement(frames, masks, futures)
        chosen = torch.get_float32_matmul_precision()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(measure_displacement(frames, masks, futures), plain)
        assert torch.get_float32_matmul_precision() == chosen

    def test_no_pictures(self) -> None:
        none = torch.zeros(0, 3, 8, 8)
        assert measure_displacement(none, none, none).shape == (0, 3, 2)

    def test_wrong_shapes_are_refused(self) -> None:
        frame, mask = torch.zeros(2, 3, 8, 8), torch.zeros(2, 1, 8, 8)
        with pytest.raises(ValueError, match="twice"):
            measure_displacement(frame, mask, frame[:1])
        with pytest.raises(ValueError, match="masks"):
            measure_displacement(frame, mask[:, :, :4], frame)
        with pytest.raises(ValueError, match="floats"):
            measure_displacement(frame.byte(), mask, frame.byte())


EDGE = RANGE / BINS  # half a bin


class TestHistogram:
    def test_as_numpy_counts(self) -> None:
        sample = np.random.default_rng(0).uniform(-RANGE, RANGE, (5000, 2))
        expected, _, _ = np.histogram2d(*sample.T, bins=BINS, range=[[-RANGE, RANGE]] * 2)
        np.testing.assert_allclose(histogram(torch.tensor(sample)).numpy(), expected / 5000, atol=1e-12)

    def test_another_reach_puts_half_pixels_into_the_middle_of_bins(self) -> None:
        grid = torch.arange(-10, 11) / 2
        moves = torch.stack([grid, torch.zeros(21)], 1)
        found = [bins(moves + error, BINS / 8) for error in (0.0, 0.12, -0.12)]
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
        assert len(found[0].unique()) == 21
        assert not torch.equal(bins(moves + 0.02), bins(moves - 0.02))  # the usual borders lie beside them

    def test_unmeasured_rows_do_not_count(self) -> None:
        rows = torch.tensor([[0.0, 0.0], [math.nan, 1.0], [2.0, math.nan]])
        assert histogram(rows).sum() == 1

    def test_beyond_the_range(self) -> None:
        border = histogram(torch.tensor([[RANGE + 0.9 * EDGE, -RANGE], [RANGE, -RANGE - 0.9 * EDGE]]))
        assert border[-1, 0] == 1
        far = histogram(torch.tensor([[0.0, 0.0], [0.0, RANGE + 1.1 * EDGE]]))
        assert far.sum() == 0.5

    def test_nothing_measured(self) -> None:
        with pytest.raises(UserError, match="measured"):
            histogram(torch.full((3, 2), math.nan))
        with pytest.raises(ValueError, match=r"\(N, 2\)"):
            histogram(torch.zeros(3, 3))


def corner(*shares: float) -> Tensor:
    """A histogram with these shares in its first bins."""
    bins = torch.zeros(BINS * BINS, dtype=torch.float64)
    bins[: len(shares)] = torch.tensor(shares)
    return bins.view(BINS, BINS)


class TestDivergence:
    def test_worked_by_hand(self) -> None:
        by_hand = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
        assert kl_divergence(corner(0.5, 0.5), corner(0.25, 0.75), epsilon=0) == pytest.approx(by_hand)

    def test_as_scipy_computes(self) -> None:
        chance = np.random.default_rng(1)
        p, q = (chance.dirichlet(np.full(BINS * BINS, 0.1)) for _ in range(2))
        smooth = np.append(q, 0) + EPSILON
        expected = rel_entr(np.append(p, 0), smooth / smooth.sum()).sum()
        assert kl_divergence(torch.tensor(p).view(BINS, -1), torch.tensor(q).view(BINS, -1)) == pytest.approx(expected)

    def test_empty_bin_costs_the_stated_epsilon(self) -> None:
        whole = 1 + (BINS * BINS + 1) * EPSILON
        assert kl_divergence(corner(1), corner(0, 1)) == pytest.approx(math.log(whole / EPSILON))

    def test_truth_first(self) -> None:
        narrow, wide = corner(1), corner(0.5, 0.5)
        assert kl_divergence(narrow, wide) == pytest.approx(math.log(2), abs=0.01)
        assert kl_divergence(wide, narrow) > 5

    def test_missing_mass_is_paid_for(self) -> None:
        assert kl_divergence(corner(1), corner(0.25)) == pytest.approx(math.log(4), abs=0.01)
        assert kl_divergence(corner(0.25), corner(0.25)) == pytest.approx(0, abs=0.005)


def true_world(count: int, seed: int) -> Tensor:
    """Displacements (N, 3, 2) by the law of the Shapes world: circle (0, c), square (s, 0), triangle (c, -c)."""
    chance = torch.Generator().manual_seed(seed)
    c, s = torch.rand(2, count, generator=chance) * 2 * RANGE - RANGE
    zero = torch.zeros(count)
    return torch.stack([torch.stack(d, 1) for d in ((zero, c), (s, zero), (c, -c))], 1)


class TestTables:
    def test_floor_falls_with_the_number_of_samples(self) -> None:
        floors = [motion_table(true_world(n, 0), true_world(n, 1)) for n in (500, 20000)]
        assert list(floors[0]) == ["circles", "squares", "triangles", "circles_triangles"]
        for column in floors[0]:
            assert 0 <= floors[1][column] < 0.01 < floors[0][column]

    def test_standing_still_is_far_from_the_truth(self) -> None:
        assert min(motion_table(true_world(5000, 0), torch.zeros(5000, 3, 2)).values()) > 5

    def test_the_tie_of_circle_and_triangle_is_a_column_of_its_own(self) -> None:
        truth, loose = true_world(20000, 0), true_world(20000, 1)
        loose[:, 2] = true_world(20000, 2)[:, 2]
        table = motion_table(truth, loose)
        assert max(table["circles"], table["squares"], table["triangles"]) < 0.01
        assert table["circles_triangles"] > 2

    def test_joint_histogram_is_of_circle_dy_and_triangle_dx(self) -> None:
        moves = torch.tensor([[[9.0, 1.0], [9.0, 9.0], [-2.0, 9.0]]])
        assert torch.equal(joint_histogram(moves), histogram(torch.tensor([[1.0, -2.0]])))

    def test_correlations(self) -> None:
        moves = true_world(4000, 3) + 0.3 * torch.randn(4000, 3, 2, generator=torch.Generator().manual_seed(4))
        kept = moves.numpy()
        expected = [np.corrcoef(kept[:, 0, 1], kept[:, k, 0])[0, 1] for k in (2, 1)]
        holes = torch.cat([moves, torch.full((5, 3, 2), math.nan)])
        found = motion_correlations(holes)
        assert list(found) == ["circle_triangle", "circle_square"]
        assert list(found.values()) == pytest.approx(expected, abs=1e-5)
        assert math.isnan(motion_correlations(torch.zeros(10, 3, 2))["circle_triangle"])

    def test_measured_shares(self) -> None:
        moves = torch.zeros(4, 3, 2)
        moves[0, 1, 0] = math.nan
        assert measured_shares(moves) == {"circles": 1.0, "squares": 0.75, "triangles": 1.0}
