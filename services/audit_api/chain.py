"""The tasks of a factory on a real chain as an `EventSource`: one filter for all, cached, safe against reorgs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_typing import HexStr
from web3 import Web3
from web3.exceptions import BlockNotFound
from web3.types import FilterParams

from chainfl.chain.abi import as_address, decode_log
from chainfl.chain.reader import read_call, read_config
from chainfl.chain.rpc import has_answered, outside
from chainfl.chain.send import checksum
from chainfl.errors import LedgerError
from chainfl.protocol.events import Event, TaskCreated
from chainfl.protocol.state import new_task
from chainfl.types import Address, Digest
from services.audit_api.source import PlacedEvent, Snapshot, TaskLog

SPAN = 2_000
"""Blocks asked for at once; halved when an endpoint finds that too many."""


@dataclass(frozen=True, slots=True)
class _Log:
    """A decoded log with its emitter and place; time and gas come later."""

    emitter: Address
    event: Event
    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int


class ChainSource:
    """Follows a factory, its registry and the tasks it made (or only those named)."""

    def __init__(
        self,
        w3: Web3,
        chain_id: int,
        factory: Address,
        *,
        only: Sequence[Address] = (),
        from_block: int = 0,
        confirmations: int = 0,
    ) -> None:
        """Nothing is read yet, but where the stakes are kept."""
        self._w3, self._chain_id, self._factory = w3, chain_id, factory
        self._only, self._confirmations = frozenset(only), confirmations
        self._first = self._next = from_block
        (registry,) = read_call(w3, "TaskFactory", factory, "registry")
        self._registry = as_address(registry)
        self._tasks: dict[Address, TaskLog] = {}
        self._hashes: dict[int, bytes] = {}
        self._times: dict[int, int] = {}
        self._last_receipt: tuple[bytes, int] | None = None

    @property
    def chain_id(self) -> int:
        """Which chain this is."""
        return self._chain_id

    def block_hash(self, number: int) -> Digest | None:
        """A block's hash, None where the endpoint does not have the block."""
        found = self._block(number)
        return bytes(found["hash"]) if found is not None else None

    def refresh(self) -> Snapshot:
        """Read up to the newest block that counts."""
        with outside("reading the chain's head"):
            newest = self._w3.eth.block_number - self._confirmations
        self._drop_reorged()
        while self._next <= newest:
            self._read_span(newest)
        return Snapshot(newest, dict(self._tasks))

    def _read_span(self, newest: int) -> None:
        """Take a span of blocks into account, tasks that were made in it included."""
        first, span = self._next, SPAN
        while True:
            last = min(first + span - 1, newest)
            try:
                logs = self._logs(first, last, [self._factory, self._registry, *self._tasks])
                break
            except LedgerError as error:
                if span == 1 or not has_answered(error):
                    raise
                span = max(1, span // 2)
        made = [self._create(log) for log in logs if self._is_wanted(log)]
        if made:
            logs += self._logs(first, last, made)
        self._add(sorted(logs, key=lambda log: (log.block_number, log.log_index)))
        self._next = last + 1

    def _is_wanted(self, log: _Log) -> bool:
        event = log.event
        if not isinstance(event, TaskCreated) or log.emitter != self._factory or event.task in self._tasks:
            return False
        return not self._only or event.task in self._only

    def _create(self, log: _Log) -> Address:
        event = log.event
        assert isinstance(event, TaskCreated)
        config = read_config(self._w3, event.task)
        created = new_task(self._chain_id, event.task, event.task_id, event.sponsor, config, event.escrow)
        self._tasks[event.task] = TaskLog(created, log.block_number, ())
        self._hashes[log.block_number] = log.block_hash
        return event.task

    def _add(self, logs: Sequence[_Log]) -> None:
        fresh: dict[Address, list[PlacedEvent]] = {}
        for log in logs:
            task = self._task_of(log)
            if task is not None:
                fresh.setdefault(task, []).append(self._placed(log))
                self._hashes[log.block_number] = log.block_hash
        for task, events in fresh.items():
            self._tasks[task] = replace(self._tasks[task], events=(*self._tasks[task].events, *events))

    def _task_of(self, log: _Log) -> Address | None:
        named = log.emitter if log.emitter in self._tasks else getattr(log.event, "task", None)
        return named if named in self._tasks and log.emitter != self._factory else None

    def _placed(self, log: _Log) -> PlacedEvent:
        return PlacedEvent(
            log.event,
            log.block_number,
            log.block_hash,
            log.transaction,
            log.log_index,
            self._time(log.block_number),
            self._gas(log),
        )

    def _time(self, number: int) -> int:
        if number not in self._times:
            found = self._block(number)
            if found is None:
                raise LedgerError(f"block {number} is gone: the chain was reorganised while it was read")
            self._times = {number: int(found["timestamp"])}
        return self._times[number]

    def _gas(self, log: _Log) -> int:
        """What the transaction used; asked once per transaction, for its events follow one another."""
        if self._last_receipt is None or self._last_receipt[0] != log.transaction:
            with outside("reading a receipt"):
                receipt = self._w3.eth.get_transaction_receipt(HexStr("0x" + log.transaction.hex()))
            self._last_receipt = (log.transaction, receipt["gasUsed"])
        return self._last_receipt[1]

    def _drop_reorged(self) -> None:
        """Forget everything from the first block on that is no longer part of the chain."""
        gone = None
        for number in sorted(self._hashes, reverse=True):
            if self.block_hash(number) == self._hashes[number]:
                break
            gone = number
        if gone is None:
            return
        self._hashes = {number: hash_ for number, hash_ in self._hashes.items() if number < gone}
        self._times, self._last_receipt = {}, None
        self._next = gone
        kept = {task: log for task, log in self._tasks.items() if log.created_block < gone}
        self._tasks = {
            task: replace(log, events=tuple(e for e in log.events if e.block_number < gone))
            for task, log in kept.items()
        }

    def _block(self, number: int) -> Mapping[str, Any] | None:
        try:
            with outside(f"reading block {number}"):
                return self._w3.eth.get_block(number)
        except LedgerError as error:
            if isinstance(error.__cause__, BlockNotFound):
                return None
            raise

    def _logs(self, first: int, last: int, emitters: Iterable[Address]) -> list[_Log]:
        wanted: FilterParams = {
            "address": [checksum(emitter) for emitter in emitters],
            "fromBlock": first,
            "toBlock": last,
        }
        with outside(f"reading events of blocks {first} to {last}"):
            found = self._w3.eth.get_logs(wanted)
        return list(_decoded(found))


def _decoded(logs: Iterable[Mapping[str, Any]]) -> Iterator[_Log]:
    for log in logs:
        event = decode_log([bytes(topic) for topic in log["topics"]], bytes(log["data"]))
        if event is not None:
            yield _Log(
                as_address(log["address"]),
                event,
                log["blockNumber"],
                bytes(log["blockHash"]),
                bytes(log["transactionHash"]),
                log["logIndex"],
            )
