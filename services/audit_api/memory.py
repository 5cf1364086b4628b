"""A chain in memory as an `EventSource`: simulated histories can be browsed and audited like real ones."""

from collections.abc import Iterable
from dataclasses import dataclass

from chainfl.codec.commitments import keccak256
from chainfl.protocol.events import Event, TaskCreated
from chainfl.protocol.round import new_task
from chainfl.sim.memory import Chain
from chainfl.types import Address, Digest
from services.audit_api.source import PlacedEvent, Snapshot, TaskLog

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
        chain.world.log = self._log

    @property
    def chain_id(self) -> int:
        """The world's chain id."""
        return self._chain.world.chain_id

    def block_hash(self, number: int) -> Digest | None:
        """The hash that the chain's seed gives a block."""
        return self._chain.block_hash(number)

    def refresh(self) -> Snapshot:
        """Everything logged so far."""
        with self._chain.lock:
            pairs = list(zip(self._log, self._log.stamps, strict=True))
            tasks = dict(self._chain.world.tasks)
        logs = {address: self._read(address, pairs) for address in tasks}
        return Snapshot(self._chain.block_number, logs)

    def _read(self, address: Address, pairs: list[tuple[tuple[Address, Event], _Stamp]]) -> TaskLog:
        task, registry = self._chain.world.tasks[address], self._chain.world.registry_address
        created = new_task(task.chain_id, address, task.task_id, task.sponsor, task.config, task.funded)
        born = next(
            stamp.block_number
            for (_, event), stamp in pairs
            if isinstance(event, TaskCreated) and event.task == address
        )
        placed = tuple(
            self._placed(event, stamp)
            for (emitter, event), stamp in pairs
            if (emitter == address and not isinstance(event, TaskCreated))
            or (emitter == registry and getattr(event, "task", None) == address)
        )
        return TaskLog(created, born, placed)

    def _placed(self, event: Event, stamp: _Stamp) -> PlacedEvent:
        hash_ = self._chain.block_hash(stamp.block_number)
        transaction = keccak256(b"transaction" + stamp.block_number.to_bytes(32, "big"))
        return PlacedEvent(event, stamp.block_number, hash_, transaction, stamp.log_index, stamp.time, GAS)
