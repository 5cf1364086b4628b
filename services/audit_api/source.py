"""Where the audit API hears of tasks: an `EventSource` tells their events with their places, reorgs included."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chainfl.audit.history import LoggedEvent
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest


@dataclass(frozen=True, slots=True)
class PlacedEvent(LoggedEvent):
    """An event and everything about the transaction that made it."""

    block_hash: bytes
    transaction: bytes
    log_index: int
    time: int
    gas: int


@dataclass(frozen=True, slots=True)
class TaskLog:
    """A task as it was created, and all events of it and of its stakes, in ledger order."""

    created: Task
    created_block: int
    events: tuple[PlacedEvent, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a source knows at one moment: the newest block that counts, and a log per task."""

    block_number: int
    tasks: Mapping[Address, TaskLog] = field(default_factory=dict)


class EventSource(Protocol):
    """Tells of the tasks of one chain. `refresh` is called by one thread; snapshots never change once given."""

    @property
    def chain_id(self) -> int:
        """Which chain this is."""
        ...

    def refresh(self) -> Snapshot:
        """Read what is new and drop what is gone.

        Raises:
            LedgerError: the chain cannot be read now.
        """
        ...

    def block_hash(self, number: int) -> Digest | None:
        """The hash of an EVM block; None where it cannot be had any more."""
        ...
