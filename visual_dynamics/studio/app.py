"""The application: guards around an API and a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from visual_dynamics.connections import is_loopback
from visual_dynamics.provenance import package_version
from visual_dynamics.studio import completion, futures, inside, motion, motion_library, transfer
from visual_dynamics.studio.state import Here, Limits, Settings, Studio
from visual_dynamics.study.answers import AnswerStore
from visual_dynamics.study.folder import read_study
from visual_dynamics.study.web import MAX_BODY, cookie_name, study_router
from visual_dynamics.web import TYPES, Gate, Guards, Rates, client_of, file_route, possible_errors, send_errors_as_json

PAGE = Path(__file__).parent / "page"
COOKIE = "visual_dynamics_token"
DESCRIPTION = (
    "From one image, many plausible next frames. Upload a picture, or take a sample; all other requests use its id. "
    'Errors are JSON: {"error": "a clear sentence"}. One queue does the work in order of arrival: send a header '
    "X-Ticket of your own choice, and ask /api/queue for the position of that ticket."
)
ERRORS = possible_errors(
    {
        400: "The request is malformed, or its Host is not allowed",
        401: "The studio's token is missing",
        403: "The request comes from a page of another site",
        404: "No such image, model or motion",
        408: "The request came too slowly",
        409: "The request conflicts with stored data",
        413: "The request is too large",
        422: "A value is missing or out of range",
        429: "Too many requests of one client; Retry-After says when to try again",
        503: "The queue is full; Retry-After says when to try again",
        507: "The server's disk is full: nothing was saved",
    }
)
queue = APIRouter(tags=["queue"])


class QueueShown(BaseModel):
    """The queue of the studio."""

    length: int = Field(description="Jobs that wait or run")
    place: int | None = Field(description="Jobs before the ticket's own; null if that is not in the queue")
    done: int = Field(default=0, description="Frames that the ticket's job has drawn, where it counts them")
    total: int = Field(default=0, description="Frames that it will have drawn; 0 where it does not count them")


@queue.get("/line", include_in_schema=False)  # its name in the first release
@queue.get("/queue")
def show_queue(request: Request, studio: Here, ticket: Annotated[str, Field(max_length=64)] = "") -> QueueShown:
    """The length of the queue, and the position of a ticket in it."""
    length = len(studio.queue)
    if not ticket:
        return QueueShown(length=length, place=None)
    client = client_of(request)
    done, total = studio.queue.progress(client, ticket)
    return QueueShown(length=length, place=studio.queue.position(client, ticket), done=done, total=total)


def create_app(settings: Settings) -> FastAPI:
    """A studio with its models, its page and its API."""
    studio = Studio(settings, motion_library.Library(settings.store / "studio.sqlite"))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        studio.queue.open()
        studio.warm_up()
        yield
        studio.queue.close()

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
    own = futures.router, motion.router, motion_library.router, transfer.router, completion.router, inside.router
    for router in (*own, futures.files, queue):
        app.include_router(router, prefix="/api", responses=ERRORS)
    app.state.raters = raters = _add_pages(app, settings)
    send_errors_as_json(app)
    limits = settings.limits
    network = not is_loopback(settings.host)
    app.add_middleware(
        Guards,
        gate=Gate(
            "studio", COOKIE, network, settings.token, settings.host, settings.allowed_hosts, raters, settings.frames
        ),
        most_bytes=partial(_most_bytes, limits),
        rates=Rates(limits.requests_per_second, limits.burst),
    )
    return app


def _most_bytes(limits: Limits, path: str) -> int:
    if path.startswith("/study/"):
        return MAX_BODY
    return limits.upload_bytes if path in ("/api/images", "/api/characters") else limits.json_bytes


def _add_pages(app: FastAPI, settings: Settings) -> tuple[str, str] | None:
    """Cookie and token of the study's raters, if there is a study."""
    pages = {f"/page/{path.name}": path for path in sorted(PAGE.iterdir()) if path.suffix in TYPES}
    pages["/"] = pages.pop("/page/index.html")
    no_study = pages.pop("/page/no_study.html")
    raters = None
    if settings.study:
        store = AnswerStore(settings.study, read_study(settings.study))
        raters = cookie_name(store.study), store.token
        app.include_router(study_router(settings.study, store), prefix="/study", include_in_schema=False)
    else:
        pages["/study/"] = no_study
    for address, path in pages.items():
        app.add_api_route(address, file_route(path), methods=["GET", "HEAD"], include_in_schema=False)
    return raters


def _operation_name(route: APIRoute) -> str:
    return route.name
