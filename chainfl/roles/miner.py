"""The miner: combine the updates with the round's shares, write model and block, propose (docs/protocol.md 5.6)."""

from collections.abc import Callable
from dataclasses import dataclass

from chainfl.blobs import name_model, put_model, put_record, within
from chainfl.codec.vector import Vector
from chainfl.execution import block_record, keep_parts, model_by, next_model
from chainfl.protocol.state import Task
from chainfl.roles.budget import io_budget
from chainfl.roles.participant import Participant


@dataclass(frozen=True, slots=True)
class Reweigh:
    """Posts shares of its own, and the model that they make: no proof convicts that, the votes refuse it."""

    shares: Callable[[Task], tuple[int, ...]]


Alter = Callable[[Vector], Vector] | Reweigh
"""What a dishonest miner does to the right answer; honest ones have none."""


def propose(me: Participant, alter: Alter | None = None) -> None:
    """Combine, store model and block record, and post both names.

    Raises:
        StoreError: a part cannot be had now; ask again while it is still our turn.
    """
    task = me.ledger.task()
    round_ = task.round
    budget = io_budget(me, task)
    store = within(me.store, budget.read)

    # The committee vouched for every part, so its members serve them.
    keep_parts(me.store, task, budget)
    shares, model_D = next_model(store, task)
    if isinstance(alter, Reweigh):
        shares = alter.shares(task)
        model_D = model_by(store, task, shares)
    elif alter is not None:
        model_D = alter(model_D)

    named = name_model(model_D, task.config.scale, me.trainer.layout)
    put_model(store, named)
    record = block_record(store, task, me.ledger.me, named.cid, shares)
    block = put_record(store, record)

    # The record alone: a pin that followed its links would have to find the whole history before we may propose.
    store.pin(named.cid)
    store.pin(block, with_links=False)

    # Where the contract computed the shares it refuses posted ones.
    posted = shares if task.config.rule.is_attested else ()
    me.ledger.propose(round_.number, round_.attempt, named.node.root, block.digest, posted)
