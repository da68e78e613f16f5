"""How far a set of predicted pairs is from a set of true ones: Frechet and kernel distance between features of pairs.

There is no network here that learned from photographs. Two kinds of features take its place:

random network    of frame and next frame; its weights are drawn by a fixed seed. The same numbers everywhere
flow histogram    how many pixels move in which direction and how far, by optical flow from frame to next frame

Such features know nothing of people: small distances are needed, and do not suffice. Distances of true pairs to other
true pairs are the floor. Letters in shape comments: N pairs of one set, M of the other, D features.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.baselines import FlowEstimator

NETWORK_SEED = 20  # of the random weights, whatever the seed of a measurement
WIDTHS = (32, 64, 64)  # channels of the layers, each of which halves the size
FEATURES = 32  # of the random network
DIRECTIONS = 8
SPEEDS = (0.5, 1.0, 2.0, 4.0)  # pixels, of frames of 64: a class begins at each; slower pixels stand still
CHUNK = 256  # pairs at once
RIDGE = 1e-6  # share of the mean variance that is added to each: sets may be smaller than D


def random_features(frames: Tensor, next_frames: Tensor) -> Tensor:
    """Pairs, floats (N, 3, S, S) in [0, 1] -> (N, FEATURES), double.

    Three convolutions of 4 x 4 and stride 2, then mean and deviation of each channel over the frame, then a random
    orthogonal projection. Weights: N(0, 2 / inputs), biases 0, leaky ReLU of 0.2.
    """
    generator = torch.Generator().manual_seed(NETWORK_SEED)
    layers = [
        torch.randn(after, before, 4, 4, generator=generator) * math.sqrt(2 / (16 * before))
        for before, after in zip((6, *WIDTHS[:-1]), WIDTHS, strict=True)
    ]
    projection = torch.linalg.qr(torch.randn(2 * WIDTHS[-1], FEATURES, generator=generator).double())[0]
    parts = []
    for before, after in zip(frames.split(CHUNK), next_frames.split(CHUNK), strict=True):
        maps = torch.cat([after - 0.5, 4 * (after - before)], 1)  # a motion is small beside a picture
        for weights in layers:
            maps = F.leaky_relu(F.conv2d(maps, weights.to(maps), stride=2, padding=1), 0.2)
        pooled = torch.cat([maps.mean((2, 3)), maps.std((2, 3))], 1).double().cpu()  # (n, 2 channels)
        parts.append(pooled @ projection)
    return torch.cat(parts)


def flow_histograms(frames: Tensor, next_frames: Tensor) -> Tensor:
    """Pairs, uint8 (N, 3, S, S) -> (N, 1 + DIRECTIONS * len(SPEEDS)), double: roots of the shares of all pixels."""
    estimator = FlowEstimator()
    rows = []
    for before, after in zip(frames, next_frames, strict=True):
        across, down = estimator.measure(before, after).double().numpy() * (64 / frames.shape[-1])
        speed = np.hypot(across, down).ravel()
        angle = (np.arctan2(down, across).ravel() + 2 * np.pi) % (2 * np.pi)
        way = (angle / (2 * np.pi) * DIRECTIONS + 0.5).astype(int) % DIRECTIONS
        fast = np.searchsorted(SPEEDS, speed, side="right")  # 0: stands still
        places = np.where(fast == 0, 0, 1 + (fast - 1) * DIRECTIONS + way)
        rows.append(np.bincount(places, minlength=1 + DIRECTIONS * len(SPEEDS)) / len(places))
    return torch.from_numpy(np.sqrt(np.stack(rows)))


def frechet_distance(one: Tensor, other: Tensor) -> float:
    """|m - m'|^2 + tr(C + C' - 2 (C C')^1/2) of the normal distributions that fit features (N, D) and (M, D)."""
    means = [x.double().mean(0) for x in (one, other)]
    spreads = [torch.atleast_2d(torch.cov(x.double().T)) for x in (one, other)]
    nothing = RIDGE * sum(float(spread.diagonal().mean()) for spread in spreads) / 2
    first, second = (spread + nothing * torch.eye(len(spread)).to(spread) for spread in spreads)
    values, vectors = torch.linalg.eigh(first)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    both = torch.linalg.eigvalsh(root @ second @ root).clamp_min(0).sqrt().sum()  # tr (C C')^1/2
    return float((means[0] - means[1]).square().sum() + first.trace() + second.trace() - 2 * both)


def kernel_distance(one: Tensor, other: Tensor) -> float:
    """Squared maximum mean discrepancy of features (N, D) and (M, D), with the kernel (x.y / D + 1)^3 of KID.

    Unbiased, so it may be below 0. NaN for sets of one.
    """
    if min(len(one), len(other)) < 2:
        return math.nan
    one, other = one.double(), other.double()

    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.T / x.shape[1] + 1) ** 3

    def within(x: Tensor) -> Tensor:
        values = kernel(x, x)
        return (values.sum() - values.trace()) / (len(x) * (len(x) - 1))

    return float(within(one) + within(other) - 2 * kernel(one, other).mean())
