"""The page in a real browser: served, reloaded, cut off from its server, and as a file without network."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser import chromium
from tests.study.conftest import ANSWERS, CHOICE, KEYS, READY, REALISTIC, Server, answer, stored, write_study
from visual_dynamics.study.answers import AnswerStore, read_answers
from visual_dynamics.study.folder import offline_page, read_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOO_EARLY = """setInterval(() => {  // answers before the motion was shown, which do not count
    for (const button of document.querySelectorAll(".answer[aria-disabled=true]")) {
        button.click();
        document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
        window.tooEarly = (window.tooEarly ?? 0) + 1;
    }
}, 50)"""


FRAMES_AND_BUTTONS = """window.seen = [];  // frames as they are shown, and when an answer may be given
new MutationObserver(changes => {
    for (const {target, attributeName} of changes) {
        const clips = attributeName === "style" && target.id === "choice";
        const frame = clips ? target.style.getPropertyValue("--frame") : "";
        if (frame !== "" && window.seen.at(-1) !== Number(frame)) window.seen.push(Number(frame));
        const ready = attributeName === "aria-disabled" && target.getAttribute("aria-disabled") === "false";
        if (ready && !window.seen.includes("ready")) window.seen.push("ready");
    }
}).observe(document, {attributes: true, subtree: true})"""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    """A page that may not complain. (What it says when a test takes its server away is not counted.)"""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.complaints = []  # type: ignore[attr-defined]
    page.on("console", lambda line: page.complaints.append(line.text))  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.complaints.append(str(error)))  # type: ignore[attr-defined]
    yield page
    context.close()
    said = [line for line in page.complaints if "ERR_CONNECTION_REFUSED" not in line]  # type: ignore[attr-defined]
    assert said == []


def test_ten_trials_with_a_reload(folder: Path, serve: Callable[..., Server], page: "Page") -> None:
    server = serve(folder)
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.add_init_script(TOO_EARLY)
    page.goto(server.url)
    page.click("#begin")
    answer(page, KEYS[:4])
    assert page.evaluate("window.tooEarly") > 0
    page.reload()
    page.wait_for_selector(READY)
    assert page.text_content("#count") == "Question 5 of 10"
    answer(page, KEYS[4:9])
    page.wait_for_selector(READY)
    page.click("[data-answer=right]")
    page.wait_for_selector("text=All your answers have been received")
    assert stored(folder) == list(enumerate(ANSWERS))
    page.reload()
    page.wait_for_selector("text=All your answers have been received")
    assert hosts == {urlsplit(server.url).netloc}
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("Object.keys(localStorage).filter(key => key.includes('answer')).length") == 0


def test_a_crash_of_the_server_loses_no_answer(folder: Path, serve: Callable[..., Server], page: "Page") -> None:
    server = serve(folder)
    page.goto(server.url)
    page.click("#begin")
    answer(page, KEYS[:2])
    page.wait_for_selector(READY)
    server.kill()
    page.keyboard.press(KEYS[2])
    page.wait_for_selector("text=No connection")
    serve(folder, server.port)
    answer(page, KEYS[3:])
    page.wait_for_selector("text=All your answers have been received")
    assert stored(folder) == list(enumerate(ANSWERS))


def test_a_full_disk_is_told(folder: Path, serve: Callable[..., Server], browser: "Browser") -> None:
    page = browser.new_page()
    full = {"error": "the server's disk is full: this was not saved, what was saved before is safe"}
    page.route("**/answers", lambda route: route.fulfill(status=507, json=full))
    page.goto(serve(folder).url)
    page.click("#begin")
    answer(page, KEYS[:1])
    page.wait_for_selector("text=is safe. Your answers are kept here; the page tries again by itself")
    page.unroute("**/answers")
    page.wait_for_function("() => document.getElementById('status').textContent === ''")
    assert stored(folder) == [(0, ANSWERS[0])]
    page.close()


def test_clips_of_many_frames_play_once_before_an_answer(
    tmp_path: Path, serve: Callable[..., Server], page: "Page"
) -> None:
    write_study(tmp_path / "study", CHOICE, frames=5)
    page.add_init_script(FRAMES_AND_BUTTONS)
    page.goto(serve(tmp_path / "study").url)
    page.click("#begin")
    page.wait_for_function("() => window.seen.length > 16")
    seen = page.evaluate("window.seen")
    assert seen[: seen.index("ready")] == [0, 1, 2, 3, 4, 0]
    after = [frame for frame in seen if frame != "ready"][6:]
    assert after[:6] == [1, 2, 3, 4, 0, 1]
    place = "image => new DOMMatrix(getComputedStyle(image).transform).e / image.parentElement.offsetWidth"
    frame = "image => getComputedStyle(image).getPropertyValue('--frame')"
    shown = page.eval_on_selector("#choice img", f"image => [({place})(image), ({frame})(image)]")
    assert -shown[0] == pytest.approx(float(shown[1]), abs=0.01)


def test_both_clips_play_in_step(folder: Path, serve: Callable[..., Server], page: "Page") -> None:
    page.goto(serve(folder).url)
    page.click("#begin")
    page.wait_for_selector(READY)
    seen = page.evaluate(
        """() => new Promise(done => {
            const places = new Set(), images = [...document.querySelectorAll("#choice img")];
            const look = () => {
                places.add(images.map(image => getComputedStyle(image).transform).join(" | "));
                if (places.size > 2 || performance.now() > until) done([...places]); else requestAnimationFrame(look);
            };
            const until = performance.now() + 1500;
            look();
        })"""
    )
    assert len(seen) == 2 and all(len(set(both.split(" | "))) == 1 for both in seen)


def test_the_file_collects_the_same_answers(folder: Path, tmp_path: Path, page: "Page") -> None:
    study = read_study(folder)
    (tmp_path / "study.html").write_bytes(offline_page(folder, study))
    page.context.set_offline(True)
    page.goto((tmp_path / "study.html").as_uri() + "#1")  # the session that the server gives to the first rater
    page.click("#begin")
    answer(page, KEYS[:4])
    page.reload()
    answer(page, KEYS[4:])
    page.wait_for_selector("#end:visible")
    with page.expect_download() as saved:
        page.click("#download")
    saved.value.save_as(tmp_path / "answers.json")
    assert json.loads(page.input_value("#answers")) == json.loads((tmp_path / "answers.json").read_text())
    assert AnswerStore(folder, study).add_sessions([read_answers(tmp_path / "answers.json", study)]) == 10
    assert stored(folder) == list(enumerate(ANSWERS))
    assert AnswerStore(folder, study).raters()[0].session == 0


def test_yes_and_no(tmp_path: Path, serve: Callable[..., Server], page: "Page") -> None:
    write_study(tmp_path / "realistic", REALISTIC)
    page.goto(serve(tmp_path / "realistic").url)
    page.click("#begin")
    answer(page, ["y", "n", "Y", "n"])
    page.wait_for_selector(READY)
    page.click("[data-answer=yes]")
    answer(page, ["n"])
    page.wait_for_selector("text=All your answers have been received")
    assert [answer for _, answer in stored(tmp_path / "realistic")] == ["yes", "no", "yes", "no", "yes", "no"]
