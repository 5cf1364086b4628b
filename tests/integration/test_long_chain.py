"""A task on a chain that has run for long: found without being told where, read once, told how far."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from web3 import Web3
from web3.providers import HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from chainfl.chain import log as reading
from chainfl.chain.reader import TaskReader
from chainfl.errors import LedgerError
from chainfl.types import Phase, Rule
from tests.integration.chain import ChainTask, devchain, open_task
from tests.protocol.scene import ETHER

SPAN, BEFORE, AFTER = 50, 300, 1_000
SPANS = AFTER // SPAN + 1


@pytest.fixture(autouse=True)
def _small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of blocks are many here: anvil takes its time to make thousands."""
    monkeypatch.setattr(reading, "SPAN", SPAN)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[ChainTask]:
    """A task of one round, with many blocks before and after it."""
    require("anvil")
    with devchain(tmp_path_factory.mktemp("chain")) as chain:
        chain.rpc("anvil_mine", [hex(BEFORE)])
        made = open_task(chain, Rule.MEAN, rounds=1, escrow=ETHER // 5)
        made.live(2)
        chain.rpc("anvil_mine", [hex(AFTER)])
        yield made


class Endpoint(HTTPProvider):
    """A client that notes what it asks for; its endpoint may keep no past, or fail at one read of events."""

    def __init__(self, url: str, *, keeps_past: bool = True, fails_at: int = 0) -> None:
        super().__init__(url, exception_retry_configuration=None)
        self.asked: list[str] = []
        self._keeps_past, self._fails_at = keeps_past, fails_at

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Note the request, and answer it or not."""
        self.asked.append(method)
        if method == "eth_getCode" and not self._keeps_past:
            return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "missing trie node"}}
        if method == "eth_getLogs" and self.asked.count(method) == self._fails_at:
            raise requests.ConnectionError("gone")
        return super().make_request(method, params)


def open_reader(task: ChainTask, endpoint: Endpoint, told: list[str]) -> TaskReader:
    """The task, read by somebody who does not know where it begins."""
    return TaskReader(Web3(endpoint), task.address, task.chain.chain_id, 0, on_progress=told.append)


def test_the_block_that_made_a_task_is_found_by_halving(task: ChainTask) -> None:
    endpoint = Endpoint(task.chain.url)

    read = open_reader(task, endpoint, []).refresh()

    assert read.round.phase is Phase.ENDED
    assert read == task.reader().refresh()
    assert endpoint.asked.count("eth_getCode") <= 11
    assert endpoint.asked.count("eth_getLogs") <= 1 + SPANS + 2


def test_an_endpoint_that_keeps_no_past_is_read_from_the_start_and_says_how_far(
    task: ChainTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SAY_SECONDS", 0.0)
    endpoint, told = Endpoint(task.chain.url, keeps_past=False), list[str]()

    read = open_reader(task, endpoint, told).refresh()

    assert read == task.reader().refresh()
    assert endpoint.asked.count("eth_getCode") == 1
    assert told[0].startswith("reading events: at block 49 of 1,3")
    assert len(told) > SPANS


def test_what_was_read_before_an_endpoint_failed_is_not_read_again(task: ChainTask) -> None:
    endpoint = Endpoint(task.chain.url, fails_at=9)
    reader = open_reader(task, endpoint, [])

    with pytest.raises(LedgerError, match="does not answer"):
        reader.refresh()
    read = reader.refresh()

    assert read == task.reader().refresh()
    assert endpoint.asked.count("eth_getLogs") <= 1 + SPANS + 3
