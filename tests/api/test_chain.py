"""The API over a real chain: the same events as any reader's, audits that hold, reorgs that leave nothing behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from chainfl.api.app import create_app
from chainfl.api.chain import ChainSource
from chainfl.api.settings import ApiSettings
from chainfl.chain.reader import TaskReader
from chainfl.devnet.processes import CHAIN_ID
from chainfl.errors import LedgerError
from chainfl.protocol.events import Allocated, Enrolled
from chainfl.types import Rule
from tests.integration.chain import ChainTask, Devchain, devchain, open_task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[Devchain]:
    require("anvil")
    with devchain(tmp_path_factory.mktemp("anvil")) as running:
        yield running


@pytest.fixture(scope="module")
def task(chain: Devchain) -> ChainTask:
    """A task with one round played and the next one drawn."""
    made = open_task(chain, Rule.SOFTMAX, 8)
    made.live(2)
    return made


def source_of(chain: Devchain, **changes: object) -> ChainSource:
    return ChainSource(chain.w3, CHAIN_ID, chain.deployment.factory_address, **changes)  # type: ignore[arg-type]


def test_the_source_tells_what_a_reader_reads_and_the_stakes(task: ChainTask) -> None:
    reader: TaskReader = task.reader()
    reader.refresh()

    log = source_of(task.chain).refresh().tasks[task.address]

    own = [event for event in log.events if not hasattr(event.event, "task")]
    assert [(e.event, e.block_hash, e.transaction, e.log_index) for e in own] == [
        (e.event, e.block_hash, e.transaction, e.log_index) for e in reader.log
    ]
    assert sum(isinstance(event.event, Allocated) for event in log.events) == 8
    assert log.created == reader.created
    assert all(event.gas > 20_000 and event.time > 0 for event in log.events)


def test_a_round_on_a_chain_is_served_and_verified(task: ChainTask, tmp_path: Path) -> None:
    source = source_of(task.chain)
    app = create_app(source, task.chain.store, ApiSettings(index=tmp_path / "index", poll_seconds=3600))
    with TestClient(app) as client:
        block = client.get("/blocks/1/1").json()
        audit = client.get("/blocks/1/1/audit?wait=30").json()

    assert (block["outcome"], audit["verdict"]) == ("final", "ok")
    assert [finding["number"] for finding in audit["findings"]] == list(range(1, 13))
    assert block["gas"] > 1_000_000


def test_a_reorg_is_forgotten_and_the_new_chain_told(task: ChainTask) -> None:
    chain = task.chain
    source = source_of(chain)
    before = source.refresh()
    kept = chain.rpc("evm_snapshot", [])
    other = open_task(chain, Rule.MEAN, 2)
    assert other.address in source.refresh().tasks

    chain.rpc("evm_revert", [kept])
    chain.skip(7)
    after = source.refresh()

    assert after.tasks == before.tasks
    again = open_task(chain, Rule.MEDIAN, 1)
    enrolled = source.refresh().tasks[again.address].events
    assert sum(isinstance(event.event, Enrolled) for event in enrolled) == 1


def test_only_the_tasks_that_are_named_are_told(task: ChainTask) -> None:
    open_task(task.chain, Rule.FEDAVG, 0)

    snapshot = source_of(task.chain, only=[task.address]).refresh()

    assert list(snapshot.tasks) == [task.address]


def test_blocks_without_enough_confirmations_do_not_count(task: ChainTask) -> None:
    newest = source_of(task.chain).refresh()
    waiting = source_of(task.chain, confirmations=10_000).refresh()

    assert newest.block_number - waiting.block_number == 10_000
    assert waiting.tasks == {}


def test_an_address_without_a_factory_is_refused(chain: Devchain) -> None:
    with pytest.raises(LedgerError, match="there is no TaskFactory at"):
        ChainSource(chain.w3, CHAIN_ID, chain.sender("nobody").address)
    with pytest.raises(LedgerError, match="is no TaskFactory: it knows no"):
        ChainSource(chain.w3, CHAIN_ID, chain.deployment.registry_address)
