"""How a request is refused, by the studio as by a study: JSON with one clear sentence, {"error": "..."}."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http.client import responses

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from visual_dynamics.errors import UserError

SENTENCES = {
    404: "there is no such page",
    405: "this address does not take that method",
}


class Problem(BaseModel):
    """What went wrong."""

    error: str
    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "there is no such page"}]})


class Refused(HTTPException):
    """A request that cannot be served, and why."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        headers = None if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status, sentence, headers)


def problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, {"Cache-Control": "no-store", **(headers or {})})


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
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path", "header"))
    words = str(first["msg"]).removeprefix("Value error, ")
    return problem(422, f"{where}: {words}" if where else words)


def _user(_: Request, error: Exception) -> JSONResponse:
    return problem(422, str(error))


def _fault(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger("visual_dynamics").error("%s %s", request.method, request.url.path, exc_info=error)
    return problem(500, "the server made a mistake; its log tells more")
