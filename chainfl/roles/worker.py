"""The worker: train on the head and commit, then show the root and publish the bytes (docs/protocol.md 5.2, 5.3)."""

import logging
import time

from chainfl.blobs import name_model, put_model, within
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import worker_payload
from chainfl.codec.vector import Vector, encode
from chainfl.errors import ProtocolError, StoreError, VerificationError
from chainfl.execution import before_head, floats, head_model, keep_head
from chainfl.ports import SealedUpdate
from chainfl.protocol.actions import seal
from chainfl.protocol.state import Task
from chainfl.roles.budget import has_time, io_budget
from chainfl.roles.participant import Participant
from chainfl.types import Phase

_log = logging.getLogger(__name__)


def commit_update(me: Participant) -> None:
    """Train from the head, write the update down, and commit to it."""
    task = me.ledger.task()

    # A restart between journal and ledger finds the update here: training again could give other bytes, and a second
    # commitment is refused.
    sealed = me.journal.update(task.round.number)
    if sealed is None:
        sealed = seal_update(me, task)
        me.journal.keep_update(task.round.number, sealed)
    me.ledger.commit_update(task.round.number, sealed.digest)


def starting_model(me: Participant, task: Task) -> Vector:
    """The model that training starts from: the head, fetched while there is still time to train.

    A head that is not available, or not what was promised, does not end the task: an update from the head before it
    takes the round to Score, where a majority that cannot get the head goes back (docs/adr/0016).

    Raises:
        StoreError: it is not available now; ask again while Train is open.
        VerificationError: what is there is not the head, and there is none before it.
    """
    try:
        return _fetched_head(me, task)
    except (StoreError, VerificationError) as error:
        is_lost = isinstance(error, VerificationError) or not has_time(me, task)
        older = before_head(task) if is_lost else None
        if older is None:
            raise
        number = task.round.number
        _log.warning("round %d: the head is not available (%s): training from the one before", number, error)
        return _fetched_head(me, older)


def _fetched_head(me: Participant, task: Task) -> Vector:
    budget = io_budget(me, task, me.pace.train)
    keep_head(within(me.store, budget.fetch), task)
    return head_model(within(me.store, budget.read), task)


def seal_update(me: Participant, task: Task) -> SealedUpdate:
    """Train, encode, name, and seal under a fresh salt."""
    number = task.round.number
    scale = task.config.scale
    head_D = starting_model(me, task)

    started = time.monotonic()
    update_D = encode(me.trainer.train(floats(head_D, task), number), scale)

    # The next round's fetching leaves this much time to train.
    me.pace.train = time.monotonic() - started

    named = name_model(update_D, scale, me.trainer.layout)
    samples = min(me.trainer.samples, task.config.max_samples)

    # The sender enters the digest, so a copied commitment cannot be opened by its copier.
    salt = me.journal.salt(number, Phase.TRAIN)
    payload = worker_payload(named.node.root, named.cid.digest, samples)
    digest = seal(task, Phase.TRAIN, me.ledger.key, payload, salt)
    return SealedUpdate(digest, salt, named.node.root, named.cid.digest, samples, update_D)


def reveal_update(me: Participant) -> None:
    """Publish the update's bytes, now that nobody can commit to a copy of them, and open the commitment."""
    task = me.ledger.task()
    sealed = me.journal.update(task.round.number)

    # Nothing can open a commitment whose salt is lost; the slash for it follows from the rules.
    if sealed is None:
        raise ProtocolError(f"round {task.round.number}: the journal holds no update to reveal")
    named = name_model(sealed.update, task.config.scale, me.trainer.layout, sealed.root)

    # Only our own store is asked, and it has until shortly before the deadline.
    store = within(me.store, io_budget(me, task).read)
    put_model(store, named)
    store.pin(Cid.dag_cbor(sealed.cid))
    me.ledger.reveal_update(task.round.number, sealed.root, sealed.cid, sealed.samples, sealed.salt)
