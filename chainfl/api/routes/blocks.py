"""One round: its document and parts of it, its verification, its Merkle evidence."""

import asyncio
import json
from concurrent.futures import Future
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from chainfl.api import schemas
from chainfl.api.deps import ClientDep, RoundNumber, Services, ServicesDep, TaskName, address_of, reply
from chainfl.api.jobs import model_name
from chainfl.api.problems import documented
from chainfl.errors import NotIndexedError
from chainfl.workflows.model import STATEMENT_SUFFIX, ExportedModel

router = APIRouter(prefix="/blocks/{task}/{round}", tags=["blocks"])
_PROBLEMS = documented(400, 404, 503)
Result = TypeVar("Result")
_FILE: Final[dict[str, Any]] = {
    "description": "A safetensors file",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
_STATEMENT: Final[dict[str, Any]] = {
    "description": "An in-toto statement",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


def _document(services: Services, task: str, number: int) -> str:
    found = services.index.document(address_of(services, task), "block", number)
    if found is None:
        raise NotIndexedError(f"round {number} of task {task} has not begun")
    return found


def _part(services: Services, task: str, number: int, name: str) -> str:
    return json.dumps(json.loads(_document(services, task, number))[name], separators=(",", ":"))


@router.get("", response_model=schemas.Block, responses=_PROBLEMS)
async def block(request: Request, services: ServicesDep, task: TaskName, round: RoundNumber) -> Response:
    """A round and everything that is known of it."""
    return reply(request, _document(services, task, round))


@router.get("/updates", response_model=list[schemas.Update], responses=_PROBLEMS)
async def updates(request: Request, services: ServicesDep, task: TaskName, round: RoundNumber) -> Response:
    """Who committed to an update, who revealed it, and what became of it."""
    return reply(request, _part(services, task, round, "updates"))


@router.get("/scores", response_model=schemas.ScoreTable | None, responses=_PROBLEMS)
async def scores(request: Request, services: ServicesDep, task: TaskName, round: RoundNumber) -> Response:
    """What each validator revealed; null before updates are."""
    return reply(request, _part(services, task, round, "scores"))


@router.get("/shares", response_model=schemas.ShareTable | None, responses=_PROBLEMS)
async def shares(request: Request, services: ServicesDep, task: TaskName, round: RoundNumber) -> Response:
    """What the next model is made of; null before the tally."""
    return reply(request, _part(services, task, round, "shares"))


@router.get(
    "/audit",
    response_model=schemas.Audit,
    responses=documented(400, 404, 422, 503)
    | {202: {"model": schemas.Audit, "description": "Still running; ask again"}},
)
async def audit(
    request: Request,
    services: ServicesDep,
    client: ClientDep,
    task: TaskName,
    round: RoundNumber,
    wait: Annotated[
        float, Query(ge=0, le=30, description="seconds to wait before answering 202", examples=[10])
    ] = 10,
) -> Response:
    """Redo the round from chain and blobs alone, or answer with the verdict on these very events."""
    name = address_of(services, task)
    future = await run_in_threadpool(services.auditor.audit, name, round, client)
    done = await _within(future, wait)
    if done is None:
        running = await run_in_threadpool(services.auditor.running, name, round)
        answer = reply(request, running.model_dump_json(), HTTPStatus.ACCEPTED)
        answer.headers["Retry-After"] = "2"
        return answer
    return reply(request, done.model_dump_json())


@router.get("/proof/{leaf}", response_model=schemas.Evidence, responses=documented(400, 404, 422, 503))
async def proof(
    request: Request,
    services: ServicesDep,
    client: ClientDep,
    task: TaskName,
    round: RoundNumber,
    leaf: Annotated[
        int, Path(ge=0, le=2**32, description="64 parameters each: position // 64", examples=[0])
    ],
    attempt: Annotated[
        int | None, Query(ge=1, le=3, description="whose proposal; the newest without it", examples=[1])
    ] = None,
) -> Response:
    """Merkle evidence of 64 parameters: of the model, the head, every update with a part, and what is wrong."""
    name = address_of(services, task)
    future = await run_in_threadpool(services.auditor.evidence, name, round, leaf, attempt, client)
    # Shielded: a request that is given up must not cancel what others wait for, nor make room for more of the same.
    done = await asyncio.shield(asyncio.wrap_future(future))
    return reply(request, done.model_dump_json())


@router.get(
    "/model.safetensors",
    response_class=Response,
    responses={200: _FILE, **documented(400, 404, 422, 503)},
)
async def model(
    request: Request, services: ServicesDep, client: ClientDep, task: TaskName, round: RoundNumber
) -> Response:
    """The model that a final round made, rebuilt to its root: the file of `chainfl model export`."""
    exported = await _exported(services, client, task, round)
    return _as_file(reply(request, exported.data, media="application/octet-stream"), model_name(round))


@router.get(
    "/model.safetensors.intoto.json",
    response_class=Response,
    responses={200: _STATEMENT, **documented(400, 404, 422, 503)},
)
async def model_statement(
    request: Request, services: ServicesDep, client: ClientDep, task: TaskName, round: RoundNumber
) -> Response:
    """The in-toto statement about that file: task, chain, block, root, rule, who contributed with which share."""
    exported = await _exported(services, client, task, round)
    return _as_file(reply(request, exported.statement_bytes), model_name(round) + STATEMENT_SUFFIX)


def _as_file(answer: Response, name: str) -> Response:
    """The same answer, which a browser saves under this name."""
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


async def _exported(services: Services, client: str, task: str, number: int) -> ExportedModel:
    name = address_of(services, task)
    future = await run_in_threadpool(services.auditor.model, name, number, client)
    return await asyncio.shield(asyncio.wrap_future(future))


async def _within(future: "Future[Result]", seconds: float) -> Result | None:
    """The result, if it comes in time; the work goes on without us."""
    waiting = asyncio.ensure_future(asyncio.shield(asyncio.wrap_future(future)))
    done, _ = await asyncio.wait({waiting}, timeout=seconds)
    if not done:
        waiting.cancel()
        return None
    return waiting.result()
