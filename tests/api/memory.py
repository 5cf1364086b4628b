"""A chain in memory as an `EventSource`: simulated histories can be browsed and audited like real ones."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from chainfl.api.source import PlacedEvent, Snapshot, TaskLog
from chainfl.codec.commitments import keccak256
from chainfl.protocol.events import Event, TaskCreated
from chainfl.sim.memory import Chain
from chainfl.types import Address, Digest

GAS = 50_000
"""What every transaction in memory is said to use."""


@dataclass(frozen=True, slots=True)
class _Stamp:
    block_number: int
    log_index: int
    time: int


class StampedLog(list[tuple[Address, Event]]):
    """A world's log that also notes in which block, and when, each event was added."""

    def __init__(self, chain: Chain) -> None:
        """Take over what the chain's world has logged so far, spread over the blocks so far."""
        super().__init__()
        self.chain = chain
        self.stamps: list[_Stamp] = []
        count, blocks = len(chain.world.log), chain.block_number
        for index, item in enumerate(chain.world.log):
            self._note(item, index * blocks // count)

    def append(self, item: tuple[Address, Event], /) -> None:
        """Note one event."""
        self.extend((item,))

    def extend(self, items: Iterable[tuple[Address, Event]], /) -> None:
        """Note the events of a transaction; those of one block are counted on."""
        for item in items:
            self._note(item, self.chain.block_number)

    def _note(self, item: tuple[Address, Event], number: int) -> None:
        same = self.stamps and self.stamps[-1].block_number == number
        super().append(item)
        self.stamps.append(_Stamp(number, self.stamps[-1].log_index + 1 if same else 0, self.chain.now))


class MemorySource:
    """Reads a chain in memory. Put in place before the rounds that are to have places of their own."""

    def __init__(self, chain: Chain) -> None:
        """Start to stamp the chain's events."""
        self._chain = chain
        self._log = StampedLog(chain)
        self._read = 0
        self._tasks: dict[Address, TaskLog] = {}
        chain.world.log = self._log

    @property
    def chain_id(self) -> int:
        """The world's chain id."""
        return self._chain.world.chain_id

    def mix_hash(self, number: int) -> Digest | None:
        """The randomness that the chain's seed gives a block."""
        return self._chain.mix_hash(number)

    def refresh(self) -> Snapshot:
        """Everything logged so far."""
        with self._chain.lock:
            number, until = self._chain.block_number, len(self._log)
            pairs = list(
                zip(self._log[self._read : until], self._log.stamps[self._read : until], strict=True)
            )
        self._read = until
        fresh: dict[Address, list[PlacedEvent]] = {}
        for (emitter, event), stamp in pairs:
            if isinstance(event, TaskCreated):
                self._tasks[event.task] = self._created(event.task, stamp)
                continue
            task = getattr(event, "task", None) if emitter == self._chain.world.registry_address else emitter
            if task in self._tasks:
                fresh.setdefault(task, []).append(self._placed(event, stamp))
        for task, placed in fresh.items():
            self._tasks[task] = replace(self._tasks[task], events=(*self._tasks[task].events, *placed))
        return Snapshot(number, dict(self._tasks))

    def reread(self, tasks: Collection[Address]) -> None:
        """Nothing to do: what is in memory is the chain itself."""

    def _created(self, address: Address, stamp: _Stamp) -> TaskLog:
        task = self._chain.world.tasks[address]
        return TaskLog(task.at_creation(), stamp.block_number, ())

    def _placed(self, event: Event, stamp: _Stamp) -> PlacedEvent:
        hash_ = keccak256(self._chain.header(stamp.block_number))
        transaction = keccak256(b"transaction" + stamp.block_number.to_bytes(32, "big"))
        return PlacedEvent(event, stamp.block_number, hash_, transaction, stamp.log_index, stamp.time, GAS)
