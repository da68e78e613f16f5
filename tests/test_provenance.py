"""Every result says where it comes from."""

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


def test_short_commits_keep_the_mark_of_changed_files() -> None:
    head = "78bf03decb6e06e8612ebcbc902ac723372d8b70"
    assert provenance.short_commit(head) == "78bf03decb6e"
    assert provenance.short_commit(head + "-modified") == "78bf03decb6e-modified"
    assert [provenance.short_commit(name) for name in ("unknown", "abc-modified")] == ["unknown", "abc-modified"]


def test_outside_a_checkout_it_is_unknown(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("VISUAL_DYNAMICS_COMMIT", raising=False)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "package" / "provenance.py"))
    assert provenance.commit() == "unknown"
