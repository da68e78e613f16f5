"""Who may ask, of the studio as of a study: host, origin, token and size of a request; and what answers carry.

Plain ASGI: it never holds a body, and what is behind it sees a client go away.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from visual_dynamics.web.refusals import Refused, problem

COOKIE_SECONDS = 90 * 24 * 3600

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


@dataclass(frozen=True)
class Gate:
    """Whom a page is open to."""

    page: str  # what it is: "studio" or "study"
    cookie: str  # that keeps the token; browsers share cookies between the ports of a machine
    network: bool = False  # whether other machines reach it
    token: str | None = None  # that everybody has to show
    host: str = "localhost"  # that it was told to listen at
    names: tuple[str, ...] = ()  # further ones under which it is reached, through a proxy perhaps

    def refusal(self, scope: Scope) -> Response | None:
        """An answer in place of the page's, or None where the request may pass."""
        asked = HTTPConnection(scope)
        if not self.knows(asked.headers.get("host", "")):
            return problem(400, f"this {self.page} is not reached at that address; --allow-host adds one")
        if not self._same_site(asked.headers):
            return problem(403, "the request comes from a page of another site")
        if self.token is None:
            return None
        if scope["method"] == "GET" and _equal(asked.query_params.get("token", ""), self.token):
            return self._welcome(asked, self.token)
        bearer = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if any(_equal(shown, self.token) for shown in (bearer, asked.cookies.get(self.cookie, ""))):
            return None
        return problem(401, f"this {self.page} needs its token: open the link that it printed when it started")

    def knows(self, host: str) -> bool:
        """A name that another site chose to lead here is refused (DNS rebinding); addresses cannot be rebound."""
        name = _host_name(host)
        if name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback or self.network
        except ValueError:
            return False

    @cached_property
    def _names(self) -> set[str]:
        own = socket.gethostname()
        known = ("localhost", self.host, *self.names, *((own, f"{own}.local") if self.network else ()))
        return {name.lower().rstrip(".") for name in known}

    def _same_site(self, headers: Headers) -> bool:
        """Pages of other sites may link here, and nothing else."""
        origin = headers.get("origin")
        if origin is not None:
            place = origin.partition("://")[2]
            if place != headers.get("host") and place not in map(str.lower, self.names):  # a proxy may change the host
                return False
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        return not foreign or headers.get("sec-fetch-mode") == "navigate"

    def _welcome(self, asked: HTTPConnection, token: str) -> Response:
        """The token leaves the address bar and becomes a cookie."""
        rest = urlencode([(name, value) for name, value in asked.query_params.multi_items() if name != "token"])
        answer = RedirectResponse("/" + asked.scope["path"].lstrip("/") + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(self.cookie, token, COOKIE_SECONDS, httponly=True, samesite="lax")
        return answer


class Guards:
    """Middleware around a whole application."""

    def __init__(self, app: ASGIApp, gate: Gate, most_bytes: Callable[[str], int]) -> None:
        """most_bytes: of the body of a request to a path."""
        self.app, self.gate, self.most_bytes = app, gate, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self.gate.refusal(scope) or self.app
        await answer(scope, _bounded(receive, self.most_bytes(scope["path"])), send_with_headers)


def _bounded(receive: Receive, most: int) -> Receive:
    """Reads a body as long as it is not too large."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise Refused(413, f"the request is too large: at most {most:,} bytes")
        return message

    return bounded


def _host_name(host: str) -> str:
    """ "LocalHost.:8200" -> "localhost"; empty where it is no host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _equal(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode("utf-8", "replace"), token.encode())
