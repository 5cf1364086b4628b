"""A participant: one account with its ledger, store, data and journal."""

from dataclasses import dataclass

from chainfl.ports import BlobStore, Journal, Ledger, Trainer


@dataclass(frozen=True, slots=True)
class Participant:
    """Whoever takes part: what it needs from outside."""

    ledger: Ledger
    store: BlobStore
    trainer: Trainer
    journal: Journal
