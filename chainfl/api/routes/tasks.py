"""Tasks and what belongs to a whole task: rounds, participants, money, gas, events."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from chainfl.api import schemas
from chainfl.api.deps import (
    AccountFilter,
    AccountName,
    After,
    Limit,
    Order,
    RoundFilter,
    ServicesDep,
    TaskName,
    address_of,
    lower,
    page_body,
    reply,
    reply_page,
)
from chainfl.api.index import Filter
from chainfl.api.problems import documented
from chainfl.errors import NotIndexedError

router = APIRouter(tags=["tasks"])
_PROBLEMS = documented(400, 404, 503)


@router.get("/tasks", response_model=schemas.Page[schemas.Task], responses=documented(400, 503))
async def tasks(
    request: Request,
    services: ServicesDep,
    sponsor: Annotated[
        str | None, Query(pattern=r"^0x[0-9a-fA-F]{40}$", description="only tasks of this sponsor")
    ] = None,
    rule: Annotated[
        str | None, Query(max_length=32, description="only tasks with this rule", examples=["softmax"])
    ] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """All tasks of the factory."""
    where = Filter(account=lower(sponsor), name=rule)
    return await reply_page(request, services, "task", where, after, limit, order)


@router.get("/tasks/{task}", response_model=schemas.Task, responses=_PROBLEMS)
async def task(request: Request, services: ServicesDep, task: TaskName) -> Response:
    """A task as it stands."""
    found = services.index.page("task", Filter(task=address_of(services, task)), None, 1)
    return reply(request, found[0][1])


@router.get("/tasks/{task}/rounds", response_model=schemas.Page[schemas.RoundSummary], responses=_PROBLEMS)
async def rounds(
    request: Request,
    services: ServicesDep,
    task: TaskName,
    outcome: Annotated[schemas.Outcome | None, Query(description="only rounds that ended so")] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """The rounds of a task, a line each."""
    where = Filter(task=address_of(services, task), name=outcome)
    return await reply_page(request, services, "round", where, after, limit, order)


@router.get(
    "/tasks/{task}/participants", response_model=schemas.Page[schemas.Participant], responses=_PROBLEMS
)
async def participants(
    request: Request, services: ServicesDep, task: TaskName, after: After = None, limit: Limit = 50
) -> Response:
    """Everybody who enrolled, with stake, earnings and losses."""
    where = Filter(task=address_of(services, task))
    return await reply_page(request, services, "participant", where, after, limit)


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
    task: TaskName,
    account: AccountName,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """What a participant did in each round it had a part in."""
    where = Filter(task=address_of(services, task), account=account.lower())
    return await reply_page(request, services, "part", where, after, limit, order)


@router.get("/tasks/{task}/stakes", response_model=schemas.Page[schemas.StakeChange], responses=_PROBLEMS)
async def stakes(
    request: Request,
    services: ServicesDep,
    task: TaskName,
    account: AccountFilter = None,
    change: Annotated[schemas.StakeMove | None, Query(description="only this kind of movement")] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """Every movement of stake behind a task, and what stood afterwards."""
    where = Filter(address_of(services, task), account=lower(account), name=change)
    return await reply_page(request, services, "stake", where, after, limit, order)


@router.get("/tasks/{task}/rewards", response_model=schemas.Page[schemas.Reward], responses=_PROBLEMS)
async def rewards(
    request: Request,
    services: ServicesDep,
    task: TaskName,
    round_: RoundFilter = None,
    account: AccountFilter = None,
    kind: Annotated[schemas.RewardKind | None, Query(description="only rewards for this")] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """Who earned what, round by round."""
    where = Filter(address_of(services, task), round_, lower(account), kind)
    return await reply_page(request, services, "reward", where, after, limit, order)


@router.get("/tasks/{task}/slashes", response_model=schemas.Page[schemas.Slash], responses=_PROBLEMS)
async def slashes(
    request: Request,
    services: ServicesDep,
    task: TaskName,
    round_: RoundFilter = None,
    account: AccountFilter = None,
    kind: Annotated[schemas.SlashKind | None, Query(description="only slashes for this")] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """Stake that was taken, why, and where it went."""
    where = Filter(address_of(services, task), round_, lower(account), kind)
    return await reply_page(request, services, "slash", where, after, limit, order)


@router.get("/tasks/{task}/gas", response_model=schemas.Page[schemas.Gas], responses=_PROBLEMS)
async def gas(
    request: Request,
    services: ServicesDep,
    task: TaskName,
    round_: RoundFilter = None,
    action: Annotated[
        str | None, Query(max_length=32, description="only this action", examples=["Drawn"])
    ] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """Every transaction of a task and the gas it used."""
    where = Filter(address_of(services, task), round_, name=action)
    return await reply_page(request, services, "gas", where, after, limit, order)


@router.get("/tasks/{task}/events", response_model=schemas.Page[schemas.EventRow], responses=_PROBLEMS)
async def events(
    request: Request,
    services: ServicesDep,
    task: TaskName,
    round_: RoundFilter = None,
    account: AccountFilter = None,
    event: Annotated[
        str | None, Query(max_length=32, description="only this event", examples=["Drawn"])
    ] = None,
    after: After = None,
    limit: Limit = 50,
    order: Order = "oldest",
) -> Response:
    """What the contracts said, value by value: everything else here is derived from it."""
    where = Filter(address_of(services, task), round_, lower(account), event)
    return await reply_page(request, services, "event", where, after, limit, order)


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
