"""The page for people who use a keyboard or a screen reader: focus, words that are read aloud, names, contrast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import TOO_FAINT
from tests.studio.conftest import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOCUSED = "document.activeElement.matches"


def tab_to(page: Page, selector: str, most: int = 60) -> None:
    """Press Tab until that has the focus, which is to be seen."""
    for _ in range(most):
        if page.evaluate(f"selector => {FOCUSED}(selector)", selector):
            return
        page.keyboard.press("Tab")
        outline = (
            """getComputedStyle(document.activeElement.closest('.button') ?? document.activeElement).outlineStyle"""
        )
        assert page.evaluate(f"document.activeElement === document.body || {outline} !== 'none'")
    raise AssertionError(f"Tab does not reach {selector}")


def said(page: Page, words: str) -> None:
    until(page, "words => document.querySelector('#status').textContent.includes(words)", words)


def test_a_path_through_futures_by_keyboard(page: Page) -> None:
    said(page, "8 futures of the picture")
    tab_to(page, ".sample[data-id=shapes-2]")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.sample[data-id=shapes-2]').ariaPressed === 'true'")
    said(page, "8 futures of the picture")
    assert page.evaluate(f"{FOCUSED}('.sample[data-id=shapes-2]')")  # others may be tried
    tab_to(page, ".pick")
    page.keyboard.press("Enter")
    said(page, "at step 1")
    assert page.evaluate(f"{FOCUSED}('#wall figure:first-child .pick')")  # of the new wall
    page.locator("#path button").first.focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#path').hidden")
    assert page.evaluate(f"{FOCUSED}('#file')")
    said(page, "8 futures of the picture")
    page.locator("#wall button:has-text('Edit')").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(f"{FOCUSED}('#tab-motion')")
    said(page, "sliders")
    tab_to(page, ".slider input")
    still = page.locator(".slider output").first.text_content()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".slider output").first.text_content() != still


def test_a_motion_is_kept_and_deleted_by_keyboard(page: Page) -> None:
    page.locator("#tab-futures").focus()
    page.keyboard.press("ArrowRight")
    said(page, "sliders")
    tab_to(page, "#save-form input")
    page.keyboard.type("nod")
    page.keyboard.press("Enter")
    said(page, "Kept nod")
    tab_to(page, "#library button:last-child")
    page.keyboard.press("Enter")
    said(page, "Deleted nod")
    assert page.evaluate(f"{FOCUSED}('#save-form input')")


def test_transfer_by_keyboard_and_its_names(page: Page) -> None:
    page.select_option("#model", "sprites-poses")
    page.locator("#tab-futures").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    tab_to(page, "#transfer-run")
    page.keyboard.press("Enter")
    said(page, "The motion was applied")
    for name in ("Before: choose a file", "After: choose a file", "Sheet: choose a file"):
        assert page.get_by_label(name, exact=True).count() == 1
    tabs = page.get_by_role("tablist")
    assert tabs.get_by_role("tab").count() == 4 and tabs.locator("a").count() == 0
    assert page.evaluate("[...document.images].every(image => image.hasAttribute('alt'))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.select_option("#model", "sprites-poses")
    for tab in ("motion", "transfer", "inside", "futures"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector({"motion": ".slider", "inside": ".card"}.get(tab, "#panels"))
        assert page.evaluate(TOO_FAINT) == []
