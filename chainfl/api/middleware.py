"""What stands before every route: limits on size and time, and headers that keep browsers from doing anything else."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from chainfl.api.clients import IpNetwork, Share, client_name
from chainfl.api.problems import MEDIA_TYPE, RETRY_SECONDS, WAITING
from chainfl.errors import LimitError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


MAX_QUERY: Final = 2_048
MAX_PATH: Final = 1_024
STREAM: Final = "/live"
CLIENT: Final = "chainfl.client"
"""Where a request's scope says who asks."""

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

    def __init__(self, app: ASGIApp, seconds: float, share: Share, trusted: Sequence[IpNetwork] = ()) -> None:
        """Guard an app; streams end by themselves, and are counted where they are opened."""
        self._app = app
        self._seconds = seconds
        self._share = share
        self._trusted = trusted

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

        client = scope[CLIENT] = self._client(scope)
        if scope["path"] == STREAM:
            await self._app(scope, receive, send_guarded)
            return
        try:
            with self._share.held(client):
                async with asyncio.timeout(self._seconds):
                    await self._app(scope, receive, send_guarded)
        except LimitError as error:
            await _answer(send_guarded, scope, HTTPStatus.TOO_MANY_REQUESTS, str(error))
        except TimeoutError:
            # An answer that has begun cannot become another one: it is cut, which its length shows.
            if not started:
                detail = f"the request took longer than {self._seconds:g} s; try again later"
                await _answer(send_guarded, scope, HTTPStatus.SERVICE_UNAVAILABLE, detail)

    def _client(self, scope: Scope) -> str:
        peer = scope["client"][0] if scope.get("client") else None
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return client_name(peer, forwarded, self._trusted)


def _refusal(scope: Scope) -> tuple[HTTPStatus, str] | None:
    headers = dict(scope["headers"])
    # Refused by its announcement alone: no byte of a body is read.
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

    data = json.dumps(body).encode()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(data)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status in WAITING:
        headers.append((b"retry-after", str(RETRY_SECONDS).encode()))

    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": data})
