"""The tasks of a factory on a real chain as an `EventSource`: cached, safe against reorgs.

One task's trouble is its own: what the endpoint says of it that makes no sense keeps no other task from being read.
"""

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from eth_typing import HexStr
from web3 import Web3
from web3.exceptions import BlockNotFound

from chainfl.api.logs import Log, LogReader, one_line
from chainfl.api.source import PlacedEvent, Snapshot, TaskLog
from chainfl.chain.abi import as_address
from chainfl.chain.evidence import read_header
from chainfl.chain.reader import read_call, read_config
from chainfl.chain.rpc import has_answered, outside
from chainfl.codec.header import mix_hash
from chainfl.errors import ChainflError, LedgerError
from chainfl.protocol.events import TaskCreated
from chainfl.protocol.state import new_task
from chainfl.protocol.terms import Floors, check_config
from chainfl.types import Address, Digest

REFRESH_SECONDS = 5.0
"""How long one refresh goes on reading a chain that is far ahead, before it tells what it has."""
_MARKS = 4_096
"""Blocks whose hashes are remembered; a reorg between two of them makes a little more be read anew."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block, as far as it matters here."""

    number: int
    hash: bytes
    time: int


@dataclass(frozen=True, slots=True)
class _Receipt:
    """What a transaction used, and everything it logged, as emitter and index."""

    gas: int
    logged: frozenset[tuple[Address, int]]


