"""The application: guards around an API and a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from visual_dynamics.provenance import package_version
from visual_dynamics.studio import export, futures, inside, motion, transfer
from visual_dynamics.studio.context import Here, Studio
from visual_dynamics.studio.rates import RateLimit
from visual_dynamics.studio.settings import Limits, Settings
from visual_dynamics.study.routes import MAX_BODY, study_router
from visual_dynamics.study.store import Store
from visual_dynamics.study.study_file import read_study
from visual_dynamics.web.guards import Gate, Guards
from visual_dynamics.web.listening import is_loopback
from visual_dynamics.web.refusals import Problem, tell_errors_as_json

PAGE = Path(__file__).parent / "page"
NO_STUDY = "no_study.html"
COOKIE = "visual_dynamics_token"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
DESCRIPTION = (
    "From one image, many plausible next frames. Upload a picture, or take a sample; its id stands for it in all other "
    'requests. Errors are JSON: {"error": "a clear sentence"}. Work is done in order of arrival: send a header '
    "X-Ticket of your own choice, and ask /api/line for the place of that ticket."
)
# What any route may answer beside its result; for the OpenAPI description.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        400: "The request is malformed, or its Host is not allowed",
        401: "The studio's token is missing",
        403: "The request comes from a page of another site",
        404: "No such image, model or motion",
        409: "The request does not fit what is there already",
        413: "The request is too large",
        422: "A value is missing or out of range",
        429: "Too many requests of one client; Retry-After says when to come back",
        503: "The line is full; Retry-After says when to come back",
    }.items()
}
line = APIRouter(tags=["line"])


class Place(BaseModel):
    """The line of work."""

    length: int = Field(description="Pieces of work that wait or are being done")
    place: int | None = Field(description="Those before the ticket's own; null where it is not in the line")


@line.get("/line")
def place(request: Request, studio: Here, ticket: Annotated[str, Field(max_length=64)] = "") -> Place:
    """How long the line is, and the place of a ticket in it."""
    client = request.client.host if request.client else "nobody"
    return Place(length=len(studio.line), place=studio.line.place(client, ticket) if ticket else None)


def create_app(settings: Settings) -> FastAPI:
    """A studio with its models, its page and its API."""
    studio = Studio(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        studio.line.open()
        studio.warm_up()
        yield
        studio.line.close()

    app = FastAPI(
        title="Visual Dynamics studio",
        version=package_version(),
        description=DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page would come from another host
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        generate_unique_id_function=_operation_name,
    )
    app.state.studio = studio
    for router in (futures.router, motion.router, transfer.router, inside.router, export.router, line):
        app.include_router(router, prefix="/api", responses=PROBLEMS)
    if settings.study:
        store = Store(settings.study, read_study(settings.study))
        app.include_router(study_router(settings.study, store), prefix="/study", include_in_schema=False)
    else:
        app.add_api_route("/study/", _sender(PAGE / NO_STUDY), methods=["GET", "HEAD"], include_in_schema=False)
    _serve_page(app)
    tell_errors_as_json(app)
    app.add_middleware(RateLimit, limits=settings.limits)
    app.add_middleware(Guards, gate=_gate(settings), most_bytes=partial(_most_bytes, settings.limits))  # comes first
    return app


def _gate(settings: Settings) -> Gate:
    network = not is_loopback(settings.host)
    return Gate("studio", COOKIE, network, settings.token, settings.host, settings.allowed_hosts)


def _most_bytes(limits: Limits, path: str) -> int:
    if path.startswith("/study/"):
        return MAX_BODY
    return limits.upload_bytes if path == "/api/images" else limits.json_bytes


def _serve_page(app: FastAPI) -> None:
    """The files of the page, read once: no path of a request reaches the file system."""
    for path in sorted(PAGE.iterdir()):
        if path.suffix in TYPES and path.name != NO_STUDY:
            address = "/" if path.name == "index.html" else f"/page/{path.name}"
            app.add_api_route(address, _sender(path), methods=["GET", "HEAD"], include_in_schema=False)


def _sender(path: Path) -> Callable[[], Response]:
    content, kind = path.read_bytes(), TYPES[path.suffix]

    def send() -> Response:
        return Response(content, media_type=kind)

    return send


def _operation_name(route: APIRoute) -> str:
    return route.name
