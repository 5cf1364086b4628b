"""A participant: one account with its ledger, store, data and journal."""

from dataclasses import dataclass

from chainfl.ports import BlobStore, Journal, Ledger, Trainer
from chainfl.protocol.round import Account, Task
from chainfl.types import Id


@dataclass(frozen=True, slots=True)
class Participant:
    """Whoever takes part: what it needs from outside."""

    ledger: Ledger
    store: BlobStore
    trainer: Trainer
    journal: Journal


def own_account(me: Participant, task: Task) -> Account | None:
    """The participant's account in the task, once it has enrolled."""
    return task.accounts.get(me.ledger.me)


def own_id(me: Participant, task: Task) -> Id:
    """The participant's enrolment id."""
    return task.accounts[me.ledger.me].id
