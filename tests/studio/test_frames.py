"""The studio in a frame of another page: nowhere, unless --allow-frame names that page's origin."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from tests.studio.conftest import WAIT, served
from visual_dynamics.cli.main import main
from visual_dynamics.errors import UserError
from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.state import Settings
from visual_dynamics.web import Gate, read_origin

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

TOKEN = "a-token-of-the-test"


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def course(folder: Path) -> Iterator[int]:
    """The port of a server of other pages, which is http://localhost:PORT and http://127.0.0.1:PORT: two origins."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


def framed(page: Page, place: str) -> Frame:
    """The frame in the page at a place, when it has loaded or was refused."""
    page.goto(place, wait_until="load")
    end = time.monotonic() + WAIT / 1000
    while page.frames[1].url in ("", "about:blank"):  # a refused one gets its address a little later
        assert time.monotonic() < end
        page.wait_for_timeout(20)
    return page.frames[1]


@pytest.mark.parametrize("text", ["https://course.example", "HTTP://Localhost:8000", "https://a-b.c9.example:65535"])
def test_origins(text: str) -> None:
    assert read_origin(text) == text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "https://*",
        "https://*.example",
        "course.example",
        "https://course.example/",
        "https://course.example/path",
        "https://course.example?a=b",
        "https://course.example:65536",
        "https://course.example:0",
        "https://course.example:",
        "https://somebody:secret@course.example",
        "https://course.example; script-src *",
        "https://course.example https://other.example",
        "https://course.example\nX: y",
        "https://[::1]",
        "https:",
        "'self'",
        "null",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///tmp",
    ],
)
def test_what_is_no_origin(text: str) -> None:
    with pytest.raises(UserError, match="an origin is https://HOST"):
        read_origin(text)


def test_the_command_refuses_what_is_no_origin(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["studio", "--store", str(tmp_path / "new"), "--allow-frame", "https://course.example/page"])
    assert ended.value.code == 2 and "error: an origin is" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_headers_name_the_origins_alone(studio_settings: Settings) -> None:
    two = ("https://course.example", "https://space.example:8443")
    app = create_app(replace(studio_settings, frames=two))
    client = TestClient(app, base_url="http://localhost")
    for path in ("/", "/nothing", "/study/"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.endswith("frame-ancestors https://course.example https://space.example:8443")
        assert "x-frame-options" not in headers
    foreign = {"origin": two[0]}  # it may show the page, and send nothing to it
    assert client.post("/api/images", content=b"x", headers=foreign).status_code == 403
    app.state.studio.queue.close()


def test_cookies_of_a_frame_need_encryption() -> None:
    plain, framed = (Gate("studio", "name", token=TOKEN, frames=each) for each in ((), ("https://course.example",)))
    cookies = []
    for gate, scheme in ((plain, "https"), (framed, "http"), (framed, "https")):
        scope = {"type": "http", "method": "GET", "path": "/", "scheme": scheme, "server": ("localhost", 80)}
        answer = gate.check(scope | {"headers": [(b"host", b"localhost")], "query_string": f"token={TOKEN}".encode()})
        assert answer
        cookies.append({part.strip().lower() for part in answer.headers["set-cookie"].split(";")})
    lax, none = {"samesite=lax"}, {"samesite=none", "secure", "partitioned"}
    assert [cookie & (lax | none) for cookie in cookies] == [lax, lax, none]
    assert all("httponly" in cookie for cookie in cookies)


def test_only_pages_of_the_origin_show_it(browser: Browser, studio_settings: Settings, tmp_path: Path) -> None:
    with course(tmp_path) as port:
        app = create_app(replace(studio_settings, frames=(f"http://localhost:{port}",)))
        with served(app) as address:
            (tmp_path / "index.html").write_text(f'<title>course</title><iframe src="{address}"></iframe>')
            page = browser.new_page()
            allowed = framed(page, f"http://localhost:{port}/")
            allowed.wait_for_selector("#wall figure", timeout=WAIT, state="attached")
            assert allowed.url.rstrip("/") == address
            refused = framed(page, f"http://127.0.0.1:{port}/")
            assert refused.url.startswith("chrome-error:")
            page.close()
        app.state.studio.queue.close()


def test_by_default_no_page_shows_it(browser: Browser, address: str, tmp_path: Path) -> None:
    with course(tmp_path) as port:
        (tmp_path / "index.html").write_text(f'<iframe src="{address}"></iframe>')
        page = browser.new_page()
        assert framed(page, f"http://localhost:{port}/").url.startswith("chrome-error:")
        page.close()


def test_a_token_works_in_a_frame_of_another_site(browser: Browser, studio_settings: Settings, tmp_path: Path) -> None:
    """As behind a proxy with TLS; browsers take encrypted cookies of 127.0.0.1 without it."""
    with course(tmp_path) as port:
        app = create_app(replace(studio_settings, token=TOKEN, frames=(f"http://localhost:{port}",)))
        with served(app, proxies=["127.0.0.1"]) as address:
            (tmp_path / "index.html").write_text(f'<iframe src="{address}/?token={TOKEN}"></iframe>')
            page = browser.new_page(extra_http_headers={"X-Forwarded-Proto": "https"})
            inside = framed(page, f"http://localhost:{port}/")
            inside.wait_for_selector("#wall figure", timeout=WAIT, state="attached")
            (cookie,) = page.context.cookies(address)
            assert cookie["sameSite"] == "None" and cookie["secure"] and TOKEN not in inside.url
            page.close()
        app.state.studio.queue.close()
