"""Rules for the Dockerfile, as Docker is rarely there to build it: small, pinned, not as root, without secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

parser = pytest.importorskip("dockerfile_parse", reason="dockerfile-parse is not installed: pip install -e '.[dev]'")

ROOT = Path(__file__).parents[1]
COPIED = {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "visual_dynamics"}


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    with (ROOT / "Dockerfile").open("rb") as file:
        structure = parser.DockerfileParser(fileobj=file).structure
    return [step for step in structure if step["instruction"] != "COMMENT"]


def values(steps: list[dict[str, Any]], instruction: str) -> list[str]:
    return [step["value"] for step in steps if step["instruction"] == instruction]


def last_stage(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return steps[max(place for place, step in enumerate(steps) if step["instruction"] == "FROM") :]


def exec_form(value: str) -> list[str]:
    found = json.loads(value)
    assert isinstance(found, list) and found
    return found


def test_bases_are_pinned_and_slim(steps: list[dict[str, Any]]) -> None:
    bases = {value.split()[0] for value in values(steps, "FROM")}
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", base) for base in bases)
    assert len(bases) == 1  # the environment of one works in the other


def test_it_does_not_run_as_root(steps: list[dict[str, Any]]) -> None:
    users = values(last_stage(steps), "USER")
    assert users and users[-1].split(":")[0] not in ("root", "0")
    made = " ".join(values(last_stage(steps), "RUN"))
    assert f"useradd --create-home --uid 1000 {users[-1]}" in made and "sudo" not in made


def test_few_things_are_copied_and_no_secrets(steps: list[dict[str, Any]]) -> None:
    assert not values(steps, "ADD") and not values(steps, "ARG")
    copied = [value.split() for value in values(steps, "COPY")]
    assert {name for names in copied if names[0] != "--from=build" for name in names[:-1]} == COPIED
    assert all((ROOT / name).exists() for name in COPIED)
    assert ["--from=build", "/opt/venv", "/opt/venv"] in copied
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert not re.search(r"(?i)password|secret|api_?key|token *=|--token|credential", text)


def test_the_context_holds_no_more(steps: list[dict[str, Any]]) -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert lines[1] == "*" and {line[1:] for line in lines if line.startswith("!")} == COPIED


def test_layers_keep_no_rubbish(steps: list[dict[str, Any]]) -> None:
    for command in values(steps, "RUN"):
        assert "apt-get install" not in command or (
            "--no-install-recommends" in command and "rm -rf /var/lib/apt/lists" in command
        )
        for install in re.findall(r"pip install[^&]*", command):
            assert "--no-cache-dir" in install
            assert "-c constraints.txt" in install or re.search(r"torch==[\d.]+\+cpu", install)
    assert all(value.startswith("/") for value in values(steps, "WORKDIR"))


def test_torch_is_the_one_of_the_constraints(steps: list[dict[str, Any]]) -> None:
    (given,) = re.findall(r"torch==([\d.]+)\+cpu", " ".join(values(steps, "RUN")))
    assert f"torch=={given}" in (ROOT / "constraints.txt").read_text("utf-8").splitlines()


def test_it_starts_the_studio_without_a_shell_and_watches_it(steps: list[dict[str, Any]]) -> None:
    last = last_stage(steps)
    (entry,), (words,), (volume,), (health,) = (
        values(last, name) for name in ("ENTRYPOINT", "CMD", "VOLUME", "HEALTHCHECK")
    )
    command = exec_form(entry) + exec_form(words)
    assert command == ["visual-dynamics", "studio", "--host", "0.0.0.0", "--store", *exec_form(volume)]
    program = exec_form(health.partition("CMD")[2])
    compile(program[-1], "HEALTHCHECK", "exec")
    port = values(last, "EXPOSE")[0]
    assert f"'127.0.0.1', {port}" in program[-1] and port == "8200"  # the usual port of the studio
