"""A studio that runs in this process, behind a real socket, for a browser and for other clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason='the studio is not installed: pip install "visual-dynamics[studio]"')

from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from tests.browser import chromium
from visual_dynamics import connections
from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.state import Limits, Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WAIT = 60_000  # milliseconds; other tests may run beside
GENEROUS = Limits(requests_per_second=10_000, burst=10_000)


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    found = create_app(Settings(store=tmp_path_factory.mktemp("studio"), limits=GENEROUS))
    yield found
    found.state.studio.queue.close()


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[TestClient]:
    """Sends requests without a socket, all from one event loop: the processes that decode belong to it."""
    with TestClient(app, base_url="http://localhost") as found:
        yield found


@contextmanager
def served(app: ASGIApp, proxies: Sequence[str] = ()) -> Iterator[str]:
    """The address of a studio, or of another application, that runs in a thread."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = connections.server(app, proxies)
        server.config.lifespan = "off"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="session")
def address(app: FastAPI) -> Iterator[str]:
    with served(app) as found:
        yield found


@pytest.fixture
def studio_settings(tmp_path: Path) -> Settings:
    return Settings(store=tmp_path / "store", limits=GENEROUS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """The page at an address; at its end: no errors in the console, and no requests to other hosts."""
    complaints, hosts = list[str](), set[str]()
    page = browser.new_page(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(address)
    yield page
    page.close()
    assert complaints == []
    assert hosts <= {urlsplit(address).netloc, ""}  # data and blobs have none


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The studio's page, with its first futures."""
    with opened(browser, address) as found:
        found.wait_for_selector("#wall figure")
        yield found


def until(page: Page, condition: str, value: object = None) -> None:
    """Wait for a condition. Playwright's own function evaluates strings in the page, which its policy forbids."""
    end = time.monotonic() + WAIT / 1000
    while not page.evaluate(condition, value):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def source(page: Page, selector: str) -> str:
    return page.locator(selector).first.get_attribute("src") or ""
