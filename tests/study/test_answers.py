"""An answer counts once, for good, and belongs to its study."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.study.conftest import CHOICE, REALISTIC, fill_disk, free_disk, write_study
from visual_dynamics.errors import UserError
from visual_dynamics.study import answers as module
from visual_dynamics.study.answers import FILE, Answer, AnswerStore, StudyFullError, to_csv
from visual_dynamics.study.folder import read_study


@pytest.fixture
def store(folder: Path) -> AnswerStore:
    return AnswerStore(folder, read_study(folder))


def test_the_first_answer_counts_and_no_other(store: AnswerStore) -> None:
    rater = store.join().id
    assert store.record(rater, Answer(3, "left", 900)) == Answer(3, "left", 900)
    assert store.record(rater, Answer(3, "left", 900)) == Answer(3, "left", 900)
    assert store.record(rater, Answer(3, "right", 10)) == Answer(3, "left", 900)
    assert store.answers(rater) == [Answer(3, "left", 900)]


def test_answers_and_token_are_there_for_the_next_process(folder: Path, store: AnswerStore) -> None:
    rater = store.join().id
    store.record(rater, Answer(0, "right", 5))
    again = AnswerStore(folder, read_study(folder), create=False)  # the first one is still open, as after a crash
    assert again.answers(rater) == [Answer(0, "right", 5)] and again.token == store.token and len(again.token) > 20


def test_the_export_has_no_rater_s_id(store: AnswerStore) -> None:
    """Who knows it could answer in the rater's name."""
    raters = [store.join().id for _ in range(3)]
    for rater in reversed(raters):
        store.record(rater, Answer(0, "left", 5))
    text = to_csv(store.rows())
    assert not any(rater in text for rater in raters)
    assert [line.split(",")[0] for line in text.splitlines()] == ["rater", "1", "2", "3"]


def test_commits_wait_for_the_disk(store: AnswerStore) -> None:
    assert store._rows("PRAGMA journal_mode") == [("wal",)]
    assert store._rows("PRAGMA synchronous") == [(2,)]  # FULL


def test_raters_are_spread_over_the_sessions(store: AnswerStore) -> None:
    sessions = [store.join().session for _ in range(6)]
    assert sessions == [0, 1, 2, 3, 0, 1]
    assert [rater.session for rater in store.raters()] == sessions


def test_many_threads_at_once(store: AnswerStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        raters = list(pool.map(lambda _: store.join().id, range(24)))
        sent = [(rater, Answer(trial, "left", 1)) for rater in raters for trial in range(10)]
        list(pool.map(lambda one: store.record(*one), sent + sent))
    assert [len(store.answers(rater)) for rater in raters] == [10] * 24
    assert sorted(rater.session for rater in store.raters()) == sorted([0, 1, 2, 3] * 6)


def test_a_full_disk_changes_nothing_and_ends(store: AnswerStore) -> None:
    rater = store.join().id
    store.record(rater, Answer(0, "left", 1))
    fill_disk(store)
    before = store.raters(), store.answers(rater)
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            store.add_sessions([(f"{n:032x}", 0, [Answer(t, "left", 1) for t in range(10)]) for n in range(300)])
        assert (store.raters(), store.answers(rater)) == before
    free_disk(store)
    store.record(rater, Answer(1, "right", 1))
    assert store.answers(rater) == [Answer(0, "left", 1), Answer(1, "right", 1)]


def test_a_full_study(store: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RATERS", 2)
    store.join(), store.join()
    with pytest.raises(StudyFullError):
        store.join()
    assert len(store.raters()) == 2


def test_sessions_from_elsewhere_come_whole_or_not_at_all(store: AnswerStore) -> None:
    one, two = "a" * 32, "b" * 32
    assert store.add_sessions([(one, 2, [Answer(0, "left", 1), Answer(1, "left", 1)])]) == 2
    assert store.add_sessions([(one, 2, [Answer(1, "left", 1), Answer(2, "right", 1)])]) == 1
    with pytest.raises(UserError, match="has answered session 2, not 1"):
        store.add_sessions([(two, 0, [Answer(0, "left", 1)]), (one, 1, [])])
    assert [rater.id for rater in store.raters()] == [one] and len(store.answers(one)) == 3


def test_files_that_are_not_this_study_s_answers(folder: Path, tmp_path: Path) -> None:
    study = read_study(folder)
    with pytest.raises(UserError, match="no answers"):
        AnswerStore(folder, study, create=False)
    assert not (folder / FILE).exists()
    AnswerStore(folder, study).close()
    with pytest.raises(UserError, match="another study"):
        AnswerStore(folder, write_study(tmp_path / "other", REALISTIC))
    (tmp_path / "other" / FILE).write_bytes(b"not a data base " * 100)
    with pytest.raises(UserError, match="cannot use"):
        AnswerStore(tmp_path / "other", read_study(tmp_path / "other"))
    write_study(tmp_path / "newer", CHOICE)
    with sqlite3.connect(tmp_path / "newer" / FILE) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(UserError, match="version"):
        AnswerStore(tmp_path / "newer", study)


def test_who_never_answers_gives_up_the_place(store: AnswerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RATERS", 3)
    first, second, third = (store.join() for _ in range(3))
    store.record(second.id, Answer(0, "left", 900))
    with pytest.raises(StudyFullError):
        store.join()  # they have an hour
    monkeypatch.setattr(module, "WAITING_HOURS", 0)
    while third.joined == module._now():  # a clock of milliseconds
        pass
    again = store.join()
    assert [rater.id for rater in store.raters()] == [second.id, again.id]
    assert again.session == first.session  # it is free again
    with pytest.raises(UserError, match="no such rater"):
        store.record(third.id, Answer(0, "left", 900))
    assert store.answers(second.id) == [Answer(0, "left", 900)]
