"""What the servers of the studio and of a study share: access, limits, and errors as JSON.

`Guards` is plain ASGI. It never holds a body, and the application behind it notices when a client disconnects.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import re
import socket
import sqlite3
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
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from visual_dynamics.errors import UserError

RETRY_AFTER = 2  # seconds until a client should try again
CLIENT_GONE = 499  # nobody reads this response
COOKIE_SECONDS = 90 * 24 * 3600
MOST_CLIENTS = 10_000  # addresses whose rates are remembered
MOST_REQUESTS = 500  # at once; the others get 503
PATIENCE, LEAST_RATE = 20.0, 10_000.0  # seconds and bytes a second: so slow may a client send or take a body
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
    app.add_exception_handler(sqlite3.OperationalError, _storage_error)
    app.add_exception_handler(ClientDisconnect, _aborted)
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


def _storage_error(request: Request, error: Exception) -> JSONResponse:
    if getattr(error, "sqlite_errorcode", None) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return _server_error(request, error)
    return error_response(507, "the server's disk is full: this was not saved, what was saved before is safe")


def _aborted(request: Request, _: Exception) -> JSONResponse:
    logging.getLogger("visual_dynamics").warning("%s %s: aborted by its client", request.method, request.url.path)
    return error_response(CLIENT_GONE, "the client disconnected")


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
    raters: tuple[str, str] | None = None  # cookie and token of those who take part in its study, and see nothing else
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
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        keys = [(self.cookie, self.token), *([self.raters] if self.raters and _of_study(scope["path"]) else [])]
        for cookie, token in keys:
            if scope["method"] == "GET" and _equal(request.query_params.get("token", ""), token):
                return _set_cookie(request, cookie, token, self.frames)
            if any(_equal(given, token) for given in (bearer, request.cookies.get(cookie, ""))):
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


def _of_study(path: str) -> bool:
    """Whether it belongs to the study that a studio serves."""
    return path.startswith("/study/")


def _set_cookie(request: HTTPConnection, cookie: str, token: str, frames: tuple[str, ...]) -> Response:
    """Move the token from the address bar to a cookie."""
    rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "token"])
    response = RedirectResponse("/" + request.scope["path"].lstrip("/") + (f"?{rest}" if rest else ""), 303)
    # In a frame of another site browsers keep a cookie only if it is encrypted, and best in that site's partition.
    framed = bool(frames) and request.url.scheme == "https"
    kind: Literal["none", "lax"] = "none" if framed else "lax"
    response.set_cookie(cookie, token, COOKIE_SECONDS, httponly=True, secure=framed, samesite=kind)
    if framed:  # set_cookie knows the word from Python 3.14 on
        response.headers["set-cookie"] += "; Partitioned"
    return response


def client_of(request: HTTPConnection) -> str:
    """The address that a request comes from."""
    return request.client.host if request.client else "unknown"


def read_origin(text: str) -> str:
    """ "HTTPS://Course.example" -> "https://course.example"; what is no origin of web pages is an error."""
    origin = text.lower()
    if not (found := ORIGIN.fullmatch(origin)) or int((found["port"] or ":0")[1:]) > 65_535:
        raise UserError(f"an origin is https://HOST or https://HOST:PORT (or http), and nothing else; not {text!r}")
    return origin


class Rates:
    """A bucket of tokens for each client address."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.burst, self.clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, at that time

    def wait(self, client: str) -> float:
        """Seconds until this client may send a request; 0 if it may send one now, which is then counted."""
        now = self.clock()
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
        self.running = 0  # requests

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

        self.running += 1
        try:
            response = self.gate.check(scope) or self._too_many(scope) or self.app
            await response(scope, _bounded(receive, self.most_bytes(scope["path"])), send_with_headers)
        finally:
            self.running -= 1

    def _too_many(self, scope: Scope) -> Response | None:
        if self.running > MOST_REQUESTS:
            return error_response(503, f"more than {MOST_REQUESTS} requests wait", {"Retry-After": str(RETRY_AFTER)})
        if self.rates is None or not scope["path"].startswith(("/api/", "/study/api/")):
            return None
        seconds = self.rates.wait(client_of(HTTPConnection(scope)))
        if not seconds:
            return None
        return error_response(429, "too many requests: wait a little", {"Retry-After": str(math.ceil(seconds))})


def _bounded(receive: Receive, most: int, clock: Callable[[], float] = time.monotonic) -> Receive:
    """Reads a body up to a size, and no slower than `LEAST_RATE`. Only time that is spent waiting for it counts."""
    received, waited, whole = 0, 0.0, False

    async def bounded() -> Message:
        nonlocal received, waited, whole
        if whole:  # what follows is the end of the connection
            return await receive()
        start, allowed = clock(), PATIENCE + received / LEAST_RATE
        try:
            async with asyncio.timeout(allowed - waited):
                message = await receive()
        except TimeoutError:
            message = {"type": "http.request", "more_body": True}
        waited += clock() - start
        received += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if received > most:
            raise RequestError(413, f"the request is too large: at most {most:,} bytes")
        if waited >= allowed and not whole:
            raise HTTPException(408, "the request came too slowly", {"Connection": "close"})
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
