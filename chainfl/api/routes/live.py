"""Live rounds as server-sent events, and whether the index is current and agrees with the chain."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from chainfl.api import schemas
from chainfl.api.deps import ClientDep, ServicesDep, reply
from chainfl.api.health import health_of
from chainfl.api.live import Change, Hub
from chainfl.api.problems import MEDIA_TYPE, RETRY_SECONDS, documented

router = APIRouter(tags=["live"])
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 3600.0


@router.get(
    "/health",
    response_model=schemas.Health,
    responses=documented(503)
    | {
        503: {
            "description": "Failing; the body says why",
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Health"}},
                MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}},
            },
        }
    },
)
async def health(services: ServicesDep) -> Response:
    """Whether the chain is followed, how far behind this is, and which tasks cannot be read."""
    found = health_of(services.follower, services.index, services.settings.stale_seconds)
    headers = {"Cache-Control": "no-store"}
    if found.status == "failing":
        headers["Retry-After"] = str(RETRY_SECONDS)
    status = HTTPStatus.SERVICE_UNAVAILABLE if found.status == "failing" else HTTPStatus.OK
    return Response(found.model_dump_json(), status, headers, "application/json")


@router.get("/index", response_model=schemas.IndexCheck, responses=documented(503))
async def index(request: Request, services: ServicesDep, client: ClientDep) -> Response:
    """Whether the index agrees with the chain's events: every value that differs is found, the first are named."""
    future = await run_in_threadpool(services.auditor.index_check, client)
    done = await asyncio.shield(asyncio.wrap_future(future))
    return reply(request, done.model_dump_json())


@router.get(
    "/live",
    response_class=StreamingResponse,
    responses=documented(400, 503)
    | {
        200: {
            "description": "A stream of `change` events; `resync` asks to read everything anew",
            "content": {"text/event-stream": {"example": "event: hello\ndata: {}\n\n"}},
        }
    },
)
async def live(
    request: Request,
    services: ServicesDep,
    client: ClientDep,
    task: Annotated[
        str | None, Query(pattern=r"^0x[0-9a-fA-F]{40}$", description="only changes of this task")
    ] = None,
    seconds: Annotated[
        float, Query(ge=0, le=LONGEST_SECONDS, description="when the stream ends", examples=[0])
    ] = LONGEST_SECONDS,
) -> StreamingResponse:
    """Changes as they happen. A browser's EventSource comes back by itself when the stream ends."""

    async def stream(queue: "asyncio.Queue[Change | None]") -> AsyncIterator[str]:
        revision = services.follower.standing.revision
        yield f'id: {revision}\nevent: hello\ndata: {{"revision": {revision}}}\n\n'
        async for message in _messages(request, queue, task, time.monotonic() + seconds):
            yield message

    return _Stream(services.hub, client, stream)


class _Stream(StreamingResponse):
    """A stream that has its place before its first byte is sent: a refusal is an answer of its own."""

    def __init__(
        self, hub: Hub, client: str, events: Callable[["asyncio.Queue[Change | None]"], AsyncIterator[str]]
    ) -> None:
        super().__init__((), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._hub = hub
        self._client = client
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._hub.listen(self._client) as queue:
            self.body_iterator = self._events(queue)
            await super().__call__(scope, receive, send)


async def _messages(
    request: Request, queue: "asyncio.Queue[Change | None]", task: str | None, until: float
) -> AsyncIterator[str]:
    while (left := until - time.monotonic()) > 0:
        try:
            change = await asyncio.wait_for(queue.get(), min(left, HEARTBEAT_SECONDS))
        except TimeoutError:
            if await request.is_disconnected():
                return
            yield ": still here\n\n"
            continue
        if change is None:
            yield "event: resync\ndata: {}\n\n"
            return
        if task is None or change.task == task.lower():
            yield change.message()
