"""Small things that many tests share: a tiny network, tiny pairs, tiny weights."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from visual_dynamics.data.pairs import Pairs
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import TINY
from visual_dynamics.weights import Weights, load_weights, weights_bytes

torch.set_num_threads(1)  # tests run side by side
os.environ["OMP_NUM_THREADS"] = "1"  # so do programs that they start
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported: its kernels run on the CPU


def seeded(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.fixture
def tiny_network() -> VisualDynamics:
    torch.manual_seed(0)
    return VisualDynamics(TINY)


@pytest.fixture(scope="session")
def tiny_pairs() -> Pairs:
    """40 pairs of 16x16 pixels: a bright square on a dark ground that moves by one pixel or stays."""
    generator = np.random.default_rng(0)
    frames = np.full((2, 40, 3, 16, 16), 40, np.uint8)
    for number in range(40):
        x, y, dx = generator.integers(2, 9), generator.integers(2, 9), generator.integers(-1, 2)
        colour = generator.integers(120, 255, 3)[:, None, None]
        frames[0, number, :, y : y + 5, x : x + 5] = colour
        frames[1, number, :, y : y + 5, x + dx : x + dx + 5] = colour
    return Pairs.of(torch.from_numpy(frames[0]), torch.from_numpy(frames[1]))


@pytest.fixture(scope="session")
def tiny_weights_file(tmp_path_factory: pytest.TempPathFactory, tiny_pairs: Pairs) -> Path:
    """A weights file of an untrained tiny network whose posteriors carry motion."""
    torch.manual_seed(1)
    network = VisualDynamics(TINY)  # in training mode batch norm spreads the means and log-variances out
    pair = tiny_pairs.batch(torch.arange(40))
    with torch.no_grad():
        posterior = network.encode_motion(pair.frame, pair.difference)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    path.write_bytes(weights_bytes(network, posterior, {"step": 0}))
    return path


@pytest.fixture
def tiny_weights(tiny_weights_file: Path) -> Weights:
    return load_weights(tiny_weights_file)
