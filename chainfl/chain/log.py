"""The one follower of events: logs of many contracts off one endpoint, and how a reorganised chain is noticed.

Endpoints refuse what they find too much, by blocks, by addresses or by results, each in words of its own. So nothing
is read out of the refusal: the larger question is halved until it is taken, and what was taken is remembered.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import requests
from web3 import Web3

from chainfl.chain.abi import decode_log
from chainfl.chain.answers import ask, octets, quantity
from chainfl.chain.rpc import BadAnswerError, has_answered, name_of
from chainfl.codec.text import from_hex, hex_of
from chainfl.errors import LedgerError
from chainfl.logs import one_line
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import Event
from chainfl.types import Address, Digest, OnProgress

SPAN = 2_000
"""Blocks asked for at once."""
CHUNK = 500
"""Addresses asked for at once; geth takes 1,000."""
GROW_AFTER = 16
"""Answers in a row after which more is asked for again: a limit may have been a moment's."""
SAY_SECONDS = 5.0
"""How often a long read says how far it has come."""
_MARKS = 4_096
"""Blocks whose hashes are remembered; a reorg between two of them makes a little more be read anew."""
_NOT_OF_SIZE = (401, 403, 429, 500, 502, 503, 504)
"""HTTP answers that asking for less does not change."""

HashOf = Callable[[int], Digest | None]
"""A block's hash, None where there is no such block."""


@dataclass(frozen=True, slots=True)
class ChainEvent(LoggedEvent):
    """An event and its place on the chain."""

    block_hash: Digest
    transaction: Digest
    log_index: int


@dataclass(frozen=True, slots=True)
class Log:
    """A log with its emitter and place. Without an event it is not one of ours, or `trouble` says what is wrong."""

    emitter: Address
    event: Event | None
    block_number: int
    block_hash: Digest
    transaction: Digest
    log_index: int
    trouble: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """What the ledger's order goes by."""
        return self.block_number, self.log_index


@dataclass(frozen=True, slots=True)
class Span:
    """What was logged in blocks up to this one, and the hash that this one had before they were asked for."""

    last: int
    mark: Digest | None
    logs: list[Log]


# Spans of logs


