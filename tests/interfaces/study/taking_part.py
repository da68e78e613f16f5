"""Somebody who takes part in a study of ten trials, in a browser, and what the study's folder holds afterwards."""

from pathlib import Path
from typing import TYPE_CHECKING

from visual_dynamics.interfaces.study.export import answer_rows
from visual_dynamics.interfaces.study.store import Store
from visual_dynamics.interfaces.study.study_file import read_study

if TYPE_CHECKING:
    from playwright.sync_api import Page

KEYS = ["ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowLeft", "ArrowRight"] * 2
ANSWERS = ["left" if key == "ArrowLeft" else "right" for key in KEYS]
READY = ".answer[aria-disabled=false]:visible"


def answer(page: "Page", keys: list[str]) -> None:
    for key in keys:
        page.wait_for_selector(READY)
        before = page.text_content("#count")
        page.keyboard.press(key)
        page.wait_for_function(
            "before => !document.getElementById('end').hidden"
            " || document.getElementById('count').textContent !== before",
            arg=before,
        )


def stored(folder: Path) -> list[tuple[int, str]]:
    rows = answer_rows(Store(folder, read_study(folder), create=False))
    assert len({row.rater for row in rows}) == 1
    return [(row.trial, row.answer) for row in rows]
