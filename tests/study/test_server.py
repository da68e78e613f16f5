"""A server that is killed in the middle of a study has every answer that it acknowledged."""

import signal
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import httpx

from tests.study.conftest import Server
from visual_dynamics.study.answers import AnswerStore
from visual_dynamics.study.folder import read_study


def test_acknowledged_answers_survive_kill_9(folder: Path, serve: Callable[..., Server]) -> None:
    server = serve(folder)
    acknowledged: dict[tuple[str, int], str] = {}

    def take_part() -> None:  # again and again, until the server is gone
        try:
            with httpx.Client(base_url=server.url) as client:
                while True:
                    rater = client.post("api/raters").json()["rater"]
                    for one in client.get(f"api/raters/{rater}/trials").json():
                        given = {
                            "trial": one["trial"],
                            "answer": ("left", "right")[one["trial"] % 2],
                            "milliseconds": 1,
                        }
                        if client.post(f"api/raters/{rater}/answers", json=given).status_code == 200:
                            acknowledged[rater, one["trial"]] = given["answer"]
                        if len(acknowledged) == 60:  # while others are in the middle of a request
                            server.process.send_signal(signal.SIGKILL)
        except httpx.HTTPError:
            pass

    threads = [Thread(target=take_part) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.process.wait() == -signal.SIGKILL and len(acknowledged) >= 60

    again = serve(folder, server.port)
    rater, trial = next(iter(acknowledged))
    given = {"trial": trial, "answer": "left", "milliseconds": 9}
    resent = httpx.post(f"{again.url}api/raters/{rater}/answers", json=given).json()
    assert resent["answer"] == acknowledged[rater, trial]  # the first one stays
    again.kill()

    store = AnswerStore(folder, read_study(folder), create=False)
    kept = {(rater.id, one.trial): one.answer for rater in store.raters() for one in store.answers(rater.id)}
    assert acknowledged.items() <= kept.items()
    assert len(kept) <= len(acknowledged) + len(threads)  # at most one each was kept and not yet acknowledged
