"""`study serve`: one study on one address. Loopback by default; on the network only with the token of its link."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint

from visual_dynamics.errors import UserError
from visual_dynamics.interfaces.study.routes import problem, study_router
from visual_dynamics.interfaces.study.store import Store

COOKIE_SECONDS = 90 * 24 * 3600
BACKLOG = 128  # connections that wait
MAX_REQUESTS = 200  # in flight; more are answered 503


def study_app(folder: Path, store: Store, token: str | None = None) -> FastAPI:
    """The application. With a token (on a network) every request needs it: in the link, a cookie or a header."""
    app = FastAPI(title="Visual Dynamics study", docs_url=None, redoc_url=None)
    app.include_router(study_router(folder, store))
    cookie = f"study_{store.study.id}"  # browsers share cookies between the ports of a machine

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, error: HTTPException) -> Response:
        words = {404: "there is no such page", 405: "this address does not take such requests"}
        return problem(error.status_code, words.get(error.status_code, str(error.detail)))

    @app.middleware("http")
    async def guarded(request: Request, go_on: RequestResponseEndpoint) -> Response:
        if not trusted_host(request.headers.get("host", ""), network=token is not None):
            return problem(400, "this address does not belong to the study")
        if token is None:
            return await go_on(request)
        asked = request.query_params.get("token", "")
        if request.url.path == "/" and _same(asked, token):
            response = RedirectResponse("/", 303)
            response.set_cookie(cookie, token, COOKIE_SECONDS, httponly=True, samesite="lax")
            return response
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not any(_same(given, token) for given in (asked, bearer, request.cookies.get(cookie, ""))):
            return problem(401, "this study needs the link with its token")
        return await go_on(request)

    return app


def trusted_host(header: str, network: bool) -> bool:
    """Whether a request was meant for this machine: a name of another site that points here is refused.

    On loopback only its addresses; on a network any address in numbers, which no one else's name can be, and this
    machine's own name.
    """
    try:
        host = (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return False
    own = {socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"} if network else set()
    if host == "localhost" or host in own:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback or network
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; what the system says against it is told in one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)  # from here on whoever follows the link is served, if a moment later
    except (OSError, UnicodeError, OverflowError) as error:
        raise UserError(f"cannot serve at {host}, port {port}: {getattr(error, 'strerror', None) or error}") from error
    return bound


def is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0].split("%")[0]).is_loopback


def link(bound: socket.socket, token: str | None) -> str:
    """What to open, or to hand out."""
    address, port = bound.getsockname()[:2]
    if ipaddress.ip_address(address.split("%")[0]).is_unspecified:
        address = _own_address()
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")


def serve(folder: Path, store: Store, bound: socket.socket, token: str | None) -> None:
    """Until interrupted."""
    app = study_app(folder, store, token)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=MAX_REQUESTS
    )
    uvicorn.Server(config).run(sockets=[bound])


def _own_address() -> str:
    """This machine's address on its network, as far as it can tell; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())
