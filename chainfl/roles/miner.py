"""The miner: combine the updates with the round's shares, write model and block, propose (docs/protocol.md 5.6)."""

from collections.abc import Callable

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec.vector import Vector
from chainfl.redo import block_record, next_model
from chainfl.roles.participant import Participant

Alter = Callable[[Vector], Vector]
"""What a dishonest miner does to the right answer; honest ones have none."""


def propose(me: Participant, alter: Alter | None = None) -> None:
    """Combine, store model and block record, and post both names."""
    task = me.ledger.task()
    round_ = task.round
    shares, model_D = next_model(me.store, task)
    if alter is not None:
        model_D = alter(model_D)
    named = name_model(model_D, task.config.scale, me.trainer.layout)
    put_model(me.store, named)
    record = block_record(me.store, task, me.ledger.me, named.cid, shares)
    block = put_record(me.store, record)
    me.store.pin(named.cid)
    me.store.pin(block)
    posted = shares if task.config.rule.is_attested else ()
    me.ledger.propose(round_.number, round_.attempt, named.node.root, block.digest, posted)
