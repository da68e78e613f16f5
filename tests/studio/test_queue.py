"""The queue: its order, its bounds, positions, and clients that disconnect."""

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
from visual_dynamics.studio.state import JobCancelledError, Queue, Settings, run_in_queue
from visual_dynamics.web import CLIENT_GONE, RequestError


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


def test_first_come_first_served_and_places_are_told(gate: threading.Event) -> None:
    queue, done = Queue(length=10, per_client=10), list[int]()
    jobs = [queue.add("me", "first", gate.wait)]
    jobs += [queue.add("me", f"ticket {k}", lambda k=k: done.append(k)) for k in range(5)]  # type: ignore[misc]
    assert [queue.position("me", f"ticket {k}") for k in range(5)] == [1, 2, 3, 4, 5]
    assert queue.position("another", "ticket 1") is None
    gate.set()
    for job in jobs:
        job.result.result(5)
    assert done == [0, 1, 2, 3, 4] and [job.finished for job in jobs] == [1, 2, 3, 4, 5, 6]
    queue.close()


def test_a_full_queue_and_a_greedy_client_are_refused(gate: threading.Event) -> None:
    queue = Queue(length=4, per_client=2)
    queue.add("one", "", gate.wait)
    queue.add("one", "", gate.wait)
    with pytest.raises(RequestError) as greedy:
        queue.add("one", "", gate.wait)
    queue.add("two", "", gate.wait)
    queue.add("three", "", gate.wait)
    with pytest.raises(RequestError) as full:
        queue.add("four", "", gate.wait)
    assert (greedy.value.status_code, full.value.status_code) == (429, 503)
    assert full.value.headers and int(full.value.headers["Retry-After"]) >= 1
    gate.set()
    queue.close()


def test_a_fault_reaches_who_waits_and_the_queue_goes_on() -> None:
    queue = Queue(length=4, per_client=4)
    broken = queue.add("me", "", lambda: 1 / 0)
    assert isinstance(broken.result.exception(5), ZeroDivisionError)
    assert queue.add("me", "", lambda: 7).result.result(5) == 7
    queue.close()


def test_a_client_that_goes_away_leaves_the_queue(gate: threading.Event) -> None:
    queue, ran = Queue(length=4, per_client=4), list[int]()
    running = queue.add("other", "", gate.wait)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "headers": [], "client": ("me", 1), "state": {}, "app": FastAPI()}
    with pytest.raises(RequestError) as gone:
        asyncio.run(run_in_queue(queue, Request(scope, receive), lambda: ran.append(1)))
    assert gone.value.status_code == CLIENT_GONE and len(queue) == 1
    gate.set()
    running.result.result(5)
    queue.add("me", "", lambda: None).result.result(5)
    assert ran == []
    queue.close()


def test_an_animation_ends_when_its_client_hangs_up(app: FastAPI, address: str) -> None:
    queue: Queue = app.state.studio.queue
    body = json.dumps({"reference": "walk-sheet", "target": "figure-blue", "cell_width": 60, "cell_height": 60})
    head = "POST /api/animate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Ticket: gone\r\n"
    with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0)) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while (job := next((job for job in list(queue._jobs.values()) if job.ticket == "gone"), None)) is None:
            pass
        while not job.result.running():
            assert not job.result.done()
    assert isinstance(job.result.exception(60), JobCancelledError)


def test_a_full_queue_is_told_over_the_network(app: FastAPI, address: str, gate: threading.Event) -> None:
    queue: Queue = app.state.studio.queue
    while len(queue):
        pass
    held = [queue.add(f"another {number}", "", gate.wait) for number in range(queue.length)]
    body = {"image": "shapes-1", "codes": [[0.0] * 8]}
    refused = httpx.post(f"{address}/api/decode", json=body, timeout=60)
    gate.set()
    held[-1].result.result(60)
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    assert refused.json() == {"error": f"the queue is full: {queue.length} jobs wait"}
    assert httpx.post(f"{address}/api/decode", json=body, timeout=60).status_code == 200


def test_many_clients_at_once_are_served_in_order_or_told_to_wait(studio_settings: Settings) -> None:
    app = create_app(replace(studio_settings, limits=replace(GENEROUS, queue_length=6, queue_per_client=6)))

    async def send(address: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            body = {"image": "shapes-1", "codes": [[0.0] * 8]}
            return await asyncio.gather(*(client.post("/api/decode", json=body) for _ in range(30)))

    with served(app) as address:
        answers = asyncio.run(send(address))
    app.state.studio.queue.close()
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {200, 429, 503} and statuses[200] >= 6 and statuses[429] + statuses[503] > 0
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code != 200)
    served_in = sorted(
        tuple(map(int, answer.headers["x-queue"].split())) for answer in answers if answer.status_code == 200
    )
    assert [completion for _, completion in served_in] == sorted(completion for _, completion in served_in)
