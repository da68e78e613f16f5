"""The static page in Chromium: how fast it is, and how near to Python: `python benchmarks/page.py FOLDER [--out FILE]`.

FOLDER is what `visual-dynamics export-page` wrote. A plain file server gives it to a fresh browser, without threads:

- first view: from the begin of the navigation to eight futures, five times with an empty cache; the median;
- slider: previews a second while a slider moves for four seconds;
- pixels: for each model, eight futures of each sample against `model.sample(..., source="posteriors")`: the largest
  difference, in levels of 255;
- poke, where `shapes` is there: seconds until eight futures in which the circle of a sample goes down, how many codes
  fit by the page and by `model.poke`, and how many of the eight futures are Python's within one level of 255.

`--pictures PLACE` keeps the page as it looks at 1280 and 390 pixels.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import statistics
import sys
import threading
import time
import warnings
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser import chromium
from visual_dynamics.api import load
from visual_dynamics.errors import UnfamiliarPicture
from visual_dynamics.images import read_image, read_picture
from visual_dynamics.provenance import provenance
from visual_dynamics.studio.pictures import draw_samples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VIEWS, SECONDS = 5, 4
POKED_SAMPLE, POKE, CODES = "shapes-1", {"x": 32, "y": 62, "dx": 0, "dy": 6}, 400
EIGHT = "document.querySelectorAll('#wall figure').length === 8"
MOVE = """async (seconds) => {
    const slider = document.querySelector("#sliders input");
    let shown = 0;
    new MutationObserver(() => shown++).observe(document.querySelector("#preview"), { attributeFilter: ["src"] });
    const start = performance.now();
    for (let step = 0; performance.now() - start < 1000 * seconds; step++) {
        slider.value = -3 + (step % 60) / 10;
        slider.dispatchEvent(new Event("input"));
        await new Promise(requestAnimationFrame);
    }
    return shown / seconds;
}"""


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def first_view(browser: Browser, address: str) -> float:
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_function(EIGHT, polling=20)
    seconds = time.perf_counter() - start
    page.context.close()
    return seconds


def poke(page: Page) -> dict[str, Any]:
    model, sample = load("shapes"), draw_samples()[POKED_SAMPLE]
    page.select_option("#model", "shapes")
    page.click(f".sample[data-id={POKED_SAMPLE}]")
    page.wait_for_function(f"{EIGHT} && document.querySelector('#wall').ariaBusy !== 'true'")
    for name, value in POKE.items():
        page.fill(f"#poke-form [name={name}]", str(value))
    start = time.perf_counter()
    page.click("#poke-form button:not([type])")
    page.wait_for_function("document.querySelector('#status').textContent.includes('fit the poke')", polling=20)
    seconds = time.perf_counter() - start
    fitting = (page.text_content("#status") or "").partition("about ")[2].split(" ")[0]
    place, motion = (POKE["x"], POKE["y"]), (POKE["dx"], POKE["dy"])
    source = model.poke(sample, (place, motion), source="posteriors", codes=CODES)
    urls = page.evaluate("[...document.querySelectorAll('#wall .end')].map(image => image.src)")
    futures = np.stack([read_image(base64.b64decode(url.partition(",")[2])) for url in urls]).astype(int)
    away = np.abs(futures - model.sample(sample, n=8, seed=0, source=source)).max((1, 2, 3))
    page.click("#no-poke")
    page.wait_for_function("document.querySelector('#wall').ariaBusy !== 'true'")
    return {
        "seconds": seconds,
        "fitting": {"page": int(fitting), "python": source.effective},
        "futures_alike": int((away <= 1).sum()),
    }


def slider(page: Page) -> float:
    page.click("#tab-motion")
    page.wait_for_selector("#preview[src^='data:']")
    found = float(page.evaluate(MOVE, SECONDS))
    page.click("#tab-futures")
    return found


def pixels(page: Page) -> dict[str, float]:
    """The largest difference to Python for each model."""
    about, found = json.loads(page.locator("#about-page").text_content() or ""), {}
    pictures = {sample["id"]: base64.b64decode(sample["url"].partition(",")[2]) for sample in about["samples"]}
    for shown in about["models"]:
        model, largest = load(shown["name"]), 0
        page.select_option("#model", shown["name"])
        for sample in shown["samples"]:
            page.click(f".sample[data-id={sample}]")
            page.wait_for_function(f"{EIGHT} && document.querySelector('#wall').ariaBusy !== 'true'")
            urls = page.evaluate("[...document.querySelectorAll('#wall .end')].map(image => image.src)")
            picture = read_picture(pictures[sample])
            source = picture.colours if picture.alpha is None else picture.rgba
            for url, expected in zip(urls, model.sample(source, n=8, seed=0, source="posteriors"), strict=True):
                future = read_image(base64.b64decode(url.partition(",")[2]))
                largest = max(largest, int(np.abs(future.astype(int) - expected).max()))
        found[shown["name"]] = largest
    return found


def keep_pictures(page: Page, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for tab in ("futures", "motion", "transfer"):
            page.click(f"#tab-{tab}")
            page.wait_for_timeout(4000)
            page.screenshot(path=place / f"{tab}-{width}.png", full_page=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnfamiliarPicture)
    handler = partial(QuietFiles, directory=str(options.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        before = os.getloadavg()[0]
        views = [first_view(browser, address) for _ in range(VIEWS)]
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_function(EIGHT)
        result: dict[str, Any] = {
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "browser": browser.version,
            "load_at_the_start": before,
            **provenance(torch.device("cpu")),
            "megabytes": sum(path.stat().st_size for path in options.folder.iterdir()) / 1e6,
            "first_view_seconds": {"median": statistics.median(views), "each": views},
            "previews_a_second": slider(page),
            "poke": poke(page) if page.locator("#model option[value=shapes]").count() else None,
            "largest_difference": pixels(page),
        }
        if options.pictures:
            keep_pictures(page, options.pictures)
        server.shutdown()
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