class ChainSource:
    """Follows a factory, its registry and the tasks it made (or only those named).

    `refresh` and `reread` are called by one thread; `mix_hash` by any.
    """

    def __init__(
        self,
        w3: Web3,
        chain_id: int,
        factory: Address,
        *,
        only: Sequence[Address] = (),
        from_block: int = 0,
        confirmations: int = 0,
        max_tasks: int = 10_000,
        max_events: int = 500_000,
    ) -> None:
        """Nothing is read yet, but where the stakes are kept."""
        self._w3, self._chain_id, self._factory = w3, chain_id, factory
        self._only, self._confirmations = frozenset(only), confirmations
        self._max_tasks, self._max_events = max_tasks, max_events
        (registry,) = read_call(w3, "TaskFactory", factory, "registry")
        self._registry = as_address(registry)
        # A WebSocket carries one question at a time, and audits ask for blocks from threads of their own.
        self._asking = threading.Lock()
        self._reader = LogReader(w3, self._asking)

        self._first = self._next = from_block
        self._until = 0.0
        self._tasks: dict[Address, TaskLog] = {}
        self._marks: dict[int, bytes] = {}
        self._broken: dict[Address, str] = {}
        self._uncreated: dict[Address, Log] = {}
        self._skipped: dict[Address, int] = {}
        self._times: dict[int, int] = {}
        self._receipts: dict[bytes, _Receipt] = {}

    @property
    def chain_id(self) -> int:
        """Which chain this is."""
        return self._chain_id

    def mix_hash(self, number: int) -> Digest | None:
        """A block's randomness, None where the endpoint does not have the block."""
        header = read_header(self._w3, number)
        return None if header is None else mix_hash(header)

    def block_hash(self, number: int) -> Digest | None:
        """A block's hash, None where the endpoint does not have the block."""
        found = self._block(number)
        return found.hash if found is not None else None

    def refresh(self) -> Snapshot:
        """Read towards the newest block that counts; a long way is gone in several steps."""
        head = self._head()
        newest = head.number - self._confirmations
        self._drop_reorged()

        self._until = time.monotonic() + REFRESH_SECONDS
        first = self._next
        while self._next <= newest and time.monotonic() < self._until:
            try:
                self._read_span(newest, head)
            except LedgerError:
                # What was read before it failed is told now; if it goes on failing, the next refresh says so.
                if self._next == first:
                    raise
                break
        return self._snapshot(newest, head.time)

    def reread(self, tasks: Collection[Address]) -> None:
        """Read these tasks again from their creation, up to where the others have been read."""
        for address in [each for each in tasks if each in self._uncreated]:
            self._create(self._uncreated[address])
        again = [address for address in tasks if address in self._tasks]
        if not again:
            return

        first = min(self._tasks[address].created_block for address in again)
        logs = self._reader.read(first, self._next - 1, [self._registry, *again])
        empty = {address: replace(self._tasks[address], events=()) for address in again}
        fresh, broken = self._sort(logs, empty)
        self._broken = {address: why for address, why in self._broken.items() if address not in empty}
        self._take(empty, fresh, broken)

    def _snapshot(self, newest: int, newest_time: int) -> Snapshot:
        return Snapshot(
            min(self._next - 1, newest),
            dict(self._tasks),
            newest,
            newest_time,
            dict(self._broken),
            len(self._skipped),
        )

    # Spans of blocks

    def _read_span(self, newest: int, head: _Block) -> None:
        """Take a span of blocks into account, tasks that were made in it included."""
        first = self._next
        last = self._reader.last_of(first, newest)
        # Its hash before its logs: if the block is replaced while they are read, the mark no longer holds.
        mark = head.hash if last == head.number else self.block_hash(last)
        if mark is None:
            raise LedgerError(f"block {last} is gone: the chain was reorganised while it was read")

        logs = self._reader.read(first, last, [self._factory, self._registry, *self._tasks])
        for log in logs:
            if log.trouble and log.emitter in (self._factory, self._registry):
                raise LedgerError(f"{log.trouble}: use another endpoint")
        made = self._wanted(logs)
        fresh = self._create_all(made)
        if len(fresh) < len(made):
            return  # there are many: those that are made by now are kept, the others come with the next refresh
        fresh = [address for address in fresh if address in self._tasks]
        if fresh:
            logs = sorted([*logs, *self._reader.read(first, last, fresh)], key=_place_of)
        if any(log.block_number == last and log.block_hash != mark for log in logs):
            raise LedgerError(f"block {last} was replaced while it was read: the chain was reorganised")

        self._take(self._tasks, *self._sort(logs, self._tasks))
        self._marks[last] = mark
        self._marks = _thinned(self._marks)
        self._next = last + 1

    # Tasks

    def _create_all(self, logs: Sequence[Log]) -> list[Address]:
        """Make the tasks that these logs tell of, as many as there is time for; at least one."""
        made = list[Address]()
        for log in logs:
            if made and time.monotonic() > self._until:
                break
            self._create(log)
            made.append(_created_by(log))
        return made

    def _wanted(self, logs: Sequence[Log]) -> list[Log]:
        """The logs that tell of new tasks to be followed; those beyond the limit are counted."""
        known = self._tasks.keys() | self._uncreated.keys()
        room = self._max_tasks - len(known)
        found = list[Log]()
        for log in logs:
            if log.emitter != self._factory or not isinstance(log.event, TaskCreated):
                continue
            task = log.event.task
            if task in known or (self._only and task not in self._only):
                continue
            if self._only or len(found) < room:
                found.append(log)
            else:
                self._skipped[task] = log.block_number
        return found

    def _create(self, log: Log) -> None:
        """Make a task of its creation; where its terms cannot be read, remember it and why."""
        event = log.event
        assert isinstance(event, TaskCreated)
        try:
            with self._asking:
                config = read_config(self._w3, event.task)
                (delay,) = read_call(self._w3, "TrainingTask", event.task, "seedDelay")
            # Terms that no factory takes are no task's: somebody made them up on the way.
            check_config(config, event.escrow, Floors(0))
            created = new_task(
                self._chain_id, event.task, event.task_id, event.sponsor, config, event.escrow, delay
            )
        except Exception as error:
            if isinstance(error, LedgerError) and not has_answered(error):
                raise
            self._uncreated[event.task] = log
            self._broken[event.task] = f"its terms cannot be read: {one_line(error)}"
            return
        self._uncreated.pop(event.task, None)
        self._broken.pop(event.task, None)
        self._tasks[event.task] = TaskLog(created, log.block_number, ())
        self._marks[log.block_number] = log.block_hash

    def _sort(
        self, logs: Sequence[Log], known: Mapping[Address, TaskLog]
    ) -> tuple[dict[Address, list[PlacedEvent]], dict[Address, str]]:
        """What is new of each of these tasks, and those of which the endpoint's answers make no sense."""
        asked = known.keys() | {self._registry}
        fresh = dict[Address, list[PlacedEvent]]()
        broken = dict[Address, str]()

        for transaction, group in groupby(logs, key=lambda log: log.transaction):
            together = [log for log in group if log.emitter in asked]
            concerned = {task for log in together if (task := self._task_of(log, known)) is not None}
            if not concerned:
                continue
            for task, why in self._troubles(transaction, together, concerned, asked):
                broken.setdefault(task, why)
            for log in together:
                task = self._task_of(log, known)
                if task is not None and task not in broken and log.event is not None:
                    fresh.setdefault(task, []).append(self._placed(log))

        for task, events in fresh.items():
            if len(known[task].events) + len(events) > self._max_events:
                broken[task] = (
                    f"it has more than {self._max_events:,} events; CHAINFL_API_MAX_EVENTS allows more"
                )
        return fresh, broken

    def _take(
        self,
        known: Mapping[Address, TaskLog],
        fresh: Mapping[Address, Sequence[PlacedEvent]],
        broken: Mapping[Address, str],
    ) -> None:
        """Append what is new, all at once; a task that is in trouble keeps what it had until it is read again."""
        self._broken |= broken
        taken = {task: log for task, log in known.items() if task not in self._broken}
        for task, log in taken.items():
            events = fresh.get(task, ())
            self._tasks[task] = replace(log, events=(*log.events, *events)) if events else log
            self._marks |= {event.block_number: event.block_hash for event in events}
        self._times, self._receipts = {}, {}

    def _troubles(
        self,
        transaction: bytes,
        logs: Sequence[Log],
        concerned: Collection[Address],
        asked: Collection[Address],
    ) -> Iterator[tuple[Address, str]]:
        """What is wrong with a transaction's logs, for each task that they concern.

        They cannot be decoded, its receipt or block cannot be read, or the receipt tells of more than was told.
        """
        yield from ((log.emitter, log.trouble) for log in logs if log.trouble)
        try:
            receipt = self._receipt(transaction)
            self._time(logs[0].block_number)
        except LedgerError as error:
            if not has_answered(error):
                raise
            yield from ((task, str(error)) for task in concerned)
            return

        logged = {(emitter, index) for emitter, index in receipt.logged if emitter in asked}
        told = [(log.emitter, log.log_index) for log in logs]
        if sorted(logged) != sorted(told):
            why = (
                f"transaction 0x{transaction.hex()} logged {len(logged)} events by its receipt and {len(told)} by "
                "eth_getLogs, or others: the endpoint leaves out or makes up"
            )
            yield from ((task, why) for task in concerned)

    def _task_of(self, log: Log, known: Collection[Address]) -> Address | None:
        """The task that a log is about: its own, or the one that the registry names."""
        named = getattr(log.event, "task", None) if log.emitter == self._registry else log.emitter
        return named if named in known else None

    def _placed(self, log: Log) -> PlacedEvent:
        assert log.event is not None
        return PlacedEvent(
            log.event,
            log.block_number,
            log.block_hash,
            log.transaction,
            log.log_index,
            self._time(log.block_number),
            self._receipt(log.transaction).gas,
        )

    def _time(self, number: int) -> int:
        if number not in self._times:
            found = self._block(number)
            if found is None:
                raise LedgerError(f"block {number} is gone: the chain was reorganised while it was read")
            self._times[number] = found.time
        return self._times[number]

    def _receipt(self, transaction: bytes) -> _Receipt:
        """What a transaction did by its receipt; asked for once, for its events follow one another."""
        if transaction not in self._receipts:
            with self._asking, outside(f"reading the receipt of 0x{transaction.hex()}"):
                found = self._w3.eth.get_transaction_receipt(HexStr("0x" + transaction.hex()))
            self._receipts[transaction] = _read_receipt(found, transaction)
        return self._receipts[transaction]

    # Reorgs

    def _drop_reorged(self) -> None:
        """Forget everything after the newest block that was read and is still part of the chain."""
        marks = sorted(self._marks)
        stands = self._standing(marks)
        if not marks or stands + 1 >= self._next:
            return

        self._marks = {number: hash_ for number, hash_ in self._marks.items() if number <= stands}
        self._times, self._receipts = {}, {}
        self._next = stands + 1
        self._tasks = {
            task: replace(log, events=tuple(e for e in log.events if e.block_number <= stands))
            for task, log in self._tasks.items()
            if log.created_block <= stands
        }
        self._uncreated = {task: log for task, log in self._uncreated.items() if log.block_number <= stands}
        self._skipped = {task: number for task, number in self._skipped.items() if number <= stands}
        known = self._tasks.keys() | self._uncreated.keys()
        self._broken = {task: why for task, why in self._broken.items() if task in known}

    def _standing(self, marks: Sequence[int]) -> int:
        """The newest of these blocks that is still what it was; a chain that changed did so from one block on."""
        low, high = 0, len(marks)
        middle = high - 1
        while low < high:
            number = marks[middle]
            if self.block_hash(number) == self._marks[number]:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        return marks[low - 1] if low else self._first - 1

    # Blocks

    def _head(self) -> _Block:
        with self._asking, outside("reading the chain's head"):
            found = self._w3.eth.get_block("latest")
        return _read_block(found, "reading the chain's head")

    def _block(self, number: int) -> _Block | None:
        try:
            with self._asking, outside(f"reading block {number}"):
                found = self._w3.eth.get_block(number)
        except LedgerError as error:
            if isinstance(error.__cause__, BlockNotFound):
                return None
            raise
        return _read_block(found, f"reading block {number}")


