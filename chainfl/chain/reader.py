"""A task read off a chain: its events, folded into the state that the rules work on; safe against reorgs."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError

from chainfl.chain.abi import as_address, functions
from chainfl.chain.answers import Block, read_block, read_head
from chainfl.chain.code import as_config
from chainfl.chain.evidence import read_header
from chainfl.chain.log import ChainEvent, LogReader, Marks, Span, events_of
from chainfl.chain.rpc import check_chain, has_answered, name_of, outside
from chainfl.chain.send import checksum, in_our_words
from chainfl.codec.header import mix_hash
from chainfl.errors import LedgerError, LedgerLieError, ProtocolError
from chainfl.protocol.events import PhaseEntered, TaskCreated
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task, new_task
from chainfl.protocol.terms import phase_seconds
from chainfl.types import Address, Digest, OnProgress, Phase, TaskConfig

_MOST_AHEAD = 64
"""Blocks by which a named block may be ahead of the newest: endpoints behind one address differ a little."""
_LOOK_EVERY = 64
"""Spans read before the head is looked at again: one that was a lie must not keep us reading for ever."""


def read_call(w3: Web3, contract: str, at: Address, name: str, *values: object) -> tuple[Any, ...]:
    """What a view of a contract answers."""
    function = functions(contract)[name]
    data = HexBytes(function.call_data(*values))
    try:
        with outside(f"reading {contract}.{name}"):
            answer = w3.eth.call({"to": checksum(at), "data": data})
    except ContractLogicError as error:
        # No view of ours refuses without a word: another contract does not know the question.
        if error.data in (None, "", "0x"):
            raise LedgerError(f"what is at {checksum(at)} is no {contract}: it knows no {name}") from None
        raise in_our_words(error) from None
    if not answer and function.outputs:
        raise LedgerError(f"there is no {contract} at {checksum(at)} on this chain")
    with outside(f"reading {contract}.{name}"):
        return function.result(bytes(answer))


def phase_of(w3: Web3, task: Address) -> Phase:
    """The phase that a task is in, without reading its events."""
    (place,) = read_call(w3, "TrainingTask", task, "place")
    return Phase(place[2])


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
        """Read the task's terms; its events are read by `refresh`. `on_progress` gets how far a long read is."""
        self._w3 = w3
        self._address = task
        self._confirmations = confirmations
        self._chain_id = chain_id
        self._on_progress = on_progress

        self._logs = LogReader(w3)
        self._next_block = self._from_block = from_block
        self._marks = Marks()
        self._head = b""
        self._seals = [b""]

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
            LedgerLieError: the endpoint's events are impossible; all of them are dropped, to be read again.
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
                f"{name_of(self._w3)} reported block {at_least}, but its newest is {newest.number}: retrying"
            )

        until = max(newest.number - self._confirmations, at_least)

        # Where the new head follows the one we knew, nothing can have been undone.
        if newest.parent != self._head:
            self._drop_reorged()
        if until >= self._next_block:
            try:
                self._read_until(until, newest)
            except LedgerLieError as error:
                self._expect_standing(newest, error)
                raise

        self._head = newest.hash
        self.newest_block = newest.number
        return self.task

    def _read_until(self, until: int, newest: Block) -> None:
        """Take what is new, span by span: when the endpoint fails half-way, what was read stays read."""

        def hash_of(number: int) -> Digest | None:
            return newest.hash if number == newest.number else self.block_hash(number)

        spans = self._logs.spans(self._next_block, until, [self._address], hash_of, self._on_progress)
        for count, span in enumerate(spans, 1):
            if count % _LOOK_EVERY == 0:
                self._expect_ahead(until)
            self._take(span)
            if span.mark is not None:
                self._marks.add(span.last, span.mark)
            elif span.last == until:
                # The block is not there yet: it is read again.
                self._next_block = until

    def _take(self, span: Span) -> None:
        """Fold a span's events, all of them or none."""
        fresh = events_of(span.logs, name_of(self._w3))
        if fresh:
            # On a draft: an impossible event in the middle of a span must not leave half of it applied.
            task = self.task.draft()
            for logged in fresh:
                fold(task, logged.event, logged.block_number)
            self._check_clock(fresh)
            task.events = []
            self.task = task
            self.log.extend(fresh)
        self._next_block = span.last + 1

    @property
    def last(self) -> int:
        """The newest block up to which events were read."""
        return self._next_block - 1

    def seal(self, until: int) -> bytes:
        """Names all events up to a block, with their places: two readers with one seal have read the same."""
        while len(self._seals) <= len(self.log):
            one = self.log[len(self._seals) - 1]
            named = repr(
                (one.event, one.block_number, one.block_hash, one.transaction, one.log_index)
            ).encode()
            self._seals.append(hashlib.sha256(self._seals[-1] + named).digest())
        return self._seals[bisect_right(self.log, until, key=lambda one: one.block_number)]

    def block_hash_read(self, number: int) -> Digest | None:
        """A block's hash as it was when it was read, or as it is."""
        return self._marks.get(number) or self.block_hash(number)

    def endpoints(self) -> Mapping[str, str]:
        """The endpoint's state; one that fails shows in the errors of its calls."""
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

        # Events do not carry the time of their block, so the rules cannot redo a deadline: the block's header has it.
        announced = entered.event.deadline
        due = block.time + phase_seconds(self.created.config, entered.event.phase)
        if announced != due:
            raise LedgerLieError(
                f"the endpoint's events do not add up: round {entered.event.round}, "
                f"{entered.event.phase.name.title()}: expected its deadline at {due}, found {announced}"
            )

    def _forget(self) -> None:
        """Begin again: what was read before may be part of the lie."""
        self._next_block = self._from_block
        self._marks = Marks()
        self._head = b""
        self._seals = [b""]
        self.log = []
        self.task = self.created.draft()

    def block_hash(self, number: int) -> Digest | None:
        """A block's hash, None where the endpoint does not have the block."""
        block = read_block(self._w3, number)
        return block.hash if block is not None else None

    def _expect_standing(self, newest: Block, error: LedgerLieError) -> None:
        """Events that do not follow what was read before are no lie where the chain was reorganised in between.

        Raises:
            LedgerError: the newest block is another now; the next look goes back to where both chains part.
        """
        if self.block_hash(newest.number) != newest.hash:
            raise LedgerError(
                f"{name_of(self._w3)} went on with another block {newest.number} while events were read: retrying"
            ) from error

    def _expect_ahead(self, until: int) -> None:
        newest = read_head(self._w3).number
        if newest + _MOST_AHEAD < until:
            raise LedgerError(
                f"{name_of(self._w3)} reported block {until}, now its newest is {newest}: retrying"
            )

    def mix_hash(self, number: int) -> Digest | None:
        """A block's randomness, from a header that hashes to the block's hash; None where there is no such block."""
        header = read_header(self._w3, number)
        return None if header is None else mix_hash(header)

    def _creation(self, task_id: int) -> TaskCreated:
        """The factory's event of the task's creation: its escrow is not kept anywhere else."""
        (registry,) = read_call(self._w3, "TrainingTask", self._address, "registry")
        (factory,) = read_call(self._w3, "StakeRegistry", as_address(registry), "factory")
        wanted = (task_id, self._address)

        # The factory's address comes from the task's own registry, so an event of another factory does not count.
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
        if self._logs.last_of(self._from_block, newest) < newest:
            born = first_block_with_code(self._w3, self._address, self._from_block, newest)
            if born is not None:
                yield from self._events(born, born, factory)
        yield from self._events(self._from_block, newest, factory)

    def _events(self, first: int, last: int, emitter: Address) -> Iterator[ChainEvent]:
        """What a contract emitted in these blocks, one by one."""
        for span in self._logs.spans(first, last, [emitter], on_progress=self._on_progress):
            yield from events_of(span.logs, name_of(self._w3))

    def _drop_reorged(self) -> None:
        """Go back to the newest block up to which was read and that still stands; fold what it holds anew."""
        stands = self._marks.drop_gone(self.block_hash, self._from_block - 1)
        if stands is None:
            return

        # An endpoint that moved to another chain looks like a deep reorg.
        check_chain(self._w3, self._chain_id)
        self._next_block = stands + 1
        self.log = [logged for logged in self.log if logged.block_number <= stands]
        del self._seals[len(self.log) + 1 :]
        task = self.created.draft()
        for logged in self.log:
            fold(task, logged.event, logged.block_number)
        self.task = task


def first_block_with_code(w3: Web3, account: Address, first: int, last: int) -> int | None:
    """The block that made a contract, by halving; None where the endpoint keeps no past states, or errs."""
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
