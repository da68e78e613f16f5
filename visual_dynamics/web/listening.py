"""Where a page of ours is served: a socket, the link to it, and whether others than this machine reach it."""

from __future__ import annotations

import ipaddress
import socket

from visual_dynamics.errors import UserError

BACKLOG = 128  # connections that wait


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


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on that address."""
    try:
        return ipaddress.ip_address(host.strip("[]").split("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def link(bound: socket.socket, token: str | None) -> str:
    """What to open, or to hand out."""
    address, port = bound.getsockname()[:2]
    if ipaddress.ip_address(address.split("%")[0]).is_unspecified:
        address = _own_address()
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")


def _own_address() -> str:
    """This machine's address on its network, as far as it can tell; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
