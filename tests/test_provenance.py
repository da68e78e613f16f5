"""Every result says where it comes from."""

import shutil
import subprocess

import pytest
import torch

from visual_dynamics import provenance


def test_facts_are_there() -> None:
    facts = provenance.provenance(torch.device("cpu"))
    assert set(facts) == {"commit", "version", "device", "torch", "python"}
    assert all(facts.values()) and "CPU" in facts["device"]


def test_the_environment_may_name_the_commit(monkeypatch) -> None:
    monkeypatch.setenv("VISUAL_DYNAMICS_COMMIT", "abcdef0")
    assert provenance.commit() == "abcdef0"
    monkeypatch.setenv("VISUAL_DYNAMICS_COMMIT", "HEAD")
    assert provenance.commit() != "HEAD"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_changed_files_are_marked_and_files_that_are_not_tracked_are_not(monkeypatch, tmp_path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.delenv("VISUAL_DYNAMICS_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "package" / "provenance.py"))
    (tmp_path / "tracked").write_text("before")
    for words in (["init"], ["add", "tracked"], ["commit", "-m", "first"]):
        git(*words)
    (tmp_path / "other").write_text("new")
    head = git("rev-parse", "HEAD")
    assert provenance.commit() == head
    (tmp_path / "tracked").write_text("after it")
    assert provenance.commit() == f"{head}-modified"


def test_short_commits_keep_the_mark_of_changed_files() -> None:
    head = "78bf03decb6e06e8612ebcbc902ac723372d8b70"
    assert provenance.short_commit(head) == "78bf03decb6e"
    assert provenance.short_commit(head + "-modified") == "78bf03decb6e-modified"
    assert [provenance.short_commit(name) for name in ("unknown", "abc-modified")] == ["unknown", "abc-modified"]


def test_outside_a_checkout_it_is_unknown(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("VISUAL_DYNAMICS_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "package" / "provenance.py"))
    assert provenance.commit() == "unknown"
