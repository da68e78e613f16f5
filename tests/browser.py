"""A real browser for tests of pages: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Of each text on the page its contrast with what is behind it (WCAG 2: at least 4.5, of large text 3).
TOO_FAINT = """() => {
    const parts = (color) => color.match(/[0-9.]+/g).map(Number);
    const luminance = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
    const behind = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const color = parts(getComputedStyle(each).backgroundColor);
            if (color.length === 3 || color[3] === 1) return color;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const element of document.querySelectorAll("body :not(option, svg, svg *)")) {
        const words = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
        if (!words.length || !element.checkVisibility()) continue;
        const style = getComputedStyle(element), size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const [low, high] = [parts(style.color), behind(element)].map(luminance).sort((one, other) => one - other);
        const contrast = (high + 0.05) / (low + 0.05);
        if (contrast < (large ? 3 : 4.5)) found.push(`${contrast.toFixed(2)}: ${words[0].data.trim()}`);
    }
    return found;
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
