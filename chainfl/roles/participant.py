"""A participant: one account with its ledger, store, data and journal."""

from dataclasses import dataclass, field

from chainfl.ports import BlobStore, Journal, Ledger, Trainer


@dataclass(slots=True)
class Pace:
    """Seconds that learning takes here, as seen last: what must be left when waiting for others ends."""

    train: float = 0.0
    score: float = 0.0
    """For one model."""


@dataclass(frozen=True, slots=True)
class Participant:
    """A participant: what it needs from outside, and its own measured speed."""

    ledger: Ledger
    store: BlobStore
    trainer: Trainer
    journal: Journal
    pace: Pace = field(default_factory=Pace)
