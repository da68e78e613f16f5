"""A studio that runs in this process, behind a real socket, for a browser and for other clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason='the studio is not installed: pip install "visual-dynamics[studio]"')

import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from visual_dynamics.interfaces.studio.app import create_app
from visual_dynamics.interfaces.studio.settings import Limits, Settings

GENEROUS = Limits(requests_per_second=10_000, burst=10_000)


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    found = create_app(Settings(store=tmp_path_factory.mktemp("studio"), limits=GENEROUS))
    yield found
    found.state.studio.line.close()


@pytest.fixture(scope="session")
def client(app: FastAPI) -> TestClient:
    """Asks without a socket."""
    return TestClient(app, base_url="http://localhost")


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of a studio that runs in a thread."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="session")
def address(app: FastAPI) -> Iterator[str]:
    with served(app) as found:
        yield found


@pytest.fixture
def studio_settings(tmp_path: Path) -> Settings:
    return Settings(store=tmp_path / "store", limits=GENEROUS)
