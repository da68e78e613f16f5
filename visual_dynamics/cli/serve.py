"""The verbs that serve pages: `studio` and `study`. Heavy modules are imported when they run."""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visual_dynamics.cli.options import ModelOption, SeedOption, busy, chosen_device, counted, need, progress_bar
from visual_dynamics.cli.results import Result, note, show
from visual_dynamics.errors import UserError

if TYPE_CHECKING:
    from visual_dynamics.study.answers import AnswerStore

study_app = typer.Typer(
    no_args_is_help=True, help="Ask people which animation is real, or whether a motion is realistic."
)


class StudyKind(StrEnum):
    choice = "choice"
    realistic = "realistic"


TOKEN = re.compile(r"[A-Za-z0-9_-]{8,128}")
HostOption = Annotated[str, typer.Option(help="Address to serve on; 0.0.0.0 opens it to the network.")]
PortOption = Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")]
ProxyOption = Annotated[
    list[str] | None,
    typer.Option(help="Address of a proxy that is believed who its clients are (X-Forwarded-For); may be repeated."),
]
AllowHostOption = Annotated[list[str] | None, typer.Option(help="A further host name of the page; may be repeated.")]
FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The study's folder.")]
METHOD_HELP = "ours (the model), flow, copy, or another shipped model; may be repeated.  [default: ours and flow]"
SIZE_HELP = "Side of the clips in pixels; may be repeated.  [default: the model's size; with choice half of it, too]"
DATA_HELP = "'shapes', 'shapes-texture', a folder or zip of pairs, prepared videos, a folder of sprites."


def studio(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8200,
    token: Annotated[
        str | None,
        typer.Option(help="Visitors need it; if other machines can connect, the studio makes one up."),
    ] = None,
    allow_host: AllowHostOption = None,
    proxy: ProxyOption = None,
    allow_frame: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Pages of this origin may show it in a frame; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A model beside the shipped ones; may be repeated.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of the library.", show_default="the user's data folder")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(help="Folder of a study with people (study make), to serve here, too.")
    ] = None,
) -> None:
    """Open the studio: a page and an API to see futures, edit motions, and apply them to other pictures."""
    need("studio", "fastapi", "uvicorn")
    if token is not None and not TOKEN.fullmatch(token):
        raise UserError("a token has 8 to 128 letters, digits, - or _")
    proxies = _checked_proxies(proxy)
    import secrets

    from visual_dynamics import connections
    from visual_dynamics.web import read_origin

    frames = tuple(read_origin(each) for each in allow_frame or ())
    if token is None and not connections.is_loopback(host):
        token = secrets.token_urlsafe(24)
    with busy("opening the studio"):
        from visual_dynamics.studio.app import create_app
        from visual_dynamics.studio.state import Settings

        settings = Settings(
            store=store or _data_folder(),
            host=host,
            port=port,
            token=token,
            allowed_hosts=tuple(allow_host or ()),
            frames=frames,
            models=tuple(model or ()),
            study=study,
            device=str(chosen_device("cpu")),
        )
        page = create_app(settings)
    with closing(connections.listen(host, port)) as bound:
        opened = connections.link(bound, token)
        words, values = f"the studio is open: {opened}  (Ctrl-C closes it)", {"address": opened}
        if token and page.state.raters:
            values["raters"] = connections.link(bound, page.state.raters[1], "study/")
            words += f"\nraters take part, and see nothing else, at: {values['raters']}"
        show(Result(words, values))
        connections.server(page, proxies).run([bound])


def _checked_proxies(addresses: list[str] | None) -> list[str]:
    for address in addresses or []:
        try:
            ip_network(address)
        except ValueError as error:
            raise UserError(f"{address[:80]!r} is no address of a proxy: give 10.0.0.2 or 10.0.0.0/24, say") from error
    return addresses or []


def _data_folder() -> Path:
    """The system's folder for a user's data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "visual-dynamics"


@study_app.command()
def make(
    folder: FolderArgument,
    kind: Annotated[StudyKind, typer.Option(help="Which of two is real, or is this realistic?")] = StudyKind.choice,
    model: ModelOption = "shapes",
    data: Annotated[str, typer.Option(help=DATA_HELP)] = "shapes",
    method: Annotated[list[str] | None, typer.Option(help=METHOD_HELP, show_default=False)] = None,
    size: Annotated[list[int] | None, typer.Option(help=SIZE_HELP, show_default=False)] = None,
    inputs: Annotated[int, typer.Option(help="Number of pictures.")] = 40,
    trials: Annotated[int | None, typer.Option(help="Pictures in one session.  [default: all of them]")] = None,
    samples: Annotated[
        int | None, typer.Option(help="Of each picture and method, in a realistic study.  [default: 10]")
    ] = None,
    sessions: Annotated[int, typer.Option(help="Different sessions; later raters start with the first again.")] = 24,
    seed: SeedOption = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
) -> Result:
    """Make a study from a model and a data set."""
    from visual_dynamics.study.design import REAL, Design
    from visual_dynamics.study.make import default_sizes, make_study

    realistic = kind is StudyKind.realistic
    methods = tuple(method or ("ours", "flow")) + ((REAL,) if realistic else ())
    sizes = tuple(size) if size else default_sizes(kind.value, model)
    count = samples if samples is not None else 10 if realistic else 1
    design = Design(kind.value, methods, sizes, inputs, trials or inputs, count, sessions, seed=seed)
    with progress_bar("clips") as progress:
        study = make_study(design, model, data, folder, overwrite, str(chosen_device()), progress)
    lengths = max(len(session) for session in study.sessions)
    if not study.source["held_out"]:
        note(f"{data} has no test set: the model may know these pictures")
    words = (
        f"{counted(len(study.clips), 'clip')} and {counted(len(study.sessions), 'session')} "
        f"of {counted(lengths, 'trial')} in {folder}: visual-dynamics study serve {folder}"
    )
    values = {"folder": folder, "clips": len(study.clips), "sessions": len(study.sessions), "trials": lengths}
    return Result(words, values)


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
    proxies = _checked_proxies(proxy)
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
    with closing(_store(folder)) as store:
        rows = store.rows()
    if not rows:
        raise UserError(f"there are no answers in {folder} yet")
    from visual_dynamics.study import score as scoring

    result = scoring.score(store.study, rows)
    return Result(scoring.table_text(result), result)


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


def _store(folder: Path, create: bool = False) -> AnswerStore:
    from visual_dynamics.study.answers import AnswerStore
    from visual_dynamics.study.folder import read_study

    return AnswerStore(folder, read_study(folder), create)


def _check_new(path: Path) -> None:
    if path.exists():
        raise UserError(f"{path} exists already: remove it, or give another file with --out")
