"""What the servers of the studio and of a study share: access, limits, errors as JSON, and the listening socket.

`Guards` is plain ASGI. It never holds a body, and the application behind it notices when a client disconnects.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import os
import re
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http.client import responses
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from visual_dynamics.errors import UserError

BACKLOG = 128  # connections that wait to be accepted
COOKIE_SECONDS = 90 * 24 * 3600
MOST_CLIENTS = 10_000  # addresses whose rates are remembered
ORIGIN = re.compile(r"https?://([a-z0-9-]+\.)*[a-z0-9-]+(?P<port>:[1-9]\d{0,4})?")  # what frame-ancestors understands
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
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MESSAGES = {404: "there is no such page", 405: "this address does not take that method"}


# --- errors


class ErrorResponse(BaseModel):
    """What went wrong."""

    error: str
    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "there is no such page"}]})


class RequestError(HTTPException):
    """The server cannot answer a request; the message says why."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(status, message, None if retry_after is None else {"Retry-After": str(retry_after)})


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, {"Cache-Control": "no-store", **(headers or {})})


def possible_errors(messages: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Status -> description, as OpenAPI wants them beside the result of a route."""
    return {status: {"model": ErrorResponse, "description": message} for status, message in messages.items()}


def send_errors_as_json(app: FastAPI) -> None:
    """Every error of the application becomes {"error": "one clear sentence"}."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(UserError, lambda _, error: error_response(422, str(error)))
    app.add_exception_handler(Exception, _server_error)


def _http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    usual = responses.get(error.status_code, "")
    message = MESSAGES.get(error.status_code, usual) if error.detail in (usual, "") else error.detail
    return error_response(error.status_code, message, error.headers)


def _validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path", "header"))
    message = str(first["msg"]).removeprefix("Value error, ")
    return error_response(422, f"{where}: {message}" if where else message)


def _server_error(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger("visual_dynamics").error("%s %s", request.method, request.url.path, exc_info=error)
    return error_response(500, "the server failed; its log says why")


# --- access and limits


@dataclass(frozen=True)
class Gate:
    """Who may send requests: checks host, origin and token."""

    page: str  # "studio" or "study"
    cookie: str  # its name: browsers share cookies between the ports of a machine
    network: bool = False  # other machines may connect
    token: str | None = None  # needed in every request
    host: str = "localhost"  # the server listens here
    names: tuple[str, ...] = ()  # further host names, of a proxy for example
    frames: tuple[str, ...] = ()  # origins whose pages may show this one in a frame

    def check(self, scope: Scope) -> Response | None:
        """An error or redirect in place of the page, or None if the request may pass."""
        request = HTTPConnection(scope)
        if not self.knows(request.headers.get("host", "")):
            return error_response(400, f"this {self.page} has another address; --allow-host adds one")
        if not self._same_site(request.headers):
            return error_response(403, "the request comes from a page of another site")
        if self.token is None:
            return None
        if scope["method"] == "GET" and _equal(request.query_params.get("token", ""), self.token):
            return self._set_cookie(request, self.token)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if any(_equal(given, self.token) for given in (bearer, request.cookies.get(self.cookie, ""))):
            return None
        return error_response(401, f"this {self.page} needs its token: open the link that it printed when it started")

    def knows(self, host: str) -> bool:
        """Only names of this server: another site could point its own name here (DNS rebinding), but no address."""
        name = _host_name(host)
        if name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback or self.network
        except ValueError:
            return False

    @cached_property
    def headers(self) -> dict[str, str]:
        """Of every response. X-Frame-Options cannot name an origin, so it goes where there is one."""
        if not self.frames:
            return HEADERS
        policy = POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {' '.join(self.frames)}")
        others = {name: value for name, value in HEADERS.items() if name != "X-Frame-Options"}
        return others | {"Content-Security-Policy": policy}

    @cached_property
    def _names(self) -> set[str]:
        own = socket.gethostname()
        known = ("localhost", self.host, *self.names, *((own, f"{own}.local") if self.network else ()))
        return {name.lower().rstrip(".") for name in known}

    def _same_site(self, headers: Headers) -> bool:
        """Pages of other sites may link here, and nothing else (CSRF)."""
        origin = headers.get("origin")
        if origin is not None:
            place = origin.partition("://")[2]
            if place != headers.get("host") and place not in map(str.lower, self.names):  # a proxy may change the host
                return False
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        return not foreign or headers.get("sec-fetch-mode") == "navigate"

    def _set_cookie(self, request: HTTPConnection, token: str) -> Response:
        """Move the token from the address bar to a cookie."""
        rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "token"])
        response = RedirectResponse("/" + request.scope["path"].lstrip("/") + (f"?{rest}" if rest else ""), 303)
        # In a frame of another site browsers keep a cookie only if it is encrypted, and best in that site's partition.
        framed = bool(self.frames) and request.url.scheme == "https"
        kind: Literal["none", "lax"] = "none" if framed else "lax"
        response.set_cookie(self.cookie, token, COOKIE_SECONDS, httponly=True, secure=framed, samesite=kind)
        if framed:  # set_cookie knows the word from Python 3.14 on
            response.headers["set-cookie"] += "; Partitioned"
        return response


