"""The pairs a run trains on, and the order in which it sees them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Generic, TypeVar

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pairs, mix, mix_pairs, spread
from visual_dynamics.data.sources import DataSpec, open_data
from visual_dynamics.errors import UserError
from visual_dynamics.training.config import TrainingConfig

OWN_SHARE = 0.25  # of a mixture, at least: a run is about its own data
WORN_FRAMES = 1_024  # frames of a run's own data that drawn figures may wear


def data_spec(config: TrainingConfig, size: int) -> DataSpec:
    return DataSpec(
        data=config.data,
        size=size,
        seed=config.seed,
        rendering=config.rendering,
        between=config.between,
        characters=config.split,
        sheets=config.sheets,
        background=config.network.background,
    )


def training_pairs(config: TrainingConfig, device: torch.device | str = "cpu") -> Pairs:
    """What a run trains on, at the size it is stored; with `also`, other data are mixed in. `device` may draw it."""
    spec = data_spec(config, config.stored_size)
    if config.also and config.stream:
        raise UserError("data that are streamed cannot be mixed with others")
    own = open_data(spec, "train", config.pairs, device, config.stream)
    if not config.also:
        return own
    wear = None
    if config.also == "figures":  # they wear what the run's own pictures show
        wear = (255 * own.batch(spread(len(own), WORN_FRAMES, seed=0)).frame).round().to(torch.uint8)
    more = open_data(replace(spec, data=config.also), "train", config.also_pairs, device, wear=wear)
    return mix_pairs(own, more, OWN_SHARE)


def held_out_pairs(config: TrainingConfig, count: int = 256) -> Pairs | None:
    """Pairs to look at while training; None where the data have no held-out pairs."""
    return open_data(data_spec(config, config.network.size), "held-out", count)


class ShuffledOrder:
    """An endless walk over the data: each epoch a new permutation, no remainder dropped.

    A pure function of seed and step, so that resuming needs no state and any number of processes sees the same order.
    """

    def __init__(self, count: int, batch: int, seed: int) -> None:
        self.count, self.batch, self.seed = count, batch, seed
        self._permutation = lru_cache(maxsize=2)(self._make_permutation)

    def _make_permutation(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(mix(self.seed, epoch))
        return torch.randperm(self.count, generator=generator)

    def indices(self, step: int) -> Tensor:
        """Indices of the pairs of one global batch, int64 (batch,)."""
        position = torch.arange(step * self.batch, (step + 1) * self.batch)
        epoch, place = position // self.count, position % self.count
        return torch.cat([self._permutation(int(e))[place[epoch == e]] for e in epoch.unique()])


def step_noise(step: int, batch: int, latent: int, seed: int, device: torch.device) -> Tensor:
    """N(0, I) for the z of one global batch, (batch, latent): a pure function of seed and step."""
    generator = torch.Generator(device).manual_seed(mix(seed, step) ^ 0x5EED)
    return torch.randn(batch, latent, generator=generator, device=device)


T = TypeVar("T")


class ReadAhead(Generic[T]):
    """A function of the step. Other threads compute its next few values: the device does not wait for files."""

    DEPTH = 4  # steps
    THREADS = 2

    def __init__(self, read: Callable[[int], T]) -> None:
        self.read = read
        self._pool = ThreadPoolExecutor(self.THREADS, "read-ahead")
        self._coming: dict[int, Future[T]] = {}

    def __call__(self, step: int) -> T:
        coming = range(step, step + self.DEPTH)
        for number in coming:
            if number not in self._coming:
                self._coming[number] = self._pool.submit(self.read, number)
        for past in [number for number in self._coming if number not in coming]:
            self._coming.pop(past).cancel()
        return self._coming.pop(step).result()
