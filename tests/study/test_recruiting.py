"""Raters of a recruiting service: one participation for an id, a code at the end, and ids that stay secret."""

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.browser import chromium
from tests.cli.conftest import Fails, Run, fails, place, run  # noqa: F401 - fixtures
from tests.study.conftest import CHOICE, KEYS, Server, answer
from visual_dynamics.errors import UserError
from visual_dynamics.study import answers
from visual_dynamics.study.answers import FILE, Answer, AnswerStore, to_csv
from visual_dynamics.study.folder import Recruiting, Study, offline_page, read_study
from visual_dynamics.study.web import study_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PERSON = "5f3c9a0b1d2e4f6a7b8c9d0e"
TRIALS = CHOICE.trials + CHOICE.obvious


def recruit(folder: Path, **recruiting: str) -> Study:
    """The study with a recruiting service, as people edit study.json."""
    study = replace(read_study(folder), recruiting=Recruiting(**recruiting), frame_time=20)
    (folder / "study.json").write_bytes(study.to_json())
    return study


@pytest.fixture
def study(folder: Path) -> Study:
    return recruit(folder, parameter="PROLIFIC_PID", completion="C0DE42")


@pytest.fixture
def store(folder: Path, study: Study) -> AnswerStore:
    return AnswerStore(folder, study)


@pytest.fixture
def client(folder: Path, store: AnswerStore) -> TestClient:
    return TestClient(study_app(folder, store), base_url="http://localhost")


def test_an_id_takes_part_once(client: TestClient, store: AnswerStore) -> None:
    first = client.post("/api/raters", json={"recruited": PERSON}).json()
    own = f"/api/raters/{first['rater']}"
    client.post(f"{own}/answers", json={"trial": 0, "answer": "left", "milliseconds": 1})
    again = client.post("/api/raters", json={"recruited": PERSON}).json()
    assert again == first | {"answered": 1} and len(store.raters()) == 1
    other = client.post("/api/raters", json={"recruited": PERSON[::-1]}).json()
    assert other["rater"] != first["rater"] and other["answered"] == 0


def test_a_place_that_was_given_up_is_taken_again(store: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_RATERS", 1)
    first = store.join(PERSON)
    store._rows("UPDATE raters SET joined = '2020-01-01T00:00:00.000+00:00'")  # and never answered
    other = store.join("someone.else")
    assert [rater.id for rater in store.raters()] == [other.id] != [first.id]
    monkeypatch.setattr(answers, "MAX_RATERS", 2)
    assert store.join(PERSON).id not in (first.id, other.id) and len(store.raters()) == 2


def test_the_code_comes_after_the_last_answer(client: TestClient) -> None:
    rater = client.post("/api/raters", json={"recruited": PERSON}).json()["rater"]
    assert "C0DE42" not in client.get("/api/study").text
    for trial in range(TRIALS):
        assert client.get(f"/api/raters/{rater}").json()["completion"] == ""
        kept = client.post(f"/api/raters/{rater}/answers", json={"trial": trial, "answer": "left", "milliseconds": 1})
        assert "C0DE42" not in kept.text
    assert client.get(f"/api/raters/{rater}").json()["completion"] == "C0DE42"


@pytest.mark.parametrize("given", [None, {}, {"recruited": ""}])
def test_nobody_takes_part_without_an_id(client: TestClient, store: AnswerStore, given: object) -> None:
    response = client.post("/api/raters", json=given)
    assert response.status_code == 403 and "lacks PROLIFIC_PID" in response.json()["error"]
    assert store.raters() == []


@pytest.mark.parametrize("wrong", ["{{%PROLIFIC_PID%}}", "a b", "x" * 129, "é", 5, ["a"]])
def test_ids_that_are_none(client: TestClient, wrong: object) -> None:
    assert client.post("/api/raters", json={"recruited": wrong}).status_code == 422


def test_without_a_service_an_id_is_not_looked_at(folder: Path) -> None:
    store = AnswerStore(folder, read_study(folder))
    client = TestClient(study_app(folder, store), base_url="http://localhost")
    raters = {client.post("/api/raters", json={"recruited": PERSON}).json()["rater"] for _ in range(2)}
    assert len(raters) == 2 and store._rows("SELECT * FROM recruited") == []


def test_ids_are_in_no_export_and_in_no_file(folder: Path, store: AnswerStore) -> None:
    rater = store.join(PERSON).id
    store.record(rater, Answer(0, "left", 1))
    store.record(store.join("someone.else").id, Answer(0, "left", 1))
    exported = to_csv(store.rows())
    assert PERSON not in exported and rater not in exported
    assert not any(one.id in exported for one in store.raters())  # who knows a rater's id could answer for them
    ((key,),) = store._rows("SELECT key FROM about")
    digest = hmac.new(key.encode(), PERSON.encode(), hashlib.sha256).hexdigest()
    assert exported.count(digest[:16]) == 1 and digest not in exported and key not in exported
    store.close()
    for path in folder.iterdir():
        assert PERSON.encode() not in path.read_bytes(), path


def test_ids_are_in_no_log(folder: Path, study: Study, serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(folder, log=tmp_path / "log.txt")
    with httpx.Client(base_url=server.url) as client:
        client.get("/", params={"PROLIFIC_PID": PERSON})
        assert client.post("api/raters", json={"recruited": PERSON}).status_code == 201
        with sqlite3.connect(folder / FILE) as connection:
            connection.execute("DROP TABLE recruited")  # so that the next request fails, and the failure is logged
        assert client.post("api/raters", json={"recruited": PERSON}).status_code == 500
    server.process.terminate()
    said = server.process.communicate(timeout=20)[0] + (tmp_path / "log.txt").read_text()
    assert "no such table" in said and PERSON not in said


def test_answers_of_the_first_version_are_taken_over(folder: Path) -> None:
    study = read_study(folder)
    store = AnswerStore(folder, study)
    rater = store.join().id
    store.record(rater, Answer(0, "left", 1))
    store.close()
    with sqlite3.connect(folder / FILE) as connection:
        connection.executescript("DROP TABLE recruited; ALTER TABLE about DROP COLUMN key; PRAGMA user_version = 1")
    again = AnswerStore(folder, study)
    assert again.answers(rater) == [Answer(0, "left", 1)] and again.join(PERSON) == again.join(PERSON)
    AnswerStore(folder, study, create=False).close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"parameter": "token"},
        {"parameter": "a b"},
        {"parameter": "x" * 65},
        {"completion": "http://example.org"},
        {"completion": "javascript:alert(1)"},
        {"completion": "https://example.org/a b"},
        {"completion": "a\nb"},
        {"completion": "x" * 501},
    ],
)
def test_settings_that_are_wrong(fails: Fails, wrong: dict[str, str]) -> None:  # noqa: F811
    with pytest.raises(UserError):
        Recruiting(**wrong)
    names = {"parameter": "--rater-id", "completion": "--completion"}
    fails("study", "make", "new", *(word for name, value in wrong.items() for word in (names[name], value)))


