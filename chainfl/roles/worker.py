"""The worker: train on the head and commit, then show the root and publish the bytes (docs/protocol.md 5.2, 5.3)."""

from chainfl.blobs import name_model, put_model
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import commitment, worker_payload
from chainfl.codec.vector import encode
from chainfl.errors import ProtocolError
from chainfl.ports import SealedUpdate
from chainfl.protocol.state import Task
from chainfl.redo import floats, head_model
from chainfl.roles.participant import Participant
from chainfl.types import Phase


def commit_update(me: Participant) -> None:
    """Train from the head, write the update down, and commit to it."""
    task = me.ledger.task()
    sealed = me.journal.update(task.round.number)
    if sealed is None:
        sealed = seal_update(me, task)
        me.journal.keep_update(task.round.number, sealed)
    me.ledger.commit_update(task.round.number, sealed.digest)


def seal_update(me: Participant, task: Task) -> SealedUpdate:
    """Train, encode, name, and seal under a fresh salt."""
    number, scale = task.round.number, task.config.scale
    head_D = head_model(me.store, task)
    update_D = encode(me.trainer.train(floats(head_D, task), number), scale)
    named = name_model(update_D, scale, me.trainer.layout)
    samples, salt = min(me.trainer.samples, task.config.max_samples), me.journal.salt(number, Phase.TRAIN)
    payload = worker_payload(named.node.root, named.cid.digest, samples)
    digest = commitment(
        task.chain_id, task.address, task.task_id, number, Phase.TRAIN, me.ledger.me, payload, salt
    )
    return SealedUpdate(digest, salt, named.node.root, named.cid.digest, samples, update_D)


def reveal_update(me: Participant) -> None:
    """Publish the update's bytes, now that nobody can commit to a copy of them, and open the commitment."""
    task = me.ledger.task()
    sealed = me.journal.update(task.round.number)
    if sealed is None:
        raise ProtocolError(f"round {task.round.number}: the journal holds no update to reveal")
    named = name_model(sealed.update, task.config.scale, me.trainer.layout, sealed.root)
    put_model(me.store, named)
    me.store.pin(Cid.dag_cbor(sealed.cid))
    me.ledger.reveal_update(task.round.number, sealed.root, sealed.cid, sealed.samples, sealed.salt)
