"""The static page in a real browser, from a disk and from a file server: no studio behind it, no network."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image

import visual_dynamics as vd
from tests.browser import chromium
from tests.conftest import seeded
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.export import runtime
from visual_dynamics.export.page import bundle, page_files
from visual_dynamics.export.programs import programs
from visual_dynamics.export.quick import QuickDecoder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT = 60_000  # milliseconds
NO_GRAPHICS_CARD = "No available adapters."  # Chromium's own message where a page asks for one
COLOURS = """source => new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        resolve([image.width, image.height, [...context.getImageData(0, 0, image.width, image.height).data]]);
    };
    image.onerror = reject;
    image.src = source;
})"""


class IsolatedFiles(SimpleHTTPRequestHandler):
    """A plain file server whose headers let a page use threads."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def folder(weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with the tiny model."""
    cached = runtime.cache_folder() / Path(runtime.ADDRESS).name
    if not cached.exists():
        pytest.skip("onnxruntime-web is not in the cache: visual-dynamics export-page fetches it")
    place = tmp_path_factory.mktemp("page")
    for name, data in page_files([str(weights_file)], runtime.runtime_files(None, lambda *_: None)):
        (place / name).write_bytes(data)
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(IsolatedFiles, directory=str(folder))) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(params=["disk", "server"])
def page(request: pytest.FixtureRequest, browser: Browser, folder: Path) -> Iterator[Page]:
    address = folder.as_uri() + "/" if request.param == "disk" else request.getfixturevalue("server")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address + "index.html")
    page.wait_for_function("document.querySelectorAll('#wall figure').length === 8")
    assert page.evaluate("self.crossOriginIsolated") == (request.param == "server")
    yield page
    assert page.locator("#problem").is_hidden()
    assert [text for text in said if text != NO_GRAPHICS_CARD] == []
    assert {url for url in asked if not url.startswith((address, "data:", f"blob:{address}", "blob:null/"))} == set()
    context.close()


def colours(page: Page, selector: str) -> np.ndarray:
    """The colours of a picture on the page, (H, W, 3)."""
    width, height, data = page.evaluate(COLOURS, page.locator(selector).get_attribute("src"))
    return np.array(data, np.uint8).reshape(height, width, 4)[..., :3]


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 256, (height, width, channels), dtype=np.uint8)


def choose(page: Page, picture: Path) -> None:
    before = page.locator("#wall .end").first.get_attribute("src")
    page.set_input_files("#file", picture)
    page.wait_for_function("old => document.querySelector('#wall .end').src !== old", arg=before)


@pytest.mark.filterwarnings("ignore::visual_dynamics.UnfamiliarPicture")
def test_pictures_move_as_in_python(page: Page, model: vd.Model, tmp_path: Path) -> None:
    see_through = noise(16, 16, 4)
    see_through[..., 3] = np.where(see_through[..., 3] > 99, 255, 0)  # a canvas rounds the colours of glass
    for number, pixels in enumerate([noise(90, 121), noise(5, 9), noise(16, 16), see_through]):
        path = tmp_path / f"{number}.png"
        Image.fromarray(pixels).save(path)
        choose(page, path)
        for place, expected in enumerate(model.sample(path, n=8, seed=0), 1):
            found = colours(page, f"#wall figure:nth-child({place}) .end")
            assert np.abs(found.astype(int) - expected).max() <= 1
    page.fill("[name=seed]", "9007199254740991")
    page.select_option("[name=source]", "prior")
    before = page.locator("#wall .end").first.get_attribute("src")
    page.click("#futures-form .primary")
    page.wait_for_function("old => document.querySelector('#wall .end').src !== old", arg=before)
    expected = model.sample(path, n=8, seed=2**53 - 1, source="prior")
    assert np.abs(colours(page, "#wall figure:nth-child(8) .end").astype(int) - expected[7]).max() <= 1


@pytest.mark.filterwarnings("ignore::visual_dynamics.UnfamiliarPicture")
def test_sliders_a_motion_of_a_pair_and_files(page: Page, model: vd.Model, tmp_path: Path) -> None:
    for name in ("picture", "before", "after"):
        Image.fromarray(noise({"picture": 16, "before": 17, "after": 18}[name], 20)[:16]).save(tmp_path / f"{name}.png")
    choose(page, tmp_path / "picture.png")
    with page.expect_download() as download:
        page.click("#download-all")
    assert Image.open(download.value.path()).n_frames == 2
    clip = Image.open(download.value.path())
    for frame, selector in ((0, "#wall .flip img:first-child"), (1, "#wall .end")):
        clip.seek(frame)  # of the first future, from the start and back
        tile = np.asarray(clip.convert("RGB"))[4 : 4 + 3 * 13 : 3, 4 : 4 + 3 * 16 : 3]
        np.testing.assert_array_equal(tile, colours(page, f"#wall figure:first-child {selector.split(' ', 1)[1]}"))
    page.select_option("#form", "sheet")
    with page.expect_download() as download:
        page.click("#download-all")
    assert Image.open(download.value.path()).size == (4 + 4 * (16 * 3 + 4), 4 + 3 * (13 * 3 + 4))
    with page.expect_download() as download:
        page.click("#wall figure:nth-child(3) [aria-label$='save as a file']")
    assert download.value.suggested_filename == "future.png"
    future = np.asarray(Image.open(download.value.path()).convert("RGB"))
    np.testing.assert_array_equal(future, colours(page, "#wall figure:nth-child(3) .end"))

    page.click("#tab-motion")
    page.wait_for_selector("#preview[src^='data:']")
    still = colours(page, "#preview")
    before = page.get_attribute("#preview", "src")
    page.locator("#sliders input").first.fill("3")
    page.wait_for_function("old => document.querySelector('#preview').src !== old", arg=before)
    assert np.abs(colours(page, "#preview").astype(int) - still).max() > 2
    page.fill("#save-form [name=name]", "jump")
    page.click("#save-form .primary")
    page.wait_for_selector("#library li:has-text('jump')")

    page.click("#tab-transfer")
    for name in ("before", "after"):
        page.set_input_files(f"[data-slot={name}]", tmp_path / f"{name}.png")
        page.wait_for_function(
            "word => document.querySelector('#status').textContent.startsWith(word)", arg=name.capitalize()
        )
    page.click("#transfer-run")
    page.wait_for_selector("#transfer-result figure:nth-child(2) .end")
    motion = model.encode(tmp_path / "before.png", tmp_path / "after.png")
    expected = model.apply(tmp_path / "picture.png", motion)
    found = colours(page, "#transfer-result figure:nth-child(2) .end")
    assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.filterwarnings("ignore::visual_dynamics.UnfamiliarPicture")
