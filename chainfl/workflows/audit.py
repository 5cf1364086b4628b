"""An audit of a task on a chain: its events and the store's blobs, nothing from any participant."""

from collections.abc import Iterator
from dataclasses import dataclass

from chainfl.audit.history import PlayedRound, rounds
from chainfl.audit.trace import trace_of
from chainfl.audit.verify import Finding, MixHash, Verdict, check_round, worst
from chainfl.blobs import get_manifest
from chainfl.chain.reader import TaskReader
from chainfl.errors import ProtocolError
from chainfl.limits import DEFAULT_LIMITS, Limits, check_size
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
    """All rounds of a task on its chain; the last one may be open."""
    reader.refresh()
    return list(rounds(reader.created, reader.log))


def audit(
    reader: TaskReader, store: BlobStore, number: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[AuditedRound]:
    """Redo every settled round, or the one with this number."""
    for played in played_rounds(reader):
        if played.ended is None or (number is not None and played.number != number):
            continue
        yield audit_round(played, store, reader.mix_hash, limits)


def audit_round(
    played: PlayedRound, store: BlobStore, mix_hash: MixHash, limits: Limits = DEFAULT_LIMITS
) -> AuditedRound:
    """Redo one round.

    Raises:
        ModelTooLargeError: its models are larger than is allowed here; nothing was fetched.
    """
    check_size(played.before.config, limits, len(played.standing().round.order))
    return AuditedRound(played, tuple(check_round(played, store, mix_hash)))


def trace_task(reader: TaskReader, store: BlobStore | None) -> dict[str, object]:
    """A task's run as data, with its manifest where a store is given: what `chainfl simulate --replay` plays again.

    Raises:
        ProtocolError: no round has been drawn yet.
    """
    played = played_rounds(reader)
    if not played:
        raise ProtocolError("no round of this task has been drawn yet: there is nothing to trace")
    config = reader.created.config
    manifest = get_manifest(store, config.manifest) if store is not None else None
    return trace_of(config, manifest, played)
