"""The verbs of a study with people. Heavy modules are imported when they run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visual_dynamics.cli.options import counted, need
from visual_dynamics.cli.results import Result, show
from visual_dynamics.cli.serve import AllowHostOption, HostOption, PortOption, ProxyOption, checked_proxies
from visual_dynamics.cli.study_make import FolderArgument, make
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.study.answers import AnswerStore, Row
    from visual_dynamics.study.folder import Study

study_app = typer.Typer(
    no_args_is_help=True, help="Ask people which animation is real, or whether a motion is realistic."
)


study_app.command()(make)


@study_app.command()
def serve(
    folder: FolderArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8765,
    allow_host: AllowHostOption = None,
    proxy: ProxyOption = None,
) -> None:
    """Serve the page to this machine or network; answers go into FOLDER/answers.sqlite3."""
    need("studio", "fastapi", "uvicorn")
    proxies = checked_proxies(proxy)
    from visual_dynamics import connections
    from visual_dynamics.study import web
    from visual_dynamics.study.folder import read_study

    read_study(folder)  # its errors come first
    with closing(connections.listen(host, port)) as bound, closing(_store(folder, create=True)) as store:
        token = None if connections.is_loopback(bound.getsockname()[0]) else store.token
        opened = connections.link(bound, token)
        show(Result(f"the study is at {opened} (Ctrl-C ends it; answers are kept)", {"address": opened}))
        page = web.study_app(folder, store, token, tuple(allow_host or ()))
        connections.server(page, proxies).run([bound])


@study_app.command()
def offline(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("study.html"),
) -> Result:
    """Write the study as one HTML file that works offline."""
    from visual_dynamics.files import write_atomically
    from visual_dynamics.study.folder import offline_page, read_study

    _check_new(out)
    page = offline_page(folder, read_study(folder))
    write_atomically(out, page)
    words = f"{out}: {len(page) / 1e6:.1f} MB; visual-dynamics study import reads the answers that it saves"
    return Result(words, {"file": out, "bytes": len(page)})


@study_app.command("import")
def import_(
    folder: FolderArgument,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Answers that the HTML file has saved.")],
) -> Result:
    """Add answers from files: all of them or, after any error, none."""
    from visual_dynamics.study.answers import read_answers
    from visual_dynamics.study.folder import read_study

    study = read_study(folder)
    sessions = [read_answers(path, study) for path in files]
    with closing(_store(folder, create=True)) as store:
        new = store.add_sessions(sessions)
    return Result(f"{counted(new, 'new answer')} from {counted(len(files), 'file')}", {"new_answers": new})


@study_app.command()
def score(folder: FolderArgument) -> Result:
    """How often people were fooled, or called a motion realistic, with 95 % intervals."""
    rows, study = _answers(folder)
    from visual_dynamics.study import score as scoring

    result = scoring.score(study, rows)
    return Result(scoring.table_text(result), result)


@study_app.command()
def report(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option(help="The page to write, .html or .md.")] = Path("report.html"),
) -> Result:
    """Write the result as a page, shaped like the paper's two studies."""
    from visual_dynamics.files import write_atomically

    if out.suffix not in (".html", ".md"):
        raise UserError(f"the report is written as .html or .md, not {out.name}")
    _check_new(out)
    rows, study = _answers(folder)
    from visual_dynamics.reporting.report import page
    from visual_dynamics.reporting.study_report import report_text
    from visual_dynamics.study.score import score as scored

    text = report_text(study, scored(study, rows))
    write_atomically(out, (page(text, study.title) if out.suffix == ".html" else text).encode())
    return Result(f"{out}: {counted(len(rows), 'answer')}", {"file": out, "answers": len(rows)})


@study_app.command()
def plan(
    effect: Annotated[float, typer.Option(help="Difference of two methods to be found, in percentage points.")] = 5,
    power: Annotated[float, typer.Option(help="Chance to find it, 0 to 1.")] = 0.8,
    share: Annotated[float, typer.Option(help="% of the better method; the paper's are 31 to 41.")] = 40,
    raters: Annotated[
        int | None, typer.Option(help="Raters that count; then the trials are told.", show_default="(told)")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials a rater.", show_default="40, or told")] = None,
    inputs: Annotated[int, typer.Option(help="Number of pictures.")] = 200,
    methods: Annotated[int, typer.Option(help="Methods in the study.")] = 2,
    sizes: Annotated[int, typer.Option(help="Sizes in the study.")] = 1,
    raters_differ: Annotated[
        float, typer.Option(help="Standard deviation of a method's share between raters, in points: a guess.")
    ] = 10,
    inputs_differ: Annotated[
        float, typer.Option(help="Standard deviation of a method's share between pictures, in points: a guess.")
    ] = 10,
) -> Result:
    """How many raters, or trials of each, a study needs to find a difference between two methods."""
    from visual_dynamics.study.power import Comparison, raters_needed, trials_needed

    if not 0.05 < power < 1:
        raise UserError(f"a power is above 0.05 and below 1, not {power:g}")
    deviations = {"rater_deviation": raters_differ / 100, "input_deviation": inputs_differ / 100}
    study = Comparison(
        effect=effect / 100,
        share=share / 100,
        raters=raters if raters is not None else 3,
        trials=trials if trials is not None else min(40, inputs),
        inputs=inputs,
        methods=methods,
        sizes=sizes,
        **deviations,
    )
    if raters is None:
        study = raters_needed(study, power)
    elif trials is None:
        study = trials_needed(study, power)
    words = (
        f"{counted(study.raters, 'rater')} of {counted(study.trials, 'trial')} about {study.inputs} inputs: power "
        f"{study.power:.2f} to find {share:g} % against {share - effect:g} %, {counted(methods, 'method')} at "
        f"{counted(sizes, 'size')}, shares differing by {raters_differ:g} points between raters and {inputs_differ:g} "
        "between inputs; recruit more, as some will not count"
    )
    return Result(words, asdict(study) | {"power": study.power})


@study_app.command()
def export(
    folder: FolderArgument,
    out: Annotated[Path | None, typer.Option(help="A CSV file; without it, the terminal.", show_default=False)] = None,
) -> Result:
    """Write all answers as CSV, one line each."""
    from visual_dynamics.files import write_atomically
    from visual_dynamics.study.answers import to_csv

    if out:
        _check_new(out)
    with closing(_store(folder)) as store:
        rows = store.rows()
    if out is None:
        return Result(to_csv(rows).removesuffix("\n"), {"answers": [asdict(row) for row in rows]})
    write_atomically(out, to_csv(rows).encode())
    return Result(f"{counted(len(rows), 'answer')} in {out}", {"file": out, "count": len(rows)})


def _answers(folder: Path) -> tuple[list[Row], Study]:
    with closing(_store(folder)) as store:
        rows = store.rows()
    if not rows:
        raise UserError(f"there are no answers in {folder} yet")
    return rows, store.study


def _store(folder: Path, create: bool = False) -> AnswerStore:
    from visual_dynamics.study.answers import AnswerStore
    from visual_dynamics.study.folder import read_study

    return AnswerStore(folder, read_study(folder), create)


def _check_new(path: Path) -> None:
    if path.exists():
        raise UserError(f"{path} exists already: remove it, or give another file with --out")
