"""The page in a real browser: upload, futures, going on, sliders, motions, transfer and files."""

from __future__ import annotations

import base64
import json
import threading
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from fastapi import FastAPI
from PIL import Image

from tests.studio.conftest import WAIT, opened, source, until
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.sampling import poke
from visual_dynamics.sprites.files import sheet_files
from visual_dynamics.studio import futures
from visual_dynamics.studio.pictures import FIGURES, draw_figure

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE = 390  # pixels


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.full((90, 120, 3), (220, 225, 240), np.uint8)
    pixels[30:60, 40:70] = (200, 40, 30)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_upload_futures_and_a_path_through_them(page: Page, picture: Path) -> None:
    before = source(page, "#wall .end")
    page.set_input_files("#file", picture)
    until(page, "old => document.querySelector('#wall .end').src !== old", before)
    assert page.locator("#wall figure").count() == 8
    tops = page.evaluate("[...document.querySelectorAll('#wall figure')].map(tile => tile.offsetTop)")
    assert len(set(tops[:4])) == len(set(tops[4:])) == 1 and tops[0] < tops[4]  # 4 + 4
    opacity = "getComputedStyle(document.querySelector('#wall .end')).opacity"
    for value in "01":  # input and future in turn
        until(page, f"{opacity} === '{value}'")
    page.click("#more")
    until(page, "document.querySelectorAll('#wall figure').length === 16")
    start, future = source(page, "#picture"), source(page, "#wall figure:nth-child(3) .end")
    page.click("#wall figure:nth-child(3) .pick")
    until(page, "document.querySelectorAll('#path button').length === 2")
    assert source(page, "#picture") == future
    page.click("#path button:first-child")
    until(page, "document.querySelector('#path').hidden")
    assert source(page, "#picture") == start


def test_a_drag_on_the_picture_is_a_poke(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(poke.poked_codes, count=48)
    monkeypatch.setattr(futures, "poked_codes", lambda *given: few(*given[:5]))
    monkeypatch.setattr(
        poke, "motion_at", lambda frame, made, place, reach: torch.tensor([[0, 1.5]]).repeat(len(made), 1)
    )
    before = source(page, "#wall .end")
    box = page.locator("#picture").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 4 + 6, steps=3)
    page.mouse.up()
    until(page, "document.querySelector('#status').textContent.includes('codes tried fit the poke')")
    assert source(page, "#wall .end") != before
    size = page.evaluate("document.querySelector('#picture').naturalWidth")
    x, y, dx, dy = (float(page.input_value(f"#poke-form [name={name}]")) for name in ("x", "y", "dx", "dy"))
    assert abs(x - (size / 2 - 0.5)) <= 1 and abs(y - (size / 4 - 0.5)) <= 1
    assert dx == 0 and abs(dy - 6 * size / box["width"]) < 0.2
    assert page.locator("#poke-arrow path").count() == 2
    page.click("#no-poke")
    until(page, "old => document.querySelector('#wall .end').src === old", before)
    assert page.input_value("#poke-form [name=x]") == "" and page.locator("#poke-arrow path").count() == 0


def test_sliders_and_the_library(page: Page, tmp_path: Path) -> None:
    page.click("#tab-motion")
    page.wait_for_selector(".slider .arrows path")
    until(page, "document.querySelector('#preview').src !== ''")
    slider = page.locator(".slider input").first
    still = source(page, "#preview")
    slider.focus()
    for _ in range(15):
        page.keyboard.press("ArrowRight")
    until(page, "old => document.querySelector('#preview').src !== old", still)
    assert page.locator(".slider output").first.text_content() == "1.5"
    page.fill("#save-form input", "to the side")
    page.click("#save-form button")
    page.wait_for_selector("#library li button")
    page.click("#reset")
    until(page, "document.querySelector('.slider output').textContent === '0.0'")
    page.click(".sample >> nth=1")  # another picture
    until(page, "document.querySelectorAll('.sample')[1].ariaPressed === 'true'")
    page.click("#library button:has-text('Apply')")  # 0 is this picture's own rest
    until(page, "Math.abs(Number(document.querySelector('.slider output').textContent) - 1.5) < 0.5")
    with page.expect_download() as download:
        page.click("#library button:has-text('Export')")
    file = tmp_path / "motion.json"
    download.value.save_as(file)
    assert json.loads(file.read_text())["name"] == "to the side"
    page.click("#library button:has-text('Delete')")
    page.wait_for_selector("#library .hint")
    page.set_input_files("#import", file)
    page.wait_for_selector("#library li:has-text('to the side')")
    page.click("#library button:has-text('Delete')")
    page.wait_for_selector("#library .hint")


