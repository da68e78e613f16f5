"""A function that a CUDA graph may replay. Without CUDA: plain calls, and what becomes of a capture that fails."""

import pytest
import torch
from torch import Tensor

from visual_dynamics.training.captured import WARM_UP, Captured

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_the_cpu_each_call_is_a_plain_one() -> None:
    seen: list[Tensor] = []
    added = Captured(lambda one, other: (seen.append(one), one + other)[1], torch.device("cpu"))
    for number in range(WARM_UP + 3):
        value = torch.tensor(number)
        assert int(added(value, torch.tensor(1))) == number + 1
        assert seen[-1] is value  # not a copy
    assert added.graph is None


def test_where_a_capture_fails_calls_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, captures = [], []
    step = Captured(lambda: calls.append(1), torch.device("cuda"))

    def failing(arguments: list[Tensor]) -> None:
        captures.append(arguments)
        step.capturable = False

    monkeypatch.setattr(step, "_capture", failing)
    for _ in range(WARM_UP + 3):
        step()
    assert len(calls) == WARM_UP + 3 and captures == [[]]


@CUDA
def test_a_graph_computes_what_plain_calls_do() -> None:
    factor = torch.ones((), device="cuda")
    scaled = Captured(lambda one, other: (factor * one[:, None] + other, other > 1), factor.device)
    results = []
    for number in range(WARM_UP + 3):
        factor.fill_(number)
        one, other = torch.full((1,), 2.0).expand(3), torch.arange(4, device="cuda")
        result, large = scaled(one, other)
        assert torch.equal(result.cpu(), 2.0 * number + torch.arange(4).expand(3, 4)) and int(large.sum()) == 2
        results.append(result)
    assert scaled.graph is not None and results[-1] is results[-2]
    with pytest.raises(ValueError, match="captured for"):
        scaled(torch.ones(4), torch.arange(4))


@CUDA
def test_what_cannot_be_captured_runs_all_the_same() -> None:
    total, before = torch.zeros((), device="cuda"), torch.cuda.current_stream()
    asking = Captured(lambda: float(total.add_(1)), total.device)  # waits for the device
    assert [asking() for _ in range(WARM_UP + 3)] == list(range(1, WARM_UP + 4))
    assert asking.graph is None and torch.cuda.current_stream() == before


@CUDA
def test_a_failed_capture_leaves_random_numbers_and_memory_as_they_were() -> None:
    torch.cuda.manual_seed(0)
    expected = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(0)
    asking = Captured(lambda: float(torch.zeros((), device="cuda")), torch.device("cuda"))
    for _ in range(WARM_UP + 1):
        asking()
    assert asking.graph is None and torch.equal(torch.rand(3, device="cuda"), expected)
    torch.cuda.empty_cache()
    scaled = Captured(lambda value: 2 * value, torch.device("cuda"))  # and others can be captured
    assert [float(scaled(torch.tensor(1.0))) for _ in range(WARM_UP + 2)] == [2.0] * (WARM_UP + 2)
    assert scaled.graph is not None
