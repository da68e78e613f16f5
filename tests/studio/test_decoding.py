"""Uploads that take too long or too much end in a sentence, in a process of their own."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
from functools import partial

import anyio
import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError
from starlette.testclient import TestClient

from tests.studio.malformed import good
from visual_dynamics.errors import UserError
from visual_dynamics.studio import decoding
from visual_dynamics.studio.decoding import decode_apart
from visual_dynamics.studio.futures import ContinueBody, FuturesBody
from visual_dynamics.studio.uploads import PAUSE, UPLOADS, UPLOADS_PER_CLIENT, Uploads
from visual_dynamics.web import RequestError

needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="this system bounds no processor time")


def gif_of_comments(count: int) -> bytes:
    """A small picture. Pillow joins its comments, each to all before it."""
    buffer = io.BytesIO()
    Image.new("P", (16, 16)).save(buffer, "GIF")
    data = buffer.getvalue()
    header = 13 + (3 * 2 ** ((data[10] & 7) + 1) if data[10] & 0x80 else 0)
    return data[:header] + b"!\xfe\x01a\0" * count + data[header:]


@needs_limits
def test_an_upload_that_would_take_a_minute_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "SECONDS", 1)
    monkeypatch.setattr(decoding, "LONGEST", 1000.0)  # what ends it is the processor time
    uploads = client.app.state.studio.uploads
    answer = client.post("/api/images", content=gif_of_comments(1_900_000))
    assert answer.status_code == 422 and "within 1 seconds" in answer.json()["error"]
    pause = client.post("/api/images", content=gif_of_comments(10))
    assert pause.status_code == 429 and 1 <= int(pause.headers["retry-after"]) <= PAUSE
    monkeypatch.setattr(uploads, "clock", lambda: time.monotonic() + PAUSE)
    assert client.post("/api/images", content=gif_of_comments(10)).status_code == 201


def _process(_: bytes) -> int:
    return os.getpid()


def _much(data: bytes) -> int:
    return len(bytearray(int(data)))


@needs_limits
def test_a_process_stays_and_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MEMORY", 2**29)

    async def three() -> None:
        first = await decode_apart(_process, b"")
        assert first != os.getpid()
        with pytest.raises(UserError, match="cannot be decoded within"):
            await decode_apart(_much, str(2**30).encode())
        assert await decode_apart(_much, str(2**20).encode()) == 2**20
        assert await decode_apart(_process, b"") == first

    asyncio.run(three())


def _exit(_: bytes) -> None:
    os._exit(1)


def test_a_process_that_dies_takes_nothing_with_it() -> None:
    async def both() -> None:
        with pytest.raises(UserError, match="cannot be decoded within"):
            await decode_apart(_exit, b"")
        assert await decode_apart(len, b"abc") == 3

    asyncio.run(both())


def test_the_same_pixels_come_from_the_other_process() -> None:
    data = good(np.random.default_rng(0))
    decode = partial(decoding.decode_upload, max_pixels=10**6)
    assert (anyio.run(decode_apart, decode, data) == decode(data)).all()


def test_slow_uploads_of_one_client_leave_places_for_others() -> None:
    uploads = Uploads()
    held = [uploads.place("greedy") for _ in range(UPLOADS_PER_CLIENT)]
    locks = {id(place.__enter__()) for place in held}
    assert len(locks) == 1  # one of them is decoded at a time
    with pytest.raises(RequestError) as greedy, uploads.place("greedy"):
        pass
    held += [uploads.place(f"client {number}") for number in range(UPLOADS - UPLOADS_PER_CLIENT)]
    locks |= {id(place.__enter__()) for place in held[UPLOADS_PER_CLIENT:]}
    assert len(locks) == 1 + UPLOADS - UPLOADS_PER_CLIENT
    with pytest.raises(RequestError) as full, uploads.place("another"):
        pass
    assert (greedy.value.status_code, full.value.status_code) == (429, 503)
    assert all(error.value.headers and error.value.headers["Retry-After"] for error in (greedy, full))
    for place in held:
        place.__exit__(None, None, None)
    with uploads.place("greedy"), uploads.place("another"):
        pass
    assert not uploads._held


def test_a_thousand_mistakes_are_one_error() -> None:
    many = {f"name {number}": 0 for number in range(1000)}
    with pytest.raises(ValidationError) as unknown:
        FuturesBody.model_validate({"image": "shapes-1", "poke": many})
    with pytest.raises(ValidationError) as wrong:
        ContinueBody.model_validate({"image": "shapes-1", "z": ["x"] * 1000})
    assert unknown.value.error_count() == wrong.value.error_count() == 1
