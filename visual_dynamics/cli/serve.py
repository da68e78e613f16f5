"""The verb that serves the studio, and the options of all pages. Heavy modules are imported when it runs."""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import busy, chosen_device, need
from visual_dynamics.cli.results import Result, show
from visual_dynamics.errors import UserError

TOKEN = re.compile(r"[A-Za-z0-9_-]{8,128}")
HostOption = Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0 opens it to the network.")]
PortOption = Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")]
ProxyOption = Annotated[
    list[str] | None,
    typer.Option(help="Address of a proxy that is believed who its clients are (X-Forwarded-For); may be repeated."),
]
AllowHostOption = Annotated[list[str] | None, typer.Option(help="A further host name of the page; may be repeated.")]


def studio(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8200,
    token: Annotated[
        str | None,
        typer.Option(help="Visitors need it; if other machines can connect, the studio makes one up."),
    ] = None,
    allow_host: AllowHostOption = None,
    proxy: ProxyOption = None,
    allow_frame: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Pages of this origin may show it in a frame; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A model beside the shipped ones; may be repeated.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of the library.", show_default="the user's data folder")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(help="Folder of a study with people (study make), to serve here, too.")
    ] = None,
) -> None:
    """Open the studio: a page and an API to see futures, edit motions, and apply them to other pictures."""
    need("studio", "fastapi", "uvicorn")
    if token is not None and not TOKEN.fullmatch(token):
        raise UserError("a token has 8 to 128 letters, digits, - or _")
    proxies = checked_proxies(proxy)
    import secrets

    from visual_dynamics import connections
    from visual_dynamics.web import read_origin

    frames = tuple(read_origin(each) for each in allow_frame or ())
    if token is None and not connections.is_loopback(host):
        token = secrets.token_urlsafe(24)
    with busy("opening the studio"):
        from visual_dynamics.studio.app import create_app
        from visual_dynamics.studio.state import Settings

        settings = Settings(
            store=store or _data_folder(),
            host=host,
            port=port,
            token=token,
            allowed_hosts=tuple(allow_host or ()),
            frames=frames,
            models=tuple(model or ()),
            study=study,
            device=str(chosen_device("cpu")),
        )
        page = create_app(settings)
    with closing(connections.listen(host, port)) as bound:
        opened = connections.link(bound, token)
        words, values = f"the studio is open: {opened}  (Ctrl-C closes it)", {"address": opened}
        if token and page.state.raters:
            values["raters"] = connections.link(bound, page.state.raters[1], "study/")
            words += f"\nraters take part, and see nothing else, at: {values['raters']}"
        show(Result(words, values))
        connections.server(page, proxies).run([bound])


def checked_proxies(addresses: list[str] | None) -> list[str]:
    for address in addresses or []:
        try:
            ip_network(address)
        except ValueError as error:
            raise UserError(f"{address[:80]!r} is no address of a proxy: give 10.0.0.2 or 10.0.0.0/24, say") from error
    return addresses or []


def _data_folder() -> Path:
    """The system's folder for a user's data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "visual-dynamics"
