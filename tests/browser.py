"""A real browser for tests of pages: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The texts of a page whose contrast with what is behind them is below 4.5 (WCAG 2).
TOO_FAINT = """() => {
    const parts = (color) => color.match(/[0-9.]+/g).map(Number);
    const light = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0.05);
    const behind = (element) => {
        const color = parts(getComputedStyle(element).backgroundColor);
        return color.length === 3 || !element.parentElement ? color : behind(element.parentElement);
    };
    return [...document.querySelectorAll("body :not(option, svg *)")].filter((element) => {
        const words = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!words || !element.checkVisibility()) return false;
        const [low, high] = [parts(getComputedStyle(element).color), behind(element)].map(light).sort((a, b) => a - b);
        return high / low < 4.5;
    }).map((element) => element.textContent);
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser; skips the test where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        # Containers often run as root, which Chromium's sandbox refuses, and with a small /dev/shm.
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=flags)
        try:
            yield browser
        finally:
            browser.close()
