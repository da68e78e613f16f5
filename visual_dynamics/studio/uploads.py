"""Places for uploads, shared fairly between the addresses that they come from."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from visual_dynamics.studio.decoding import DecodingStoppedError
from visual_dynamics.web import RETRY_AFTER, RequestError

T = TypeVar("T")
UPLOADS, UPLOADS_PER_CLIENT = 16, 4  # at a time: their bytes are in memory
PAUSE = 30.0  # seconds without uploads of a client after one whose decoding had to be stopped


class Uploads:
    """Slow uploads of one client leave places for others, and so do those that are made to take long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._held: dict[str, tuple[int, asyncio.Lock]] = {}  # uploads of an address, and one at a time is decoded
        self._paused: dict[str, float] = {}  # address -> time from which it may send an upload again

    @contextmanager
    def place(self, client: str) -> Iterator[asyncio.Lock]:
        self._check(client)
        count, lock = self._held.get(client, (0, asyncio.Lock()))
        if count >= UPLOADS_PER_CLIENT:
            raise RequestError(429, f"{count} of your uploads are under way already", RETRY_AFTER)
        if sum(held for held, _ in self._held.values()) >= UPLOADS:
            raise RequestError(503, f"{UPLOADS} uploads are under way already", RETRY_AFTER)
        self._held[client] = count + 1, lock
        try:
            yield lock
        finally:
            left = self._held[client][0] - 1
            self._held[client] = left, lock
            if not left:
                del self._held[client]

    async def decode(self, client: str, work: Callable[[], Awaitable[T]]) -> T:
        """What comes of an upload. Its client pauses after one that had to be stopped."""
        self._check(client)
        try:
            return await work()
        except DecodingStoppedError:
            self._paused[client] = self.clock() + PAUSE
            raise

    def _check(self, client: str) -> None:
        now = self.clock()
        self._paused = {each: end for each, end in self._paused.items() if end > now}
        if client in self._paused:
            message = "the decoding of your last upload had to be stopped: wait a little"
            raise RequestError(429, message, math.ceil(self._paused[client] - now))
