"""How often anybody may ask the studio. Who may ask at all: see `guards`."""

from __future__ import annotations

import math
import time
from collections import OrderedDict

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from visual_dynamics.studio.settings import Limits
from visual_dynamics.web.refusals import problem

CLIENTS = 10_000  # addresses whose rates are remembered
RATED = ("/api/", "/study/api/")  # what is computed or kept; the rest is read once by a page


class Rates:
    """A bucket of tokens for each client address."""

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second, self.burst = per_second, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, at that time

    def wait(self, client: str) -> float:
        """Seconds until this client may ask again; 0 where it may now, which is counted."""
        now = time.monotonic()
        left, since = self._buckets.pop(client, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.per_second)
        may = left >= 1
        self._buckets[client] = (left - may, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if may else (1 - left) / self.per_second


class RateLimit:
    """Middleware around the whole application, inside the guards; it also tells the order of work."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.rates = Rates(limits.requests_per_second, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})

        async def send_with_place(message: Message) -> None:
            if message["type"] == "http.response.start" and "line" in scope["state"]:
                MutableHeaders(scope=message)["X-Line"] = scope["state"]["line"]
            await send(message)

        client = scope["client"][0] if scope.get("client") else "nobody"
        seconds = self.rates.wait(client) if scope["path"].startswith(RATED) else 0.0
        if seconds:
            later = {"Retry-After": str(math.ceil(seconds))}
            await problem(429, "too many requests: wait a little", later)(scope, receive, send)
        else:
            await self.app(scope, receive, send_with_place)