class LogReader:
    """Asks one endpoint for logs, and learns how much it takes at once."""

    def __init__(self, w3: Web3) -> None:
        """Nothing is asked yet."""
        self._w3 = w3
        self._span = SPAN
        self._chunk = CHUNK
        self._taken = 0

    @property
    def size(self) -> tuple[int, int]:
        """How many blocks, and how many addresses, are asked for at once now."""
        return self._span, self._chunk

    def last_of(self, first: int, newest: int) -> int:
        """The last block of the span that would be asked for from this one on."""
        return min(first + self._span - 1, newest)

    def read(self, first: int, last: int, emitters: Sequence[Address]) -> list[Log]:
        """Everything that these contracts logged in these blocks, in the ledger's order.

        Raises:
            LedgerError: the endpoint fails, refuses even one block of one contract, or answers with malformed data.
        """
        return [log for span in self.spans(first, last, emitters) for log in span.logs]

    def spans(
        self,
        first: int,
        last: int,
        emitters: Sequence[Address],
        hash_of: HashOf = lambda _: None,
        on_progress: OnProgress = lambda _: None,
    ) -> Iterator[Span]:
        """The same, span by span: when the endpoint fails half-way, what came before stands.

        Raises:
            LedgerError: as `read`.
        """
        said = time.monotonic()
        while first <= last:
            span = self.read_span(first, last, emitters, hash_of)
            yield span

            if span.last < last and time.monotonic() - said >= SAY_SECONDS:
                said = time.monotonic()
                on_progress(f"reading events: at block {span.last:,} of {last:,}")
            first = span.last + 1

    def read_span(
        self, first: int, last: int, emitters: Sequence[Address], hash_of: HashOf = lambda _: None
    ) -> Span:
        """What these contracts logged in as many of these blocks as are taken at once.

        Raises:
            LedgerError: as `read`.
        """
        while True:
            until = self.last_of(first, last)
            # Its hash before its logs: if the block is replaced while they are read, the mark no longer holds.
            mark = hash_of(until)
            found = self._read_chunks(first, until, emitters)
            if found is not None:
                self._grow()
                return Span(until, mark, sorted(found, key=lambda log: log.place))

    def _read_chunks(self, first: int, last: int, emitters: Sequence[Address]) -> list[Log] | None:
        """The logs of these blocks, asked for by groups of contracts; None where these are too many blocks."""
        found = list[Log]()
        done = 0
        while done < len(emitters):
            chunk = emitters[done : done + self._chunk]
            try:
                found += self._ask(first, last, chunk)
            except LedgerError as error:
                # Fewer contracts are asked for in the next turn; fewer blocks, by the caller.
                self._shrink(first, last, chunk, error)
                if self.last_of(first, last) < last:
                    return None
            else:
                done += len(chunk)
        return found

    def _ask(self, first: int, last: int, emitters: Sequence[Address]) -> list[Log]:
        what = f"reading events of blocks {first} to {last}"
        wanted = {
            "address": [hex_of(emitter) for emitter in emitters],
            "fromBlock": hex(first),
            "toBlock": hex(last),
        }
        answer = ask(self._w3, "eth_getLogs", [wanted], what)
        if not isinstance(answer, list):
            raise LedgerError(
                f"{what}: {name_of(self._w3)} answers with no list of logs"
            ) from BadAnswerError()

        # A filter is a request, not a guarantee: another contract's event could pass for one of ours.
        asked = frozenset(emitters)
        who = f"{what}: {name_of(self._w3)}"
        found = [_read_log(each, who) for each in answer]
        for log in found:
            if log.emitter not in asked or not first <= log.block_number <= last:
                raise LedgerError(
                    f"{who} answered with a log of {hex_of(log.emitter)} in block {log.block_number}, which was not "
                    "asked for: use another endpoint"
                )
        return found

    def _shrink(self, first: int, last: int, chunk: Sequence[Address], error: LedgerError) -> None:
        """Ask for less from now on: for fewer contracts where one of them is taken, else for fewer blocks.

        Raises:
            LedgerError: the refusal itself, where asking for less is impossible or of no use now.
        """
        self._taken = 0
        blocks = last - first + 1
        if not _is_too_much(error):
            # Too slow is waited out, but next time with a smaller question.
            if isinstance(error.__cause__, TimeoutError | requests.Timeout):
                self._span = max(1, blocks // 2)
            raise error

        if len(chunk) > 1 and (blocks == 1 or self._takes(first, last, chunk[:1])):
            self._chunk = len(chunk) // 2
        elif blocks > 1:
            self._span = blocks // 2
        else:
            raise error

    def _takes(self, first: int, last: int, emitters: Sequence[Address]) -> bool:
        try:
            self._ask(first, last, emitters)
        except LedgerError as error:
            if not _is_too_much(error):
                raise
            return False
        return True

    def _grow(self) -> None:
        self._taken += 1
        if self._taken >= GROW_AFTER:
            self._taken = 0
            self._span = min(2 * self._span, SPAN)
            self._chunk = min(2 * self._chunk, CHUNK)


def _is_too_much(error: LedgerError) -> bool:
    """Whether the endpoint refused a question that it might take when it is smaller."""
    cause = error.__cause__
    if isinstance(cause, requests.HTTPError) and cause.response is not None:
        return cause.response.status_code not in _NOT_OF_SIZE
    return cause is not None and has_answered(error)


# One log


def _read_log(log: Any, who: str) -> Log:
    """A log as it came; one that cannot be decoded says so.

    Raises:
        LedgerError: it does not say where it stands.
    """
    try:
        emitter = Address(octets(log["address"], 20))
        number = quantity(log["blockNumber"])
        index = quantity(log["logIndex"])
        hash_ = octets(log["blockHash"], 32)
        transaction = octets(log["transactionHash"], 32)
        is_removed = log.get("removed")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerError(
            f"{who} answered with a log without a place ({one_line(error)}): use another endpoint"
        ) from None

    # Endpoints mark logs of dropped blocks; taken for events they would put two histories into one.
    if is_removed:
        raise LedgerError(
            f"{who} answered with a log that the chain lost: it was reorganised while it was read"
        )

    event, trouble = _decode(log)
    if trouble:
        trouble = f"event {index} of block {number} cannot be decoded: {trouble}"
    return Log(emitter, event, number, hash_, transaction, index, trouble)


def _decode(log: Mapping[str, Any]) -> tuple[Event | None, str]:
    try:
        return decode_log([from_hex(topic) for topic in log["topics"]], from_hex(log["data"])), ""
    except Exception as error:  # whatever a decoder makes of bytes that are no event
        return None, one_line(error)


def events_of(logs: Sequence[Log], who: str) -> list[ChainEvent]:
    """The events among a contract's logs; one that makes no sense spoils all of them.

    Raises:
        LedgerError: one cannot be decoded, stands there twice, or a block has two hashes.
    """
    for log in logs:
        if log.trouble:
            raise LedgerError(f"{who}: {log.trouble}")
    for before, log in pairwise(logs):
        if before.place == log.place:
            raise LedgerError(f"{who} answers with event {log.log_index} of block {log.block_number} twice")
        if before.block_number == log.block_number and before.block_hash != log.block_hash:
            raise LedgerError(f"{who} answers with two hashes of block {log.block_number}")

    return [
        ChainEvent(log.event, log.block_number, log.block_hash, log.transaction, log.log_index)
        for log in logs
        if log.event is not None
    ]


# Reorgs


class Marks:
    """Hashes that blocks had when they were read: where one is another now, the chain was reorganised."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._hashes: dict[int, Digest] = {}

    def add(self, number: int, hash_: Digest) -> None:
        """Keep a block's hash. Of many, every second one of the older half is dropped."""
        self._hashes[number] = hash_
        if len(self._hashes) > _MARKS:
            numbers = sorted(self._hashes)
            half = len(numbers) // 2
            self._hashes = {kept: self._hashes[kept] for kept in (*numbers[:half:2], *numbers[half:])}

    def get(self, number: int) -> Digest | None:
        """What a block was, where that is remembered."""
        return self._hashes.get(number)

    def drop_gone(self, hash_of: HashOf, floor: int) -> int | None:
        """Forget the blocks that are no longer what they were.

        Answers the newest block that still is, `floor` where none is, None where nothing changed.
        """
        numbers = sorted(self._hashes)
        stands = self._newest_standing(numbers, hash_of)
        gone = numbers[stands + 1 :]
        if not gone:
            return None
        for number in gone:
            del self._hashes[number]
        return numbers[stands] if stands >= 0 else floor

    def _newest_standing(self, numbers: Sequence[int], hash_of: HashOf) -> int:
        """The index of the newest of these blocks that is still what it was; -1 where none is.

        A chain that changed did so from one block on, and most often from a recent one: back in steps that double,
        then by halving.
        """
        gone = len(numbers)
        stands = gone - 1
        step = 1
        while stands >= 0 and hash_of(numbers[stands]) != self._hashes[numbers[stands]]:
            gone = stands
            stands = max(-1, stands - step)
            step *= 2

        while gone - stands > 1:
            middle = (stands + gone) // 2
            if hash_of(numbers[middle]) == self._hashes[numbers[middle]]:
                stands = middle
            else:
                gone = middle
        return stands