def test_a_drag_is_a_poke(page: Page, model: vd.Model, tmp_path: Path) -> None:
    """In frames as small as these no motion is certain: the page says so in the package's words."""
    Image.fromarray(noise(32, 64)).save(tmp_path / "picture.png")
    choose(page, tmp_path / "picture.png")
    wall = page.locator("#wall .end").first
    old, box = wall.get_attribute("src"), page.locator("#picture").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 12, box["y"] + box["height"] / 2, steps=3)
    page.mouse.up()
    x, y, dx, dy = (float(page.input_value(f"#poke-form [name={name}]")) for name in ("x", "y", "dx", "dy"))
    assert abs(x - 31.5) < 1 and abs(y - 15.5) < 1 and dy == 0 and abs(dx - 12 * 64 / box["width"]) < 0.2
    assert page.locator("#poke-arrow path").count() == 2
    page.wait_for_selector("#problem:not([hidden])")
    with pytest.raises(UserError) as refused:
        model.poke(tmp_path / "picture.png", ((x, y), (dx, dy)), codes=8)
    said = page.text_content("#problem") or ""
    assert said.lower() == f"{refused.value}.".lower()
    assert wall.get_attribute("src") == old
    press = "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))"
    page.evaluate(f"document.querySelector('#poke-form').requestSubmit(); {press}")
    page.wait_for_function("document.querySelector('#status').textContent === 'Cancelled'")
    page.wait_for_function("document.querySelector('#wall').ariaBusy !== 'true'")
    assert wall.get_attribute("src") == old and page.locator("#problem").is_hidden()
    page.fill("[name=seed]", "1")
    page.click("#no-poke")
    page.wait_for_function("old => document.querySelector('#wall .end').src !== old", arg=old)


def test_an_unfamiliar_picture_gives_a_warning(page: Page, model: vd.Model, tiny_pairs: Pairs, tmp_path: Path) -> None:
    square = tiny_pairs.batch(torch.arange(1)).frame[0].permute(1, 2, 0)
    Image.fromarray(np.uint8((255 * square).round())).save(tmp_path / "known.png")
    Image.fromarray(noise(16, 16)).save(tmp_path / "strange.png")
    for name, is_known in (("strange", False), ("known", True), ("strange", False)):
        path = tmp_path / f"{name}.png"
        assert (model.unfamiliar(model.open(path, check=False)) == "") == is_known
        choose(page, path)
        page.wait_for_function("known => document.querySelector('#unfamiliar').hidden === known", arg=is_known)
    said = page.text_content("#unfamiliar") or ""
    assert said.endswith("its results may mean nothing: train one that has (visual-dynamics train).")


def test_the_page_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for tab in ("futures", "motion", "transfer"):
        page.click(f"#tab-{tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_quick_decoder_gives_the_package_s_frames() -> None:
    model = vd.load("sprites")
    network = programs(model.weights, "float32")["decoder"].module.network
    image = model.predictor.encode_image(seeded(3, 64, 64).sigmoid())
    z = model.source().draw(range(3))
    found = QuickDecoder(network)(image.frame[None], image.features, z)
    assert (found - model.predictor.decode(image, z)).abs().max() < 0.01 / 255


def test_the_script_is_one_and_nothing_of_the_page_needs_the_studio(folder: Path) -> None:
    assert not re.search(r"^(import|export)\b", bundle("main.js"), re.M)
    html = (folder / "index.html").read_text()
    for gone in ("data-studio", "/page/", "/study/", 'id="tab-inside"', "full_size"):
        assert gone not in html
    for name in re.findall(r'(?:src|href)="([\w-]+\.\w+)"', html):
        assert (folder / name).exists()


# --- ONNX Runtime from npm ---


def test_a_package_that_differs_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = tmp_path / "other.tgz"
    other.write_bytes(b"not it")
    with pytest.raises(UserError, match="its checksum differs"):
        runtime.runtime_files(other, lambda *_: None)

    class Answer(io.BytesIO):
        headers: ClassVar[dict[str, str]] = {}

    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: Answer(b"not it"))
    with pytest.raises(UserError, match="its checksum differs"):
        runtime.runtime_files(None, lambda *_: None)
    assert list(tmp_path.iterdir()) == [other]


def test_without_a_network_one_sentence_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise URLError("no route")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", fail)
    with pytest.raises(UserError, match="give --runtime FILE"):
        runtime.runtime_files(None, lambda *_: None)
    with pytest.raises(UserError, match="there is no file"):
        runtime.runtime_files(tmp_path / "missing.tgz", lambda *_: None)
