"""The OpenAPI description, tested by Schemathesis: no server error, and every error is JSON with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.state import Settings

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

HOST = {"host": "localhost"}
SLOW = {"/api/animate", "/api/complete", "/api/relations"}  # seconds for every request that works, or an upload first
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def test_what_the_description_promises(studio_settings: Settings) -> None:
    app = create_app(studio_settings)  # one of its own, which Schemathesis opens and closes
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HOST)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 15
    for operation in operations:
        _try_out(operation)


def _try_out(operation: Any) -> None:
    @given(case=operation.as_strategy())
    @settings(
        max_examples=2 if operation.path in SLOW else 12,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def tried(case: Any) -> None:
        response = case.call(headers=HOST, timeout=120)
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400:
            assert list(response.json()) == ["error"] and response.json()["error"]

    tried()


def test_every_route_is_described_with_its_errors(client: TestClient) -> None:
    description = client.get("/api/openapi.json").json()
    for path, methods in description["paths"].items():
        assert path.startswith("/api/")
        for operation in methods.values():
            assert operation["description"] and {"404", "422", "429", "503"} <= set(operation["responses"])


def test_the_examples_of_the_description_work(client: TestClient) -> None:
    """All but those that take seconds, which other tests call."""
    description = client.get("/api/openapi.json").json()
    tried = 0
    for path, methods in description["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if not content or path in SLOW:
            continue
        name = content["schema"]["$ref"].rpartition("/")[2]
        for example in description["components"]["schemas"][name].get("examples", []):
            answer = client.post(path, json=example)
            assert answer.status_code < 300, (path, answer.text)
            tried += 1
            if path == "/api/motions":
                client.delete(f"/api/motions/{answer.json()['id']}")
    assert tried >= 7