def test_transfer_and_inside(page: Page) -> None:
    page.click("#tab-transfer")
    page.click("#transfer-run")
    page.wait_for_selector("#transfer-result figure:nth-child(2) .end")
    assert source(page, "#transfer-result figure:nth-child(2) .end") != source(page, "#transfer-result img")
    page.keyboard.press("Escape")
    page.locator("#tab-transfer").focus()
    page.keyboard.press("ArrowRight")  # tabs are moved through by arrow keys
    assert page.locator("#tab-inside").get_attribute("aria-selected") == "true"
    page.wait_for_selector(".layers .card:nth-child(4)")
    page.click("#relate")
    page.wait_for_selector(".graph .node")


@pytest.fixture
def hero(tmp_path: Path) -> list[Path]:
    """The files of a sheet: a picture, and the JSON that Aseprite writes beside it."""
    frames = np.stack([draw_figure(FIGURES["figure-red"], step) for step in range(4)])
    sheet = Sheet(frames, np.array([80, 90, 100, 110]), (Tag("stand", 0, 1), Tag("walk", 2, 3)))
    for name, data in sheet_files("hero", sheet).items():
        (tmp_path / name).write_bytes(data)
    return [tmp_path / "hero.png", tmp_path / "hero.json"]


def test_an_animation_from_a_sheet_of_aseprite(page: Page, hero: list[Path]) -> None:
    page.select_option("#model", "sprites-poses")
    page.click("#tab-transfer")
    page.set_input_files("[data-slot=reference]", hero)
    page.wait_for_selector("#tags:not([hidden])")
    assert page.is_hidden("#cells")
    page.select_option("#tags select", "walk")
    page.click("#animation-form .primary")
    page.wait_for_selector("#animation-result .strip img")
    assert page.locator("#animation-result .strip img").count() == 2
    page.select_option("#sheet select", "walk-sheet")  # which has equal cells
    assert page.is_visible("#cells") and page.is_hidden("#tags")


def test_the_position_in_the_queue_is_shown_and_a_request_can_be_cancelled(app: FastAPI, page: Page) -> None:
    gate = threading.Event()
    for name in ("one", "another"):
        app.state.studio.queue.add(name, "", gate.wait)
    try:
        page.click("#other-seed")
        until(page, "document.querySelector('#status').textContent === 'In the queue: 2 before you …'")
        page.click("#cancel")
        until(page, "document.querySelector('#status').textContent === 'Cancelled'")
        until(page, "async () => (await (await fetch('/api/queue')).json()).length === 2")  # the studio knows it
    finally:
        gate.set()
    assert page.is_hidden("#cancel") and page.is_hidden("#problem") and page.locator("#wall figure").count() == 8
    assert page.evaluate("document.activeElement.id") == "futures"


def test_pictures_are_dropped_and_pasted(page: Page, picture: Path) -> None:
    data = base64.b64encode(picture.read_bytes()).decode()
    for kind in ("drop", "paste"):
        page.click(".sample >> nth=1")
        until(page, "document.querySelectorAll('.sample')[1].ariaPressed === 'true'")
        page.evaluate(
            """([kind, data]) => {
                const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0)), files = new DataTransfer();
                files.items.add(new File([bytes], "picture.png", { type: "image/png" }));
                const event = kind === "drop" ? new DragEvent(kind, { dataTransfer: files, bubbles: true })
                    : new ClipboardEvent(kind, { clipboardData: files, bubbles: true });
                document.querySelector("#drop").dispatchEvent(event);
            }""",
            [kind, data],
        )
        until(page, "document.querySelectorAll('.sample[aria-pressed=true]').length === 0")
        until(page, "document.querySelector('#picture').naturalWidth === 120")


