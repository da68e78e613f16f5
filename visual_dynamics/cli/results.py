"""What verbs say: lines for people, or with --json one object for programs. docs/json.md lists its keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import typer


@dataclass(frozen=True)
class Result:
    """What a verb returns, and `main` shows."""

    words: str  # for people
    values: Mapping[str, Any]  # for programs: what JSON holds, and paths
    code: int = 0  # of the exit


class Output:
    """What --json chose, before or after the verb, and what was noted since the verb began."""

    as_json: bool = False
    notes: ClassVar[list[str]] = []
    heard: Callable[[str, float, float], object] | None = None  # hears what a progress bar shows: words, done, total


def note(words: str) -> None:
    """A remark or warning beside the result: a line on stderr, and one of "notes"."""
    Output.notes.append(words)
    typer.echo(words, err=True)


def show(result: Result) -> int:
    """Print it, and give the code of the exit."""
    if Output.as_json:
        _print_object(dict(result.values) | {"notes": Output.notes})
    elif result.words:
        typer.echo(result.words)
    return result.code


def show_error(message: str) -> None:
    """One line, on stderr for people."""
    line = " ".join(message.split())
    if Output.as_json:
        _print_object({"error": line})
    else:
        typer.echo(f"error: {line}", err=True)


def _print_object(values: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(values, default=str, allow_nan=False))  # ASCII: any terminal can show it
