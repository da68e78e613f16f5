"""How a request is refused, by the studio as by a study: JSON with one clear sentence, {"error": "..."}."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

SENTENCES = {
    404: "there is no such page",
    405: "this address does not take that method",
}


class Problem(BaseModel):
    """What went wrong."""

    error: str
    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "there is no such page"}]})


def problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, {"Cache-Control": "no-store", **(headers or {})})


def validation_sentence(error: RequestValidationError) -> str:
    """The first thing that is wrong with a request, and where."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path", "header"))
    words = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {words}" if where else words
