"""The demonstration page: complete, the same for the same seed, and seen by a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from tests.browser import chromium
from visual_dynamics import model_files
from visual_dynamics.api import Model
from visual_dynamics.cli.demo import (
    FILE_SCALE,
    FUTURES,
    INPUTS,
    STEPS,
    make_demo,
    partner,
    training_line,
)
from visual_dynamics.cli.pictures import ResultFolder
from visual_dynamics.data.shapes import SIZE, clear_scenes, masks, scene_pairs
from visual_dynamics.errors import UserError
from visual_dynamics.media import enlarge
from visual_dynamics.weights import load_weights

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VOID = {"meta", "link", "img", "input", "br"}  # elements without an end
FLIPS = INPUTS * (FUTURES + 5)  # futures, truth, reconstruction; truth again, analogy, answer
DESK, PHONE = 1280, 390  # pixels


class Markup(HTMLParser):
    """Notes sources and texts; an element that is not closed where it should be is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))  # <circle ... /> inside a drawing

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()} closes another element"

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def demo_in(path: Path, model: Model, seed: int) -> Path:
    with ResultFolder(path, overwrite=False) as folder:
        return make_demo(model, seed, folder)


@pytest.fixture(scope="module")
def model(tiny_weights_file: Path) -> Model:
    return Model(load_weights(tiny_weights_file))


