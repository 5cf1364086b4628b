"""Errors as problem+json: the one place where the error tree becomes status codes."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from chainfl.api.schemas import Problem
from chainfl.errors import (
    ChainflError,
    InputError,
    LimitError,
    ModelTooLargeError,
    NotIndexedError,
    OutsideError,
    ProtocolError,
    ToolMissingError,
    VerificationError,
)
from chainfl.logs import one_line, traced

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
WAITING = (429, 503)
"""What may go away by itself: these say when to try again."""
_OUR_OWN = (401, 404, 405)
"""What routing and files refuse by themselves."""

_STATUSES: tuple[tuple[type[ChainflError], int, str], ...] = (
    (NotIndexedError, 404, "not-found"),
    (ModelTooLargeError, 422, "limit"),
    (LimitError, 429, "limit"),
    (InputError, 400, "input"),
    (ProtocolError, 409, "protocol"),
    (VerificationError, 422, "verification"),
    (OutsideError, 503, "outside"),
    (ToolMissingError, 503, "outside"),
)


def problem(request: Request, status: int, kind: str, detail: str) -> JSONResponse:
    """One problem."""
    body = Problem(
        type=f"urn:chainfl:{kind}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.scope["path"],
    )
    headers = {"Cache-Control": "no-store"}
    if status in WAITING:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return JSONResponse(body.model_dump(), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every error leave the app as a problem."""
    app.add_exception_handler(ChainflError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    for status in _OUR_OWN:
        app.add_exception_handler(status, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    found = ((status, kind) for branch, status, kind in _STATUSES if isinstance(error, branch))
    status, kind = next(found, (500, "internal"))
    return problem(request, status, kind, " ".join(str(error).split()))


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return problem(request, 400, "input", f"{where}: {first['msg']}")


async def _http(request: Request, error: Exception) -> JSONResponse:
    """No such route, method or file."""
    status = int(getattr(error, "status_code", HTTPStatus.NOT_FOUND))
    kind = "not-found" if status == HTTPStatus.NOT_FOUND else "http"
    answer = problem(
        request, status, kind, f"{request.method} {request.scope['path']}: {HTTPStatus(status).phrase}"
    )
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s: %s\n%s", request.method, request.scope["path"], one_line(error), traced(error))
    return problem(request, 500, "internal", "a defect of this service; see its log")


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route's problems stand in the OpenAPI document; any route may find a request too large, or one too many."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in (*statuses, 413, 414, 429)
    }
