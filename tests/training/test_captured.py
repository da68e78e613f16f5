"""A step that a CUDA graph may replay. Without CUDA: plain calls, and what becomes of a capture that fails."""

import pytest
import torch

from visual_dynamics.training.captured import WARM_UP, CapturedStep

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_the_cpu_each_call_is_a_plain_one() -> None:
    total = torch.zeros(())
    step = CapturedStep(lambda: total.add_(1), torch.device("cpu"))
    for _ in range(WARM_UP + 3):
        step()
    assert total == WARM_UP + 3 and step.graph is None


def test_where_a_capture_fails_calls_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, captures = [], []
    step = CapturedStep(lambda: calls.append(1), torch.device("cuda"))

    def failing() -> None:
        captures.append(1)
        step.capturable = False

    monkeypatch.setattr(step, "_capture", failing)
    for _ in range(WARM_UP + 3):
        step()
    assert len(calls) == WARM_UP + 3 and len(captures) == 1


@CUDA
def test_a_graph_reads_what_was_written_before_each_call() -> None:
    number, total = torch.zeros((), device="cuda"), torch.zeros((), device="cuda")
    step = CapturedStep(lambda: total.add_(number), total.device)
    for value in range(WARM_UP + 3):
        number.fill_(value)
        step()
    assert step.graph is not None and int(total) == sum(range(WARM_UP + 3))


@CUDA
def test_what_cannot_be_captured_runs_all_the_same() -> None:
    total, before = torch.zeros((), device="cuda"), torch.cuda.current_stream()

    def asking() -> None:
        total.add_(1)
        float(total)  # waits for the device

    step = CapturedStep(asking, total.device)
    for _ in range(WARM_UP + 3):
        step()
    assert step.graph is None and int(total) == WARM_UP + 3 and torch.cuda.current_stream() == before
