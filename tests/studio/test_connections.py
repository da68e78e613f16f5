"""Connections that are held open shut nobody out; bodies and responses that hardly move end."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from tests.studio.conftest import served
from visual_dynamics import connections, web
from visual_dynamics.connections import Connection

LARGE = 50_000_000  # bytes: more than sockets hold
PATIENT = 30.0  # seconds until a test fails: none of them waits for it


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """The address of a client; a large response at /large."""
    request = Request(scope, receive)
    large = request.url.path == "/large"
    response = Response(bytes(LARGE)) if large else JSONResponse(request.client.host if request.client else "")
    await response(scope, receive, send)


def connected(address: str, source: str = "127.0.0.1") -> socket.socket:
    there = urlsplit(address)
    assert there.hostname and there.port
    return socket.create_connection((there.hostname, there.port), PATIENT, (source, 0))


def ended(connection: socket.socket) -> bool:
    """Waits until the server has closed a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nHost: localh"])
def test_silent_and_half_open_connections_end(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE", 0.2)
    with served(echo) as address, connected(address) as held:
        held.sendall(start)
        assert ended(held)


def test_a_head_that_drips_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE", 0.2)
    with served(echo) as address, connected(address) as held:
        held.sendall(b"GET / HTTP/1.1\r\nX: ")
        held.settimeout(0.01)
        for _ in range(int(PATIENT / 0.01)):
            try:
                held.sendall(b"x")
                assert held.recv(1) == b""
                return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("the connection is still open")


@pytest.mark.skipif(sys.platform != "linux", reason="needs several addresses of this machine")
def test_a_newcomer_takes_the_place_of_the_greediest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "most", 6)
    with served(echo) as address, connected(address, "127.0.0.3") as modest:
        greedy = [connected(address, "127.0.0.2") for _ in range(9)]
        assert httpx.get(address, timeout=PATIENT).json() == "127.0.0.1"
        assert all(map(ended, greedy[:5]))  # six have a place: the modest one, the newcomer and four of nine
        modest.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert modest.recv(15) == b"HTTP/1.1 200 OK"
        for each in greedy:
            each.close()


def test_a_response_that_is_not_taken_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    monkeypatch.setattr(connections, "LEAST_RATE", 1e12)
    lost, end = threading.Event(), Connection.connection_lost
    monkeypatch.setattr(Connection, "connection_lost", lambda *given: (end(*given), lost.set()))
    with served(echo) as address, connected(address) as held:
        held.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert lost.wait(PATIENT / 2)  # less than IDLE: nothing was read


def test_a_response_may_take_longer_than_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE", 0.05)
    with served(echo) as address, connected(address) as held:
        held.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        time.sleep(0.5)
        received = sum(iter(lambda: len(held.recv(2**20)), 0))
    assert received > LARGE


@pytest.mark.parametrize(("proxies", "client"), [((), "127.0.0.1"), (("127.0.0.1",), "203.0.113.9")])
def test_only_a_named_proxy_says_who_its_clients_are(proxies: tuple[str, ...], client: str) -> None:
    with served(echo, proxies) as address:
        assert httpx.get(address, headers={"X-Forwarded-For": "203.0.113.9"}).json() == client


# --- bodies


class Clock:
    """Moves when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("rate", "comes"), [(1, False), (int(web.LEAST_RATE), True)])
def test_a_body_comes_at_the_least_rate(rate: int, comes: bool) -> None:
    """A hundred seconds of so many bytes each."""
    clock = Clock()
    left = iter(range(100, 0, -1))

    async def receive() -> Message:
        clock.now += 1
        return {"type": "http.request", "body": bytes(rate), "more_body": next(left) > 1}

    async def read() -> None:
        bounded = web._bounded(receive, 10**9, clock)
        while (await bounded()).get("more_body"):
            pass

    if comes:
        asyncio.run(read())
        return
    with pytest.raises(HTTPException) as slow:
        asyncio.run(read())
    assert slow.value.status_code == 408 and clock.now == pytest.approx(web.PATIENCE, abs=2)


def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PATIENCE", 0.05)

    async def receive() -> Message:
        await asyncio.sleep(PATIENT)
        raise AssertionError

    with pytest.raises(HTTPException) as slow:
        asyncio.run(web._bounded(receive, 100)())
    assert slow.value.status_code == 408


def test_after_its_body_a_request_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job in the queue waits for the end of its connection, for minutes."""
    clock = Clock()

    async def receive() -> Message:
        clock.now += 1000
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def read() -> None:
        bounded = web._bounded(receive, 100, clock)
        for _ in range(3):
            await bounded()

    asyncio.run(read())


def test_too_many_requests_at_once_are_told_to_come_again(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MOST_REQUESTS", 1)
    assert [client.get("/api/models").status_code for _ in range(3)] == [200] * 3  # one after the other
    monkeypatch.setattr(web, "MOST_REQUESTS", 0)
    answer = client.get("/api/models")
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1 and answer.json()["error"]


def test_an_aborted_upload_is_one_line_of_the_log(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    messages: Iterator[Message] = iter(
        [{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}]
    )
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/api/images", "query_string": b""}
    scope |= {"headers": [(b"host", b"localhost")], "client": ("10.0.0.1", 1), "http_version": "1.1", "scheme": "http"}

    async def receive() -> Message:
        return next(messages)

    async def send(_: Message) -> None:
        pass

    with caplog.at_level(logging.INFO):
        asyncio.run(app(scope, receive, send))
    (line,) = [record for record in caplog.records if record.name == "visual_dynamics"]
    assert line.getMessage() == "POST /api/images: aborted by its client" and line.exc_info is None


def test_a_hundred_thousand_unknown_names_are_one_error(client: TestClient) -> None:
    body = {"image": "shapes-1"} | {f"name {number}": 0 for number in range(100_000)}
    answer = client.post("/api/futures", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.json()["error"] == "there is no value called 'name 0'"
