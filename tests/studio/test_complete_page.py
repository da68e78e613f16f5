"""Complete a character on the page, in a real browser: its sheets dropped or chosen, drawings, marks, the ZIP."""

from __future__ import annotations

import base64
import io
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fastapi import FastAPI
from PIL import Image

from tests.browser import TOO_FAINT
from tests.sprites.test_complete_command import in_hat, sheet, swapped, write_folder
from tests.studio.conftest import WAIT, until
from tests.studio.test_complete import zipped
from visual_dynamics.studio.state import Queue

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE = 390  # pixels
DROP = """([name, data]) => {
    const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0)), files = new DataTransfer();
    files.items.add(new File([bytes], name));
    const event = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
    document.querySelector("#character-drop strong").dispatchEvent(event);
}"""
COLOURS = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"


def drop(page: Page, name: str, data: bytes) -> None:
    page.evaluate(DROP, [name, base64.b64encode(data).decode()])
    page.wait_for_selector("#character:not([hidden])")


def only(page: Page, *animations: str) -> None:
    page.click("#choose-none")
    for name in animations:
        page.check(f"#missing [value={name}]")


def test_a_zip_is_dropped_and_its_completion_taken_away(page: Page, tmp_path: Path) -> None:
    page.click("#tab-transfer")
    drop(page, "hero.zip", zipped(swapped("walk", "idle"), "hero/"))
    assert page.text_content("#character-has") == "walk (36), idle (8)"
    assert page.locator("#missing input:checked").count() == 13  # all, at first
    assert page.text_content("#complete-model") == "Model: sprites-lpc-poses"
    only(page, "sit", "climb")
    page.click("#complete-form .primary")
    page.wait_for_selector("#complete-result .card:nth-of-type(2)")
    assert page.locator("#complete-result .moving").count() == 2 * (4 + 1)
    truth = swapped("climb")["climb", "up"]
    for frame, pixels in enumerate(truth):
        shown = page.locator("#complete-result .card:has(h3:text('climb')) .frames canvas").nth(frame).evaluate(COLOURS)
        assert (np.array(shown, np.uint8).reshape(64, 64, 4) == pixels).all()
    before = page.locator(".moving").first.evaluate(COLOURS)
    until(page, f"old => ({COLOURS})(document.querySelector('.moving')).join() !== old", ",".join(map(str, before)))
    with page.expect_download() as download:
        page.click("#complete-result button:has-text('Download')")
    assert download.value.suggested_filename == "hero-complete.zip"
    download.value.save_as(tmp_path / "hero.zip")
    with zipfile.ZipFile(tmp_path / "hero.zip") as archive:
        assert {"walk.png", "sit.png", "climb.png", "CREDITS.txt"} <= set(archive.namelist())
        made = np.array(Image.open(io.BytesIO(archive.read("climb.png"))))
    assert np.array_equal(made, sheet("climb", swapped("climb")))
    assert page.is_hidden("#problem")


def test_drawings_have_doubts_and_a_phone_shows_them(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.sprites.complete.CHECKED", 2)
    seen, report = threading.Event(), Queue.report

    def held(queue: Queue, done: int, total: int) -> None:
        report(queue, done, total)
        assert seen.wait(WAIT / 1000)  # short work would be over before the page asks how far it is

    monkeypatch.setattr(Queue, "report", held)
    page.select_option("#model", "sprites-poses")  # it does badly here
    page.click("#tab-transfer")
    drop(page, "hero.zip", zipped(in_hat(swapped("walk", "slash"))))
    only(page, "climb")
    page.check("[name=force]")
    page.click("#complete-form .primary")
    until(page, "!document.querySelector('#progress').hidden")
    seen.set()
    page.wait_for_selector("#complete-result .card")
    assert page.is_hidden("#progress") and page.is_hidden("#cancel")
    doubtful = page.locator(".frames .doubtful")
    assert doubtful.count() > 0 and "climb up, frame" in (doubtful.first.get_attribute("aria-label") or "")
    assert f"{doubtful.count()} of them doubtful" in (page.text_content("#status") or "")
    assert page.evaluate(TOO_FAINT) == []
    page.set_viewport_size({"width": PHONE, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_a_folder_several_sheets_and_what_is_none(page: Page, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "knight", swapped("walk", "idle"))
    (folder / ".hidden").write_bytes(b"not sent")
    page.click("#tab-transfer")
    page.set_input_files("#character-folder", folder)
    until(page, "document.querySelector('#character-name').textContent === 'knight'")
    assert page.locator("#character-remarks li").count() == 0
    page.set_input_files("#character-files", [folder / "walk.png"])
    until(page, "document.querySelector('#character-name').textContent === 'character'")
    assert page.text_content("#character-has") == "walk (36)"
    page.set_input_files("#character-files", [folder / "walk.png", folder / "idle.png"])
    until(page, "document.querySelector('#character-has').textContent === 'walk (36), idle (8)'")
    write_folder(tmp_path / "others" / "below", swapped("walk"))
    page.set_input_files("#character-folder", tmp_path / "others")
    until(page, "document.querySelector('#problem').textContent.startsWith('Others holds no sheets')")
    assert page.text_content("#character-has") == "walk (36), idle (8)"  # nothing is lost


def test_a_folder_is_dropped(page: Page, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "squire" / "standard", swapped("walk"), 832).parent
    page.click("#tab-transfer")
    page.locator("#character-drop").scroll_into_view_if_needed()
    box = page.locator("#character-drop").bounding_box()
    assert box is not None
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
    until(page, "document.querySelector('#character-name').textContent === 'squire'")
    assert page.text_content("#character-has") == "walk (36)"


def test_what_is_no_sheet_is_told(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no sheet")
    page = browser.new_page()
    page.goto(f"{address}/#transfer")
    page.wait_for_selector("#pair img", timeout=WAIT)
    page.set_input_files("#character-files", tmp_path / "notes.txt")
    page.wait_for_selector("#problem:not([hidden])", timeout=WAIT)
    assert page.text_content("#problem") == "Cannot read notes.txt: it is not a readable PNG picture."
    assert page.is_hidden("#character")
    page.close()


def test_a_character_that_the_studio_dropped_is_brought_again(app: FastAPI, browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/#transfer")
    page.wait_for_selector("#pair img", timeout=WAIT)
    drop(page, "hero.zip", zipped(swapped("walk")))
    only(page, "climb")
    app.state.studio.characters.clear()
    page.click("#complete-form .primary")
    page.wait_for_selector("#complete-result .card", timeout=WAIT)
    assert page.is_hidden("#problem")
    page.close()


def test_a_long_drawing_is_stopped(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.click("#tab-transfer")
    drop(page, "hero.zip", zipped(in_hat(swapped("walk", "slash"))))
    page.click("#complete-form .primary")
    until(page, "document.querySelector('#progress').value > 0")
    page.click("#cancel")
    until(page, "document.querySelector('#status').textContent === 'Cancelled'")
    until(page, "async () => (await (await fetch('/api/queue')).json()).length === 0")  # the studio knows it
    assert page.is_hidden("#progress") and page.locator("#complete-result .card").count() == 0
