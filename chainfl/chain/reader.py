"""A task read off a chain: its events, folded into the state that the rules speak of; safe against reorgs."""

import hashlib
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError

from chainfl.chain.abi import as_address, decode_log, functions
from chainfl.chain.answers import Log, read_block, read_head, read_logs
from chainfl.chain.code import as_config
from chainfl.chain.evidence import read_header
from chainfl.chain.rpc import check_chain, has_answered, name_of, outside
from chainfl.chain.send import checksum, in_our_words
from chainfl.codec.header import mix_hash
from chainfl.errors import LedgerError, LedgerLieError, ProtocolError
from chainfl.protocol.events import Event, PhaseEntered, TaskCreated
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task, new_task
from chainfl.protocol.terms import phase_seconds
from chainfl.types import Address, Digest, OnProgress, TaskConfig

_SPAN = 2_000
"""Blocks asked for at once; halved when an endpoint finds that too many."""
_MARKS = 256
"""Blocks whose hashes are remembered; a reorg beyond them makes the task be read anew."""
_MOST_AHEAD = 64
"""Blocks by which one that we were told of may be ahead of the newest: endpoints behind one address differ a little."""
_LOOK_EVERY = 64
"""Spans read before the head is looked at again: one that was a lie must not keep us reading for ever."""
_SAY_SECONDS = 5.0
"""How often a long read says how far it has come."""


@dataclass(frozen=True, slots=True)
class ChainEvent:
    """An event of a task and where it stands."""

    event: Event
    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int


def read_call(w3: Web3, contract: str, at: Address, name: str, *values: object) -> tuple[Any, ...]:
    """What a view of a contract answers."""
    function = functions(contract)[name]
    data = HexBytes(function.call_data(*values))
    try:
        with outside(f"reading {contract}.{name}"):
            answer = w3.eth.call({"to": checksum(at), "data": data})
    except ContractLogicError as error:
        raise in_our_words(error) from None
    if not answer and function.outputs:
        raise LedgerError(f"no {contract} lives at {checksum(at)} on this chain")
    with outside(f"reading {contract}.{name}"):
        return function.result(bytes(answer))


def read_config(w3: Web3, task: Address) -> TaskConfig:
    """A task's frozen terms."""
    (values,) = read_call(w3, "TrainingTask", task, "config")
    with outside("reading the task's terms"):
        return as_config(values)


