"""The API over a real chain behind an endpoint that lies, leaves out or refuses: others are served, and it recovers."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from chainfl.api.app import create_app
from chainfl.api.chain import ChainSource
from chainfl.api.follower import Follower
from chainfl.api.settings import ApiSettings
from chainfl.chain.abi import functions
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import checksum
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import CHAIN_ID
from chainfl.types import Rule
from tests.integration.chain import ChainTask, Devchain, devchain, open_task
from tests.integration.relay import Alter, Json, Relay, relay
from tests.protocol.scene import config

pytestmark = pytest.mark.slow

_ALLOCATED = "0x" + keccak256(b"Allocated(address,address,uint256)").hex()
GETH_ADDRESSES = 1_000
"""What geth 1.16 takes in one filter."""
MANY = 1_010


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[Devchain]:
    require("anvil")
    with devchain(tmp_path_factory.mktemp("anvil")) as running:
        yield running


@pytest.fixture(scope="module")
def tasks(chain: Devchain) -> tuple[ChainTask, ChainTask]:
    """Two tasks, each with a round played."""
    made = open_task(chain, Rule.SOFTMAX, 8), open_task(chain, Rule.MEAN, 8)
    for each in made:
        each.live(2)
    return made


@pytest.fixture
def between(chain: Devchain) -> Iterator[Relay]:
    """An endpoint before the chain that can be told to lie."""
    with relay(chain.url) as server:
        yield server


@pytest.fixture
def client(between: Relay, chain: Devchain, tmp_path: Path) -> Iterator[TestClient]:
    """The API behind that endpoint; tests step by hand."""
    source = ChainSource(open_rpc(between.url, timeout=10), CHAIN_ID, chain.deployment.factory_address)
    app = create_app(source, chain.store, ApiSettings(index=tmp_path / "index", poll_seconds=3600))
    app.state.services.follower.try_step = lambda: True  # the first look is the test's own
    with TestClient(app, raise_server_exceptions=False) as found:
        del app.state.services.follower.try_step
        yield found


def step(client: TestClient) -> bool:
    found = client.app.state.services.follower  # type: ignore[attr-defined]
    assert isinstance(found, Follower)
    return found.try_step()


def name(task: ChainTask) -> str:
    return "0x" + task.address.hex()


def logs(change: Callable[[list[Json]], list[Json]]) -> Alter:
    """Alter every list of logs that is answered."""

    def alter(request: Json, answer: Json) -> Json:
        if request["method"] != "eth_getLogs" or "result" not in answer:
            return answer
        return answer | {"result": change(answer["result"])}

    return alter


def nth_log_of(task: ChainTask, number: int, change: Callable[[Json], list[Json]]) -> Alter:
    """Alter one log of a task, by its place among all that are answered at once."""

    def altered(found: list[Json]) -> list[Json]:
        mine = [log for log in found if log["address"] == name(task)]
        return [
            each
            for log in found
            for each in (change(log) if len(mine) > number and log is mine[number] else [log])
        ]

    return logs(altered)


def answers(method: str, result: Any, task: ChainTask) -> Alter:
    """Answer every call of this method that is about the task with this."""

    def alter(request: Json, answer: Json) -> Json:
        if request["method"] != method or task.address.hex() not in str(request["params"]).lower():
            return answer
        return {"jsonrpc": "2.0", "id": answer["id"], "result": result}

    return alter


def receipts_of(task: ChainTask, change: Callable[[Json], Any]) -> Alter:
    """Alter the receipts of transactions in which the task logged something."""

    def alter(request: Json, answer: Json) -> Json:
        if request["method"] != "eth_getTransactionReceipt":
            return answer
        receipt = answer["result"]
        is_about = any(log["address"] == name(task) for log in receipt["logs"])
        return answer | {"result": change(receipt)} if is_about else answer

    return alter


LIES: dict[str, Callable[[ChainTask], Alter]] = {
    "leaves out one log": lambda task: nth_log_of(task, 9, lambda _: []),
    "leaves out the first log": lambda task: nth_log_of(task, 0, lambda _: []),
    "says a log twice": lambda task: nth_log_of(task, 20, lambda log: [log, log]),
    "leaves out a whole kind": lambda task: logs(
        lambda found: [
            log
            for log in found
            if log["address"] != name(task) or len(log["topics"]) != len(found[0]["topics"])
        ]
    ),
    "cuts a log's data": lambda task: nth_log_of(task, 30, lambda log: [log | {"data": log["data"][:20]}]),
    "cuts a log's topics": lambda task: nth_log_of(
        task, 3, lambda log: [log | {"topics": log["topics"][:1]}]
    ),
    "has no receipts": lambda task: receipts_of(task, lambda _: None),
    "has empty receipts": lambda task: receipts_of(task, lambda receipt: receipt | {"logs": []}),
    "has broken receipts": lambda task: receipts_of(task, lambda receipt: receipt | {"logs": [{}]}),
    "has no terms": lambda task: answers("eth_call", "0x", task),
    "has other terms": lambda task: answers("eth_call", "0x" + "ff" * 1_500, task),
    "has endless terms": lambda task: answers("eth_call", "0x" + "00" * 100_000, task),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_one_task_is_named_and_the_other_task_is_read(
    client: TestClient, between: Relay, tasks: tuple[ChainTask, ChainTask], lie: str
) -> None:
    wronged, other = tasks
    between.alter = LIES[lie](wronged)

    assert step(client)
    told = client.get("/health")
    rounds = client.get(f"/tasks/{name(other)}/rounds").json()["items"]
    verdict = client.get(f"/blocks/{name(other)}/1/audit?wait=30").json()["verdict"]
    refused = client.get(f"/blocks/{name(wronged)}/1/audit")

    assert (told.status_code, told.json()["status"], told.json()["unreadable"]) == (200, "degraded", 1)
    (unread,) = told.json()["unreadable_tasks"]
    assert unread["task"] == name(wronged)
    assert unread["reason"]
    assert [row["round"] for row in rounds][:1] == [1]
    assert verdict == "ok"
    assert refused.status_code in (404, 503)

    between.alter = lambda _, answer: answer
    assert step(client)

    told = client.get("/health").json()
    assert (told["status"], told["detail"], told["unreadable_tasks"]) == ("ok", "", [])
    assert client.get(f"/blocks/{name(wronged)}/1/audit?wait=30").json()["verdict"] == "ok"
    assert client.get("/index").json()["verdict"] == "ok"


@pytest.mark.parametrize(
    "alter",
    [
        logs(lambda found: [log | {"address": "0x" + "ee" * 20} for log in found]),
        logs(lambda found: [log | {"blockNumber": None} for log in found]),
        logs(lambda found: [7, *found]),  # type: ignore[list-item]
        lambda _, answer: {"id": answer["id"], "jsonrpc": "2.0", "result": None},
        lambda _, answer: {"id": answer["id"], "jsonrpc": "2.0", "result": {"number": "0x1"}},
        lambda _, answer: {"id": answer["id"], "jsonrpc": "2.0", "result": []},
        lambda _, answer: {"id": answer["id"]},
        lambda _, answer: {"id": answer["id"], "jsonrpc": "2.0", "error": None},
        lambda _, answer: {"id": answer["id"], "jsonrpc": "2.0", "error": {"code": "x"}},
    ],
    ids=range(9),
)
def test_nonsense_about_everything_is_told_and_forgotten(
    client: TestClient, between: Relay, tasks: tuple[ChainTask, ChainTask], alter: Alter
) -> None:
    assert step(client)
    between.alter = alter
    create_many(tasks[0].chain, 1)

    assert not step(client)
    told = client.get("/health").json()
    served = client.get(f"/tasks/{name(tasks[0])}").status_code
    between.alter = lambda _, answer: answer
    assert step(client)

    assert told["status"] == "degraded"
    assert told["detail"]
    assert told["seconds_behind"] > 0
    assert served == 200
    assert client.get("/health").json()["status"] == "ok"


def test_a_stake_that_another_than_the_registry_tells_of_is_not_believed(
    between: Relay, chain: Devchain, tasks: tuple[ChainTask, ChainTask]
) -> None:
    named, liar = tasks
    factory = chain.deployment.factory_address
    honest = ChainSource(chain.w3, CHAIN_ID, factory).refresh().tasks

    def forge(request: Json, answer: Json) -> Json:
        if request["method"] != "eth_getLogs" or name(liar) not in request["params"][0]["address"]:
            return answer
        stake = next(log for log in answer["result"] if log["address"] == name(liar))
        topics = [_ALLOCATED, "0x" + "00" * 12 + named.address.hex(), "0x" + "00" * 12 + "ab" * 20]
        made_up = stake | {"topics": topics, "data": "0x" + "11" * 32, "logIndex": "0x7777"}
        return answer | {"result": [*answer["result"], made_up]}

    between.alter = forge
    lied_to = ChainSource(
        open_rpc(between.url, timeout=10), CHAIN_ID, factory, only=[each.address for each in tasks]
    )
    snapshot = lied_to.refresh()

    assert liar.address in snapshot.unreadable
    assert set(snapshot.tasks[named.address].events) <= set(honest[named.address].events)


def test_a_block_that_came_in_the_place_of_an_empty_one_is_read(client: TestClient, chain: Devchain) -> None:
    kept = chain.rpc("evm_snapshot", [])
    chain.rpc("evm_mine", [])
    chain.rpc("evm_mine", [])
    assert step(client)
    count = client.get("/health").json()["tasks"]

    chain.rpc("evm_revert", [kept])
    made = open_task(chain, Rule.MEDIAN, 0)
    for _ in range(3):
        chain.rpc("evm_mine", [])
    assert step(client)

    assert client.get("/health").json()["tasks"] == count + 1
    assert client.get(f"/tasks/{name(made)}").status_code == 200


def create_many(chain: Devchain, count: int) -> None:
    """Make that many tasks without escrow, as a spammer would."""
    sponsor = chain.w3.eth.accounts[0]
    terms = replace(config(), min_stake=1_000, caller_fee=0)
    call = functions("TaskFactory")["createTask"].call_data(terms.as_tuple())
    sent = {
        "from": sponsor,
        "to": checksum(chain.deployment.factory_address),
        "data": "0x" + call.hex(),
        "gas": hex(2_000_000),
    }
    chain.rpc("evm_setAutomine", [False])
    for at in range(0, count, 50):
        batch = [("eth_sendTransaction", [sent])] * min(50, count - at)
        chain.w3.provider.make_batch_request(batch)  # type: ignore[attr-defined]
        chain.rpc("anvil_mine", ["0x4"])
    chain.rpc("evm_setAutomine", [True])


def at_most(addresses: int) -> Alter:
    """Refuse filters of more addresses, as geth does."""

    def alter(request: Json, answer: Json) -> Json:
        if request["method"] == "eth_getLogs" and len(request["params"][0]["address"]) > addresses:
            message = "exceed max addresses or topics per search position"
            return {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": -32000, "message": message}}
        return answer

    return alter


def test_more_tasks_than_an_endpoint_takes_in_a_filter_are_followed(
    client: TestClient, between: Relay, chain: Devchain
) -> None:
    kept = chain.rpc("evm_snapshot", [])
    assert step(client)
    before = client.get("/health").json()["tasks"]
    between.alter = at_most(GETH_ADDRESSES)

    create_many(chain, MANY)
    started = time.perf_counter()
    while (
        client.get("/health").json()["tasks"] < before + MANY or client.get("/health").json()["blocks_behind"]
    ):
        assert step(client)
        assert time.perf_counter() - started < 120
    last = open_task(chain, Rule.MEAN, 1)
    assert step(client)

    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/health").json()["tasks"] == before + MANY + 1
    assert client.get(f"/tasks/{name(last)}").json()["participants"] == 1
    chain.rpc("evm_revert", [kept])


def test_tasks_beyond_the_limit_are_counted_and_those_named_are_followed(
    chain: Devchain, tasks: tuple[ChainTask, ChainTask]
) -> None:
    factory = chain.deployment.factory_address

    few = ChainSource(chain.w3, CHAIN_ID, factory, max_tasks=1).refresh()
    whole = ChainSource(chain.w3, CHAIN_ID, factory).refresh()
    named = ChainSource(chain.w3, CHAIN_ID, factory, max_tasks=1, only=[task.address for task in tasks])

    assert list(few.tasks) == [tasks[0].address]
    assert few.skipped == len(whole.tasks) - 1
    assert list(named.refresh().tasks) == [task.address for task in tasks]


def test_a_task_with_too_many_events_is_named_and_others_are_read(
    chain: Devchain, tasks: tuple[ChainTask, ChainTask]
) -> None:
    factory = chain.deployment.factory_address
    whole = ChainSource(chain.w3, CHAIN_ID, factory).refresh().tasks
    long = {address for address, log in whole.items() if len(log.events) > 60}

    snapshot = ChainSource(chain.w3, CHAIN_ID, factory, max_events=60).refresh()

    assert snapshot.unreadable.keys() == long >= {task.address for task in tasks}
    assert "MAX_EVENTS" in snapshot.unreadable[tasks[0].address]
    assert {each: log for each, log in snapshot.tasks.items() if each not in long} == {
        each: log for each, log in whole.items() if each not in long
    }
    assert all(snapshot.tasks[each].events == () for each in long)
