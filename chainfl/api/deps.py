"""What routes share: the services they use, the parameters they take, and answers with ETags."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from chainfl.api.follower import Follower
from chainfl.api.index import Filter, Index
from chainfl.api.jobs import Auditor
from chainfl.api.live import Hub
from chainfl.api.middleware import CLIENT
from chainfl.api.settings import ApiSettings
from chainfl.errors import NotIndexedError

MAX_LIMIT = 500
_ADDRESS = r"0x[0-9a-fA-F]{40}"


@dataclass(frozen=True, slots=True)
class Services:
    """Everything behind the routes."""

    settings: ApiSettings
    index: Index
    follower: Follower
    auditor: Auditor
    hub: Hub


async def _services(request: Request) -> Services:
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


async def _client(request: Request) -> str:
    """Who asks, as the guard found."""
    return str(request.scope[CLIENT])


ClientDep = Annotated[str, Depends(_client)]
ServicesDep = Annotated[Services, Depends(_services)]
TaskName = Annotated[
    str,
    Path(
        pattern=rf"^({_ADDRESS}|[1-9][0-9]{{0,8}})$",
        description="address of the task, or its number in the factory",
        examples=["1", "0x7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a"],
    ),
]
RoundNumber = Annotated[int, Path(ge=1, le=2**31, description="number of the round, from 1", examples=[1])]
AccountName = Annotated[
    str, Path(pattern=f"^{_ADDRESS}$", examples=["0x0000000000000000000000000000000000000003"])
]
AccountFilter = Annotated[
    str | None,
    Query(
        alias="account",
        pattern=f"^{_ADDRESS}$",
        description="only rows of this account",
        examples=["0x0000000000000000000000000000000000000003"],
    ),
]
RoundFilter = Annotated[
    int | None, Query(alias="round", ge=1, le=2**31, description="only rows of this round", examples=[1])
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="rows of a page", examples=[50])]
After = Annotated[int | None, Query(ge=0, le=2**62, description="`next` of the page before", examples=[0])]
Order = Annotated[Literal["oldest", "newest"], Query(description="which rows come first")]


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of a list is wanted."""

    after: int | None
    limit: int
    order: str


async def _paging(after: After = None, limit: Limit = 50, order: Order = "oldest") -> Paging:
    return Paging(after, limit, order)


PagingDep = Annotated[Paging, Depends(_paging)]


def reply(
    request: Request, body: str | bytes, status: int = HTTPStatus.OK, media: str = "application/json"
) -> Response:
    """An answer, JSON unless told otherwise, with an ETag; 304 where the client has these very bytes."""
    data = body.encode() if isinstance(body, str) else body
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if status == HTTPStatus.OK and _is_known(request.headers.get("if-none-match"), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(data, status, headers, media)


def _is_known(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    return header.strip() == "*" or tag in re.findall(r'"[^"]*"', header)


async def reply_page(
    request: Request, services: Services, kind: str, where: Filter, paging: Paging
) -> Response:
    """A page of documents of one kind."""
    documents, next_ = await run_in_threadpool(
        services.index.chunk, kind, where, paging.after, paging.limit, newest=paging.order == "newest"
    )
    return reply(request, page_body(documents, next_))


@dataclass(frozen=True, slots=True)
class TaskList:
    """A list that belongs to one task: who asks, for which task, and for which page."""

    request: Request
    services: Services
    task: str
    paging: Paging

    async def page(
        self, kind: str, round_: int | None = None, account: str | None = None, name: str | None = None
    ) -> Response:
        """A page of the task's documents of one kind, of them all or of those that the filters leave.

        Raises:
            NotIndexedError: there is no such task.
        """
        where = Filter(address_of(self.services, self.task), round_, lower(account), name)
        return await reply_page(self.request, self.services, kind, where, self.paging)


async def _task_list(request: Request, services: ServicesDep, task: TaskName, paging: PagingDep) -> TaskList:
    # The task is looked up by the route: bad parameters are refused before an unknown task is.
    return TaskList(request, services, task, paging)


TaskListDep = Annotated[TaskList, Depends(_task_list)]


def page_body(documents: Sequence[str], next_: int | None) -> str:
    """A page from documents that are JSON already."""
    return f'{{"items":[{",".join(documents)}],"next":{"null" if next_ is None else next_}}}'


def address_of(services: Services, task: str) -> str:
    """The task's address in the index's form.

    Raises:
        NotIndexedError: there is no such task.
    """
    name: str | None = task.lower()
    if not task.startswith("0x"):
        name = services.index.task_address(int(task))
    elif not services.index.has_task(task.lower()):
        name = None
    if name is None:
        raise NotIndexedError(f"task {task} is not known here; GET /tasks lists those that are")
    return name


def lower(account: str | None) -> str | None:
    """An account in the index's form."""
    return None if account is None else account.lower()
