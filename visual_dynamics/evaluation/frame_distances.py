"""How far a predicted frame is from the true one, and how sharp it is.

Distances that forgive less blur than squared error does: of Laplacian pyramids, and by structural similarity at
several scales (MS-SSIM). Frames are floats (n, 3, S, S) in [0, 1].
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

CHANGED = 16  # levels of 255, in any channel: sharpness is measured where a prediction changes more than that
PYRAMID = 5  # taps of the pyramid's filter: 1 4 6 4 1
COARSEST = 8  # pixels a side, at least, of a level of the pyramid
WINDOW, DEVIATION = 11, 1.5  # of structural similarity, pixels
WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # of scales, the finest first (Wang et al., 2003)
C1, C2 = 0.01**2, 0.03**2


# --- Laplacian pyramid ---


def laplacian_distance(one: Tensor, other: Tensor) -> Tensor:
    """Sum over levels j = 0, 1, ... of 4^j times the absolute differences of level j, (n,): all levels weigh alike."""
    total = one.new_zeros(len(one))
    for level, part in enumerate(laplacian_pyramid(one - other)):  # it is linear
        total = total + 4**level * part.abs().sum((1, 2, 3))
    return total


def laplacian_pyramid(frames: Tensor) -> list[Tensor]:
    """What each level adds to the next coarser one, the finest first; last the coarsest level itself."""
    levels = []
    while min(frames.shape[2:]) >= 2 * COARSEST:
        smaller = _filtered(frames, _binomial(frames))[..., ::2, ::2]
        larger = F.interpolate(smaller, size=frames.shape[2:], mode="bilinear", align_corners=False)
        levels.append(frames - larger)
        frames = smaller
    return [*levels, frames]


def _binomial(like: Tensor) -> Tensor:
    return torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]).to(like) / 16


def _filtered(frames: Tensor, taps: Tensor, padded: bool = True) -> Tensor:
    """Rows, then columns, weighted by symmetric taps (k,); borders are repeated, or left out."""
    reach, channels = len(taps) // 2, frames.shape[1]
    if padded:
        frames = F.pad(frames, (reach, reach, reach, reach), mode="replicate")
    weights = taps.expand(channels, 1, 1, -1)
    return F.conv2d(F.conv2d(frames, weights, groups=channels), weights.transpose(2, 3), groups=channels)


# --- structural similarity ---


def ms_ssim_distance(one: Tensor, other: Tensor) -> Tensor:
    """1 - MS-SSIM, (n,), on as many of the five scales as frames have room for; their weights add up to one."""
    taps = _gaussian().to(one)
    scales = 1
    while scales < len(WEIGHTS) and min(one.shape[2:]) >= WINDOW * 2**scales:
        scales += 1
    similarity = one.new_ones(len(one))
    for scale in range(scales):
        luminance, contrast = _similarity(one, other, taps)
        part = luminance * contrast if scale == scales - 1 else contrast
        similarity = similarity * part.clamp_min(0) ** (WEIGHTS[scale] / sum(WEIGHTS[:scales]))
        one, other = F.avg_pool2d(one, 2), F.avg_pool2d(other, 2)
    return 1 - similarity


def _similarity(one: Tensor, other: Tensor, taps: Tensor) -> tuple[Tensor, Tensor]:
    """Of luminance, and of contrast with structure: means over a frame, (n,) each."""
    mean, other_mean = (_filtered(x, taps, padded=False) for x in (one, other))
    variance = _filtered(one * one, taps, padded=False) - mean**2
    other_variance = _filtered(other * other, taps, padded=False) - other_mean**2
    both = _filtered(one * other, taps, padded=False) - mean * other_mean
    luminance = (2 * mean * other_mean + C1) / (mean**2 + other_mean**2 + C1)
    contrast = (2 * both + C2) / (variance + other_variance + C2)
    return luminance.mean((1, 2, 3)), contrast.mean((1, 2, 3))


@cache
def _gaussian() -> Tensor:
    taps = torch.exp(-((torch.arange(WINDOW, dtype=torch.double) - WINDOW // 2) ** 2) / (2 * DEVIATION**2))
    return taps / taps.sum()


# --- sharpness ---


def sharpness_where_changed(frame: Tensor, predicted: Tensor) -> tuple[float, float]:
    """Gradients of predicted frames and of their input (3, S, S), where the prediction changes: two sums over n.

    The squared length of the gradient, added over colours. Divide the first by the second.
    """
    levels = (255 * predicted).round() - (255 * frame).round()
    changed = levels.abs().amax(1) > CHANGED  # (n, S, S)
    ours, before = squared_gradient(predicted), squared_gradient(frame[None])
    return float(ours[changed].double().sum()), float((before * changed).double().sum())


def squared_gradient(frames: Tensor) -> Tensor:
    """(n, 3, S, S) -> (n, S, S); of forward differences, 0 across the last row and column."""
    across, down = frames.diff(dim=3), frames.diff(dim=2)
    return F.pad(across, (0, 1)).square().sum(1) + F.pad(down, (0, 0, 0, 1)).square().sum(1)
