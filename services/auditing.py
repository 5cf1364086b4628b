"""An audit of a task on a chain: its events and the store's blobs, nothing from any participant."""

from collections.abc import Iterator
from dataclasses import dataclass

from chainfl.audit.history import LoggedEvent, PlayedRound, rounds
from chainfl.audit.verify import Finding, Verdict, check_round, worst
from chainfl.chain.reader import TaskReader
from chainfl.ports import BlobStore


@dataclass(frozen=True, slots=True)
class AuditedRound:
    """A round and what its checks found."""

    played: PlayedRound
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings."""
        return worst(self.findings)


def played_rounds(reader: TaskReader) -> list[PlayedRound]:
    """All rounds of a task that its chain tells of; the last one may be open."""
    reader.refresh()
    log = [LoggedEvent(logged.event, logged.block_number) for logged in reader.log]
    return list(rounds(reader.created, log))


def audit(reader: TaskReader, store: BlobStore, number: int | None = None) -> Iterator[AuditedRound]:
    """Redo every settled round, or the one with this number."""
    for played in played_rounds(reader):
        if played.ended is None or (number is not None and played.number != number):
            continue
        yield AuditedRound(played, tuple(check_round(played, store, reader.block_hash)))
