"""Access: hosts, origins, the token, sizes and rates; and the headers of every response."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from visual_dynamics import web
from visual_dynamics.connections import is_loopback
from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.state import Limits, Settings
from visual_dynamics.web import Rates

TOKEN = "a-token-of-the-test"


def test_every_answer_keeps_the_browser_on_this_site(client: TestClient) -> None:
    for path in ("/", "/api/models", "/nothing", "/page/main.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8200", "", "localhost.evil.example", "[", "192.168.1.5"]
)
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/models", headers={"host": host})
    assert answer.status_code == 400 and answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8200", "127.0.0.1:8200", "[::1]:8200"])
def test_this_machine_s_names_are_known(client: TestClient, host: str) -> None:
    assert client.get("/api/models", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_cannot_ask(client: TestClient) -> None:
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:3000"},  # another server of this machine
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ):
        answer = client.post("/api/images", content=b"x", headers=headers)
        assert answer.status_code == 403 and answer.json()["error"]
    assert client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200


def test_an_open_studio_asks_for_its_token(studio_settings: Settings) -> None:
    app = create_app(replace(studio_settings, host="0.0.0.0", token=TOKEN))
    client = TestClient(app, base_url="http://192.168.1.5", follow_redirects=False)
    for path in ("/", "/api/models", "/?token=wrong", "/page/main.js"):
        answer = client.get(path)
        assert answer.status_code == 401 and "token" in answer.json()["error"]
    assert client.get("/api/models", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    welcome = client.get(f"/?token={TOKEN}&a=b")
    assert welcome.status_code == 303 and welcome.headers["location"] == "/?a=b"
    assert "httponly" in welcome.headers["set-cookie"].lower()
    assert client.get("/api/models").status_code == 200  # with the cookie
    app.state.studio.queue.close()


def test_requests_that_are_too_large_are_refused(client: TestClient) -> None:
    answer = client.post("/api/futures", content=b" " * 2_100_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413 and "too large" in answer.json()["error"]
    assert client.post("/api/images", content=b"x" * 10_000_001).status_code == 413


def test_rates_are_bounded_for_each_client() -> None:
    rates = Rates(per_second=0.001, burst=3)
    assert [rates.wait("one") > 0 for _ in range(5)] == [False] * 3 + [True] * 2
    assert rates.wait("another") == 0


def test_a_client_that_waits_as_long_as_told_may_go_on() -> None:
    now = 50.0
    rates = Rates(per_second=2.0, burst=3, clock=lambda: now)
    assert [rates.wait("one") for _ in range(4)] == [0, 0, 0, 0.5]
    now += 0.25
    assert rates.wait("one") == 0.25  # half of a request has come back
    now += 0.25
    assert [rates.wait("one") for _ in range(2)] == [0, 0.5]
    now += 1000
    assert [rates.wait("one") for _ in range(4)] == [0, 0, 0, 0.5]  # never more than at first


def test_the_longest_silent_address_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MOST_CLIENTS", 2)
    rates = Rates(per_second=0.001, burst=1)
    assert [rates.wait(name) > 0 for name in ("one", "two", "one", "three", "one", "two")] == [
        *(False, False, True, False),
        *(True, False),  # "two" was forgotten for "three"
    ]


def test_too_fast_is_told(studio_settings: Settings) -> None:
    app = create_app(replace(studio_settings, limits=Limits(requests_per_second=0.01, burst=2)))
    client = TestClient(app, base_url="http://localhost")
    answers = [client.get("/api/queue") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1 and answers[-1].json()["error"]
    app.state.studio.queue.close()


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "localhost", "::1"]))
    assert not any(map(is_loopback, ["0.0.0.0", "192.168.1.5", "example.org", "::"]))