def read_origin(text: str) -> str:
    """ "HTTPS://Course.example" -> "https://course.example"; what is no origin of web pages is an error."""
    origin = text.lower()
    if not (found := ORIGIN.fullmatch(origin)) or int((found["port"] or ":0")[1:]) > 65_535:
        raise UserError(f"an origin is https://HOST or https://HOST:PORT (or http), and nothing else; not {text!r}")
    return origin


class Rates:
    """A bucket of tokens for each client address."""

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second, self.burst = per_second, burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, at that time

    def wait(self, client: str) -> float:
        """Seconds until this client may send a request; 0 if it may send one now, which is then counted."""
        now = time.monotonic()
        left, since = self._buckets.pop(client, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.per_second)
        allowed = left >= 1
        self._buckets[client] = (left - allowed, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.per_second


class Guards:
    """Middleware around a whole application. A route may add headers in `request.state.headers`."""

    def __init__(self, app: ASGIApp, gate: Gate, most_bytes: Callable[[str], int], rates: Rates | None = None) -> None:
        """most_bytes: of a request body, by path. rates: of requests to an API (pages themselves are not counted)."""
        self.app, self.gate, self.most_bytes, self.rates = app, gate, most_bytes, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (self.gate.headers | state.get("headers", {})).items():
                    headers.setdefault(name, value)
            await send(message)

        response = self.gate.check(scope) or self._too_fast(scope) or self.app
        await response(scope, _bounded(receive, self.most_bytes(scope["path"])), send_with_headers)

    def _too_fast(self, scope: Scope) -> Response | None:
        if self.rates is None or not scope["path"].startswith(("/api/", "/study/api/")):
            return None
        seconds = self.rates.wait(scope["client"][0] if scope.get("client") else "unknown")
        if not seconds:
            return None
        return error_response(429, "too many requests: wait a little", {"Retry-After": str(math.ceil(seconds))})


def _bounded(receive: Receive, most: int) -> Receive:
    """Reads a body up to a size."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise RequestError(413, f"the request is too large: at most {most:,} bytes")
        return message

    return bounded


def _host_name(host: str) -> str:
    """ "LocalHost.:8200" -> "localhost"; empty if it is not a host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def file_route(path: Path) -> Callable[[], Response]:
    """A route that sends a file. It is read once, now: no path of a request reaches the file system."""
    content = path.read_bytes()
    return lambda: Response(content, media_type=TYPES[path.suffix])


# --- listening


def listen(host: str, port: int) -> socket.socket:
    """A listening socket."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        if os.name != "nt":  # there it would let another program listen at the same port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)  # from now on the link works: connections wait for the server
    except (OSError, UnicodeError, OverflowError) as error:
        raise UserError(f"cannot serve at {host}, port {port}: {getattr(error, 'strerror', None) or error}") from error
    return bound


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at that address."""
    try:
        return ipaddress.ip_address(host.strip("[]").split("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def link(bound: socket.socket, token: str | None) -> str:
    """The address of the page, to open or to hand out."""
    address, port = bound.getsockname()[:2]
    if ipaddress.ip_address(address.split("%")[0]).is_unspecified:
        address = _own_address()
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")


def _own_address() -> str:
    """This machine's address on its network, as far as it is known; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
