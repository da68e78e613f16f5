"""What every request passes: its host, its origin, its token, its rate and its size; and what every answer carries.

Plain ASGI: it sees the disconnection of a client, and never holds a body.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import socket
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from visual_dynamics.interfaces.studio.refusals import Refused, problem
from visual_dynamics.interfaces.studio.settings import Settings, is_loopback

COOKIE = "visual_dynamics_token"
COOKIE_SECONDS = 30 * 24 * 3600
CLIENTS = 10_000  # addresses whose rates are remembered

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "media-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


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


class Guards:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.rates = Rates(settings.limits.requests_per_second, settings.limits.burst)
        self.names = {"localhost", settings.host, *settings.allowed_hosts}
        if not is_loopback(settings.host):
            self.names.add(socket.gethostname())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "line" in scope["state"]:
                    headers["X-Line"] = scope["state"]["line"]
            await send(message)

        answer = self._refusal(scope)
        if answer is None:
            await self.app(scope, self._counted(scope, receive), send_with_headers)
        else:
            await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """An answer in place of the application's, or None where the request may pass."""
        headers, path = Headers(scope=scope), scope["path"]
        if not self._known_host(headers.get("host", "")):
            return problem(400, "this studio is not reached under that name; --allow-host adds one")
        if not _same_site(headers):
            return problem(403, "the request comes from a page of another site")
        token = self.settings.token
        if token:
            asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
            if scope["method"] == "GET" and _equal(asked.get("token", ""), token):
                return _welcome(path, asked, token)
            if not any(_equal(shown, token) for shown in _shown_tokens(headers)):
                return problem(401, "this studio needs its token: open the link that it printed when it started")
        client = scope["client"][0] if scope.get("client") else "nobody"
        if path.startswith("/api/"):
            seconds = self.rates.wait(client)
            if seconds:
                later = {"Retry-After": str(math.ceil(seconds))}
                return problem(429, "too many requests: wait a little", later)
        return None

    def _known_host(self, host: str) -> bool:
        """A name that another site chose to lead here is refused (DNS rebinding); addresses cannot be rebound."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in self.names:
                return True
            address = ipaddress.ip_address(name)
        except ValueError:  # neither known nor an address
            return False
        return address.is_loopback or not is_loopback(self.settings.host)

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """Reads a body as long as it is not too large."""
        limits = self.settings.limits
        most = limits.upload_bytes if scope["path"] == "/api/images" else limits.json_bytes
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise Refused(413, f"the request is too large: at most {most:,} bytes")
            return message

        return counted


def _same_site(headers: Headers) -> bool:
    """Pages of other sites may link here, and nothing else."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return False
    foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    return not foreign or headers.get("sec-fetch-mode") == "navigate"


def _shown_tokens(headers: Headers) -> list[str]:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        cookie = None
    return [headers.get("authorization", "").removeprefix("Bearer "), cookie.value if cookie else ""]


def _equal(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "replace"), token.encode())


def _welcome(path: str, asked: dict[str, str], token: str) -> Response:
    """The token leaves the address bar and becomes a cookie."""
    rest = urlencode({name: value for name, value in asked.items() if name != "token"})
    answer = RedirectResponse("/" + path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
    answer.set_cookie(COOKIE, token, COOKIE_SECONDS, httponly=True, samesite="lax")
    return answer