class TaskReader:
    """Follows one task. Events stay cached with their block's hash; a reorg drops those that are gone."""

    def __init__(
        self,
        w3: Web3,
        task: Address,
        chain_id: int,
        from_block: int,
        confirmations: int = 0,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        """Read the task's terms; its events are read by `refresh`. `tell` hears how far a long read has come."""
        self._w3, self._address, self._confirmations = w3, task, confirmations
        self._chain_id, self._on_progress = chain_id, on_progress
        self._next_block = self._from_block = from_block
        self._marks: dict[int, bytes] = {}
        self._head, self._seals = b"", [b""]
        self.newest_time = 0
        self.newest_block = 0
        self.log: list[ChainEvent] = []
        try:
            self.created = self._read_created()
        except ProtocolError as error:
            raise LedgerError(f"reading the task: {name_of(w3)} says that {error}") from error
        self.task = self.created.draft()

    def _read_created(self) -> Task:
        """The task as its creation left it."""
        (task_id,) = read_call(self._w3, "TrainingTask", self._address, "taskId")
        (sponsor,) = read_call(self._w3, "TrainingTask", self._address, "sponsor")
        funded = self._creation(task_id).escrow
        config = read_config(self._w3, self._address)
        (delay,) = read_call(self._w3, "TrainingTask", self._address, "seedDelay")
        return new_task(self._chain_id, self._address, task_id, as_address(sponsor), config, funded, delay)

    def refresh(self, at_least: int = 0) -> Task:
        """Read what is new, up to the newest block that counts (and at least this one).

        Raises:
            LedgerLieError: what the endpoint tells cannot be; all of it is forgotten, to be read anew.
            LedgerError: the endpoint failed; what was read stays read.
        """
        try:
            return self._refresh(at_least)
        except LedgerLieError:
            self._forget()
            raise

    def _refresh(self, at_least: int) -> Task:
        newest = read_head(self._w3)
        self.newest_time = newest.time
        if newest.hash == self._head and at_least < self._next_block:
            return self.task  # the same head has the same chain behind it
        if at_least > newest.number + _MOST_AHEAD:
            raise LedgerError(
                f"{name_of(self._w3)} tells of block {at_least}, but its newest is {newest.number}: looking again"
            )
        until = max(newest.number - self._confirmations, at_least)
        if newest.parent != self._head:
            self._drop_reorged()
        if until >= self._next_block:
            mark = newest.hash if until == newest.number else self.block_hash(until)
            self._read_until(until)
            self._mark(until, mark)
        self._head = newest.hash
        self.newest_block = newest.number
        return self.task

    def _read_until(self, until: int) -> None:
        """Fold what is new, span by span: when the endpoint fails half-way, what was read stays read."""
        spans = read_spans(
            self._w3, self._next_block, until, self._address, self._on_progress, hash_of=self.block_hash
        )
        for count, span in enumerate(spans, 1):
            if count % _LOOK_EVERY == 0:
                self._expect_ahead(until)
            if span.events:
                task = self.task.draft()
                for logged in span.events:
                    fold(task, logged.event, logged.block_number)
                self._check_clock(span.events)
                task.events = []
                self.task = task
                self.log.extend(span.events)
            self._next_block = span.last + 1
            if span.last < until:
                self._mark(span.last, span.mark)

    @property
    def last(self) -> int:
        """The newest block up to which events were read."""
        return self._next_block - 1

    def seal(self, until: int) -> bytes:
        """Names all events up to a block, with their places: two readers with one seal were told the same."""
        while len(self._seals) <= len(self.log):
            one = self.log[len(self._seals) - 1]
            told = repr(
                (one.event, one.block_number, one.block_hash, one.transaction, one.log_index)
            ).encode()
            self._seals.append(hashlib.sha256(self._seals[-1] + told).digest())
        return self._seals[bisect_right(self.log, until, key=lambda one: one.block_number)]

    def block_hash_read(self, number: int) -> Digest | None:
        """A block's hash as it was when it was read, or as it is."""
        return self._marks.get(number) or self.block_hash(number)

    def endpoints(self) -> Mapping[str, str]:
        """How the endpoint does; one that does not is told of by its errors."""
        return {name_of(self._w3).removeprefix("the endpoint "): "ok"}

    def _check_clock(self, fresh: list[ChainEvent]) -> None:
        """The newest phase was entered in its block's own time: a deadline that is not the chain's costs stake."""
        entered = next((one for one in reversed(fresh) if isinstance(one.event, PhaseEntered)), None)
        if entered is None:
            return
        assert isinstance(entered.event, PhaseEntered)
        block = read_block(self._w3, entered.block_number)
        if block is None or block.hash != entered.block_hash:
            return  # reorganised meanwhile: the next look finds out
        told = entered.event.deadline
        due = block.time + phase_seconds(self.created.config, entered.event.phase)
        if told != due:
            raise LedgerLieError(
                f"the endpoint's events do not add up: round {entered.event.round}, "
                f"{entered.event.phase.name.title()}: expected its deadline at {due}, found {told}"
            )

    def _forget(self) -> None:
        """Begin again: what was told before may be part of the lie."""
        self._next_block, self._marks, self._head = self._from_block, {}, b""
        self.log, self.task, self._seals = [], self.created.draft(), [b""]

    def block_hash(self, number: int) -> Digest | None:
        """A block's hash, None where the endpoint does not have the block."""
        block = read_block(self._w3, number)
        return block.hash if block is not None else None

    def _expect_ahead(self, until: int) -> None:
        newest = read_head(self._w3).number
        if newest + _MOST_AHEAD < until:
            raise LedgerError(
                f"{name_of(self._w3)} spoke of block {until}, now its newest is {newest}: looking again"
            )

    def mix_hash(self, number: int) -> Digest | None:
        """A block's randomness, from a header that hashes to the block's hash; None where there is no such block."""
        header = read_header(self._w3, number)
        return None if header is None else mix_hash(header)

    def _creation(self, task_id: int) -> TaskCreated:
        """The factory's word on how the task was made: its escrow is not kept anywhere else."""
        (registry,) = read_call(self._w3, "TrainingTask", self._address, "registry")
        (factory,) = read_call(self._w3, "StakeRegistry", as_address(registry), "factory")
        wanted = (task_id, self._address)
        for logged in self._emitted_by(as_address(factory)):
            event = logged.event
            if isinstance(event, TaskCreated) and (event.task_id, event.task) == wanted:
                self._next_block = self._from_block = logged.block_number
                return event
        raise LedgerError(
            f"the task was created before block {self._from_block}: give an earlier --from-block"
        )

    def _emitted_by(self, factory: Address) -> Iterator[ChainEvent]:
        """What the factory emitted; on a long chain first in the block that made the task, if that can be found."""
        newest = read_head(self._w3).number
        if newest - self._from_block >= _SPAN:
            born = first_block_with_code(self._w3, self._address, self._from_block, newest)
            if born is not None:
                yield from chain_events(self._w3, born, born, factory)
        yield from chain_events(self._w3, self._from_block, newest, factory, self._on_progress)

    def _drop_reorged(self) -> None:
        """Go back to the newest block up to which was read and that still stands; fold what it holds anew."""
        gone = False
        while self._marks and self.block_hash(number := next(reversed(self._marks))) != self._marks[number]:
            del self._marks[number]
            gone = True
        if not gone:
            return
        # An endpoint that moved to another chain looks like a deep reorg.
        check_chain(self._w3, self._chain_id)
        self._next_block = next(reversed(self._marks), self._from_block - 1) + 1
        self.log = [logged for logged in self.log if logged.block_number < self._next_block]
        del self._seals[len(self.log) + 1 :]
        task = self.created.draft()
        for logged in self.log:
            fold(task, logged.event, logged.block_number)
        self.task = task

    def _mark(self, number: int, hash_: bytes | None) -> None:
        """Remember what a block was when it was read; one that is not there yet is read again."""
        if hash_ is None:
            self._next_block = min(self._next_block, number)
            return
        self._marks[number] = hash_
        if len(self._marks) > _MARKS:
            del self._marks[next(iter(self._marks))]


@dataclass(frozen=True, slots=True)
class Span:
    """What a contract emitted in blocks up to this one, and the hash that this one had before they were asked for."""

    last: int
    mark: Digest | None
    events: list[ChainEvent]


def read_spans(
    w3: Web3,
    first: int,
    last: int,
    emitter: Address,
    on_progress: OnProgress = lambda _: None,
    hash_of: Callable[[int], Digest | None] = lambda _: None,
) -> Iterator[Span]:
    """What a contract emitted in these blocks; an endpoint that finds them too many is asked for fewer at once."""
    size, said = _SPAN, time.monotonic()
    while first <= last:
        until = min(first + size - 1, last)
        mark = hash_of(until) if until < last else None
        try:
            logs = read_logs(w3, emitter, first, until)
        except LedgerError as error:
            if size == 1 or not has_answered(error):
                raise
            size = max(1, size // 2)
            continue
        yield Span(until, mark, list(filter(None, map(_event_of, logs))))
        if until < last and time.monotonic() - said >= _SAY_SECONDS:
            said = time.monotonic()
            on_progress(f"reading events: at block {until:,} of {last:,}")
        first = until + 1


def chain_events(
    w3: Web3, first: int, last: int, emitter: Address, on_progress: OnProgress = lambda _: None
) -> Iterator[ChainEvent]:
    """What a contract emitted in these blocks, one by one."""
    for span in read_spans(w3, first, last, emitter, on_progress):
        yield from span.events


def first_block_with_code(w3: Web3, account: Address, first: int, last: int) -> int | None:
    """The block that made a contract, by halving; None where the endpoint does not keep the past, or tells nonsense."""
    while first < last:
        middle = (first + last) // 2
        try:
            with outside(f"looking for the task at block {middle}"):
                code = w3.eth.get_code(checksum(account), middle)
        except LedgerError as error:
            if not has_answered(error):
                raise
            return None
        first, last = (first, middle) if code else (middle + 1, last)
    return first


def _event_of(log: Log) -> ChainEvent | None:
    event = decode_log(log.topics, log.data)
    if event is None:
        return None
    return ChainEvent(event, log.block_number, log.block_hash, log.transaction, log.index)
