"""The API of a study: what it gives, what it hides, what it refuses."""

import resource
import socket
from pathlib import Path

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.study.conftest import CHOICE
from visual_dynamics.study import answers as store_module
from visual_dynamics.study.answers import AnswerStore
from visual_dynamics.study.folder import read_study
from visual_dynamics.study.web import JOINS, MAX_BODY, study_app
from visual_dynamics.web import Gate

TRIALS = CHOICE.trials + CHOICE.obvious
HERE = {"Host": "localhost"}


@pytest.fixture
def store(folder: Path) -> AnswerStore:
    return AnswerStore(folder, read_study(folder))


@pytest.fixture
def client(folder: Path, store: AnswerStore) -> TestClient:
    return TestClient(study_app(folder, store), base_url="http://localhost")


def test_a_whole_session(client: TestClient, store: AnswerStore) -> None:
    about = client.get("/api/study").json()
    assert about["choices"] == ["left", "right"] and about["study"] == store.study.id
    joined = client.post("/api/raters")
    assert joined.status_code == 201 and joined.json()["trials"] == TRIALS
    own = f"/api/raters/{joined.json()['rater']}"
    assert len(client.get(f"{own}/trials?count=3").json()) == 3
    for number, trial in enumerate(client.get(f"{own}/trials").json()):
        assert [client.get(f"/clips/{clip}.png").headers["content-type"] for clip in trial["clips"]] == [
            "image/png"
        ] * 2
        for _ in range(2):
            given = {"trial": trial["trial"], "answer": "left", "milliseconds": 12}
            kept = client.post(f"{own}/answers", json=given)
            assert kept.status_code == 200 and kept.json()["answered"] == number + 1
    assert client.get(f"{own}/trials").json() == []
    assert client.get(own).json() == joined.json() | {"answered": TRIALS}


def test_nothing_that_is_sent_tells_the_key(client: TestClient, store: AnswerStore) -> None:
    rater = client.post("/api/raters").json()["rater"]
    sent = client.get("/api/study").text + client.get(f"/api/raters/{rater}/trials").text
    for word in ("real", "ours", "flow", "torn", "method", "input"):
        assert f'"{word}"' not in sent
    assert client.get("/study.json").status_code == 404 and client.get("/answers.sqlite3").status_code == 404


def test_the_page_asks_no_one_else(client: TestClient) -> None:
    page = client.get("/")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    for name in ("/", "/study.js", "/study.css"):
        assert "http" not in client.get(name).text.replace("http-equiv", "")


