"""Every error of the studio is JSON with one clear sentence, and which errors there are."""

from __future__ import annotations

import logging
from http.client import responses
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from visual_dynamics.errors import UserError
from visual_dynamics.interfaces.refusals import SENTENCES, Problem, problem, validation_sentence


def _told(description: str) -> dict[str, Any]:
    return {"model": Problem, "description": description}


# What any route may answer beside its result; for the OpenAPI description.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _told("The request is malformed, or its Host or Origin is not allowed"),
    401: _told("The studio's token is missing"),
    403: _told("The request comes from a page of another site"),
    404: _told("No such image, model or motion"),
    409: _told("The request does not fit what is there already"),
    413: _told("The request is too large"),
    422: _told("A value is missing or out of range"),
    429: _told("Too many requests of one client; Retry-After says when to come back"),
    503: _told("The line is full, or too many upload at once; Retry-After says when to come back"),
}


class Refused(HTTPException):
    """A request that cannot be served, and why."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        headers = None if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status, sentence, headers)


def tell_errors_as_json(app: FastAPI) -> None:
    """Make every error of an application a JSON."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(UserError, _user)
    app.add_exception_handler(Exception, _fault)


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    plain = responses.get(error.status_code, "")
    sentence = SENTENCES.get(error.status_code, plain) if error.detail in (plain, "") else error.detail
    return problem(error.status_code, sentence, error.headers)


def _validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return problem(422, validation_sentence(error))


def _user(_: Request, error: Exception) -> JSONResponse:
    return problem(422, str(error))


def _fault(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger("visual_dynamics.studio").error("%s %s", request.method, request.url.path, exc_info=error)
    return problem(500, "the studio made a mistake; its log tells more")
