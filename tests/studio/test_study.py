"""A study within the studio, behind the same guards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from tests.browser import TOO_FAINT
from tests.studio.conftest import opened, served
from tests.study.conftest import ANSWERS, CHOICE, KEYS, READY, answer, stored, write_study
from visual_dynamics.errors import UserError
from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.state import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_study_is_behind_the_guards_of_the_studio(studio_settings: Settings, tmp_path: Path) -> None:
    write_study(tmp_path / "study", CHOICE)
    client = TestClient(create_app(replace(studio_settings, study=tmp_path / "study")), base_url="http://localhost")
    assert "script-src 'self'" in client.get("/study/").headers["content-security-policy"]
    assert client.post("/study/api/raters").status_code == 201
    assert client.post("/study/api/raters", headers={"Origin": "http://elsewhere.example"}).status_code == 403


def test_raters_have_a_token_that_opens_the_study_alone(studio_settings: Settings, tmp_path: Path) -> None:
    write_study(tmp_path / "study", CHOICE)
    settings = replace(studio_settings, host="0.0.0.0", token="token-of-the-studio", study=tmp_path / "study")
    app = create_app(settings)
    cookie, token = app.state.raters
    assert token != settings.token

    def visitor(**headers: str) -> TestClient:
        return TestClient(app, base_url="http://192.168.1.5", follow_redirects=False, headers=headers)

    rater = visitor()
    assert rater.get("/study/").status_code == 401
    assert rater.get(f"/study/?token={token}").headers["location"] == "/study/" and rater.cookies[cookie] == token
    assert rater.get("/study/").status_code == 200 and rater.post("/study/api/raters").status_code == 201
    for one in (rater, visitor(authorization=f"Bearer {token}"), visitor(cookie=f"visual_dynamics_token={token}")):
        for path in ("/", f"/?token={token}", "/api/models", "/study/../api/models", "/study/%2e%2e/api/models"):
            assert one.get(path).status_code in (401, 404), path
    owner = visitor(authorization=f"Bearer {settings.token}")
    assert owner.get("/study/").status_code == owner.get("/api/models").status_code == 200
    app.state.studio.queue.close()


def test_a_study_in_the_studio_is_finished_in_a_browser(
    studio_settings: Settings, tmp_path: Path, browser: Browser
) -> None:
    write_study(tmp_path / "study", CHOICE)
    app = create_app(replace(studio_settings, study=tmp_path / "study"))
    with served(app) as address, opened(browser, address) as page:
        with page.expect_popup() as tab:  # the studio keeps its path in its own tab
            page.click("#study")
        page = tab.value
        page.click("#begin")
        page.wait_for_selector(READY)
        assert page.evaluate("document.activeElement.id") == "question"
        assert page.evaluate(TOO_FAINT) == []
        answer(page, KEYS[:6])
        page.reload()
        answer(page, KEYS[6:])
        page.wait_for_selector("text=All your answers have been received")
        assert page.evaluate("document.activeElement.id") == "end"
    app.state.studio.queue.close()
    assert stored(tmp_path / "study") == list(enumerate(ANSWERS))


def test_without_a_study_the_page_says_how_to_make_one(client: TestClient) -> None:
    page = client.get("/study/")
    assert page.status_code == 200 and "visual-dynamics studio --study" in page.text
    assert 'href="/study/"' in client.get("/").text and client.get("/page/no_study.html").status_code == 404


def test_a_folder_without_a_study_is_told(studio_settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no study"):
        create_app(replace(studio_settings, study=tmp_path))
