"""Shares of false alarms and of faults found, on a sheet whose answers are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.sprites.test_critic import WAVE, figure
from visual_dynamics.errors import UserError
from visual_dynamics.experiments.sheet_check import (
    FAULTS,
    SETTINGS,
    Fault,
    SheetCheckOptions,
    alarms,
    compute,
    detections,
    draw,
    headline,
    layered_sheet,
    names,
    share,
)
from visual_dynamics.sprites.critic import CHECKS, Criticism, Finding
from visual_dynamics.sprites.named_sheets import sheet_of

LEFT, RIGHT = figure(WAVE), figure(WAVE)[:, :, ::-1]


def test_a_share_and_its_interval() -> None:
    found = share([True, False, False, True])
    assert found["animations"] == 4 and found["share"] == 0.5
    assert found["interval"] == pytest.approx((0.150, 0.850), abs=1e-3)  # Wilson's of 2 of 4, from a table
    assert share([])["share"] is None


def test_alarms_are_counted_by_animation() -> None:
    dirty = RIGHT.copy()
    dirty[1, 12, 12, 3], dirty[4, 12, 12, 3] = 9, 200
    found = alarms(sheet_of([("left", LEFT), ("empty", 0 * LEFT), ("right", dirty)]))
    assert found["whole"]["alpha"] == found["alone"]["alpha"] == [False, True]
    assert not any(any(some) for name, some in found["whole"].items() if name != "alpha")


def test_faults_are_looked_for_in_the_right_place() -> None:
    sheet = sheet_of([("walk left", LEFT), ("walk right", RIGHT)])

    def found(name: str) -> list[dict[str, bool]]:
        return list(detections(sheet, FAULTS[name], np.random.default_rng(0)))

    assert found("a frozen animation") == [{"whole": True, "alone": True}] * 2
    assert found("the same, palette given") == [{"whole": True, "alone": True}] * 2
    assert found("a stray colour") == [{"whole": False, "alone": False}] * 2  # too few frames to say
    assert [one["whole"] for one in found("a frame moved by 2 pixels")] == [True, True]
    assert len(found("a cycle cut off")) == 2
    still = sheet_of([("spell left", LEFT)])
    assert list(detections(still, FAULTS["a cycle cut off"], np.random.default_rng(0))) == []


def test_faults_are_put_into_whole_animations() -> None:
    given: list[np.ndarray] = []

    def put(frames: np.ndarray, draws: np.random.Generator) -> None:
        given.append(frames)

    sheet = sheet_of([("walk left", LEFT), ("walk right", RIGHT)])
    assert list(detections(sheet, Fault("anchor", put), np.random.default_rng(0))) == []
    assert {frames.tobytes() for frames in given} == {LEFT.tobytes(), RIGHT.tobytes()}


def test_a_fault_found_in_another_frame_is_not_the_one() -> None:
    criticism = Criticism((Finding("anchor", "walk", (2, 3), 1.0, 0.3, "stands elsewhere"),), ())
    assert names(criticism, "anchor", "walk") and names(criticism, "anchor", "walk", [3, 4])
    assert not names(criticism, "anchor", "walk", [1, 4])
    assert not names(criticism, "feet", "walk", [2]) and not names(criticism, "anchor", "run", [2])


def test_cells_of_a_sheet_get_the_names_of_their_animations() -> None:
    picture = np.full((21 * 64, 13 * 64, 4), 255, np.uint8)
    sheet = layered_sheet(picture)
    assert len(sheet.tags) == 21 and len(sheet.frames) == 178
    assert (sheet.tags[8].name, sheet.tags[8].first, sheet.tags[8].last) == ("walk 0", 60, 68)


def test_every_check_has_a_fault_and_the_tables_show_them(tmp_path: Path) -> None:
    assert {fault.check for fault in FAULTS.values()} == {*CHECKS}
    one: dict[str, Any] = {"animations": 200, "share": 0.125, "interval": [0.1, 0.2]}
    none = {"animations": 0, "share": None, "interval": None}
    clean = {"reed": {setting: dict.fromkeys([*CHECKS, "any"], one) for setting in SETTINGS}}
    faults = {name: {"check": fault.check, "whole": one, "alone": none} for name, fault in FAULTS.items()}
    text = draw({"clean": clean, "faults": faults}, tmp_path)
    assert text.count("12.5 (10.0 to 20.0)") == 16 + len(FAULTS) and text.count("none") == len(FAULTS)
    assert "200 of Reed's characters" in text
    assert headline({"clean": clean, "faults": faults})[2:] == ("12 to 12 %", "12.5 % false alarms")


def test_without_sheets_nothing_can_be_measured() -> None:
    with pytest.raises(UserError, match="at least one of --sprites"):
        compute(SheetCheckOptions(), torch.device("cpu"), lambda step, done: None)
