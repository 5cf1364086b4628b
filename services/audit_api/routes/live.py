"""Live rounds as server-sent events, and whether the service hears the chain and says what the chain says."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from chainfl import __version__
from services.audit_api import schemas
from services.audit_api.answers import ServicesDep, reply
from services.audit_api.live import Change
from services.audit_api.problems import documented

router = APIRouter(tags=["live"])
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 3600.0


@router.get("/health", response_model=schemas.Health, responses=documented(503))
async def health(services: ServicesDep) -> schemas.Health:
    """Whether the chain is heard, and how far it was read."""
    standing = services.follower.standing
    status = "behind" if standing.trouble else "ok" if standing.is_ready else "starting"
    return schemas.Health.model_validate(
        {
            "status": status,
            "chain_id": services.follower.chain_id,
            "block_number": standing.block_number,
            "tasks": services.index.task_count(),
            "revision": standing.revision,
            "version": __version__,
            "detail": standing.trouble,
        }
    )


@router.get("/index", response_model=schemas.IndexCheck, responses=documented(503))
async def index(request: Request, services: ServicesDep) -> Response:
    """Whether the index says what the chain's events give: every value that differs is found, the first are named."""
    future = await run_in_threadpool(services.auditor.index_check)
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
    task: Annotated[
        str | None, Query(pattern=r"^0x[0-9a-fA-F]{40}$", description="only changes of this task")
    ] = None,
    seconds: Annotated[
        float, Query(ge=0, le=LONGEST_SECONDS, description="when the stream ends", examples=[0])
    ] = LONGEST_SECONDS,
) -> StreamingResponse:
    """Changes as they happen. A browser's EventSource comes back by itself when the stream ends."""
    services.hub.check_room()

    async def stream() -> AsyncIterator[str]:
        with services.hub.listen() as queue:
            revision = services.follower.standing.revision
            yield f'id: {revision}\nevent: hello\ndata: {{"revision": {revision}}}\n\n'
            async for message in _messages(request, queue, task, time.monotonic() + seconds):
                yield message

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


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
