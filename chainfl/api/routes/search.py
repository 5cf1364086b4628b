"""Search by name, and the facts about its server that the dashboard needs."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from chainfl import __version__
from chainfl.api import schemas
from chainfl.api.deps import ServicesDep, page_body, reply
from chainfl.api.index import Filter, Index
from chainfl.api.problems import documented

router = APIRouter(tags=["search"])
MOST_HITS = 100
_NAME = r"^(0x[0-9a-fA-F]{40}|0x[0-9a-fA-F]{64}|b[a-z2-7]{58}|[1-9][0-9]{0,8})$"
_ADDRESS_CHARACTERS = 42


@router.get("/search", response_model=schemas.Page[schemas.Hit], responses=documented(400, 503))
async def search(
    request: Request,
    services: ServicesDep,
    q: Annotated[
        str,
        Query(
            pattern=_NAME,
            description="an address, a hash or root, a CID, or the number of a task",
            examples=["0x0000000000000000000000000000000000000003"],
        ),
    ],
) -> Response:
    """What has this name: tasks, sponsors, participants, transactions, roots and records (the first 100)."""
    hits = await run_in_threadpool(_hits, services.index, q.lower())
    return reply(request, page_body(hits[:MOST_HITS], None))


@router.get("/about", response_model=schemas.About, responses=documented(503))
async def about(request: Request, services: ServicesDep) -> Response:
    """This server: its chain, its version, and the explorer that its dashboard links to."""
    explorer = services.settings.explorer.rstrip("/") or None
    found = schemas.About(chain_id=services.follower.chain_id, explorer=explorer, version=__version__)
    return reply(request, found.model_dump_json())


def _hits(index: Index, name: str) -> list[str]:
    if name.isdecimal():
        address = index.task_address(int(name))
        return [] if address is None else _task_hits(index, Filter(task=address), "task")
    if len(name) != _ADDRESS_CHARACTERS:
        return index.named(name, MOST_HITS)
    return [
        *_task_hits(index, Filter(task=name), "task"),
        *_task_hits(index, Filter(account=name), "sponsor"),
        *_participant_hits(index, name),
    ]


def _task_hits(index: Index, where: Filter, what: str) -> list[str]:
    found = index.page("task", where, None, MOST_HITS)
    tasks = [schemas.Task.model_validate_json(document) for _, document in found]
    text = "task {}" if what == "task" else "sponsor of task {}"
    return [
        _hit(what=what, text=text.format(each.task_id), task=each.task, task_id=each.task_id)
        for each in tasks
    ]


def _participant_hits(index: Index, account: str) -> list[str]:
    found = index.page("participant", Filter(account=account), None, MOST_HITS)
    people = [schemas.Participant.model_validate_json(document) for _, document in found]
    return [
        _hit(
            what="participant",
            text=f"participant {each.id} of task {each.task_id}",
            task=each.task,
            task_id=each.task_id,
        )
        for each in people
    ]


def _hit(**values: object) -> str:
    return schemas.Hit.model_validate({"round": None} | values).model_dump_json()
