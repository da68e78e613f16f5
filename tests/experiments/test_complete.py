"""What `complete` measures: characters in held-out items, hidden sheets, shares and doubts by hand, a table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.sprites.test_complete import CLIMB, RED, WALK, Adding, body, clips, with_hat
from visual_dynamics.data.packed import Clip, PackedCharacter
from visual_dynamics.experiments import complete
from visual_dynamics.experiments.complete import HIDDEN, CompleteOptions, Frame, doubts, exact_share, summary
from visual_dynamics.sprites.characters import Character

CPU = torch.device("cpu")
RUN = ("run", "down")
REFERENCE = Character("body", clips(WALK, RUN), body="male")


def packed(number: int) -> PackedCharacter:
    """The reference in a hat: walk, and run as the toy model makes it."""
    truth = with_hat(clips(WALK, RUN))
    truth[RUN][:, 20:22, 20:24] = truth[WALK][2][20:22, 20:24]  # the body that came out from under the brim
    frames = np.concatenate([truth[WALK], truth[RUN]])
    colours = np.unique(frames.reshape(-1, 4), axis=0)
    index = (frames[..., None, :] == colours).all(-1).argmax(-1).astype(np.uint8)
    parts = (Clip("walk", "down", 3), Clip("run", "down", 3))
    return PackedCharacter(index, colours, parts, {"number": number, "body": "male"})


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict:
    asked: list[tuple] = []
    monkeypatch.setattr(complete, "Generator", lambda folder: folder)
    monkeypatch.setattr(complete, "load", lambda *name: SimpleNamespace(predictor=Adding()))
    monkeypatch.setattr(complete, "shipped_bodies", lambda: (REFERENCE,))
    without = replace(packed(2), index=packed(2).index[:3], clips=packed(2).clips[:1])  # nothing to hide: left out
    monkeypatch.setattr(
        complete, "draw_cast", lambda *given, **more: asked.append((given, more)) or [packed(0), packed(1), without]
    )
    measured = complete.compute(CompleteOptions(samples=2, lpc=tmp_path), CPU, lambda step, share: None)
    ((given, more),) = asked
    assert given[1:4] == (2, 0, "held-out") and more["whole"]
    assert measured.pictures["complete_worst.png"].startswith(b"\x89PNG")
    return json.loads(json.dumps(measured.numbers))


def test_a_model_that_knows_every_motion_has_little_error(result: dict) -> None:
    assert list(result["animations"]) == ["run"] and result["animations"]["run"]["frames"] == 6
    found = result["all"]
    assert found["ours"] < 0.05 < found["known frame"] < 1 and found["characters"] == 2
    assert found["exact frames"] == 1 and found["still"] > 0
    assert [one["reference"] for one in result["characters"]] == ["male", "male"]
    assert len(result["worst"]) == 6 and result["worst"][0]["frame"].startswith("run down")


def test_hidden_sheets_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = complete.plan
    monkeypatch.setattr(complete, "shipped_bodies", lambda: (REFERENCE,))
    monkeypatch.setattr(complete, "plan", lambda one, *more, **named: seen.append(one) or real(one, *more, **named))
    complete.completed(Adding(), packed(0), 0)  # type: ignore[arg-type]
    assert set(seen[0].clips) == {WALK} and "run" in HIDDEN


def test_shares_and_doubts_by_hand() -> None:
    truth, other = body(20), body(20)
    other[20:40] = 0
    assert exact_share(truth, truth) == 1 and exact_share(other, truth) == 0.5
    assert exact_share(body(20, (*RED[:2], 81, 255)), truth) == pytest.approx(6 / 400)

    def frame(character: int, error: float, doubt: float) -> Frame:
        return Frame(character, CLIMB, 0, error, 10.0, 5.0, 0.95 if error < 4 else 0.5, doubt, ())

    frames = [frame(0, 2, 0.1), frame(0, 4, 0.2), frame(1, 6, 0.4), frame(1, 8, 0.3)]
    found = summary(frames, 2)
    assert found["ours"] == 0.5 and found["known frame"] == 0.5 and found["still"] == 10
    assert found["interval"] == pytest.approx((0.3, 0.7)) and found["exact frames"] == 0.25
    sure = doubts(frames)
    assert sure["marked"] == 0.5 and sure["ours, unmarked"] == pytest.approx(0.3)
    assert sure["rank correlation"] == pytest.approx(0.8)


def test_the_table_is_made_of_the_numbers_alone(result: dict, tmp_path: Path) -> None:
    words = complete.draw(result, tmp_path)
    assert "| ours |" in words and "Body type found: 2 of 2" in words and "run down" in words
    assert "nearest known frame" in complete.headline(result).floor
