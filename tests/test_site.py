"""The documentation as a site: it builds without a warning, its links lead somewhere, and it asks no other host."""

import json
import re
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import visual_dynamics as vd
from docs.build import CONFIG, ROOT, build, notebook_page
from tests.browser import chromium
from visual_dynamics import api, objective
from visual_dynamics.model import network
from visual_dynamics.sampling import moves

for tool in ("latex2mathml", "zensical", "mkdocstrings", "mkdocstrings_handlers.python"):
    pytest.importorskip(tool, reason="the site's generator is not installed: pip install -e '.[docs]'")

SHOWN = ("index.html", "docs/results.html", "docs/cli.html", "docs/reference/python.html", "docs/first-futures.html")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `make docs`; a warning of the generator is an error here."""
    out = tmp_path_factory.mktemp("built")
    build(out)
    return out


class Page(HTMLParser):
    """What a page names (ids) and where it points: to follow, and to load."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attributes if value}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        targets = {found[name] for name in ("href", "src") if name in found}
        (self.links if tag == "a" else self.loaded).update(targets)


def test_links_of_the_site_lead_somewhere(built: Path) -> None:
    site = built / "site"
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) >= 30
    for path, page in pages.items():
        for target in page.links | page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert target in page.links or parts.scheme == "data", f"{path.name} loads {target}"
                continue
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = found / "index.html" if found.is_dir() else found
            assert found.is_file(), f"{path.relative_to(site)} -> {target}"
            assert not parts.fragment or unquote(parts.fragment) in pages[found].ids | {"__top"}, (
                f"{path.name} -> {target}"
            )
    assert "conditional|posteriors" in (site / "docs" / "cli.html").read_text()  # in a table, where Markdowns differ
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text()), sheet.name


def test_every_page_is_in_the_navigation(built: Path) -> None:
    def names(entry: Any) -> list[str]:
        inner = entry.values() if isinstance(entry, dict) else entry
        return [entry] if isinstance(entry, str) else [name for each in inner for name in names(each)]

    shown = names(tomllib.loads((built / CONFIG).read_text())["project"]["nav"])
    pages = {path.relative_to(built / "pages").as_posix() for path in built.joinpath("pages").rglob("*.md")}
    assert len(shown) == len(set(shown))
    assert set(shown) == pages - {"visual_dynamics/models/index.md"}  # which the front page links to


def test_the_reference_has_what_is_public(built: Path) -> None:
    reference = built / "site" / "docs" / "reference"
    verbs = [name for name in vars(api.Model) if not name.startswith("_")]
    assert {"sample", "encode", "apply", "extrapolate", "traverse"} <= set(verbs)
    wanted = {f"visual_dynamics.api.Model.{name}" for name in verbs} | {"visual_dynamics.api.Strip"}
    wanted |= {f"{getattr(vd, name).__module__}.{name}" for name in vd.__all__ if name != "__version__"}
    assert wanted <= Page(reference / "python.html").ids
    for page, thing in (
        ("model", network.VisualDynamics.encode_motion),
        ("objective", objective.loss),
        ("sampling", moves.futures),
    ):
        assert f"{thing.__module__}.{thing.__qualname__}" in Page(reference / f"{page}.html").ids


# --- what the generator is trusted with ---


def small_root(folder: Path, text: str) -> Path:
    """A repository of two pages and a notebook."""
    (folder / "docs" / "notebooks").mkdir(parents=True)
    (folder / "README.md").write_text(text)
    (folder / "docs" / "more.md").write_text("# More\n\n## Of it\n")
    cells = [
        {"cell_type": "markdown", "source": ["# A toy\n", "It moves $z$."]},
        {"cell_type": "code", "source": ["print(1 + 1)"], "outputs": [{"text": ["2\n"]}]},
        {"cell_type": "code", "source": ["model"], "outputs": [{"data": {"text/html": ["<b>M</b>\n\n", "8"]}}]},
        {"cell_type": "code", "source": ["show()"], "outputs": [{"data": {"image/png": "iVBO\nRw0="}}]},
    ]
    (folder / "docs" / "notebooks" / "1_toy.ipynb").write_text(json.dumps({"cells": cells}))
    config = '[project]\nsite_name = "x"\ndocs_dir = "pages"\nnav = [\n  { "x" = "README.md" },\n'
    config += '  { "Course" = ["docs/notebooks/*.md"] },\n  { "None" = ["docs/none/*.md"] },\n]\n'
    (folder / "docs" / CONFIG).write_text(config)
    return folder


def test_notebooks_become_pages(tmp_path: Path) -> None:
    root = small_root(tmp_path / "root", "# x\n\n[more](docs/more.md#of-it), [toy](docs/notebooks/1_toy.ipynb)\n")
    build(tmp_path / "out", root)
    assert '{ "Course" = [{ "A toy" = "docs/notebooks/1_toy.md" }] },\n]' in (tmp_path / "out" / CONFIG).read_text()
    site = tmp_path / "out" / "site"
    assert site.joinpath("docs/notebooks/1_toy.ipynb").is_file()
    (page,) = site.glob("docs/notebooks/1_toy*/index.html")
    assert "A toy" in page.read_text() and "data:image/png;base64,iVBORw0=" in page.read_text()
    text = notebook_page(json.loads((root / "docs" / "notebooks" / "1_toy.ipynb").read_text()), "1_toy.ipynb")
    words = re.sub(r"<span><math.*?<mi>(\w)</mi>.*?</math></span>", r"\1", text)
    assert words.startswith(
        "# A toy\n\n[This page as a notebook](1_toy.ipynb)\nIt moves z.\n\n```python\nprint(1 + 1)\n```\n"
    )
    assert "```\n2\n```" in text and "\n<div><b>M</b> 8</div>\n" in text


@pytest.mark.parametrize("link", ["docs/lost.md", "docs/more.md#of-that"])
def test_a_broken_link_stops_the_build(link: str, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        build(tmp_path / "out", small_root(tmp_path / "root", f"# x\n\n[lost]({link})\n"))


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit, match="something else"):
        build(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


# --- in a browser ---


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=built / "site")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_pages_in_a_browser(address: str) -> None:
    """No other host, no message, nothing wider than the window, dark where the reader is, a search that finds."""
    foreign: list[str] = []
    said: list[str] = []
    with chromium() as browser:
        for width, scheme in ((1280, "light"), (390, "dark")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on(
                "request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else foreign.append(r.url)
            )
            page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("response", lambda r: said.append(r.url) if r.status >= 400 else None)
            for name in SHOWN:
                page.goto(address + name)
                page.locator("article h1").wait_for()
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, width)
                light = page.evaluate(
                    "parseInt(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]) > 127"
                )
                assert light == (scheme == "light")
            search = page.get_by_role("combobox", name="Search")
            while not search.is_visible():  # the script may not be there yet
                page.keyboard.press("/")
                page.wait_for_timeout(100)
            search.fill("cross convolution")
            page.get_by_role("option", name="cross_convolution").first.click()
            page.wait_for_url("**/reference/model.html*")
            page.close()
    assert foreign == [] and said == []


def test_the_makefile_builds_it_where_the_page_says() -> None:
    assert re.search(r"^docs: .*\n\t\$\(BIN\)/python docs/build\.py out/docs$", (ROOT / "Makefile").read_text(), re.M)