@pytest.fixture(scope="module")
def page(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_in(tmp_path_factory.mktemp("demo") / "new", model, 0)


@pytest.fixture(scope="module")
def markup(page: Path) -> Markup:
    return Markup(page.read_text(encoding="utf-8"))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def enlarged(path: Path) -> np.ndarray:
    return enlarge(np.array(Image.open(path)), FILE_SCALE)


def test_every_source_exists_and_every_file_is_used(page: Path, markup: Markup) -> None:
    sources = {image["src"] for image in markup.named("img")} | {link["href"] for link in markup.named("a")}
    assert page.name == "index.html"
    assert sources == {path.name for path in page.parent.iterdir()} - {page.name}


def test_the_page_is_for_everyone(page: Path, markup: Markup) -> None:
    html = page.read_text(encoding="utf-8")
    assert markup.named("html") == [{"lang": "en"}]
    assert len(markup.named("title")) == len(markup.named("h1")) == 1
    # Only the start of a flip goes without words: its end, in the same place, has them.
    wordless = [image["src"] for image in markup.named("img") if not image["alt"]]
    assert len(wordless) == FLIPS and all(source and source.startswith("input_") for source in wordless)
    assert "http:" not in html and "https:" not in html and "url(" not in html
    assert not markup.named("script")
    assert "$" not in html  # no place of the template is left open


def test_the_page_tells_where_it_comes_from(model: Model, page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert model.weights.digest in html
    assert "visual-dynamics demo --model WEIGHTS.safetensors --seed 0" in html
    assert "untrained" in html


def test_animations_start_from_the_input_and_end_in_their_still(page: Path) -> None:
    clips = sorted(page.parent.glob("*.webp"))
    assert len(clips) == INPUTS * (FUTURES + 5)
    for clip in clips:
        number = clip.stem.split("_")[1]
        with Image.open(clip) as animation:
            assert animation.n_frames >= (STEPS if clip.stem.startswith("clip") else 2)
            assert animation.info["loop"] == 0
            assert np.array_equal(animation.convert("RGB"), enlarged(page.parent / f"input_{number}.png"))
            animation.seek(animation.n_frames - 1)
            assert np.array_equal(animation.convert("RGB"), enlarged(clip.with_suffix(".png")))


def test_pictures_are_those_of_the_python_api(model: Model, page: Path) -> None:
    still = page.parent / "input_2.png"
    futures = model.sample(still, FUTURES, seed=1)
    for k, future in enumerate(futures, 1):
        assert np.array_equal(future, Image.open(page.parent / f"future_2_{k}.png"))


def test_the_right_answer_is_the_input_with_its_partner_s_motion(model: Model, page: Path) -> None:
    """Pictures 1, 2, 3, 4 take over the motions of 2, 3, 4, 1."""
    scenes = clear_scenes(INPUTS, 0)
    carried = replace(scenes, motions=scenes.motions[[1, 2, 3, 0]])
    for name, world in (("truth", scenes), ("answer", carried)):
        pictures = scene_pairs(world, "smooth", SIZE).next_frames.permute(0, 2, 3, 1).numpy()
        for number, picture in enumerate(pictures, 1):
            shown = np.array(Image.open(page.parent / f"{name}_{number}.png"))
            assert np.array_equal(shown, model.open(picture).still()), f"{name} {number}"


def test_the_same_seed_gives_the_same_bytes(model: Model, page: Path, tmp_path: Path) -> None:
    again = demo_in(tmp_path / "again", model, 0)
    assert files_of(again.parent) == files_of(page.parent)
    other = demo_in(tmp_path / "other", model, 1)
    assert files_of(other.parent)["input_1.png"] != files_of(page.parent)["input_1.png"]


@pytest.mark.parametrize("seed", [0, 1, 2, 99])
def test_inputs_show_all_shapes_and_plain_motions(seed: int) -> None:
    scenes = clear_scenes(INPUTS, seed)
    assert len(scenes) == INPUTS
    assert np.abs(scenes.motions).max(2).min() >= 4
    area = scenes.sizes**2 * np.array([np.pi / 4, 1, 0.5])
    for moved in (False, True):
        visible, whole = (mask.sum((2, 3)).numpy() for mask in masks(scenes, moved, size=128))
        assert (whole / area).min() >= 0.95  # inside the frame
        assert (visible / whole).min() >= 0.99  # not covered


def test_a_seed_below_zero_is_refused_before_anything_is_written(model: Model, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="seed must be"):
        demo_in(tmp_path / "page", model, -1)
    assert not (tmp_path / "page").exists()


def test_a_shipped_model_is_known_by_its_digest(
    model: Model, tiny_weights_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "SHIPPED", tiny_weights_file.parent)
    page = demo_in(tmp_path / "demo", model, 3)
    html = page.read_text(encoding="utf-8")
    assert "visual-dynamics demo --model tiny --seed 3" in html
    assert "visual-dynamics sample input_2.png --model tiny --seed 4 -n 100" in html


def test_no_input_is_its_own_partner() -> None:
    numbers = range(1, INPUTS + 1)
    assert sorted(map(partner, numbers)) == list(numbers)
    assert all(partner(number) != number for number in numbers)


def test_training_line_tells_what_the_file_tells() -> None:
    full = {"step": 6000, "seconds": 1500.0, "device": "some GPU"}
    assert training_line(full) == "Trained for 6,000 steps in 25 minutes on some GPU."
    assert training_line({"step": 20, "seconds": 3}) == "Trained for 20 steps in 3 seconds."
    assert training_line({}) == "The weights file does not say how it was trained."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def loaded(browser: Browser, page: Path, width: int, **options: str) -> tuple[Page, list[str]]:
    """The page at a width, and what went wrong while it was opened."""
    problems: list[str] = []
    tab = browser.new_page(viewport={"width": width, "height": 800}, **options)  # type: ignore[arg-type]
    tab.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
    own = page.parent.as_uri()
    inside = (own, "data:")
    tab.on("request", lambda request: None if request.url.startswith(inside) else problems.append(request.url))
    tab.goto(page.as_uri(), wait_until="load")
    return tab, problems


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page(browser: Browser, page: Path, width: int, scheme: str) -> None:
    tab, problems = loaded(browser, page, width, color_scheme=scheme)
    broken = "[...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.src)"
    assert tab.evaluate(broken) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
    assert tab.locator(".moving:visible").count() == INPUTS
    tab.close()


def test_flips_are_in_step_wherever_they_stand_on_the_page(browser: Browser, page: Path) -> None:
    tab, _ = loaded(browser, page, PHONE)
    seen = set()
    for _ in range(20):  # longer than a period
        seen.add(flips(tab))
        tab.wait_for_timeout(100)
    assert seen == {(0.0,) * FLIPS, (1.0,) * FLIPS}
    tab.close()


def test_futures_stand_beside_their_input_at_a_desk_and_below_it_on_a_phone(browser: Browser, page: Path) -> None:
    for width, beside in ((DESK, True), (PHONE, False)):
        tab, _ = loaded(browser, page, width)
        figures = tab.locator(".wall").first.locator("figure")
        picture, future = (figures.nth(k).bounding_box() for k in (0, 1))
        assert picture is not None and future is not None
        assert picture["width"] > 1.8 * future["width"]
        assert (future["x"] >= picture["x"] + picture["width"]) == beside
        tab.close()


def test_nothing_moves_for_people_who_ask_for_that(browser: Browser, page: Path) -> None:
    tab, _ = loaded(browser, page, DESK)
    hold = tab.get_by_label("Hold the pictures still")
    hold.check()
    assert_all_still(tab)
    assert tab.locator(".still:visible").count() == INPUTS
    hold.uncheck()
    assert tab.locator(".moving:visible").count() == INPUTS
    tab.close()
    tab, _ = loaded(browser, page, DESK, reduced_motion="reduce")
    assert_all_still(tab)
    tab.emulate_media(media="print", reduced_motion="no-preference")
    assert_all_still(tab)
    tab.close()


def assert_all_still(tab: Page) -> None:
    assert tab.evaluate("document.getAnimations().length") == 0
    assert flips(tab) == (1.0,) * FLIPS
    assert tab.locator(".moving:visible").count() == 0


def flips(tab: Page) -> tuple[float, ...]:
    """What every flip shows now: 0 its start, 1 its end."""
    return tuple(tab.evaluate("[...document.querySelectorAll('.end')].map(e => +getComputedStyle(e).opacity)"))
