"""Where the audit API reads tasks: an `EventSource` gives their events with their places, reorgs included."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chainfl.chain.log import ChainEvent
from chainfl.protocol.events import PhaseEntered
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest, Phase


@dataclass(frozen=True, slots=True)
class PlacedEvent(ChainEvent):
    """An event, its place, its block's time and what its transaction used."""

    time: int
    gas: int


def in_phases(log: Iterable[PlacedEvent]) -> Iterator[tuple[Phase, PlacedEvent]]:
    """Each event of a round with the phase it happened in; the event that enters a phase is in that one."""
    phase = Phase.DRAW
    for logged in log:
        if isinstance(logged.event, PhaseEntered):
            phase = logged.event.phase
        yield phase, logged


@dataclass(frozen=True, slots=True)
class TaskLog:
    """A task as it was created, and all events of it and of its stakes, in ledger order."""

    created: Task
    created_block: int
    events: tuple[PlacedEvent, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a source has read at one moment: up to which block, and a log per task.

    A task that is `unreadable` keeps the log it had; `skipped` are those beyond what the source may follow.
    """

    block_number: int
    tasks: Mapping[Address, TaskLog] = field(default_factory=dict)
    newest: int = 0
    newest_time: int = 0
    unreadable: Mapping[Address, str] = field(default_factory=dict)
    skipped: int = 0

    @property
    def behind(self) -> int:
        """Blocks that count and are not read yet."""
        return max(0, self.newest - self.block_number)


class EventSource(Protocol):
    """Reads the tasks of one chain. `refresh` is called by one thread; snapshots never change once given."""

    @property
    def chain_id(self) -> int:
        """Which chain this is."""
        ...

    def refresh(self) -> Snapshot:
        """Read what is new and drop what is gone; where there is much, a part of it.

        Raises:
            LedgerError: the chain cannot be read now.
        """
        ...

    def reread(self, tasks: Collection[Address]) -> None:
        """Drop what was read of these tasks and read it again from their creation on; `refresh` then returns it.

        Raises:
            LedgerError: the chain cannot be read now; what was known stays.
        """
        ...

    def mix_hash(self, number: int) -> Digest | None:
        """The randomness of an EVM block; None where its header is not available any more."""
        ...
