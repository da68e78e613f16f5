"""The verb `studio` of the command line. Heavy modules are imported when it runs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import DeviceOption, busy
from visual_dynamics.errors import UserError

INSTALL = 'the studio needs a few more packages: pip install "visual-dynamics[studio]"'
MAX_CONNECTIONS = 500  # the others get 503
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,128}")


def studio(
    host: Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 8200,
    token: Annotated[
        str | None,
        typer.Option(help="Visitors need it; if other machines can connect, the studio makes one up."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further host name of the studio; may be repeated.")
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
    device: DeviceOption = "cpu",
) -> None:
    """Open the studio: a page and an API to see futures, edit motions, and apply them to other pictures."""
    try:
        import fastapi as _fastapi  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise UserError(INSTALL) from error

    import secrets
    from contextlib import closing

    from visual_dynamics.studio.state import Settings
    from visual_dynamics.web import is_loopback, link, listen

    if token is not None and not TOKEN.fullmatch(token):
        raise UserError("a token has 8 to 128 letters, digits, - or _")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    with busy("opening the studio"):
        from visual_dynamics.api import find_device
        from visual_dynamics.studio.app import create_app

        settings = Settings(
            store=store or _data_folder(),
            host=host,
            port=port,
            token=token,
            allowed_hosts=tuple(allow_host or ()),
            models=tuple(model or ()),
            study=study,
            device=str(find_device(device)),
        )
        app = create_app(settings)
    with closing(listen(host, port)) as listening:
        typer.echo(f"the studio is open: {link(listening, token)}  (Ctrl-C closes it)")
        config = uvicorn.Config(
            app,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=20,
            timeout_graceful_shutdown=2,
            limit_concurrency=MAX_CONNECTIONS,
        )
        uvicorn.Server(config).run(sockets=[listening])


def _data_folder() -> Path:
    """The system's folder for a user's data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "visual-dynamics"
