"""The page of a study and its JSON API: as a router (the studio includes it too) and as a server of its own.

The answer key never leaves the server. No part of a request becomes a path: clips and raters are looked up by name.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as FromPath
from pydantic import BaseModel, ConfigDict, Field

from visual_dynamics.study.answers import MAX_MILLISECONDS, Answer, AnswerStore, Rater, StudyFullError
from visual_dynamics.study.design import MAX_TRIALS
from visual_dynamics.study.folder import Study, picture_path
from visual_dynamics.web import (
    Gate,
    Guards,
    Rates,
    RequestError,
    client_of,
    file_route,
    possible_errors,
    send_errors_as_json,
)

PAGE = Path(__file__).parent / "page"
MAX_BODY = 4_096  # bytes of a request
JOINS, JOINS_PER_SECOND = 60, 1 / 20  # new raters of one address: a class at once, then 180 an hour
EXAMPLE_RATER = "0123456789abcdef0123456789abcdef"
ERRORS = possible_errors(
    {
        400: "not JSON",
        404: "no such rater, trial or clip",
        408: "the request came too slowly",
        413: "the request is too large",
        422: "a value that is not allowed",
        507: "the server's disk is full: nothing was saved",
    }
)
JOINING = possible_errors(
    {
        403: "the recruiting service's id is missing",
        409: "the study is full",
        429: "too many new raters of one address",
    }
)
RaterPath = Annotated[str, FromPath(pattern="^[0-9a-f]{32}$", examples=[EXAMPLE_RATER])]
ClipPath = Annotated[str, FromPath(pattern="^[0-9a-f]{16}$", examples=["0123456789abcdef"])]


class About(BaseModel):
    """What people read before they begin."""

    study: str
    kind: Literal["choice", "realistic"]
    title: str
    question: str
    consent: str
    choices: tuple[str, ...]
    frame_time: int  # milliseconds
    parameter: str  # of the page's address, with the id that a recruiting service gives a rater; may be empty


class Joining(BaseModel):
    """Who joins."""

    model_config = ConfigDict(extra="forbid")
    recruited: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@=+-]{0,128}$")] = ""  # a recruiting service's id


class RaterProgress(BaseModel):
    """The number of trials that a rater has answered."""

    rater: str = Field(examples=[EXAMPLE_RATER])
    answered: int
    trials: int
    completion: str = ""  # after the last answer: a code, or an https link


class TrialShown(BaseModel):
    """Clips to show, from left to right."""

    trial: int
    clips: tuple[str, ...]


class AnswerGiven(BaseModel):
    """An answer to one trial."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"trial": 0, "answer": "left", "milliseconds": 1500}]}
    )
    trial: Annotated[int, Field(strict=True, ge=0, le=2 * MAX_TRIALS)]
    answer: Literal["left", "right", "yes", "no"]
    milliseconds: Annotated[int, Field(strict=True, ge=0, le=MAX_MILLISECONDS)]


class AnswerKept(BaseModel):
    """The answer that counts: the first for its trial. It is on the disk."""

    trial: int
    answer: str
    answered: int
    trials: int


def study_router(folder: Path, store: AnswerStore) -> APIRouter:
    """Page and API of a study. Addresses in the page are relative: any prefix works."""
    router, study = APIRouter(responses=ERRORS, tags=["study"]), store.study
    joins = Rates(JOINS_PER_SECOND, JOINS)
    for address, name in (("/", "study.html"), ("/study.js", "study.js"), ("/study.css", "study.css")):
        router.add_api_route(address, file_route(PAGE / name), include_in_schema=False)

    def known(rater: str) -> Rater:
        found = store.rater(rater)
        if found is None:
            raise HTTPException(404, "there is no such rater in this study")
        return found

    def progress_of(rater: Rater) -> RaterProgress:
        answered, trials = len(store.answers(rater.id)), len(study.sessions[rater.session])
        completion = study.recruiting.completion if answered == trials else ""
        return RaterProgress(rater=rater.id, answered=answered, trials=trials, completion=completion)

    @router.get("/clips/{clip}.png", responses={200: {"content": {"image/png": {}}}}, response_class=Response)
    def clip_picture(clip: ClipPath) -> Response:
        """The two frames of a clip, side by side."""
        if clip not in study.clips:
            raise HTTPException(404, "there is no such clip in this study")
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(picture_path(folder, clip).read_bytes(), media_type="image/png", headers=headers)

    @router.get("/api/study")
    def about() -> About:
        """The study's texts."""
        found: dict[str, Any] = {"study": study.id, "parameter": study.recruiting.parameter}
        found |= {name: getattr(study, name) for name in About.model_fields if name not in found}
        return About(**found)

    @router.post("/api/raters", status_code=201, responses=JOINING)
    def join(request: Request, joining: Joining | None = None) -> RaterProgress:
        """A new rater, with a session of their own; or, by a recruiting service's id, the one who joined with it."""
        if seconds := joins.wait(client_of(request)):
            raise RequestError(429, "many have joined from your address: wait a little", math.ceil(seconds))
        recruited = joining.recruited if joining and study.recruiting.parameter else ""
        if study.recruiting.parameter and not recruited:
            name = study.recruiting.parameter
            raise HTTPException(403, f"please use the link of the recruiting service: the address lacks {name}")
        try:
            rater = store.join(recruited)
        except StudyFullError as error:
            raise HTTPException(409, str(error)) from error
        return progress_of(rater)

    @router.get("/api/raters/{rater}")
    def progress(rater: RaterPath) -> RaterProgress:
        """The number of trials that a rater has answered."""
        return progress_of(known(rater))

    @router.get("/api/raters/{rater}/trials")
    def next_trials(rater: RaterPath, count: Annotated[int, Query(ge=1, le=2 * MAX_TRIALS)] = 20) -> list[TrialShown]:
        """The next trials without an answer, at most `count`."""
        session = study.sessions[known(rater).session]
        answered = {answer.trial for answer in store.answers(rater)}
        waiting = [number for number in range(len(session)) if number not in answered]
        return [TrialShown(trial=number, clips=session[number]) for number in waiting[:count]]

    @router.post("/api/raters/{rater}/answers")
    def answer(rater: RaterPath, given: AnswerGiven) -> AnswerKept:
        """Store an answer. If it is sent again, it counts once, and the first one stays."""
        session = study.sessions[known(rater).session]
        if given.trial >= len(session):
            raise HTTPException(404, f"there is no trial {given.trial} in this session of {len(session)}")
        if given.answer not in study.choices:
            raise HTTPException(422, f"an answer is {' or '.join(study.choices)}, not {given.answer}")
        kept = store.record(rater, Answer(given.trial, given.answer, given.milliseconds))
        return AnswerKept(trial=kept.trial, answer=kept.answer, answered=len(store.answers(rater)), trials=len(session))

    return router


def cookie_name(study: Study) -> str:
    """Of the cookie that holds a study's token."""
    return f"study_{study.id}"


def study_app(folder: Path, store: AnswerStore, token: str | None = None, names: tuple[str, ...] = ()) -> FastAPI:
    """The application of `study serve`. On a network there is a token: every request needs it."""
    app = FastAPI(title="Visual Dynamics study", docs_url=None, redoc_url=None)
    app.include_router(study_router(folder, store))
    send_errors_as_json(app)
    gate = Gate("study", cookie_name(store.study), network=token is not None, token=token, names=names)
    app.add_middleware(Guards, gate=gate, most_bytes=lambda _path: MAX_BODY)
    return app