def test_a_full_disk_is_told_and_votes_are_taken_when_there_is_room_again(folder: Path, client: TestClient) -> None:
    client = TestClient(client.app, base_url="http://localhost", raise_server_exceptions=False)
    answers = f"/api/raters/{client.post('/api/raters').json()['rater']}/answers"
    given = {"trial": 0, "answer": "left", "milliseconds": 1}
    assert client.post(answers, json=given).status_code == 200
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = max(file.stat().st_size for file in folder.glob("answers.sqlite3*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, limits[1]))  # whatever makes a file larger fails
    try:
        failed = [client.post(answers, json=given | {"trial": 1}), client.post("/api/raters")]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [response.status_code for response in failed] == [507, 507]
    assert all("disk is full: this was not saved" in response.json()["error"] for response in failed)
    kept = client.post(answers, json=given | {"trial": 1, "answer": "right"})
    assert kept.status_code == 200 and kept.json() == {"trial": 1, "answer": "right", "answered": 2, "trials": TRIALS}


def refused(response) -> str:  # type: ignore[no-untyped-def]
    assert 400 <= response.status_code < 500
    assert list(response.json()) == ["error"] and response.json()["error"]
    return str(response.json()["error"])


def test_refusals_are_sentences(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    rater = client.post("/api/raters").json()["rater"]
    answers, good = f"/api/raters/{rater}/answers", {"trial": 0, "answer": "left", "milliseconds": 1}
    for wrong in (
        {"trial": -1},
        {"trial": "0"},
        {"trial": 0.5},
        {"trial": True},
        {"trial": TRIALS},
        {"trial": 10**30},
        {"answer": "yes"},
        {"answer": "up"},
        {"answer": None},
        {"milliseconds": -1},
        {"milliseconds": 10**12},
        {"extra": 1},
    ):
        refused(client.post(answers, json=good | wrong))
    for body in (b"", b"{", b"[]", b"null", b"[" * 2000, b"\xff\xfe", b'{"trial": NaN}'):
        refused(client.post(answers, content=body, headers={"Content-Type": "application/json"}))
    assert "too large" in refused(client.post(answers, content=b" " * (MAX_BODY + 1)))
    assert "no such rater" in refused(client.get(f"/api/raters/{'0' * 32}"))
    assert "no such clip" in refused(client.get(f"/clips/{'0' * 16}.png"))
    for path in ("/clips/..%2fstudy.png", "/clips/%2e%2e/study.json", "/api/raters/x", "/nowhere", "/clips/"):
        refused(client.get(path))
    refused(client.delete("/api/study"))
    refused(client.get(f"/api/raters/{rater}/trials?count=0"))
    monkeypatch.setattr(store_module, "MAX_RATERS", 1)
    assert "no one else" in refused(client.post("/api/raters"))
    assert client.get(f"/api/raters/{rater}").json()["answered"] == 0


def test_a_token_on_the_network(folder: Path, store: AnswerStore) -> None:
    client = TestClient(study_app(folder, store, "secret"), base_url="http://192.168.1.5:8765", follow_redirects=False)
    assert "token" in refused(client.get("/"))
    refused(client.get("/?token=wrong"))
    refused(client.post("/api/raters", headers={"Authorization": "Bearer x"}))
    assert client.post("/api/raters", headers={"Authorization": "Bearer secret"}).status_code == 201
    opened = client.get("/?token=secret")
    assert opened.status_code == 303 and opened.headers["location"] == "/"
    assert "HttpOnly" in opened.headers["set-cookie"] and client.cookies[f"study_{store.study.id}"] == "secret"
    assert client.get("/").status_code == 200


def test_hosts(client: TestClient) -> None:
    here, network = Gate("study", "cookie"), Gate("study", "cookie", network=True, names=("Study.example",))
    for host in ("localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:1234", "[::1]:80", "127.9.9.9"):
        assert here.knows(host), host
    for host in ("", "evil.example", "192.168.1.5", "localhost.evil.example", "[", "127.0.0.1.evil.example:80"):
        assert not here.knows(host), host
    for host in ("192.168.1.5:80", socket.gethostname(), f"{socket.gethostname().upper()}.local", "study.example:443"):
        assert network.knows(host), host
    assert not network.knows("evil.example")
    assert "address" in refused(client.get("/", headers={"Host": "evil.example"}))


def test_pages_of_other_sites_cannot_take_part(folder: Path, store: AnswerStore) -> None:
    client = TestClient(study_app(folder, store, names=("study.example",)), base_url="http://localhost")
    assert "another site" in refused(client.post("/api/raters", headers={"Origin": "http://evil.example"}))
    for origin in ("http://localhost", "https://study.example"):  # the second one through a proxy
        assert client.post("/api/raters", headers={"Origin": origin}).status_code == 201


def test_any_request_is_answered_as_described(folder: Path, store: AnswerStore) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", study_app(folder, store), headers=HERE)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 6
    for operation in operations:

        @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE) | operation.as_strategy())
        def answered(case: schemathesis.Case) -> None:
            response = case.call_and_validate(headers=HERE, excluded_checks=[positive_data_acceptance])  # 1.0 is no 1
            if response.status_code >= 400:
                assert list(response.json()) == ["error"]

        answered()


def test_one_visitor_does_not_fill_the_study(client: TestClient) -> None:
    answers = [client.post("/api/raters") for _ in range(JOINS + 1)]
    assert [answer.status_code for answer in answers] == [201] * JOINS + [429]
    assert int(answers[-1].headers["retry-after"]) >= 1 and "wait" in refused(answers[-1])
    another = TestClient(client.app, base_url="http://localhost", client=("203.0.113.9", 1))
    assert another.post("/api/raters").status_code == 201
