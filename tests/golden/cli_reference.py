"""docs/cli.md, made from the command line itself: python -m tests.golden.make_golden command_line"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.golden.freeze import verbs
from visual_dynamics.cli.main import NAME
from visual_dynamics.cli.train import augmentations_table, settings_table

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
HEAD = f"""# Command line

This page is made from the program. `{NAME} VERB --help` says the same.

Every verb takes `--device cpu`, `cuda`, `cuda:1`, ... or `auto`, before or after the verb.
With `--json`, before or after it, the result is one JSON object: see [results for programs](json.md).
"""


def reference() -> str:
    """The page: a section for each verb, with a table of its arguments and options."""
    sections = [HEAD, *(_section(name, verb) for name, verb in verbs())]
    for option, rows in (("--augment", augmentations_table()), ("--set", settings_table())):
        sections.append(f"## What train {option} takes\n\n{_table(('name', 'meaning'), rows)}")
    return "\n".join(sections)


def _section(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([NAME, name, *command.collect_usage_pieces(context)])
    rows = [record for p in command.params if (record := p.get_help_record(context))]
    text = "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    table = f"\n{_table(('option', 'meaning'), rows)}" if rows else ""
    return f"## {name}\n\n{text}\n\n    {usage}\n{table}"


def _table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    for row in rows:
        name, text = (" ".join(cell.split()).replace("|", r"\|") for cell in row)
        lines.append(f"| `{name}` | {text} |")
    return "\n".join(lines) + "\n"
