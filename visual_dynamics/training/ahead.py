"""Batches that are read from files before they are needed, so that the device does not wait for the disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

DEPTH = 4  # steps ahead
THREADS = 2

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """A function of the step whose next few values are computed by other threads; the values are the same."""

    def __init__(self, read: Callable[[int], T]) -> None:
        self.read = read
        self._pool = ThreadPoolExecutor(THREADS, "read-ahead")
        self._coming: dict[int, Future[T]] = {}

    def __call__(self, step: int) -> T:
        for ahead in range(step, step + DEPTH):
            if ahead not in self._coming:
                self._coming[ahead] = self._pool.submit(self.read, ahead)
        for past in [number for number in self._coming if not step <= number < step + DEPTH]:
            self._coming.pop(past).cancel()
        return self._coming.pop(step).result()
