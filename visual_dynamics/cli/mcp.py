"""The verb `mcp`. Heavy modules are imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import need
from visual_dynamics.cli.results import Output
from visual_dynamics.errors import UserError


def mcp(
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Files are read and written here alone.")],
) -> None:
    """Serve sample, apply, animate, complete and check to a program that speaks MCP, over stdin and stdout."""
    need("mcp", "mcp")
    if Output.as_json:
        raise UserError("mcp speaks JSON-RPC on stdout: leave --json out")
    from visual_dynamics.cli.allowed_folder import AllowedFolder

    allowed = AllowedFolder(folder)
    from visual_dynamics.cli.mcp_tools import make_server

    make_server(allowed).run("stdio")
