"""The line of work: its order, its bounds, places, and clients that go away."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from tests.studio.conftest import GENEROUS, served
from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.line import CLIENT_GONE, Line, UnwantedError, in_line
from visual_dynamics.studio.settings import Settings
from visual_dynamics.web.refusals import Refused


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


def test_first_come_first_served_and_places_are_told(gate: threading.Event) -> None:
    line, done = Line(length=10, per_client=10), list[int]()
    jobs = [line.join("me", "first", gate.wait)]
    jobs += [line.join("me", f"ticket {k}", lambda k=k: done.append(k)) for k in range(5)]  # type: ignore[misc]
    assert [line.place("me", f"ticket {k}") for k in range(5)] == [1, 2, 3, 4, 5]
    assert line.place("another", "ticket 1") is None
    gate.set()
    for job in jobs:
        job.result.result(5)
    assert done == [0, 1, 2, 3, 4] and [job.finished for job in jobs] == [1, 2, 3, 4, 5, 6]
    line.close()


def test_a_full_line_and_a_greedy_client_are_refused(gate: threading.Event) -> None:
    line = Line(length=4, per_client=2)
    line.join("one", "", gate.wait)
    line.join("one", "", gate.wait)
    with pytest.raises(Refused) as greedy:
        line.join("one", "", gate.wait)
    line.join("two", "", gate.wait)
    line.join("three", "", gate.wait)
    with pytest.raises(Refused) as full:
        line.join("four", "", gate.wait)
    assert (greedy.value.status_code, full.value.status_code) == (429, 503)
    assert full.value.headers and int(full.value.headers["Retry-After"]) >= 1
    gate.set()
    line.close()


def test_a_fault_reaches_who_waits_and_the_line_goes_on() -> None:
    line = Line(length=4, per_client=4)
    broken = line.join("me", "", lambda: 1 / 0)
    assert isinstance(broken.result.exception(5), ZeroDivisionError)
    assert line.join("me", "", lambda: 7).result.result(5) == 7
    line.close()


def test_a_client_that_goes_away_leaves_the_line(gate: threading.Event) -> None:
    line, ran = Line(length=4, per_client=4), list[int]()
    running = line.join("other", "", gate.wait)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "headers": [], "client": ("me", 1), "state": {}, "app": FastAPI()}
    with pytest.raises(Refused) as gone:
        asyncio.run(in_line(line, Request(scope, receive), lambda: ran.append(1)))
    assert gone.value.status_code == CLIENT_GONE and len(line) == 1
    gate.set()
    running.result.result(5)
    line.join("me", "", lambda: None).result.result(5)
    assert ran == []
    line.close()


def test_an_animation_ends_when_its_client_hangs_up(app: FastAPI, address: str) -> None:
    line: Line = app.state.studio.line
    body = json.dumps({"reference": "walk-sheet", "target": "figure-blue", "cell_width": 60, "cell_height": 60})
    head = "POST /api/animate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Ticket: gone\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0)) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while (job := next((job for job in list(line._jobs.values()) if job.ticket == "gone"), None)) is None:
            pass
        while not job.result.running():
            assert not job.result.done()
    assert isinstance(job.result.exception(60), UnwantedError)


def test_a_full_line_is_told_over_the_network(app: FastAPI, address: str, gate: threading.Event) -> None:
    line: Line = app.state.studio.line
    while len(line):
        pass
    held = [line.join(f"another {number}", "", gate.wait) for number in range(line.length)]
    body = {"image": "shapes-1", "codes": [[0.0] * 8]}
    refused = httpx.post(f"{address}/api/decode", json=body, timeout=60)
    gate.set()
    held[-1].result.result(60)
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    assert refused.json() == {"error": f"the line is full: {line.length} pieces of work wait"}
    assert httpx.post(f"{address}/api/decode", json=body, timeout=60).status_code == 200


def test_many_clients_at_once_are_served_in_order_or_told_to_wait(studio_settings: Settings) -> None:
    app = create_app(replace(studio_settings, limits=replace(GENEROUS, line_length=6, line_per_client=6)))

    async def ask(address: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            body = {"image": "shapes-1", "codes": [[0.0] * 8]}
            return await asyncio.gather(*(client.post("/api/decode", json=body) for _ in range(30)))

    with served(app) as address:
        answers = asyncio.run(ask(address))
    app.state.studio.line.close()
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {200, 429, 503} and statuses[200] >= 6 and statuses[429] + statuses[503] > 0
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code != 200)
    line = sorted(tuple(map(int, answer.headers["x-line"].split())) for answer in answers if answer.status_code == 200)
    assert [completion for _, completion in line] == sorted(completion for _, completion in line)
