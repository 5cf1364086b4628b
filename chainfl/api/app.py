"""The audit API, built from its parts: a source of events, a store of blobs, and settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles

from chainfl import __version__
from chainfl.api import problems
from chainfl.api.clients import Share
from chainfl.api.deps import Services
from chainfl.api.follower import Follower
from chainfl.api.index import Index
from chainfl.api.jobs import Auditor, JobPool
from chainfl.api.live import Hub
from chainfl.api.middleware import Guard
from chainfl.api.readonly_store import ReadingStore
from chainfl.api.routes import blocks, live, search, tasks
from chainfl.api.schemas import Problem
from chainfl.api.settings import ApiSettings
from chainfl.api.source import EventSource
from chainfl.ports import BlobStore

STATIC = Path(__file__).parent / "static"

_ABOUT = """
Everything that the chain says of its training tasks, and whether it is true. All routes only read.

Amounts are wei, scores and distances integers, all as text. Lists come in pages: pass `next` as `after`. Answers have
ETags. Errors are problem+json.
"""


def create_app(source: EventSource, store: BlobStore, settings: ApiSettings) -> FastAPI:
    """The API and its dashboard. The chain is followed while the app runs."""
    index = Index(settings.index)
    hub = Hub(settings.live_clients, settings.streams_per_client)
    follower = Follower(source, index, hub)
    pool = JobPool(settings.audit_threads, settings.audit_queue, settings.jobs_per_client)
    auditor = Auditor(
        follower,
        source,
        index,
        ReadingStore(store),
        pool,
        settings.limits,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        hub.attach(asyncio.get_running_loop())
        await run_in_threadpool(follower.try_step)
        follower.start(settings.poll_seconds)
        try:
            yield
        finally:
            hub.close()
            await run_in_threadpool(follower.stop)
            pool.close()
            index.close()

    app = FastAPI(
        title="chainfl audit API",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name whatever host the client claims to have asked
        generate_unique_id_function=_name,
    )
    app.state.services = Services(settings, index, follower, auditor, hub)
    problems.install(app)
    for module in (live, tasks, blocks, search):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.get("/", include_in_schema=False)(_dashboard)
    app.add_middleware(
        Guard,
        seconds=settings.request_seconds,
        share=Share(settings.requests_per_client, "requests under way"),
        trusted=settings.proxies,
    )
    _describe(app)
    return app


def _name(route: APIRoute) -> str:
    return route.name


async def _dashboard(_: Request) -> FileResponse:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def _describe(app: FastAPI) -> None:
    """Put the problem schema into the OpenAPI document and take FastAPI's own error shape out of it."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _with_problems(plain())
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    shapes = document["components"]["schemas"]
    shapes["Problem"] = Problem.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        shapes.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            if "application/json" in operation["responses"].get("422", {}).get("content", {}):
                del operation["responses"]["422"]
    return document
