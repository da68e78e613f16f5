"""Distances of frames and sharpness: by hand, against plain loops and against an independent program."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.conftest import seeded
from visual_dynamics.evaluation.frame_distances import (
    laplacian_distance,
    laplacian_pyramid,
    ms_ssim_distance,
    sharpness_where_changed,
)


def test_levels_of_a_pyramid_add_up() -> None:
    frames = seeded(2, 3, 32, 32)
    finest, middle, coarsest = laplacian_pyramid(frames)
    assert finest.shape[2:] == (32, 32) and middle.shape[2:] == (16, 16) and coarsest.shape[2:] == (8, 8)
    middle = middle + F.interpolate(coarsest, scale_factor=2, mode="bilinear")
    torch.testing.assert_close(finest + F.interpolate(middle, scale_factor=2, mode="bilinear"), frames)


def test_the_finer_level_is_what_a_binomial_filter_takes_away() -> None:
    cv2 = pytest.importorskip("cv2")
    frame = seeded(1, 3, 16, 16)
    picture = frame[0].permute(1, 2, 0).numpy()
    taps = np.array([1, 4, 6, 4, 1], np.float64) / 16
    smaller = cv2.sepFilter2D(picture.astype(np.float64), -1, taps, taps, borderType=cv2.BORDER_REPLICATE)[::2, ::2]
    assert np.allclose(laplacian_pyramid(frame)[1][0].permute(1, 2, 0).numpy(), smaller, atol=1e-5)


def test_a_grey_shift_lies_in_the_coarsest_level() -> None:
    """0.1 everywhere: levels above are 0, the coarsest of 8 x 8 counts 4^2 times: as many as 32 x 32 pixels."""
    one = torch.zeros(1, 3, 32, 32)
    assert float(laplacian_distance(one, one + 0.1)) == pytest.approx(16 * 0.1 * 3 * 64, rel=1e-5)
    assert float(laplacian_distance(one, one)) == 0


def test_one_scale_is_plain_ssim_by_loops() -> None:
    one, other = seeded(1, 3, 13, 12).sigmoid(), seeded(1, 3, 13, 12).cos().abs()
    weights = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(weights, weights) / weights.sum() ** 2
    luminance, contrast = [], []
    for colour in range(3):
        for top in range(3):
            for left in range(2):
                x, y = (f[0, colour, top : top + 11, left : left + 11].numpy() for f in (one, other))
                mx, my = (window * x).sum(), (window * y).sum()
                vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
                both = (window * (x - mx) * (y - my)).sum()
                luminance.append((2 * mx * my + 1e-4) / (mx**2 + my**2 + 1e-4))
                contrast.append((2 * both + 9e-4) / (vx + vy + 9e-4))
    expected = 1 - np.mean(luminance) * max(0, np.mean(contrast))
    assert float(ms_ssim_distance(one, other)) == pytest.approx(expected, abs=1e-4)


def test_scales_weigh_as_in_the_paper() -> None:
    """At 64 there is room for three scales. A shift of all colours changes luminance alone: the last scale's."""
    frame = 0.3 + 0.2 * seeded(1, 3, 64, 64).sigmoid()
    assert float(ms_ssim_distance(frame, frame)) == pytest.approx(0, abs=1e-6)
    grey, lighter = torch.full((1, 3, 64, 64), 0.2), torch.full((1, 3, 64, 64), 0.6)
    luminance = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    weight = 0.3001 / (0.0448 + 0.2856 + 0.3001)
    assert float(ms_ssim_distance(grey, lighter)) == pytest.approx(1 - luminance**weight, abs=1e-4)
    noise = 0.1 * seeded(1, 3, 64, 64)
    distances = [float(ms_ssim_distance(frame, frame + scale * noise)) for scale in (0.5, 1.0, 2.0)]
    assert 0 < distances[0] < distances[1] < distances[2] < 1


def test_sharpness_by_hand() -> None:
    """An edge from 0 to 1 in one step; predicted: the edge one pixel on, in two half steps. Changed: columns 3, 4."""
    frame, predicted = torch.zeros(3, 4, 8), torch.zeros(1, 3, 4, 8)
    frame[:, :, 3:] = 1
    predicted[:, :, :, 4] = 0.5
    predicted[:, :, :, 5:] = 1
    ours, before = sharpness_where_changed(frame, predicted)
    assert ours == pytest.approx(3 * 4 * (0.5**2 + 0.5**2))  # from 3 to 4, and from 4 to 5
    assert before == 0  # the input's edge is between columns 2 and 3
    shaken = predicted.clone()
    shaken[:, :, :, 2] = 0.1  # now column 2 changes, too: 0.1 up and down again, and the input's edge counts
    ours, before = sharpness_where_changed(frame, shaken)
    assert ours == pytest.approx(3 * 4 * (0.1**2 + 0.5**2 + 0.5**2)) and before == pytest.approx(3 * 4)


def test_blur_halves_sharpness_and_nothing_changed_counts_nothing() -> None:
    chance = torch.Generator().manual_seed(0)
    frame = torch.rand(3, 32, 32, generator=chance)
    blurred = F.avg_pool2d(F.pad(frame[None], (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    ours, before = sharpness_where_changed(frame, blurred)
    assert 0.1 < (ours / before) ** 0.5 < 0.4
    assert sharpness_where_changed(frame, frame[None] + 16 / 255) == (0, 0)  # not more than 16 levels
