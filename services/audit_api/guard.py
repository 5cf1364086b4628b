"""What stands before every route: limits on size and time, and headers that keep browsers from doing anything else."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


MAX_QUERY: Final = 2_048
MAX_PATH: Final = 1_024
STREAM: Final = "/live"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


_RAW_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """Refuses bodies and overlong addresses, ends what takes too long, and adds the headers."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        """Guard an app; streams end by themselves."""
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request within the limits."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
            await send(message)

        refused = _refusal(scope)
        if refused is not None:
            await _answer(send_guarded, scope, *refused)
            return
        limit = None if scope["path"] == STREAM else self._seconds
        try:
            async with asyncio.timeout(limit):
                await self._app(scope, receive, send_guarded)
        except TimeoutError:
            if not started:
                detail = f"the request took longer than {self._seconds:g} s; try again later"
                await _answer(send_guarded, scope, HTTPStatus.SERVICE_UNAVAILABLE, detail)


def _refusal(scope: Scope) -> tuple[HTTPStatus, str] | None:
    headers = dict(scope["headers"])
    if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no route takes a body: this service only reads"
    if len(scope["query_string"]) > MAX_QUERY or len(scope["raw_path"] or b"") > MAX_PATH:
        return HTTPStatus.REQUEST_URI_TOO_LONG, f"a path has at most {MAX_PATH} bytes, a query {MAX_QUERY}"
    return None


async def _answer(send: Send, scope: Scope, status: HTTPStatus, detail: str) -> None:
    body = {
        "type": "urn:chainfl:limit",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "instance": scope["path"][:MAX_PATH],
    }
    headers = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
