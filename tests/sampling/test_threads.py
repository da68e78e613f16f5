"""Work in threads: results in order, the same whatever their number; and what is left behind when a task fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from visual_dynamics.sampling.threads import in_threads


@pytest.fixture(params=[1, 2, 3])
def count(request: pytest.FixtureRequest) -> Iterator[int]:
    usual = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(usual)


def test_results_are_in_order_and_each_thread_computes_alone(count: int) -> None:
    together = threading.Barrier(count, timeout=30)  # all of them work at the same time

    def work(number: int) -> tuple[int, int]:
        together.wait()
        return number, torch.get_num_threads()

    assert list(in_threads(work, range(2 * count * 3))) == [(number, 1) for number in range(2 * count * 3)]
    assert torch.get_num_threads() == count
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [count]


def test_after_an_error_nothing_else_is_begun(count: int) -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        list(in_threads(work, range(1000)))
    assert len(begun) < 1000 and torch.get_num_threads() == count
