"""The tasks of a factory on a real chain as an `EventSource`: cached, safe against reorgs.

One task's trouble is its own: what the endpoint says of it that makes no sense keeps no other task from being read.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from web3 import Web3

from chainfl.api.source import PlacedEvent, Snapshot, TaskLog
from chainfl.chain.abi import as_address
from chainfl.chain.answers import Block, read_block, read_head, read_receipt
from chainfl.chain.evidence import read_header
from chainfl.chain.log import Log, LogReader, Marks
from chainfl.chain.reader import read_call, read_config
from chainfl.chain.rpc import has_answered, name_of
from chainfl.codec.header import mix_hash
from chainfl.codec.text import hex_of
from chainfl.errors import LedgerError
from chainfl.logs import one_line
from chainfl.protocol.events import TaskCreated
from chainfl.protocol.state import new_task
from chainfl.protocol.terms import Floors, check_config
from chainfl.types import Address, Digest

REFRESH_SECONDS = 5.0
"""How long one refresh goes on reading a chain that is far ahead, before it hands on what it has."""


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
        self._w3 = w3
        self._chain_id = chain_id
        self._factory = factory
        self._only = frozenset(only)
        self._confirmations = confirmations
        self._max_tasks = max_tasks
        self._max_events = max_events
        (registry,) = read_call(w3, "TaskFactory", factory, "registry")
        self._registry = as_address(registry)
        self._reader = LogReader(w3)

        self._first = self._next = from_block
        self._until = 0.0
        self._tasks: dict[Address, TaskLog] = {}
        self._marks = Marks()
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
        found = read_block(self._w3, number)
        return found.hash if found is not None else None

    def refresh(self) -> Snapshot:
        """Read towards the newest block that counts; a long way is gone in several steps."""
        head = read_head(self._w3)
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

        # Only up to where the others have been read: the next refresh reads on for all of them together.
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

    def _read_span(self, newest: int, head: Block) -> None:
        """Take a span of blocks into account, tasks that were made in it included."""

        def hash_of(number: int) -> Digest | None:
            return head.hash if number == head.number else self.block_hash(number)

        first = self._next
        span = self._reader.read_span(first, newest, [self._factory, self._registry, *self._tasks], hash_of)
        last = span.last
        mark = span.mark
        if mark is None:
            raise LedgerError(f"block {last} is gone: the chain was reorganised while it was read")

        logs = span.logs
        for log in logs:
            if log.trouble and log.emitter in (self._factory, self._registry):
                raise LedgerError(f"{log.trouble}: use another endpoint")

        made = self._wanted(logs)
        fresh = self._create_all(made)
        if len(fresh) < len(made):
            return  # there are many: those that are made by now are kept, the others come with the next refresh
        fresh = [address for address in fresh if address in self._tasks]
        if fresh:
            logs = sorted([*logs, *self._reader.read(first, last, fresh)], key=lambda log: log.place)

        if any(log.block_number == last and log.block_hash != mark for log in logs):
            raise LedgerError(f"block {last} was replaced while it was read: the chain was reorganised")

        self._take(self._tasks, *self._sort(logs, self._tasks))
        self._marks.add(last, mark)
        self._next = last + 1

    # Tasks

    def _create_all(self, logs: Sequence[Log]) -> list[Address]:
        """Make the tasks that these logs create, as many as there is time for; at least one."""
        made = list[Address]()
        for log in logs:
            if made and time.monotonic() > self._until:
                break
            self._create(log)
            made.append(_created_by(log))
        return made

    def _wanted(self, logs: Sequence[Log]) -> list[Log]:
        """The logs of new tasks to be followed; those beyond the limit are counted."""
        known = self._tasks.keys() | self._uncreated.keys()
        room = self._max_tasks - len(known)
        found = list[Log]()
        for log in logs:
            if log.emitter != self._factory or not isinstance(log.event, TaskCreated):
                continue
            task = log.event.task
            if task in known or (self._only and task not in self._only):
                continue

            # Tasks that the operator named are always followed; the limit is for those that anybody can create.
            if self._only or len(found) < room:
                found.append(log)
            else:
                self._skipped[task] = log.block_number
        return found

    def _create(self, log: Log) -> None:
        """Make a task of its creation; where its terms cannot be read, keep its address and the reason."""
        event = log.event
        assert isinstance(event, TaskCreated)

        try:
            config = read_config(self._w3, event.task)
            (delay,) = read_call(self._w3, "TrainingTask", event.task, "seedDelay")
            # Terms that no factory takes are no task's: somebody made them up on the way.
            check_config(config, event.escrow, Floors(0))
            created = new_task(
                self._chain_id, event.task, event.task_id, event.sponsor, config, event.escrow, delay
            )
        except Exception as error:
            # An endpoint that is away says nothing about the task: that ends the step, and it is tried again.
            if isinstance(error, LedgerError) and not has_answered(error):
                raise
            self._uncreated[event.task] = log
            self._broken[event.task] = f"its terms cannot be read: {one_line(error)}"
            return

        self._uncreated.pop(event.task, None)
        self._broken.pop(event.task, None)
        self._tasks[event.task] = TaskLog(created, log.block_number, ())
        self._marks.add(log.block_number, log.block_hash)

    def _sort(
        self, logs: Sequence[Log], known: Mapping[Address, TaskLog]
    ) -> tuple[dict[Address, list[PlacedEvent]], dict[Address, str]]:
        """What is new of each of these tasks, and those of which the endpoint's answers make no sense."""
        asked = known.keys() | {self._registry}
        fresh = dict[Address, list[PlacedEvent]]()
        broken = dict[Address, str]()

        # By transaction, because its receipt lists every log that it emitted: one that is left out is found by
        # counting.
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
            for event in events:
                self._marks.add(event.block_number, event.block_hash)
        self._times = {}
        self._receipts = {}

    def _troubles(
        self,
        transaction: bytes,
        logs: Sequence[Log],
        concerned: Collection[Address],
        asked: Collection[Address],
    ) -> Iterator[tuple[Address, str]]:
        """What is wrong with a transaction's logs, for each task that they concern.

        They cannot be decoded, its receipt or block cannot be read, or the receipt holds more than was reported.
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

        # Only contracts that were asked for: a transaction may emit events of others too.
        logged = {(emitter, index) for emitter, index in receipt.logged if emitter in asked}
        listed = [(log.emitter, log.log_index) for log in logs]
        if sorted(logged) != sorted(listed):
            why = (
                f"transaction {hex_of(transaction)} logged {len(logged)} events by its receipt and {len(listed)} by "
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
            found = read_block(self._w3, number)
            if found is None:
                raise LedgerError(f"block {number} is gone: the chain was reorganised while it was read")
            self._times[number] = found.time
        return self._times[number]

    def _receipt(self, transaction: bytes) -> _Receipt:
        """What a transaction did by its receipt; asked for once, for its events follow one another."""
        if transaction not in self._receipts:
            what = f"reading the receipt of {hex_of(transaction)}"
            found = read_receipt(self._w3, transaction, what)
            if found is None:
                raise LedgerError(f"{what}: {name_of(self._w3)} has none")
            logged = ((as_address(log["address"]), log["logIndex"]) for log in found["logs"])
            self._receipts[transaction] = _Receipt(found["gasUsed"], frozenset(logged))
        return self._receipts[transaction]

    # Reorgs

    def _drop_reorged(self) -> None:
        """Forget everything after the newest block that was read and is still part of the chain."""
        stands = self._marks.drop_gone(self.block_hash, self._first - 1)
        if stands is None:
            return

        self._times = {}
        self._receipts = {}

        # Everything that a dropped block brought goes with it, tasks that were created in it included.
        self._next = min(self._next, stands + 1)
        self._tasks = {
            task: replace(log, events=tuple(e for e in log.events if e.block_number <= stands))
            for task, log in self._tasks.items()
            if log.created_block <= stands
        }
        self._uncreated = {task: log for task, log in self._uncreated.items() if log.block_number <= stands}
        self._skipped = {task: number for task, number in self._skipped.items() if number <= stands}
        known = self._tasks.keys() | self._uncreated.keys()
        self._broken = {task: why for task, why in self._broken.items() if task in known}


def _created_by(log: Log) -> Address:
    assert isinstance(log.event, TaskCreated)
    return log.event.task
