"""Several endpoints of one chain: what most of them report counts (docs/adr/0018-hostile-endpoints.md).

A task is followed through every endpoint. What is shown of it is what more than half of all endpoints given stand
behind: the same events in the same blocks up to the last event, and one hash of the newest block that two of them have
in common. One that fails, lags or answers differently is left out, and logged once.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from statistics import median_low

from web3 import Web3

from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import check_chain, name_of, open_rpc, printable
from chainfl.errors import ChainflError, InputError, LedgerError
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest, OnProgress

_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 120.0
"""How long an endpoint that failed or lied is left alone; doubled each time."""
_GRACE = 1.0
"""How long slower endpoints are waited for once most have answered."""
_PATIENCE = 5.0
"""How long most endpoints may take to have a block that one of them named."""
_log = logging.getLogger(__name__)


def majority_of(count: int) -> int:
    """How many of so many endpoints must agree."""
    return count // 2 + 1


@dataclass(frozen=True, slots=True)
class Endpoints:
    """One endpoint or several, most of which serve the chain that is meant."""

    w3: Web3
    others: tuple[Web3, ...]
    chain_id: int

    @property
    def all(self) -> tuple[Web3, ...]:
        """Every one of them."""
        return (self.w3, *self.others)


def split_urls(text: str) -> list[str]:
    """Addresses between commas.

    Raises:
        InputError: there is none, or one is there twice: it would have two votes.
    """
    urls = [part.strip() for part in text.split(",") if part.strip()]
    if not urls:
        raise InputError("--rpc-url: give the address of an endpoint")
    if len(set(urls)) != len(urls):
        raise InputError("--rpc-url: an endpoint is given twice; each counts once")
    return urls


def open_endpoints(text: str, chain_id: int | None) -> Endpoints:
    """Connect to the endpoints between commas; the first that works comes first.

    Raises:
        LedgerError: fewer than a majority answer and serve one chain, the one that is meant.
    """
    all_ = [open_rpc(url) for url in split_urls(text)]
    if len(all_) == 1:
        return Endpoints(all_[0], (), check_chain(all_[0], chain_id))

    found = dict[int, int]()
    failed = list[LedgerError]()
    for place, w3 in enumerate(all_):
        try:
            found[place] = check_chain(w3, chain_id)
        except LedgerError as error:
            failed.append(error)

    # Without `--chain-id` the chain that most serve is the one meant: a single one cannot lead us elsewhere.
    chain, votes = Counter(found.values()).most_common(1)[0] if found else (0, 0)
    if votes < majority_of(len(all_)):
        why = str(failed[0]) if failed else "they serve different chains: give --chain-id"
        raise LedgerError(f"only {votes} of {len(all_)} endpoints serve one chain: {why}")

    first = next(place for place, one in found.items() if one == chain)
    return Endpoints(all_[first], tuple(w3 for at, w3 in enumerate(all_) if at != first), chain)


def open_reader(
    endpoints: Endpoints,
    task: Address,
    from_block: int,
    confirmations: int = 0,
    on_progress: OnProgress = lambda _: None,
) -> TaskReader:
    """A task to read: through the one endpoint, or as most of several report it."""
    if not endpoints.others:
        return TaskReader(endpoints.w3, task, endpoints.chain_id, from_block, confirmations, on_progress)
    return AgreedReader(endpoints, task, from_block, confirmations, on_progress)


@dataclass(slots=True)
class _Source:
    """One of several endpoints, and how it does."""

    name: str
    w3: Web3
    reader: TaskReader | None = None
    trouble: str = ""
    again_at: float = 0.0
    pause: float = _FIRST_PAUSE
    look: "Future[TaskReader] | None" = None
    said: set[str] = field(default_factory=set)

    def fails(self, kind: str, why: str) -> None:
        """Leave it out for a while; logged once for each kind of failure."""
        self.trouble = why
        self.again_at = time.monotonic() + self.pause
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)
        if kind not in self.said:
            self.said.add(kind)
            _log.warning("endpoint %s is left out: %s", self.name, why)

    def does_well(self) -> None:
        """It agrees with the others."""
        if self.said:
            _log.info("endpoint %s agrees with the others again", self.name)
        self.said.clear()
        self.trouble = ""
        self.pause = _FIRST_PAUSE


class AgreedReader(TaskReader):
    """Follows one task through several endpoints, and shows what most of them report."""

    def __init__(
        self,
        endpoints: Endpoints,
        task: Address,
        from_block: int,
        confirmations: int = 0,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        """Look once.

        Raises:
            LedgerError: no majority reports the same.
        """
        self._endpoints = endpoints
        self._address = task
        self._confirmations = confirmations
        self._begin = from_block
        self._on_progress = on_progress

        # Two endpoints of one host are told apart by their place in the list.
        names = [name_of(w3).removeprefix("the endpoint ") for w3 in endpoints.all]
        twice = {name for name, count in Counter(names).items() if count > 1}
        self._sources = [
            _Source(f"{name} ({place})" if name in twice else name, w3)
            for place, (name, w3) in enumerate(zip(names, endpoints.all, strict=True), 1)
        ]
        self._pool = ThreadPoolExecutor(len(names), thread_name_prefix="endpoint")

        self.log = []
        self.newest_time = 0
        self._chosen = self._agreed()
        self.created = self._chosen.created
        self._show(self._chosen)

    def refresh(self, at_least: int = 0) -> Task:
        """Read what is new through all endpoints, as far as most agree (and, if they do in time, to this block).

        Raises:
            LedgerError: no majority reports the same now.
        """
        until = time.monotonic() + _PATIENCE
        while True:
            chosen = self._agreed()
            if chosen.last >= at_least or time.monotonic() > until:
                break
            # One that agreed may be a block behind the one that named the block: it has a moment to catch up.
            time.sleep(0.1)
        self._show(chosen)
        return self.task

    def block_hash(self, number: int) -> Digest | None:
        """A block's hash, None where the endpoint that is believed does not have the block."""
        return self._chosen.block_hash(number)

    def mix_hash(self, number: int) -> Digest | None:
        """A block's randomness, as the endpoint of the majority reports it."""
        return self._chosen.mix_hash(number)

    def endpoints(self) -> Mapping[str, str]:
        """How each endpoint does: `ok`, or why it is left out."""
        return {source.name: source.trouble or "ok" for source in self._sources}

    def _show(self, chosen: TaskReader) -> None:
        self._chosen = chosen
        self.task = chosen.task
        self.log = chosen.log
        self.newest_block = chosen.newest_block

    # Looking

    def _agreed(self) -> TaskReader:
        """Ask all of them, and find one that a majority agrees with; of several, the one that has read most."""
        ready = self._look()
        needed = majority_of(len(self._sources))
        behind = {one.name: [other for other in ready if _confirms(other, one)] for one in ready}
        known = [one for one in ready if len(behind[one.name]) >= needed]
        if not known:
            raise LedgerError(
                f"no {needed} of {len(self._sources)} endpoints agree on the task: {self._complaint(ready)}"
            )

        # Of those that a majority confirms, none can be wrong about what it shares with the others.
        best = max(known, key=lambda one: (len(_reader(one).log), _reader(one).last))
        for one in ready:
            if _contradicts(one, best):
                _forget(one)
                one.fails("lie", "its events or blocks differ from those of most endpoints")
            else:
                one.does_well()

        # The middle time: one endpoint's clock can neither end a phase early nor keep it open.
        self.newest_time = median_low([_reader(one).newest_time for one in behind[best.name]])
        return _reader(best)

    def _complaint(self, ready: Sequence[_Source]) -> str:
        troubles = [f"{source.name}: {source.trouble}" for source in self._sources if source.trouble]
        if troubles:
            return troubles[0]
        return f"{len(ready)} answer, and they differ: one of them may be behind, or wrong"

    def _look(self) -> list[_Source]:
        """Every endpoint that has answered in time; the others are asked again later."""
        for source in self._sources:
            if source.look is None and time.monotonic() >= source.again_at:
                source.look = self._pool.submit(self._read, source)

        needed = majority_of(len(self._sources))
        grace = None

        # When a majority has answered, the others have a moment left: a slow minority holds nobody up.
        while True:
            looks = [source.look for source in self._sources if source.look is not None]
            done = [look for look in looks if look.done()]
            if grace is None and sum(look.exception() is None for look in done) >= needed:
                grace = time.monotonic() + _GRACE
            if len(done) == len(looks) or (grace is not None and time.monotonic() >= grace):
                break
            left = None if grace is None else max(0.0, grace - time.monotonic())
            wait([look for look in looks if not look.done()], left, FIRST_COMPLETED)
        return [source for source in self._sources if self._has_answered(source)]

    def _has_answered(self, source: _Source) -> bool:
        look = source.look
        if look is None:
            return False
        if not look.done():
            source.trouble = source.trouble or "it is slower than the others"
            return False

        source.look = None
        error = look.exception()
        if error is not None:
            why = (
                str(error)
                if isinstance(error, ChainflError)
                else f"{type(error).__name__}: {printable(error)}"
            )
            source.fails(type(error).__name__, why)
            return False

        source.reader = look.result()
        return True

    def _read(self, source: _Source) -> TaskReader:
        reader = source.reader
        if reader is None:
            chain_id = check_chain(source.w3, self._endpoints.chain_id)
            where = (self._address, chain_id, self._begin, self._confirmations)
            reader = TaskReader(source.w3, *where, self._on_progress)
        reader.refresh()
        return reader


def _reader(source: _Source) -> TaskReader:
    assert source.reader is not None
    return source.reader


def _forget(source: _Source) -> None:
    """What it answered may be a lie, its terms too: it is read from the beginning."""
    source.reader = None


def _confirms(one: _Source, other: _Source) -> bool:
    """Whether one has read everything that the other reports, and the same."""
    if one is other:
        return True
    mine = _reader(one)
    theirs = _reader(other)
    reaches = not theirs.log or theirs.log[-1].block_number <= min(mine.last, theirs.last)
    return reaches and not _contradicts(one, other)


def _contradicts(one: _Source, other: _Source) -> bool:
    """Whether two report different things about the blocks that both have read."""
    mine = _reader(one)
    theirs = _reader(other)
    if mine is theirs:
        return False
    last = min(mine.last, theirs.last)
    if mine.created != theirs.created or mine.seal(last) != theirs.seal(last):
        return True
    try:
        return mine.block_hash_read(last) != theirs.block_hash_read(last)
    except LedgerError:
        return True
