"""Tasks and what belongs to a whole task: rounds, participants, money, gas, events."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from chainfl.api import schemas
from chainfl.api.deps import (
    AccountFilter,
    AccountName,
    After,
    ClientDep,
    Limit,
    PagingDep,
    RoundFilter,
    ServicesDep,
    TaskListDep,
    TaskName,
    address_of,
    lower,
    page_body,
    reply,
    reply_page,
)
from chainfl.api.index import Filter
from chainfl.api.problems import documented
from chainfl.codec.cid import Cid
from chainfl.errors import NotIndexedError

router = APIRouter(tags=["tasks"])
_PROBLEMS = documented(400, 404, 503)


@router.get("/tasks", response_model=schemas.Page[schemas.Task], responses=documented(400, 503))
async def tasks(
    request: Request,
    services: ServicesDep,
    paging: PagingDep,
    sponsor: Annotated[
        str | None, Query(pattern=r"^0x[0-9a-fA-F]{40}$", description="only tasks of this sponsor")
    ] = None,
    rule: Annotated[
        str | None, Query(max_length=32, description="only tasks with this rule", examples=["softmax"])
    ] = None,
) -> Response:
    """All tasks of the factory."""
    where = Filter(account=lower(sponsor), name=rule)
    return await reply_page(request, services, "task", where, paging)


@router.get("/tasks/{task}", response_model=schemas.Task, responses=_PROBLEMS)
async def task(request: Request, services: ServicesDep, task: TaskName) -> Response:
    """A task as it stands."""
    found = services.index.page("task", Filter(task=address_of(services, task)), None, 1)
    return reply(request, found[0][1])


@router.get(
    "/tasks/{task}/manifest", response_model=schemas.Manifest, responses=documented(400, 404, 422, 503)
)
async def manifest(request: Request, services: ServicesDep, client: ClientDep, task: TaskName) -> Response:
    """What the task trains, read from the store: model, data, settings, and the tensors of its vector."""
    found = services.index.page("task", Filter(task=address_of(services, task)), None, 1)
    terms = schemas.Task.model_validate_json(found[0][1]).terms
    future = await run_in_threadpool(services.auditor.manifest, Cid.parse(terms.manifest), client)
    # Shielded: others may wait for the same manifest.
    document = await asyncio.shield(asyncio.wrap_future(future))
    return reply(request, document)


@router.get("/tasks/{task}/rounds", response_model=schemas.Page[schemas.RoundSummary], responses=_PROBLEMS)
async def rounds(
    listed: TaskListDep,
    outcome: Annotated[schemas.Outcome | None, Query(description="only rounds that ended so")] = None,
) -> Response:
    """The rounds of a task, a line each."""
    return await listed.page("round", name=outcome)


@router.get(
    "/tasks/{task}/participants", response_model=schemas.Page[schemas.Participant], responses=_PROBLEMS
)
async def participants(listed: TaskListDep) -> Response:
    """Everybody who enrolled, with stake, earnings and losses."""
    return await listed.page("participant")


@router.get("/tasks/{task}/participants/{account}", response_model=schemas.Participant, responses=_PROBLEMS)
async def participant(
    request: Request, services: ServicesDep, task: TaskName, account: AccountName
) -> Response:
    """One participant of a task."""
    where = Filter(task=address_of(services, task), account=account.lower())
    found = services.index.page("participant", where, None, 1)
    if not found:
        raise NotIndexedError(f"{account} never enrolled in task {task}")
    return reply(request, found[0][1])


@router.get(
    "/tasks/{task}/participants/{account}/rounds",
    response_model=schemas.Page[schemas.Part],
    responses=_PROBLEMS,
)
async def parts(
    request: Request,
    services: ServicesDep,
    paging: PagingDep,
    task: TaskName,
    account: AccountName,
) -> Response:
    """What a participant did in each round it had a part in."""
    where = Filter(task=address_of(services, task), account=account.lower())
    return await reply_page(request, services, "part", where, paging)


@router.get("/tasks/{task}/stakes", response_model=schemas.Page[schemas.StakeChange], responses=_PROBLEMS)
async def stakes(
    listed: TaskListDep,
    account: AccountFilter = None,
    change: Annotated[schemas.StakeMove | None, Query(description="only this kind of movement")] = None,
) -> Response:
    """Every movement of stake behind a task, and what stood afterwards."""
    return await listed.page("stake", account=account, name=change)


@router.get("/tasks/{task}/rewards", response_model=schemas.Page[schemas.Reward], responses=_PROBLEMS)
async def rewards(
    listed: TaskListDep,
    round_: RoundFilter = None,
    account: AccountFilter = None,
    kind: Annotated[schemas.RewardKind | None, Query(description="only rewards for this")] = None,
) -> Response:
    """Who earned what, round by round."""
    return await listed.page("reward", round_, account, kind)


@router.get("/tasks/{task}/slashes", response_model=schemas.Page[schemas.Slash], responses=_PROBLEMS)
async def slashes(
    listed: TaskListDep,
    round_: RoundFilter = None,
    account: AccountFilter = None,
    kind: Annotated[schemas.SlashKind | None, Query(description="only slashes for this")] = None,
) -> Response:
    """Stake that was taken, why, and where it went."""
    return await listed.page("slash", round_, account, kind)


@router.get("/tasks/{task}/gas", response_model=schemas.Page[schemas.Gas], responses=_PROBLEMS)
async def gas(
    listed: TaskListDep,
    round_: RoundFilter = None,
    action: Annotated[
        str | None, Query(max_length=32, description="only this action", examples=["Drawn"])
    ] = None,
) -> Response:
    """Every transaction of a task and the gas it used."""
    return await listed.page("gas", round_, name=action)


@router.get("/tasks/{task}/events", response_model=schemas.Page[schemas.EventRow], responses=_PROBLEMS)
async def events(
    listed: TaskListDep,
    round_: RoundFilter = None,
    account: AccountFilter = None,
    event: Annotated[
        str | None, Query(max_length=32, description="only this event", examples=["Drawn"])
    ] = None,
) -> Response:
    """What the contracts said, value by value: everything else here is derived from it."""
    return await listed.page("event", round_, account, event)


@router.get("/tasks/{task}/audits", response_model=schemas.Page[schemas.AuditLine], responses=_PROBLEMS)
async def audits(
    request: Request, services: ServicesDep, task: TaskName, after: After = None, limit: Limit = 50
) -> Response:
    """Verdicts that were reached before, without running any."""
    name = address_of(services, task)
    found = services.index.audits(name, after or 0, limit + 1)
    lines = [
        schemas.AuditLine.model_validate(
            {"task": name, "round": number, "fingerprint": print_, "verdict": verdict, "checks": checks}
        )
        for number, print_, verdict, checks in found[:limit]
    ]
    next_ = lines[-1].round if len(found) > limit else None
    return reply(request, page_body([line.model_dump_json() for line in lines], next_))


@router.get(
    "/participants/{account}",
    response_model=schemas.Page[schemas.Participant],
    responses=documented(400, 503),
)
async def everywhere(request: Request, services: ServicesDep, account: AccountName) -> Response:
    """An account in all tasks it enrolled in (the first 500)."""
    found = services.index.page("participant", Filter(account=account.lower()), None, 500)
    return reply(request, page_body([document for _, document in found], None))
