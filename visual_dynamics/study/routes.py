"""The page of a study and its JSON API, as a router for an application behind `guards`.

The answer key never leaves the server. Nothing of a request becomes a path: names of clips and raters are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi import Path as FromPath
from pydantic import BaseModel, ConfigDict, Field

from visual_dynamics.study.plan import MAX_TRIALS
from visual_dynamics.study.store import MAX_MILLISECONDS, Answer, Rater, Store, StudyFullError
from visual_dynamics.study.study_file import picture_path
from visual_dynamics.web.refusals import Problem

PAGE = Path(__file__).parent / "page"
PAGE_FILES = {"study.js": "text/javascript; charset=utf-8", "study.css": "text/css; charset=utf-8"}
MAX_BODY = 4_096  # bytes of a request
EXAMPLE_RATER = "0123456789abcdef0123456789abcdef"


class About(BaseModel):
    """What people read before they begin."""

    study: str
    kind: Literal["choice", "realistic"]
    title: str
    question: str
    consent: str
    choices: tuple[str, ...]


class Progress(BaseModel):
    """How far a rater is."""

    rater: str = Field(examples=[EXAMPLE_RATER])
    answered: int
    trials: int


class OneTrial(BaseModel):
    """Clips to show, from left to right."""

    trial: int
    clips: tuple[str, ...]


class Given(BaseModel):
    """An answer to one trial."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"trial": 0, "answer": "left", "milliseconds": 1500}]}
    )
    trial: Annotated[int, Field(strict=True, ge=0, le=2 * MAX_TRIALS)]
    answer: Literal["left", "right", "yes", "no"]
    milliseconds: Annotated[int, Field(strict=True, ge=0, le=MAX_MILLISECONDS)]


class Kept(BaseModel):
    """The answer that counts: the first that was sent for its trial. It is on the disk."""

    trial: int
    answer: str
    answered: int
    trials: int


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        400: "not JSON",
        404: "no such rater, trial or clip",
        413: "the request is too large",
        422: "a value that is not allowed",
    }.items()
}
RaterPath = Annotated[str, FromPath(pattern="^[0-9a-f]{32}$", examples=[EXAMPLE_RATER])]
ClipPath = Annotated[str, FromPath(pattern="^[0-9a-f]{16}$", examples=["0123456789abcdef"])]
FULL: dict[int | str, dict[str, Any]] = {409: {"model": Problem, "description": "the study is full"}}


def study_router(folder: Path, store: Store) -> APIRouter:
    """Page and API of the study in a folder; addresses in the page are relative, so any prefix will do."""
    router, study = APIRouter(responses=REFUSALS, tags=["study"]), store.study

    def known(rater: str) -> Rater:
        found = store.rater(rater)
        if found is None:
            raise HTTPException(404, "there is no such rater in this study")
        return found

    @router.get("/", include_in_schema=False)
    def page() -> Response:
        return Response((PAGE / "study.html").read_bytes(), media_type="text/html")

    def page_file(name: str) -> Callable[[], Response]:
        return lambda: Response((PAGE / name).read_bytes(), media_type=PAGE_FILES[name])

    for name in PAGE_FILES:
        router.add_api_route(f"/{name}", page_file(name), include_in_schema=False)

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
        return About(
            study=study.id,
            kind=study.kind,
            title=study.title,
            question=study.question,
            consent=study.consent,
            choices=study.choices,
        )

    @router.post("/api/raters", status_code=201, responses=FULL)
    def join() -> Progress:
        """A new rater, with a session of their own."""
        try:
            rater = store.join()
        except StudyFullError as error:
            raise HTTPException(409, str(error)) from error
        return Progress(rater=rater.id, answered=0, trials=len(study.sessions[rater.session]))

    @router.get("/api/raters/{rater}")
    def progress(rater: RaterPath) -> Progress:
        """How far a rater is."""
        session = study.sessions[known(rater).session]
        return Progress(rater=rater, answered=len(store.answers(rater)), trials=len(session))

    @router.get("/api/raters/{rater}/trials")
    def next_trials(rater: RaterPath, count: Annotated[int, Query(ge=1, le=2 * MAX_TRIALS)] = 20) -> list[OneTrial]:
        """The next trials without an answer, at most `count`."""
        session = study.sessions[known(rater).session]
        answered = {answer.trial for answer in store.answers(rater)}
        waiting = (number for number in range(len(session)) if number not in answered)
        return [OneTrial(trial=number, clips=session[number]) for number, _ in zip(waiting, range(count), strict=False)]

    @router.post("/api/raters/{rater}/answers")
    def answer(rater: RaterPath, given: Given) -> Kept:
        """Keep an answer; sent again, it counts once, and the first one stays."""
        session = study.sessions[known(rater).session]
        if given.trial >= len(session):
            raise HTTPException(404, f"there is no trial {given.trial} in this session of {len(session)}")
        if given.answer not in study.choices:
            raise HTTPException(422, f"an answer is {' or '.join(study.choices)}, not {given.answer}")
        kept = store.record(rater, Answer(given.trial, given.answer, given.milliseconds))
        return Kept(trial=kept.trial, answer=kept.answer, answered=len(store.answers(rater)), trials=len(session))

    return router
