"""The page in a real browser: upload, futures, going on, sliders, motions, transfer and files."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
import pytest
from fastapi import FastAPI
from PIL import Image

from tests.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESK, PHONE = 1280, 390  # pixels
WAIT = 60_000  # milliseconds; other tests may run beside


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page, open; at the end nothing was complained about, and no other host was asked."""
    complaints, hosts = list[str](), set[str]()
    page = browser.new_page(viewport={"width": DESK, "height": 900}, accept_downloads=True)
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(address)
    page.wait_for_selector("#wall figure")
    yield page
    page.close()
    assert complaints == []
    assert hosts <= {urlsplit(address).netloc, ""}  # data and blobs have none


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.full((90, 120, 3), (220, 225, 240), np.uint8)
    pixels[30:60, 40:70] = (200, 40, 30)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def until(page: Page, condition: str, value: object = None) -> None:
    """Wait for a condition. Playwright's own way of that evaluates strings in the page, which its policy forbids."""
    end = time.monotonic() + WAIT / 1000
    while not page.evaluate(condition, value):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def source(page: Page, selector: str) -> str:
    return page.locator(selector).first.get_attribute("src") or ""


def test_upload_futures_and_a_path_through_them(page: Page, picture: Path) -> None:
    before = source(page, "#wall .end")
    page.set_input_files("#file", picture)
    until(page, "old => document.querySelector('#wall .end').src !== old", before)
    assert page.locator("#wall figure").count() == 8
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
    page.click("#library button:has-text('Apply')")
    until(page, "document.querySelector('.slider output').textContent === '1.5'")
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


def test_every_file_can_be_read_back(page: Page, tmp_path: Path) -> None:
    for form, kind in {"gif": "GIF", "webp": "WEBP", "apng": "PNG", "sheet": "PNG", "mp4": "", "zip": ""}.items():
        page.select_option("#form", form)
        with page.expect_download() as download:
            page.click("#download-all" if form != "gif" else "#wall figure:first-child button:has-text('File')")
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        if form == "zip":
            names = zipfile.ZipFile(path).namelist()
            assert Image.open(io.BytesIO(zipfile.ZipFile(path).read(names[0]))).size == (64, 64)
        elif form == "mp4":
            import av

            with av.open(str(path)) as container:
                assert sum(1 for _ in container.decode(video=0)) == 2
        else:
            image = Image.open(path)
            assert image.format == kind and getattr(image, "n_frames", 1) == (1 if form == "sheet" else 2)


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


def test_nothing_moves_for_people_who_do_not_want_that(browser: Browser, address: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.goto(address)
    page.wait_for_selector("#wall figure", timeout=WAIT)
    assert not page.is_checked("#play")
    assert page.evaluate("document.getAnimations().length") == 0
    page.close()
