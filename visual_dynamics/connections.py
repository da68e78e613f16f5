"""The listening socket of a server, and connections that nobody can hold open to shut others out.

uvicorn bounds the pause between two requests, and nothing else. Here a connection ends, too,
1. if it has sent no whole head of a request `IDLE` seconds after it was opened, or after its last response;
2. if it does not take its response at `LEAST_RATE`;
3. if all places are taken: that which has waited longest for its client, of the address that holds most of them.
`web.Guards` bounds the time of a request's body, since it can answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections import Counter
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from visual_dynamics.errors import UserError
from visual_dynamics.web import LEAST_RATE, MOST_REQUESTS, PATIENCE

BACKLOG = 128  # connections that wait to be accepted
IDLE = 20  # seconds
CLOSING = 2  # seconds that a server which ends waits for its responses


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


def link(bound: socket.socket, token: str | None, path: str = "") -> str:
    """The address of the page, to open or to hand out."""
    address, port = bound.getsockname()[:2]
    if ipaddress.ip_address(address.split("%")[0]).is_unspecified:
        address = _own_address()
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/{path}" + (f"?token={token}" if token else "")


def _own_address() -> str:
    """This machine's address on its network, as far as it is known; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


class Connection(H11Protocol):
    """A connection of uvicorn's that ends when it waits too long for its client."""

    most = MOST_REQUESTS  # connections of a server: each may have a request
    waits_since = 0.0  # seconds of the loop's clock
    _idle: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None

    @property
    def working(self) -> bool:
        """Whether it has a request that is not yet answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def waits(self) -> bool:
        """For its client: to send a request or the rest of it, or to take the response."""
        return not self.working or self.cycle.more_body or self.flow.write_paused

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()
        while len(self.connections) > self.most and (other := self._greediest()):
            self.connections.discard(other)
            other.end()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = PATIENCE + self.transport.get_write_buffer_size() / LEAST_RATE
        self._slow = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._slow:
            self._slow.cancel()
        self._expect_request()  # from now on, if the response is complete

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._idle, self._slow):
            if timer:
                timer.cancel()

    def end(self) -> None:
        """Close it; what a client leaves untaken is dropped."""
        (self.transport.abort if self.transport.get_write_buffer_size() else self.transport.close)()

    def _expect_request(self) -> None:
        self.waits_since = self.loop.time()
        if self._idle:
            self._idle.cancel()
        self._idle = self.loop.call_later(IDLE, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if not self.working and not self.flow.write_paused:  # a client may take its response in its time
            self.end()

    def _greediest(self) -> Connection | None:
        """Of the address with most connections, the one that has waited longest for its client."""
        others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        held = Counter(each.address for each in others)
        waiting = [each for each in others if each.waits]
        return max(waiting, key=lambda each: (held[each.address], -each.waits_since), default=None)


def server(app: ASGIApp, proxies: Sequence[str] = ()) -> uvicorn.Server:
    """Its `run` takes sockets. Of `proxies` alone, addresses or networks, it is believed who their clients are."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=CLOSING,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    return uvicorn.Server(config)