def test_a_line_by_a_picture_that_the_model_does_not_know(page: Page, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    page.set_input_files("#file", tmp_path / "noise.png")
    until(page, "document.querySelector('#unfamiliar').textContent.startsWith('The model has not learned from')")
    assert page.is_visible("#unfamiliar") and page.locator("#wall figure").count() == 8
    page.click(".sample >> nth=1")
    until(page, "document.querySelector('#unfamiliar').hidden")


def test_futures_at_the_size_of_the_picture(page: Page, picture: Path) -> None:
    page.check("[name=full_size]")
    page.set_input_files("#file", picture)
    until(page, "document.querySelector('#wall .end')?.naturalWidth === 120")
    page.click("#wall figure:nth-child(2) button:has-text('Enlarge')")
    assert page.evaluate("document.querySelector('#large .end').clientWidth") >= 512
    page.keyboard.press("Escape")
    assert page.is_hidden("#large")
    page.click("#wall figure:nth-child(2) .pick")
    until(page, "document.querySelectorAll('#path button').length === 2")
    until(page, "document.querySelector('#picture').naturalWidth === 120")


def frames_in(path: Path) -> list[np.ndarray]:
    """Read by OpenCV: the files were written by other libraries."""
    cv2 = pytest.importorskip("cv2")
    if path.suffix != ".mp4":
        return list(cv2.imreadanimation(str(path))[1].frames)
    clip, frames = cv2.VideoCapture(str(path)), []
    while (read := clip.read())[0]:
        frames.append(read[1])
    return frames


def test_every_file_can_be_read_back(page: Page, tmp_path: Path) -> None:
    for form in ("gif", "webp", "apng", "mp4", "sheet", "zip"):
        page.select_option("#form", form)
        with page.expect_download() as download:
            page.click("#download-all" if form != "gif" else "#wall figure:first-child button:has-text('Save')")
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        if form == "zip":
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
                archive.extract("frame_08.png", tmp_path)
            assert names[0] == "input.png" and frames_in(tmp_path / "frame_08.png")[0].shape == (64, 64, 3)
        else:
            frames = frames_in(path.rename(path.with_suffix(".png")) if form == "apng" else path)
            assert len(frames) == (1 if form == "sheet" else 2)
            assert min(frames[0].shape[:2]) >= 192 and np.ptp(frames[0]) > 0
            assert form == "sheet" or (frames[0] != frames[1]).any()


def test_a_bad_upload_is_told_and_nothing_is_lost(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector("#wall figure", timeout=WAIT)
    page.set_input_files("#file", tmp_path / "broken.png")
    page.wait_for_selector("#problem:not([hidden])", timeout=WAIT)
    assert "Cannot read the picture" in (page.text_content("#problem") or "")
    assert page.locator("#wall figure").count() == 8
    page.close()


def test_a_picture_that_the_studio_dropped_is_brought_again(app: FastAPI, browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.locator("#wall figure .pick").first.click(timeout=WAIT)
    until(page, "document.querySelectorAll('#path button').length === 2")
    until(page, "document.querySelector('#wall').ariaBusy !== 'true'")
    app.state.studio.pictures._kept.clear()
    page.click("#more")
    until(page, "document.querySelectorAll('#wall figure').length === 16")
    assert page.is_hidden("#problem")
    page.close()


def test_the_page_fits_a_phone_and_names_its_controls(page: Page) -> None:
    page.set_viewport_size({"width": PHONE, "height": 844})
    for tab in ("motion", "transfer", "inside", "futures"):
        page.click(f"#tab-{tab}")
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    nameless = """[...document.querySelectorAll('button, input, select, a, [role=tab]')].filter(element =>
        !(element.ariaLabel || element.textContent.trim() || element.labels?.length)).length"""
    assert page.evaluate(nameless) == 0


def test_a_link_leads_to_a_tab(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}/#inside") as page:
        page.wait_for_selector(".layers .card")
        assert page.is_visible("#inside") and page.is_hidden("#problem")


def test_nothing_moves_for_people_who_do_not_want_that(browser: Browser, address: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector("#wall figure", timeout=WAIT)
    assert not page.is_checked("#play")
    assert page.evaluate("document.getAnimations().length") == 0
    page.close()
