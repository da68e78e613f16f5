"""The OpenAPI description, tried out by Schemathesis: no fault, and every refusal is JSON with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, settings
from starlette.testclient import TestClient

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

HOST = {"host": "localhost"}
SLOW = {"/api/animate", "/api/relations"}  # seconds for every example that works: tried once, with the example


@pytest.fixture
def described(app: FastAPI) -> Any:
    return schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HOST)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_what_the_description_promises(case: Any) -> None:
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    response = case.call(headers=HOST)
    case.validate_response(response, checks=checks)
    if response.status_code >= 400:
        assert list(response.json()) == ["error"] and response.json()["error"]


def test_every_route_is_described_with_what_it_may_refuse(client: TestClient) -> None:
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
