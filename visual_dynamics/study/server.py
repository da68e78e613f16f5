"""`study serve`: one study on one address. Loopback by default; on the network only with the token of its link."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from visual_dynamics.study.routes import MAX_BODY, study_router
from visual_dynamics.study.store import Store
from visual_dynamics.web.guards import Gate, Guards
from visual_dynamics.web.refusals import tell_errors_as_json

MAX_REQUESTS = 200  # in flight; more are answered 503


def study_app(folder: Path, store: Store, token: str | None = None, names: tuple[str, ...] = ()) -> FastAPI:
    """The application. With a token (on a network) every request needs it: in the link, a cookie or a header."""
    app = FastAPI(title="Visual Dynamics study", docs_url=None, redoc_url=None)
    app.include_router(study_router(folder, store))
    tell_errors_as_json(app)
    gate = Gate("study", f"study_{store.study.id}", network=token is not None, token=token, names=names)
    app.add_middleware(Guards, gate=gate, most_bytes=lambda _path: MAX_BODY)
    return app


def serve(folder: Path, store: Store, bound: socket.socket, token: str | None, names: tuple[str, ...] = ()) -> None:
    """Until interrupted."""
    app = study_app(folder, store, token, names)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=MAX_REQUESTS
    )
    uvicorn.Server(config).run(sockets=[bound])