def _created_by(log: Log) -> Address:
    assert isinstance(log.event, TaskCreated)
    return log.event.task


def _place_of(log: Log) -> tuple[int, int]:
    return log.block_number, log.log_index


def _thinned(marks: dict[int, bytes]) -> dict[int, bytes]:
    """Not more marks than are of use: every second one of the older half goes, once there are many."""
    if len(marks) <= _MARKS:
        return marks
    numbers = sorted(marks)
    half = len(numbers) // 2
    return {number: marks[number] for number in (*numbers[:half:2], *numbers[half:])}


def _read_block(block: Mapping[str, Any], what: str) -> _Block:
    try:
        return _Block(int(block["number"]), bytes(block["hash"]), int(block["timestamp"]))
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"{what}: a malformed answer ({one_line(error)})") from None


def _read_receipt(receipt: Mapping[str, Any], transaction: bytes) -> _Receipt:
    try:
        logged = frozenset((as_address(log["address"]), int(log["logIndex"])) for log in receipt["logs"])
        return _Receipt(int(receipt["gasUsed"]), logged)
    except (KeyError, TypeError, ValueError, AttributeError, ChainflError) as error:
        raise LedgerError(
            f"reading the receipt of 0x{transaction.hex()}: a malformed answer ({one_line(error)})"
        ) from None
