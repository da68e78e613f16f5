"""The documentation as a site: `python docs/build.py OUT` writes OUT/site/index.html. It needs the extra `docs`.

Pages keep their places in the repository, so a link between them works in a checkout and on the site alike. Files that
they link to and that are no pages (pictures, results, code) are copied to their places, too. Notebooks become pages.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "benchmarks/*.md", "docs/**/*.md", "docs/notebooks/*.ipynb", "visual_dynamics/models/*.md")
CONFIG = "zensical.toml"
ROW, CODE = re.compile(r"^\|.*$", re.M), re.compile(r"`[^`]+`")  # of a table, and in it
MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.S)  # of a notebook: a block of its own, or within a sentence
LINK = re.compile(r"(?<=\]\()[^)#:\s]+")  # to a file; the anchor stays outside


def build(out: Path, root: Path = ROOT) -> None:
    """Write the pages into OUT/pages and the site into OUT/site. A warning is an error."""
    if out.exists() and any(out.iterdir()) and not (out / CONFIG).exists():
        raise SystemExit(f"{out} holds something else than a site")
    shutil.rmtree(out, ignore_errors=True)
    for source in sorted(found for pattern in PAGES for found in root.glob(pattern)):
        _write_page(source, root, out / "pages")
    (out / CONFIG).write_text(_with_folders((root / "docs" / CONFIG).read_text(), out / "pages"))
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(out / CONFIG)]
    subprocess.run(command, cwd=root, check=True)  # where mkdocstrings finds the package


def _write_page(source: Path, root: Path, pages: Path) -> None:
    page = (pages / source.relative_to(root)).with_suffix(".md")
    page.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text()
    if source.suffix == ".ipynb":
        shutil.copy(source, page.parent)
        text = notebook_page(json.loads(text), source.name)

    def place(link: re.Match[str]) -> str:
        target = (source.parent / link[0]).resolve()
        if target.is_dir():
            return f"{link[0].rstrip('/')}/{_contents(target, root, pages)}"
        if target.is_file() and target.suffix != ".md":
            copy = pages / target.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
        return link[0]

    page.write_text(ROW.sub(_with_pipes, LINK.sub(place, text)))


def _with_pipes(row: re.Match[str]) -> str:
    r"""GitHub wants \| in the code of a table, Python-Markdown |."""
    return CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0])


def _contents(folder: Path, root: Path, pages: Path) -> str:
    """A page that lists the pages of a folder, for a link to the folder; its name."""
    place = folder.relative_to(root)
    (pages / place).mkdir(parents=True, exist_ok=True)
    lines = [f"- [{_title(page)}]({page.name})" for page in sorted(folder.glob("*.md"))]
    (pages / place / "index.md").write_text(f"# {place.as_posix()}\n\n" + "\n".join(lines) + "\n")
    return "index.md"


def _title(page: Path) -> str:
    heading = re.search(r"^# (.+)$", page.read_text(), re.M)
    return heading[1].removeprefix("Model card: ") if heading else page.stem


def _with_folders(config: str, pages: Path) -> str:
    """The configuration with a pattern of the navigation replaced by the pages it finds; without any, by no entry."""

    def entries(pattern: re.Match[str]) -> str:
        found = [page for page in sorted(pages.glob(pattern[2])) if page.name != "index.md"]
        names = (f'{{ "{_title(page)}" = "{page.relative_to(pages).as_posix()}" }}' for page in found)
        return f"{pattern[1]}[{', '.join(names)}] }},\n" if found else ""

    return re.sub(r'^( *\{ "[^"]+" = )\["([^"]*\*[^"]*)"\] \},\n', entries, config, flags=re.M)


# --- notebooks ---


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """A notebook (nbformat 4) as Markdown: its texts, its code, and what it stores of results."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(MATH.sub(_mathml, text) if cell["cell_type"] == "markdown" else _fenced("python", text))
        parts += [_output(each) for each in cell.get("outputs", [])]
    heading, _, rest = "\n\n".join(part for part in parts if part.strip()).partition("\n")
    return f"{heading}\n\n[This page as a notebook]({name})\n{rest}\n"


def _mathml(formula: re.Match[str]) -> str:
    """TeX as browsers show it without a script; within a span, as Markdown would take math for a block."""
    from latex2mathml.converter import convert

    block, inline = formula.groups()
    return f"<span>{convert(' '.join((block or inline).split()), display='block' if block else 'inline')}</span>"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![result](data:image/png;base64,{''.join(''.join(data['image/png']).split())})"
    if "text/html" in data:  # in one line: an empty one would end it for Markdown
        return f"<div>{' '.join(''.join(data['text/html']).split())}</div>"
    return _fenced("", "".join(output.get("text", data.get("text/plain", ""))))


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```" if text.strip() else ""


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