def test_settings_that_were_edited_wrongly(folder: Path, study: Study) -> None:
    path = folder / "study.json"
    text = path.read_text()
    assert read_study(folder).id == study.id and '"rule": "raters with fewer than 2 right answers' in text
    for old, new in (
        ("PROLIFIC_PID", "token"),
        ("C0DE42", "ftp://x"),
        ('"parameter"', '"x"'),
        ('{"parameter', '5, "x": {"p'),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(UserError, match="cannot read"):
            read_study(folder)
    path.write_text(text.replace("C0DE42", "https://example.org/done?cc=1"))
    assert read_study(folder).id == study.id
    with pytest.raises(UserError, match="serve a study with rater ids"):
        offline_page(folder, study)


def test_made_by_the_command(run: Run, tiny_weights_file: Path) -> None:  # noqa: F811
    options = ["--method", "ours", "--size", "16", "--inputs", "4", "--sessions", "2", "--rater-id", "workerId"]
    assert run("study", "make", "new", "--model", tiny_weights_file, *options, "--completion", "C1").code == 0
    study = read_study(Path("new"))
    assert study.recruiting == Recruiting("workerId", "C1") and "which is not stored itself" in study.consent
    assert json.loads(Path("new/study.json").read_text())["rule"] == study.rule


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as found:
        yield found


@pytest.mark.parametrize("completion", ["C0DE42", "https://app.example.org/done?cc=C0DE42"])
def test_from_the_service_and_back(
    folder: Path, study: Study, serve: Callable[..., Server], browser: "Browser", completion: str
) -> None:
    recruit(folder, parameter="PROLIFIC_PID", completion=completion)
    server = serve(folder)
    page = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(server.url)
    page.wait_for_selector("text=this address lacks PROLIFIC_PID")
    assert page.is_hidden("#begin")
    page.goto(f"{server.url}?PROLIFIC_PID={PERSON}&SESSION_ID=5")
    page.click("#begin")
    answer(page, KEYS[:3])
    page = browser.new_context().new_page()  # the same person at another machine
    page.goto(f"{server.url}?PROLIFIC_PID={PERSON}")
    page.click("#begin")
    page.wait_for_selector("text=Question 4 of 10")
    answer(page, KEYS[3:])
    page.wait_for_selector("#completion:visible")
    if completion.startswith("https"):
        assert page.get_attribute("#completion-link", "href") == completion
    else:
        assert page.text_content("#completion") == "Your completion code: C0DE42"
    page.goto(f"{server.url}?PROLIFIC_PID=someone-else")  # at the same machine
    page.click("#begin")
    page.wait_for_selector("text=Question 1 of 10")
    store = AnswerStore(folder, read_study(folder))
    assert sorted(len(store.answers(rater.id)) for rater in store.raters()) == [0, TRIALS]
    page.context.close()
